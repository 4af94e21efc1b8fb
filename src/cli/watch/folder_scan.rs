//! Walks the watched folder for its picture files.

use super::folders::Folders;
use crate::cli::remove::FileVersion;
use std::path::PathBuf;
use walkdir::WalkDir;

/// The picture files of a folder, and what could not be read.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// By path.
    pub(super) pictures: Vec<(PathBuf, FileVersion)>,
    /// One message for each entry that cannot be read.
    pub(super) errors: Vec<String>,
}

/// Walks the folder; hidden entries and the folder of results are left out, and links to folders are not followed.
pub(super) fn scan(folders: &Folders) -> Scan {
    let mut scan = Scan::default();
    let entries = WalkDir::new(folders.input())
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.depth() == 0 || !folders.is_excluded(entry.path()));
    for entry in entries {
        match entry {
            Ok(entry) if Folders::is_picture(entry.path()) => {
                // Without a version it is a folder with such a name, or has just been removed.
                scan.pictures.extend(FileVersion::of(entry.path()).map(|version| (entry.into_path(), version)));
            }
            Ok(_) => {}
            Err(error) => scan.errors.push(error.to_string()),
        }
    }
    scan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::test_files::folder_with;

    #[test]
    fn pictures_of_all_levels_are_found_without_results_and_hidden_files() {
        let files = ["in/b.png", "in/a/c.webp", "in/a/notes.txt", "in/.x/d.jpg", "in/.e.jpg", "in/out/b.png"];
        let root = folder_with(&files);
        std::fs::create_dir(root.path().join("in/folder.jpg")).unwrap();
        let folders = Folders::new(&root.path().join("in"), &root.path().join("in/out"), "png").unwrap();
        let scan = scan(&folders);
        let names: Vec<_> =
            scan.pictures.iter().map(|(path, _)| path.strip_prefix(folders.input()).unwrap().to_owned()).collect();
        assert_eq!(names, [PathBuf::from("a/c.webp"), PathBuf::from("b.png")]);
        assert!(scan.errors.is_empty());
    }
}
