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
