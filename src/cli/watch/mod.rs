//! `backdrop watch IN OUT`: processes the pictures of a folder as they appear, until Ctrl-C.
//!
//! ```text
//! folder_watch    the system's notifications        → changes of picture files
//! folder_scan     a walk at the start, every 30 s,  → all picture files
//!                 and where notifications were lost
//! picture_files   changes, scans, results           → which file is complete and due
//! ```
//!
//! A file is processed when it was closed and has not changed for [`picture_files::QUIET`], again whenever it changes, and
//! up to three times when it fails. A file whose result is not older is done, so a later run continues where one ended.

mod command;
mod folder_scan;
mod folder_watch;
mod folders;
mod picture_files;

pub(super) use command::Watch;
