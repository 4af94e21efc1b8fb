//! Length and times of a file, which show whether it has changed and whether its result is newer.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Length and times of a file. A file with another version has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct FileVersion {
    length: u64,
    modified: SystemTime,
    /// Last change of the content or the name: a file that was moved here is new, whatever the age of its content.
    changed: SystemTime,
}

impl FileVersion {
    /// The version of a regular file, also through a link; `None` if `path` is no regular file.
    pub(in crate::cli) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?;
        Some(Self { length: metadata.len(), modified, changed: changed(&metadata).unwrap_or(modified) })
    }

    /// Whether the result exists and is not older than the picture and `since`.
    pub(in crate::cli) fn is_done_in(&self, result: &Path, since: SystemTime) -> bool {
        let written = fs::metadata(result).and_then(|metadata| metadata.modified());
        written.is_ok_and(|written| written >= self.modified.max(self.changed).max(since))
    }

    #[cfg(test)]
    pub(in crate::cli) fn test(length: u64) -> Self {
        Self { length, modified: SystemTime::UNIX_EPOCH, changed: SystemTime::UNIX_EPOCH }
    }
}

/// The time of the last change of content or name.
#[cfg(unix)]
fn changed(metadata: &fs::Metadata) -> io::Result<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let seconds = u64::try_from(metadata.ctime()).map_err(io::Error::other)?;
    let nanoseconds = u32::try_from(metadata.ctime_nsec()).map_err(io::Error::other)?;
    Ok(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
}

#[cfg(not(unix))]
fn changed(metadata: &fs::Metadata) -> io::Result<SystemTime> {
    metadata.modified()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::cli::test_files::folder_with;

    #[test]
    fn an_old_file_that_was_moved_here_is_newer_than_the_result_of_its_predecessor() {
        let root = folder_with(&["a.png", "b.jpg"]);
        let (result, old) = (root.path().join("a.png"), root.path().join("b.jpg"));
        let past = SystemTime::now() - Duration::from_secs(86_400);
        fs::File::options().write(true).open(&old).unwrap().set_modified(past).unwrap();
        fs::File::options().write(true).open(&result).unwrap().set_modified(past + Duration::from_secs(60)).unwrap();
        assert!(!FileVersion::of(&old).unwrap().is_done_in(&result, SystemTime::UNIX_EPOCH));
        let future = SystemTime::now() + Duration::from_secs(60);
        fs::File::options().write(true).open(&result).unwrap().set_modified(future).unwrap();
        assert!(FileVersion::of(&old).unwrap().is_done_in(&result, SystemTime::UNIX_EPOCH));
        assert!(!FileVersion::of(&old).unwrap().is_done_in(&result, future + Duration::from_secs(1)));
        assert!(!FileVersion::of(&old).unwrap().is_done_in(&root.path().join("none.png"), SystemTime::UNIX_EPOCH));
        assert_eq!(FileVersion::of(root.path()), None);
    }
}
