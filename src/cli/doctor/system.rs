//! Checks what the system grants: the data directory, open files, memory, certificate authorities.

use super::check::Check;
use crate::cli::local_engine::total_megabytes;
use crate::config::Config;
use crate::http::descriptors;
use crate::jobs;
use std::path::Path;

const MEGABYTE: u64 = 1 << 20;

/// Memory of an idle daemon, and of each megapixel in flight, rounded up (docs/performance.md).
const IDLE_MEGABYTES: u64 = 256;
const MEGABYTES_PER_MEGAPIXEL: u64 = 10;

/// Whether the data directory, or its nearest existing parent, can be written, and its disk has room.
pub(super) fn data_dir(folder: &Path, min_free_megabytes: u64) -> Check {
    const NAME: &str = "data directory";
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let existing = absolute.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let what = if existing == absolute {
        format!("{} is writable", absolute.display())
    } else {
        format!("{} can be created", absolute.display())
    };
    if let Err(error) = tempfile::tempfile_in(existing) {
        let message = format!("{} cannot be written: {error}", existing.display());
        return Check::failed(NAME, message, "choose another one with --data-dir, or change its owner");
    }
    match jobs::free_bytes(existing) {
        Ok(free) if free < min_free_megabytes.saturating_mul(MEGABYTE) => Check::warning(
            NAME,
            format!("{what}; only {} MB are free: clips are refused", free / MEGABYTE),
            "free disk space, or lower jobs.min_free_megabytes",
        ),
        Ok(free) => Check::ok(NAME, format!("{what}; {} MB free", free / MEGABYTE)),
        Err(error) => Check::warning(NAME, format!("{what}; its free space is unknown: {error}"), "check its disk"),
    }
}

/// Whether the limit of open files leaves the configured connections.
pub(super) fn open_files(max_connections: usize) -> Check {
    const NAME: &str = "open files";
    // As the daemon does.
    descriptors::raise_limit();
    let (connections, limit) = descriptors::connections_within_limit(max_connections);
    let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit}"));
    let found = format!("{limit}: {connections} of {max_connections} connections");
    if connections < max_connections {
        let remedy = "raise the hard limit (ulimit -Hn; LimitNOFILE= of systemd), or lower server.max_connections";
        return Check::warning(NAME, found, remedy);
    }
    Check::ok(NAME, found)
}

/// Whether the memory holds what the configured bounds allow at once.
pub(super) fn memory(config: &Config) -> Check {
    memory_for(total_megabytes(), needed_megabytes(config))
}

fn needed_megabytes(config: &Config) -> u64 {
    let server = &config.server;
    let bodies = server.max_body_megabytes_in_flight;
    IDLE_MEGABYTES + bodies as u64 + MEGABYTES_PER_MEGAPIXEL * u64::from(config.engine.max_megapixels_in_flight)
}

fn memory_for(total: u64, needed: u64) -> Check {
    let found = format!("{total} MB; the bounds of [engine] and [server] allow {needed} MB");
    if total < needed {
        let remedy = "lower engine.max_megapixels_in_flight and server.max_body_megabytes_in_flight, or add memory";
        return Check::warning("memory", found, remedy);
    }
    Check::ok("memory", found)
}

/// Whether there are certificate authorities for object storage. Callers' URLs use the built-in ones.
pub(super) fn certificate_authorities() -> Check {
    const NAME: &str = "certificates";
    let found = rustls_native_certs::load_native_certs().certs.len();
    if found == 0 {
        let message = "no certificate authorities: s3://, gs:// and az:// locations cannot be reached";
        return Check::warning(NAME, message, "install ca-certificates, or set SSL_CERT_FILE");
    }
    Check::ok(NAME, format!("{found} authorities for object storage"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::check::Status;

    #[test]
    fn a_missing_data_directory_is_checked_by_its_parent() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("a/b");
        let check = data_dir(&missing, 0);
        assert!(check.status == Status::Ok && check.message.contains("can be created"), "{check:?}");
        assert!(!missing.exists());
        assert_eq!(data_dir(root.path(), u64::MAX).status, Status::Warning);
        let file = root.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        assert_eq!(data_dir(&file, 0).status, Status::Failed);
    }

    #[test]
    fn limits_below_what_the_settings_need_are_warnings() {
        assert_eq!(open_files(1).status, Status::Ok);
        let needed = needed_megabytes(&Config::default());
        assert_eq!(needed, 256 + 256 + 256 + 640);
        assert_eq!(
            (memory_for(needed, needed).status, memory_for(needed - 1, needed).status),
            (Status::Ok, Status::Warning)
        );
    }
}
