//! Gives up every right of a decode worker before it reads the first byte of a picture.

use super::seccomp;
use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::set_no_new_privs;
use std::io;

/// The protections that the system offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protections {
    pub(super) seccomp: bool,
    pub(super) landlock: bool,
}

impl Protections {
    /// Names of the missing protections.
    pub(super) fn missing(self) -> Vec<&'static str> {
        let all = [("seccomp", self.seccomp), ("landlock", self.landlock)];
        all.into_iter().filter(|(_, active)| !active).map(|(name, _)| name).collect()
    }

    pub(super) const fn to_byte(self) -> u8 {
        (self.seccomp as u8) | ((self.landlock as u8) << 1)
    }

    pub(super) const fn from_byte(byte: u8) -> Self {
        Self { seccomp: byte & 1 != 0, landlock: byte & 2 != 0 }
    }
}

/// Confines this process, which must have one thread. Standard input, output and error stay open. Fails when
/// descriptors cannot be closed, or privileges could be regained.
pub(super) fn lock_down() -> io::Result<Protections> {
    close_descriptors()?;
    set_no_new_privs(true)?;
    // No core dump and no tracer: the memory holds pictures.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let landlock = no_paths().is_ok_and(|status| status != RulesetStatus::NotEnforced);
    let seccomp = seccomp::apply().is_ok();
    Ok(Protections { seccomp, landlock })
}

/// Closes every descriptor but the three standard ones: the daemon's libraries may leave some inheritable.
fn close_descriptors() -> io::Result<()> {
    // SAFETY: this runs before anything is opened, so nothing in this process owns a descriptor.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // Linux before 5.9. `exec` closes the daemon's descriptors, and the descriptor limit bounds further ones.
    if error.raw_os_error() == Some(libc::ENOSYS) { Ok(()) } else { Err(error) }
}

/// Forbids every path, every TCP port, and other processes' signals and abstract sockets, as far as the kernel can.
fn no_paths() -> Result<RulesetStatus, RulesetError> {
    let newest = ABI::V6;
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::from_all(newest))?
        .scope(Scope::from_all(newest))?;
    Ok(ruleset.create()?.restrict_self()?.ruleset)
}

/// The version of the kernel's Landlock; 0 or less without Landlock.
pub(crate) fn landlock_version() -> i64 {
    const QUERY_VERSION: usize = 1;
    // SAFETY: a query that passes no memory.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, QUERY_VERSION) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::TcpStream;

    #[test]
    fn what_is_missing_is_named() {
        for (seccomp, landlock, missing) in [
            (true, true, &[][..]),
            (false, true, &["seccomp"]),
            (true, false, &["landlock"]),
            (false, false, &["seccomp", "landlock"]),
        ] {
            let protections = Protections { seccomp, landlock };
            assert_eq!(protections.missing(), missing);
            assert_eq!(Protections::from_byte(protections.to_byte()), protections);
        }
    }

    #[test]
    fn landlock_alone_forbids_files_and_ports() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (path, address) = (file.path().to_owned(), listener.local_addr().unwrap());
        let refusals = move || {
            let results =
                [File::open(&path).map(drop), File::create(&path).map(drop), TcpStream::connect(address).map(drop)];
            results.map(|result| result.err().map(|error| error.kind()))
        };
        // Landlock confines the calling thread; this thread ends with the test.
        let confined = std::thread::spawn(move || (refusals(), no_paths().unwrap(), refusals()));
        let (before, status, after) = confined.join().unwrap();
        let version = landlock_version();
        assert_eq!((before, status != RulesetStatus::NotEnforced), ([None; 3], version > 0));
        let denied_since = |since| (version >= since).then_some(io::ErrorKind::PermissionDenied);
        assert_eq!(after, [denied_since(1), denied_since(1), denied_since(4)]);
    }
}
