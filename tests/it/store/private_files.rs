//! Permissions: files of the daemon are private, files of the command line have the user's umask.

#![cfg(unix)]

use crate::cli::serve::Daemon;
use crate::support::command::{backdrop, photo};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Files and folders below `folder` that others than their owner can open.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it reads") {
        let path = entry.expect("it reads").path();
        if mode(&path) & 0o077 != 0 {
            found.push(format!("{} {:o}", path.display(), mode(&path)));
        }
        if path.is_dir() {
            found.extend(open_to_others(&path));
        }
    }
    found
}

#[test]
fn the_files_of_a_daemon_are_private() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data_dir = folder.path().join("new/data");
    let mut daemon = Daemon::start(&data_dir);
    daemon.address();
    daemon.drain();
    assert_eq!(mode(&data_dir), 0o700);
    for (name, expected) in [("state.redb", 0o600), ("secret", 0o600), ("jobs", 0o700), ("results", 0o700)] {
        assert_eq!(mode(&data_dir.join(name)), expected, "{name}");
    }
    assert_eq!(open_to_others(&data_dir), Vec::<String>::new());
}

#[test]
fn folders_of_an_older_version_become_private_but_the_data_directory_keeps_its_mode() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let data_dir = folder.path().join("data");
    for path in [data_dir.clone(), data_dir.join("jobs"), data_dir.join("results")] {
        fs::create_dir(&path).expect("a new folder");
        open(&path);
    }
    let mut daemon = Daemon::start(&data_dir);
    daemon.address();
    daemon.drain();
    // It may be a shared folder.
    assert_eq!(mode(&data_dir), 0o755);
    assert_eq!(open_to_others(&data_dir), Vec::<String>::new());
}

#[test]
fn a_result_of_the_command_line_has_the_users_umask() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (plain, out) = (folder.path().join("plain"), folder.path().join("out.png"));
    fs::write(&plain, "x").expect("a writable folder");
    let output = backdrop().arg("remove").arg(photo("coffee.jpg")).arg("-o").arg(&out).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(mode(&out), mode(&plain));
}
