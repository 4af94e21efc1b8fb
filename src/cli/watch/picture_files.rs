//! The state of each picture file of the watched folder: which are complete, due, in progress, done or failed.
//!
//! Takes some 300 bytes for each picture of the folder. A removed file is forgotten. Time is a parameter.

use super::folder_watch::Action;
use crate::cli::remove::FileVersion;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a closed file must not change before it is processed.
pub(super) const QUIET: Duration = Duration::from_secs(2);

/// How long a file must not change if the end of its writing was not notified: its writer may only pause.
pub(super) const PAUSE: Duration = Duration::from_secs(30);

/// Pauses after the first and the second failure; the third is final until the file changes.
const RETRIES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];

/// The picture files of the watched folder. `result_of` gives the file of a picture's result.
#[derive(Debug)]
pub(super) struct PictureFiles<F> {
    result_of: F,
    files: HashMap<PathBuf, PictureFile>,
    /// The times at which files are due, earliest first.
    due: BTreeSet<(Instant, PathBuf)>,
    /// The pictures of each result, in the order in which they were found. The first is processed, the others fail.
    results: HashMap<PathBuf, Vec<PathBuf>>,
}

#[derive(Debug)]
struct PictureFile {
    version: FileVersion,
    result: PathBuf,
    stage: Stage,
    /// Failed attempts at this version, and the reason of the last one.
    failures: usize,
    reason: Option<String>,
    /// The existing result, however new, is of a removed picture, or of an earlier content of this one.
    is_result_stale: bool,
    seen: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In [`PictureFiles::due`] at this time.
    Due(Instant),
    /// In progress. Never twice at once: the older result could replace the newer.
    Running(AfterRun),
    /// Done, or failed for good.
    Final,
}

impl Stage {
    /// Whether the file is or will be due at a known time.
    fn is_due(self) -> bool {
        matches!(self, Self::Due(_) | Self::Running(AfterRun::Repeat(_)))
    }
}

/// What follows a picture in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterRun {
    /// Its outcome is final.
    Keep,
    /// It has changed meanwhile, and is due again at this time.
    Repeat(Instant),
    /// It was removed meanwhile.
    Forget,
}

/// A picture that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DuePicture {
    pub(super) path: PathBuf,
    pub(super) version: FileVersion,
    pub(super) result: PathBuf,
    /// The existing result, however new, is of another picture or an earlier content.
    pub(super) is_result_stale: bool,
    /// Why it cannot be processed: an earlier picture has its result.
    pub(super) conflict: Option<String>,
}

impl PictureFile {
    /// Whether it was removed while it was in progress.
    fn is_gone(&self) -> bool {
        self.stage == Stage::Running(AfterRun::Forget)
    }
}

impl<F: Fn(&Path) -> PathBuf> PictureFiles<F> {
    pub(super) fn new(result_of: F) -> Self {
        Self { result_of, files: HashMap::new(), due: BTreeSet::new(), results: HashMap::new() }
    }

    /// Takes a notification about a file.
    pub(super) fn changed(&mut self, path: &Path, action: Action, version: Option<FileVersion>, now: Instant) {
        match (action, version) {
            (Action::Removed, _) | (_, None) => self.forget(path, now),
            (Action::Written, Some(version)) => self.seen(path, version, PAUSE, now),
            (Action::Closed, Some(version)) => self.seen(path, version, QUIET, now),
        }
    }

    /// Takes the result of a scan. A complete scan has its start `began`: files that it did not find, and that were not seen
    /// since, are forgotten.
    pub(super) fn scanned(&mut self, pictures: Vec<(PathBuf, FileVersion)>, began: Option<Instant>, now: Instant) {
        for (path, version) in pictures {
            let is_notified_since = |file: &PictureFile| began.is_some_and(|began| file.seen > began);
            match self.files.get_mut(&path) {
                // What the scan has read may be older.
                Some(file) if is_notified_since(file) && !file.is_gone() => {}
                Some(file) if file.version == version && !file.is_gone() => file.seen = now,
                // Its change was not notified, as on a network.
                _ => self.seen(&path, version, QUIET, now),
            }
        }
        let is_missing = |file: &PictureFile| began.is_some_and(|began| file.seen < began);
        let missing = self.files.iter().filter(|(_, file)| is_missing(file));
        let missing: Vec<_> = missing.map(|(path, _)| path.clone()).collect();
        missing.iter().for_each(|path| self.forget(path, now));
    }

