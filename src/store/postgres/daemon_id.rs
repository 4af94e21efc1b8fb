//! The identity of a data directory: a random number in its file `daemon`, by which a daemon finds its jobs after a restart.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::store::{create_private_dir, sync_dir};

/// The file in the data directory: 16 hexadecimal digits.
const FILE: &str = "daemon";

/// The identity, which is created if there is none.
pub(super) fn daemon_id(data_dir: &Path) -> io::Result<i64> {
    let file = data_dir.join(FILE);
    match fs::read_to_string(&file) {
        Ok(text) => u64::from_str_radix(text.trim(), 16).map(u64::cast_signed).map_err(|_| {
            io::Error::new(ErrorKind::InvalidData, format!("{} does not have 16 hexadecimal digits", file.display()))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_private_dir(data_dir)?;
            let id: u64 = rand::random();
            // Renamed, so that a crash leaves no half of it.
            let mut fresh = tempfile::NamedTempFile::new_in(data_dir)?;
            writeln!(fresh, "{id:016x}")?;
            fresh.as_file().sync_all()?;
            match fresh.persist_noclobber(&file) {
                Ok(_) => sync_dir(data_dir)?,
                // Another process was faster.
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => return daemon_id(data_dir),
                Err(error) => return Err(error.error),
            }
            Ok(id.cast_signed())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_identity_and_a_damaged_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("data");
        let id = daemon_id(&data_dir).unwrap();
        assert_eq!(daemon_id(&data_dir).unwrap(), id);
        assert_ne!(daemon_id(&folder.path().join("other")).unwrap(), id);
        fs::write(data_dir.join(FILE), "none").unwrap();
        assert_eq!(daemon_id(&data_dir).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
