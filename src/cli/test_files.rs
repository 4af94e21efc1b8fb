//! Temporary folders with files, for the tests of commands.

use std::fs;

/// A temporary folder with small files at these paths.
pub(super) fn folder_with(files: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, b"x").expect("a file");
    }
    root
}
