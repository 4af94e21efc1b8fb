//! `.backdrop-parameters` in a folder of results: what they were made with, so that a run with other parameters makes them again.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

const NAME: &str = ".backdrop-parameters";

/// The time from which on the results in `folder` were made with `parameters`, which the file has from now on.
///
/// Results of a folder without the file are taken for such ones.
///
/// # Errors
/// When the file cannot be read or written.
pub(super) fn made_since(folder: &Path, parameters: &str) -> io::Result<SystemTime> {
    let path = folder.join(NAME);
    match fs::read_to_string(&path) {
        Ok(before) if before == parameters => {}
        Ok(_) => fs::write(&path, parameters)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder)?;
            fs::write(&path, parameters)?;
            fs::File::options().write(true).open(&path)?.set_modified(SystemTime::UNIX_EPOCH)?;
        }
        Err(error) => return Err(error),
    }
    fs::metadata(&path)?.modified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_count_from_the_last_change_of_the_parameters() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("out");
        assert_eq!(made_since(&folder, "width=1200").unwrap(), SystemTime::UNIX_EPOCH);
        assert_eq!(made_since(&folder, "width=1200").unwrap(), SystemTime::UNIX_EPOCH);
        let changed = made_since(&folder, "width=800").unwrap();
        assert!(changed > SystemTime::UNIX_EPOCH);
        assert_eq!(made_since(&folder, "width=800").unwrap(), changed);
    }
}