    /// The next picture that is due; it is in progress from now on.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<DuePicture> {
        if self.next_time()? > now {
            return None;
        }
        let (_, path) = self.due.pop_first()?;
        let file = self.files.get_mut(&path)?;
        file.stage = Stage::Running(AfterRun::Keep);
        let (version, result, is_result_stale) = (file.version, file.result.clone(), file.is_result_stale);
        let first = self.results.get(&result).and_then(|pictures| pictures.first());
        let conflict = first
            .filter(|first| **first != path)
            .map(|first| format!("its result would be {}, as that of {}", result.display(), first.display()));
        Some(DuePicture { path, version, result, is_result_stale, conflict })
    }

    /// When the next picture is due.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the outcome of a picture; `failure` is why it failed. Returns the pause before the next attempt, if any.
    pub(super) fn finished(&mut self, picture: &DuePicture, failure: Option<String>, now: Instant) -> Option<Duration> {
        let file = self.files.get_mut(&picture.path)?;
        let Stage::Running(after) = file.stage else { return None };
        file.stage = Stage::Final;
        match after {
            AfterRun::Keep => {}
            AfterRun::Repeat(at) => {
                self.set_due(&picture.path, at);
                return None;
            }
            AfterRun::Forget => {
                self.forget(&picture.path, now);
                return None;
            }
        }
        file.reason = failure;
        if file.reason.is_none() {
            file.is_result_stale = false;
            return None;
        }
        file.failures += 1;
        let pause = *RETRIES.get(file.failures - 1).filter(|_| picture.conflict.is_none())?;
        self.set_due(&picture.path, now + pause);
        Some(pause)
    }

    /// The pictures that failed, and why, by path.
    pub(super) fn failures(&self) -> Vec<(&Path, &str)> {
        let failed = self.files.iter().filter_map(|(path, file)| Some((path.as_path(), file.reason.as_deref()?)));
        let mut failed: Vec<_> = failed.collect();
        failed.sort_unstable();
        failed
    }

    /// Takes the version in which a file was seen. It is due after `pause` if it is new, has changed, or is due already.
    fn seen(&mut self, path: &Path, version: FileVersion, pause: Duration, now: Instant) {
        let new = || PictureFile {
            version,
            result: (self.result_of)(path),
            stage: Stage::Final,
            failures: 0,
            reason: None,
            is_result_stale: false,
            seen: now,
        };
        let is_known = self.files.contains_key(path);
        let file = self.files.entry(path.to_owned()).or_insert_with(new);
        file.seen = now;
        if is_known && file.version == version && !file.is_gone() {
            if file.failures == 0 && file.stage.is_due() {
                self.set_due(path, now + pause);
            }
            return;
        }
        (file.version, file.failures, file.reason) = (version, 0, None);
        // A result that was written after the change may still be of the content before it.
        file.is_result_stale |= is_known;
        let pictures = self.results.entry(file.result.clone()).or_default();
        if !pictures.iter().any(|picture| picture == path) {
            pictures.push(path.to_owned());
        }
        self.set_due(path, now + pause);
    }

    /// Makes a picture due at a time, if it is in progress after its end.
    fn set_due(&mut self, path: &Path, at: Instant) {
        let Some(file) = self.files.get_mut(path) else { return };
        match file.stage {
            Stage::Running(_) => {
                file.stage = Stage::Running(AfterRun::Repeat(at));
                return;
            }
            Stage::Due(before) => {
                self.due.remove(&(before, path.to_owned()));
            }
            Stage::Final => {}
        }
        file.stage = Stage::Due(at);
        self.due.insert((at, path.to_owned()));
    }

    fn forget(&mut self, path: &Path, now: Instant) {
        let Some(file) = self.files.get_mut(path) else { return };
        if let Stage::Running(after) = &mut file.stage {
            // It may still write its result, so that other pictures with this result wait for its end.
            *after = AfterRun::Forget;
            file.reason = None;
            return;
        }
        if let Stage::Due(at) = file.stage {
            self.due.remove(&(at, path.to_owned()));
        }
        if let Some(file) = self.files.remove(path) {
            self.release(path, &file.result, now);
        }
    }

    /// Removes a picture from the pictures of its result. If it was the first, the others are due again, and the next one becomes
    /// the first.
    fn release(&mut self, path: &Path, result: &Path, now: Instant) {
        let Some(pictures) = self.results.get_mut(result) else { return };
        let was_first = pictures.first().is_some_and(|first| first == path);
        pictures.retain(|picture| picture != path);
        if pictures.is_empty() {
            self.results.remove(result);
        } else if was_first {
            for path in pictures.clone() {
                let Some(file) = self.files.get_mut(&path).filter(|file| !file.is_gone()) else { continue };
                file.is_result_stale = true;
                // A picture that is due may still be open for writing.
                if !file.stage.is_due() {
                    (file.failures, file.reason) = (0, None);
                    self.set_due(&path, now + QUIET);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Action::{Closed, Removed, Written};

    const SECOND: Duration = Duration::from_secs(1);

    struct Folder {
        files: PictureFiles<fn(&Path) -> PathBuf>,
        start: Instant,
    }

    impl Folder {
        fn new() -> Self {
            Self { files: PictureFiles::new(|path| path.with_extension("png")), start: Instant::now() }
        }

        fn at(&self, seconds: u32) -> Instant {
            self.start + SECOND * seconds
        }

        fn change(&mut self, seconds: u32, path: &str, action: Action, version: u64) {
            let (now, version) = (self.at(seconds), FileVersion::test(version));
            self.files.changed(Path::new(path), action, Some(version), now);
        }

        fn scan(&mut self, began: u32, now: u32, files: &[(&str, u64)]) {
            let files = files.iter().map(|&(path, version)| (path.into(), FileVersion::test(version))).collect();
            self.files.scanned(files, Some(self.at(began)), self.at(now));
        }

        /// The picture that is due at a time, in progress from then on.
        fn due(&mut self, seconds: u32) -> Option<DuePicture> {
            self.files.next_due(self.at(seconds))
        }

        fn finish(&mut self, picture: &DuePicture, seconds: u32, failure: Option<&str>) -> Option<Duration> {
            self.files.finished(picture, failure.map(Into::into), self.at(seconds))
        }
    }

    #[test]
    fn a_file_is_due_two_seconds_after_it_was_closed_and_not_while_it_is_written() {
        let mut folder = Folder::new();
        folder.change(0, "a.jpg", Written, 1);
        folder.change(20, "a.jpg", Written, 2);
        assert_eq!(folder.due(49), None);
        folder.change(49, "a.jpg", Closed, 2);
        assert_eq!(folder.due(50), None);
        let picture = folder.due(51).unwrap();
        assert_eq!((&*picture.path, &*picture.result), (Path::new("a.jpg"), Path::new("a.png")));
        assert_eq!(folder.finish(&picture, 52, None), None);
        // Closed again, unchanged: by a reader.
        folder.change(53, "a.jpg", Closed, 2);
        assert_eq!((folder.due(99), folder.files.failures()), (None, vec![]));
        // A writer that never closes it.
        folder.change(100, "b.jpg", Written, 1);
        assert_eq!(folder.due(129), None);
        assert!(folder.due(130).is_some());
    }

    #[test]
    fn a_scan_that_read_a_file_before_its_change_does_not_bring_the_older_version_back() {
        let mut folder = Folder::new();
        folder.change(0, "a.jpg", Written, 1);
        folder.change(2, "a.jpg", Closed, 2);
        folder.scan(1, 3, &[("a.jpg", 1)]);
        let picture = folder.due(4).unwrap();
        assert_eq!(picture.version, FileVersion::test(2));
        folder.finish(&picture, 5, None);
        folder.scan(30, 31, &[("a.jpg", 2)]);
        assert_eq!(folder.due(99), None, "it is processed once");
    }

    #[test]
    fn a_file_that_changes_or_is_replaced_while_it_is_processed_is_processed_again() {
        let mut folder = Folder::new();
        folder.change(0, "a.jpg", Closed, 1);
        let picture = folder.due(2).unwrap();
        folder.change(3, "a.jpg", Written, 2);
        for version in [2, 1] {
            folder.change(3, "a.jpg", Removed, 1);
            folder.change(4, "a.jpg", Closed, version);
        }
        assert_eq!(folder.due(99), None, "two runs would write one result");
        assert_eq!(folder.finish(&picture, 100, Some("truncated")), None);
        let again = folder.due(100).unwrap();
        assert!(again.is_result_stale && again.conflict.is_none(), "the result may be newer than the change");
        folder.finish(&again, 101, None);
        assert_eq!(folder.files.failures(), []);
        // Removed while in progress, and found again by a scan in its last version.
        folder.change(102, "a.jpg", Closed, 3);
        let picture = folder.due(104).unwrap();
        folder.change(105, "a.jpg", Removed, 3);
        folder.scan(106, 107, &[("a.jpg", 3)]);
        folder.finish(&picture, 108, None);
        assert_eq!(folder.due(109).map(|again| again.version), Some(FileVersion::test(3)));
    }

    #[test]
    fn a_failure_is_retried_twice_and_a_change_begins_anew() {
        let mut folder = Folder::new();
        folder.change(0, "a.jpg", Closed, 1);
        let mut now = 2;
        for pause in [Some(5), Some(30), None] {
            let picture = folder.due(now).unwrap();
            assert_eq!(folder.finish(&picture, now, Some("broken")), pause.map(Duration::from_secs));
            assert_eq!(folder.files.failures(), [(Path::new("a.jpg"), "broken")]);
            now += u32::try_from(pause.unwrap_or(1000)).unwrap();
        }
        assert_eq!(folder.due(now), None);
        folder.change(now, "a.jpg", Closed, 2);
        let picture = folder.due(now + 2).unwrap();
        assert_eq!(folder.finish(&picture, now, None), None);
        assert_eq!(folder.files.failures(), []);
    }

    #[test]
    fn of_two_pictures_with_one_result_the_second_fails_until_the_first_is_gone() {
        let mut folder = Folder::new();
        folder.change(0, "a.jpg", Closed, 1);
        folder.change(1, "a.webp", Closed, 1);
        let (first, second) = (folder.due(10).unwrap(), folder.due(10).unwrap());
        assert_eq!((&*first.path, first.conflict.as_ref()), (Path::new("a.jpg"), None));
        let conflict = second.conflict.as_deref().unwrap();
        assert!(conflict.contains("a.jpg"));
        assert_eq!(folder.finish(&second, 10, Some(conflict)), None, "not retried");
        assert_eq!(folder.files.failures(), [(Path::new("a.webp"), conflict)]);
        assert_eq!(folder.finish(&first, 10, None), None);
        folder.change(11, "a.jpg", Removed, 1);
        assert_eq!((folder.due(12), folder.files.failures()), (None, vec![]));
        // The existing result is of the first picture.
        let second = folder.due(13).unwrap();
        assert_eq!(
            (&*second.path, second.is_result_stale, second.conflict.as_ref()),
            (Path::new("a.webp"), true, None)
        );
        folder.finish(&second, 14, None);
        folder.change(15, "a.webp", Closed, 2);
        let again = folder.due(17).unwrap();
        assert_eq!((again.is_result_stale, again.conflict), (true, None));
    }

    #[test]
    fn a_picture_that_is_removed_in_progress_has_its_result_until_it_ends() {
        let mut folder = Folder::new();
        folder.scan(0, 0, &[("a.jpg", 1), ("a.png", 1), ("a.webp", 1)]);
        let first = folder.due(2).unwrap();
        let second = folder.due(2).unwrap();
        folder.finish(&second, 2, second.conflict.as_deref());
        folder.change(3, "a.jpg", Removed, 1);
        let third = folder.due(5).unwrap();
        assert!(third.conflict.as_deref().unwrap().contains("a.jpg"));
        folder.finish(&third, 5, third.conflict.as_deref());
        assert_eq!(folder.due(99), None);
        folder.finish(&first, 100, None);
        let next = [folder.due(102).unwrap(), folder.due(102).unwrap()];
        let flags = next.each_ref().map(|picture| (picture.is_result_stale, picture.conflict.is_some()));
        assert_eq!(flags, [(true, false), (true, true)]);
        for picture in &next {
            folder.finish(picture, 103, picture.conflict.as_deref());
            folder.change(104, picture.path.to_str().unwrap(), Removed, 1);
        }
        assert!(folder.files.files.is_empty() && folder.files.results.is_empty() && folder.files.due.is_empty());
    }

    #[test]
    fn a_scan_finds_what_was_not_notified_and_forgets_what_is_gone() {
        let mut folder = Folder::new();
        folder.scan(0, 1, &[("a.jpg", 1), ("b.jpg", 1)]);
        let (a, b) = (folder.due(3).unwrap(), folder.due(3).unwrap());
        folder.finish(&a, 4, None);
        folder.finish(&b, 4, None);
        // While the next scan runs, c appears in a part that it has read.
        folder.change(31, "c.jpg", Closed, 1);
        folder.scan(30, 32, &[("a.jpg", 2)]);
        assert_eq!(folder.due(33).unwrap().path, Path::new("c.jpg"));
        assert_eq!(folder.due(34).unwrap().path, Path::new("a.jpg"));
        assert_eq!((folder.due(99), folder.files.files.len()), (None, 2));
    }
}
