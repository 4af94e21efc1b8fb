//! Finds datasets: folders with image/ and mask/, paired by file name.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A dataset, one row of the results.
#[derive(Debug)]
pub(super) struct Dataset {
    /// Name of its folder.
    pub(super) name: String,
    /// Sorted by name.
    pub(super) pictures: Vec<Picture>,
}

/// A picture and its ground truth.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// The photo.
    pub(super) image: PathBuf,
    /// Its mask.
    pub(super) truth: PathBuf,
}

impl Picture {
    /// The name without its folder.
    pub(super) fn name(&self) -> String {
        self.image.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Why a dataset cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatasetsError {
    /// No folder with image/ and mask/.
    #[error("neither {0} nor a folder in it has image/ and mask/")]
    NoSets(PathBuf),
    /// A picture without ground truth, or a ground truth without picture.
    #[error("{0} has no partner of the same name in {1}")]
    Unpaired(PathBuf, &'static str),
    /// An unreadable folder.
    #[error("cannot read {0}")]
    Unreadable(PathBuf, #[source] io::Error),
}

/// Lists the datasets in `folder`: itself, or its subfolders.
pub(super) fn find(folder: &Path) -> Result<Vec<Dataset>, DatasetsError> {
    let is_set = |folder: &Path| folder.join("image").is_dir() && folder.join("mask").is_dir();
    let folders = if is_set(folder) {
        vec![folder.to_owned()]
    } else {
        let mut inside: Vec<_> = files(folder)?.into_iter().filter(|path| is_set(path)).collect();
        inside.sort();
        inside
    };
    if folders.is_empty() {
        return Err(DatasetsError::NoSets(folder.to_owned()));
    }
    folders.iter().map(|folder| dataset(folder)).collect()
}

fn dataset(folder: &Path) -> Result<Dataset, DatasetsError> {
    let mut images = by_stem(&folder.join("image"))?;
    let mut pictures = Vec::new();
    for (stem, truth) in by_stem(&folder.join("mask"))? {
        let image = images.remove(&stem).ok_or_else(|| DatasetsError::Unpaired(truth.clone(), "image"))?;
        pictures.push(Picture { image, truth });
    }
    if let Some((_, image)) = images.pop_first() {
        return Err(DatasetsError::Unpaired(image, "mask"));
    }
    // Resolved, because `DIR/.` and `.` have no name.
    let resolved = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = resolved.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Dataset { name, pictures })
}

fn by_stem(folder: &Path) -> Result<BTreeMap<std::ffi::OsString, PathBuf>, DatasetsError> {
    let visible =
        |path: &PathBuf| path.is_file() && !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.');
    Ok(files(folder)?
        .into_iter()
        .filter(visible)
        .map(|path| (path.file_stem().unwrap_or_default().to_owned(), path))
        .collect())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, DatasetsError> {
    let read = || -> io::Result<Vec<PathBuf>> { fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect() };
    read().map_err(|error| DatasetsError::Unreadable(folder.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::test_files::folder_with;

    #[test]
    fn a_dataset_and_a_folder_of_datasets_are_found() {
        let root = folder_with(&["b/image/1.jpg", "b/mask/1.png", "a/image/2.png", "a/mask/2.png", "notes/x.txt"]);
        let names = |path: &Path| find(path).unwrap().iter().map(|set| set.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(root.path()), ["a", "b"]);
        assert_eq!(names(&root.path().join("b")), ["b"]);
    }

    #[test]
    fn a_picture_without_ground_truth_is_an_error() {
        let root = folder_with(&["image/1.jpg", "image/2.jpg", "mask/1.png"]);
        let error = find(root.path()).unwrap_err().to_string();
        assert!(error.contains("2.jpg has no partner"), "{error}");
        let error = find(folder_with(&["x.jpg"]).path()).unwrap_err().to_string();
        assert!(error.contains("has image/ and mask/"), "{error}");
    }
}
