//! The watched folder and the folder of results: which files are pictures, and where the result of each is written.

use crate::bulk::has_image_extension;
use std::fs;
use std::path::{Path, PathBuf};

/// Both folders, absolute and without links.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    input: PathBuf,
    output: PathBuf,
    extension: &'static str,
}

impl Folders {
    /// Resolves both folders; creates that of the results. `extension` is that of results.
    ///
    /// # Errors
    /// When one is missing and cannot be created, or results would be in the watched folder itself.
    pub(super) fn new(input: &Path, output: &Path, extension: &'static str) -> Result<Self, String> {
        let resolve = |folder: &Path| {
            fs::canonicalize(folder).map_err(|error| format!("cannot open {}: {error}", folder.display()))
        };
        let input = resolve(input)?;
        if !input.is_dir() {
            return Err(format!("{} is not a folder", input.display()));
        }
        fs::create_dir_all(output).map_err(|error| format!("cannot create {}: {error}", output.display()))?;
        let output = resolve(output)?;
        if input.starts_with(&output) {
            // A result in the watched folder would be a new picture.
            return Err("the results need another folder than the pictures, and not one that contains them".to_owned());
        }
        Ok(Self { input, output, extension })
    }

    /// The watched folder.
    pub(super) fn input(&self) -> &Path {
        &self.input
    }

    /// Whether a path below the watched folder is left out: hidden, or the folder of results.
    pub(super) fn is_excluded(&self, path: &Path) -> bool {
        let Ok(relative) = path.strip_prefix(&self.input) else { return true };
        path.starts_with(&self.output) || relative.iter().any(|part| part.to_string_lossy().starts_with('.'))
    }

    /// Whether it is the name of a picture.
    pub(super) fn is_picture(path: &Path) -> bool {
        path.file_name().is_some_and(|name| has_image_extension(&name.to_string_lossy()))
    }

    /// The file of a picture's result; the tree of the watched folder is kept.
    pub(super) fn result_of(&self, picture: &Path) -> PathBuf {
        self.output.join(picture.strip_prefix(&self.input).unwrap_or(picture)).with_extension(self.extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::test_files::folder_with;

    #[test]
    fn results_keep_the_tree_and_are_never_pictures_of_the_watched_folder() {
        let root = folder_with(&["in/a.jpg", "in/below/b.HEIC", "file"]);
        let at = |path: &str| root.path().join(path);
        let folders = Folders::new(&at("in"), &at("out"), "png").unwrap();
        let input = folders.input().to_owned();
        assert!(folders.result_of(&input.join("below/b.HEIC")).ends_with("out/below/b.png"));
        assert!(!folders.is_excluded(&input.join("below/b.HEIC")));
        assert!(folders.is_excluded(&input.join(".hidden/c.jpg")) && folders.is_excluded(&input.join(".c.jpg")));
        for (input, output) in [("in", "in"), ("in", "."), ("file", "out"), ("missing", "out"), ("in", "file")] {
            assert!(Folders::new(&at(input), &at(output), "png").is_err(), "{input} {output}");
        }
        let inside = Folders::new(&at("in"), &at("in/results"), "png").unwrap();
        assert!(inside.is_excluded(&inside.result_of(&input.join("a.jpg"))));
        assert!(Folders::is_picture(Path::new("x/a.JPEG")) && !Folders::is_picture(Path::new("x/a.jpg.part")));
    }
}
