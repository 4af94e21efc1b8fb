//! Notifications of the system about picture files of the watched folder (inotify and its counterparts).

use super::folders::Folders;
use crate::cli::remove::FileVersion;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Changes that wait to be handled; beyond, the system keeps them, and reports it when it has lost some.
const WAITING: usize = 1024;

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It was created or written to: it is open.
    Written,
    /// It was closed after writing, or moved here.
    Closed,
    /// It was removed or moved away.
    Removed,
}

/// A change in the watched folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Of a picture file. `None` is one that is gone by now.
    Picture(PathBuf, Action, Option<FileVersion>),
    /// Of a folder, or notifications were lost: the folder has to be scanned.
    Unknown,
}

/// The running watch; dropped, it ends.
pub(super) struct FolderWatch {
    changes: mpsc::Receiver<Change>,
    _watcher: RecommendedWatcher,
}

impl FolderWatch {
    /// Starts to watch the folder and what is below it.
    ///
    /// # Errors
    /// When the system does not allow it, such as beyond its limit of watches.
    pub(super) fn start(folders: &Folders) -> Result<Self, String> {
        let (sender, changes) = mpsc::channel(WAITING);
        let of_handler = folders.clone();
        // On notify's own thread, which may wait.
        let handler = move |event: notify::Result<Event>| {
            for change in changes_of(&of_handler, event) {
                // Fails when the watch has ended.
                let _ = sender.blocking_send(change);
            }
        };
        let start = || {
            let mut watcher = RecommendedWatcher::new(handler, Config::default().with_follow_symlinks(false))?;
            watcher.watch(folders.input(), RecursiveMode::Recursive)?;
            Ok(watcher)
        };
        let failed = |error: notify::Error| {
            format!("cannot watch {}: {error} (is fs.inotify.max_user_watches too small?)", folders.input().display())
        };
        Ok(Self { changes, _watcher: start().map_err(failed)? })
    }

    /// The next change; never, when the system has ended the watch.
    pub(super) async fn next(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }
}

/// The changes that an event reports.
fn changes_of(folders: &Folders, event: notify::Result<Event>) -> Vec<Change> {
    // An error, or lost notifications.
    let Ok(event) = event else { return vec![Change::Unknown] };
    if event.need_rescan() {
        return vec![Change::Unknown];
    }
    let action = match event.kind {
        EventKind::Create(CreateKind::Folder) | EventKind::Other => return vec![Change::Unknown],
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Action::Closed,
        // An event of both names; the file is at the second by now.
        EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both | RenameMode::Any)) => Action::Closed,
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => Action::Removed,
        EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_) => return Vec::new(),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) => Action::Written,
    };
    let of_path = |path: PathBuf| {
        if folders.is_excluded(&path) {
            return None;
        }
        if Folders::is_picture(&path) {
            let version = FileVersion::of(&path);
            return Some(Change::Picture(path, action, version));
        }
        // A folder that was moved here, or away, has pictures of its own.
        let may_be_folder = path.is_dir() || (action == Action::Removed && path.extension().is_none());
        (action != Action::Written && may_be_folder).then_some(Change::Unknown)
    };
    event.paths.into_iter().filter_map(of_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::test_files::folder_with;
    use notify::event::Flag;

    #[test]
    fn events_become_changes_of_pictures() {
        let root = folder_with(&["in/a.jpg", "in/notes.txt", "in/below/b.jpg", "in/out/a.png"]);
        let folders = Folders::new(&root.path().join("in"), &root.path().join("in/out"), "png").unwrap();
        let changes = |kind: EventKind, file: &str| {
            changes_of(&folders, Ok(Event::new(kind).add_path(folders.input().join(file))))
        };
        let written = EventKind::Create(CreateKind::File);
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let moved = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let picture = folders.input().join("a.jpg");
        let version = FileVersion::of(&picture);
        assert!(version.is_some());
        for (kind, action) in [(written, Action::Written), (closed, Action::Closed), (moved, Action::Closed)] {
            assert_eq!(changes(kind, "a.jpg"), [Change::Picture(picture.clone(), action, version)]);
            assert_eq!(changes(kind, "notes.txt"), []);
            assert_eq!(changes(kind, "out/a.png"), []);
        }
        let gone = Change::Picture(folders.input().join("gone.jpg"), Action::Removed, None);
        assert_eq!(changes(EventKind::Modify(ModifyKind::Name(RenameMode::From)), "gone.jpg"), [gone]);
        assert_eq!(changes(moved, "below"), [Change::Unknown]);
        assert_eq!(changes(EventKind::Create(CreateKind::Folder), "below"), [Change::Unknown]);
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert_eq!(changes_of(&folders, Ok(lost)), [Change::Unknown]);
        assert_eq!(changes_of(&folders, Err(notify::Error::generic("lost"))), [Change::Unknown]);
    }
}
