//! Divides the limit of open files (`RLIMIT_NOFILE`) between the connections of both listeners and other files.

use tracing::{info, warn};

/// Reserved for everything but connections: the store, files of jobs and clips, pipes of ffmpeg, fetched pictures, object
/// storage, webhooks.
const OTHERS: u64 = 192;

/// Connections of the admin listener.
const ADMIN: u64 = 64;

/// Connections that each listener serves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionShares {
    pub(crate) public: usize,
    pub(crate) admin: usize,
}

/// Raises the limit of open files from the soft to the hard limit.
pub fn raise_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        if before.current == before.maximum {
            return;
        }
        match setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }) {
            Ok(()) => info!(from = ?before.current, to = ?before.maximum, "raised the limit of open files"),
            Err(error) => warn!(%error, limit = ?before.current, "could not raise the limit of open files"),
        }
    }
}

/// The public connections that the limit of open files leaves of `wanted`, and the limit; `None` without one.
#[must_use]
pub fn connections_within_limit(wanted: usize) -> (usize, Option<u64>) {
    let limit = limit();
    (divide(wanted, limit).public, limit)
}

/// The limit of open files; `None` without one.
fn limit() -> Option<u64> {
    #[cfg(unix)]
    {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }
    #[cfg(not(unix))]
    {
        None
    }
}

/// The connections of each listener, where `wanted` public ones are configured. Warns where the limit leaves fewer.
pub(crate) fn shares(wanted: usize) -> ConnectionShares {
    let limit = limit();
    let shares = divide(wanted, limit);
    if shares.public < wanted {
        warn!(
            open_files = limit,
            wanted,
            connections = shares.public,
            "the limit of open files (ulimit -n) leaves fewer connections than server.max_connections"
        );
    }
    shares
}

/// Under a small limit each share is smaller: an eighth for the admin listener, three for other files.
fn divide(wanted: usize, limit: Option<u64>) -> ConnectionShares {
    let limit = limit.unwrap_or(u64::MAX);
    let admin = ADMIN.min(limit / 8).max(1);
    let public = limit.saturating_sub(admin + OTHERS.min(limit / 8 * 3)).max(1);
    let at_most = |share: u64, most: usize| usize::try_from(share).unwrap_or(most).min(most);
    ConnectionShares { public: at_most(public, wanted), admin: at_most(admin, usize::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_reserved_for_the_admin_listener_and_other_files() {
        for (limit, public, admin) in [
            (None, 1024, 64),
            (Some(1 << 20), 1024, 64),
            (Some(1280), 1024, 64),
            (Some(1279), 1023, 64),
            (Some(1024), 768, 64),
            (Some(256), 128, 32),
            (Some(64), 32, 8),
            (Some(0), 1, 1),
        ] {
            assert_eq!(divide(1024, limit), ConnectionShares { public, admin }, "{limit:?}");
        }
        assert_eq!(divide(10, Some(1024)).public, 10);
    }
}
