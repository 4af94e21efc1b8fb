//! Checks what `backdrop serve` opens at its start: the TLS certificate, the store, and the socket of `server.idle_exit`.

use super::check::Check;
use crate::cli::local_engine;
use crate::config::Config;
use crate::http::config::HttpConfig;
use crate::http::tls::{Tls, TlsError};
use crate::store::{self, OpenError, PostgresServer};
use crate::telemetry::with_causes;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

const STORE: &str = "store";

/// Time limit of the database's answer, with the lookup of its name.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The certificate of the API, if configured.
pub(super) fn tls(config: &HttpConfig) -> Option<Check> {
    const NAME: &str = "tls";
    let (certificate, key) = config.tls_cert.as_ref().zip(config.tls_key.as_ref())?;
    // `reload` also requires that the certificate is valid now.
    let loaded = Tls::load(certificate, key).and_then(|tls| tls.reload());
    Some(match loaded {
        Ok(()) => Check::ok(NAME, format!("{} and its key can be used", certificate.display())),
        // The daemon starts with a warning.
        Err(error @ TlsError::NotNow(..)) => {
            Check::warning(NAME, with_causes(&error), "renew the certificate, or set the clock")
        }
        Err(error) => Check::failed(NAME, with_causes(&error), "correct server.tls_cert and server.tls_key"),
    })
}

/// Whether the daemon can open its store. A missing store is not created.
pub(super) fn store(config: &Config) -> Check {
    match PostgresServer::configured(&config.store) {
        Ok(Some(server)) => database(server),
        Ok(None) => file(&store::file_in(&config.data_dir)),
        Err(error) => Check::failed(STORE, with_causes(&error), "correct the section [store]"),
    }
}

/// Opens the file as the daemon does, but upgrades nothing.
fn file(path: &Path) -> Check {
    if !path.exists() {
        return Check::ok(STORE, format!("{} is created by the first start", path.display()));
    }
    match store::probe(path) {
        Ok(()) => Check::ok(STORE, format!("{} can be read", path.display())),
        Err(error @ OpenError::Locked { .. }) => Check::ok(STORE, error.to_string()),
        Err(error) => unusable(&error, "check its owner and its disk"),
    }
}

/// A store that the daemon refuses; `io` is the remedy if it cannot be read or reached.
fn unusable(error: &OpenError, io: &str) -> Check {
    let remedy = match error {
        OpenError::Newer { .. } => "run the version that wrote it, or a newer one",
        OpenError::Corrupt { .. } => "move it away, and import a backup with `backdrop store import`",
        OpenError::Io { .. } | OpenError::Locked { .. } => io,
    };
    Check::failed(STORE, with_causes(error), remedy)
}

/// Connects to the database and reads a table of it, without upgrading the tables.
fn database(server: PostgresServer) -> Check {
    const REMEDY: &str = "correct store.url, or start the database server";
    let name = server.name().to_owned();
    let (sender, answer) = mpsc::channel();
    // The lookup of a name may take longer than the timeout; its thread does not keep the process alive.
    std::thread::spawn(move || {
        // The receiver is gone after the timeout.
        let _ = sender.send(local_engine::block_on(async move { server.probe().await }));
    });
    match answer.recv_timeout(DATABASE_TIMEOUT) {
        Ok(Ok(Ok(()))) => Check::ok(STORE, format!("{name} answers")),
        // Tables that are missing, or of an older version, are upgraded by the daemon.
        Ok(Ok(Err(OpenError::Corrupt { reason, .. }))) => Check::ok(STORE, format!("{name} answers; {reason}")),
        Ok(Ok(Err(error))) => unusable(&error, REMEDY),
        Ok(Err(_)) | Err(_) => {
            Check::failed(STORE, format!("{name} did not answer within {} s", DATABASE_TIMEOUT.as_secs()), REMEDY)
        }
    }
}

/// `server.idle_exit` needs a socket that only the service manager passes, to the daemon and not to this command.
pub(super) fn idle_exit(config: &HttpConfig) -> Option<Check> {
    config.idle_exit?;
    Some(Check::warning(
        "idle exit",
        "with server.idle_exit the daemon starts only by a socket of the service manager",
        "start it by backdrop.socket (docs/install.md, Scale to zero), or remove server.idle_exit",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::check::Status;
    use crate::store::StoreConfig;

    #[test]
    fn a_store_is_read_and_neither_created_nor_required_to_be_free() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        let path = store::file_in(&config.data_dir);
        assert!(store(&config).status == Status::Ok && !config.data_dir.exists());

        let running = store::RedbStore::open(&path).unwrap();
        let check = store(&config);
        assert!(check.status == Status::Ok && check.message.contains("in use by another process"), "{check:?}");
        drop(running);
        let check = store(&config);
        assert!(check.status == Status::Ok && check.message.contains("can be read"), "{check:?}");

        std::fs::write(&path, b"not a store").unwrap();
        let check = store(&config);
        assert!(check.status == Status::Failed && check.message.contains("damaged or not a store"), "{check:?}");
    }

    #[test]
    fn a_database_that_refuses_connections_fails() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = Some(format!("postgres://user:hush@127.0.0.1:{port}/backdrop").into());
        let check = store(&Config { store: StoreConfig { url, ca_file: None }, ..Config::default() });
        assert_eq!(check.status, Status::Failed, "{check:?}");
        assert!(
            check.message.contains("postgres://127.0.0.1/backdrop") && !check.message.contains("hush"),
            "{check:?}"
        );
    }

    #[test]
    fn a_certificate_is_loaded_and_has_to_be_valid_now() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let config = |certificate: &str, key: &str| HttpConfig {
            tls_cert: Some(file(certificate)),
            tls_key: Some(file(key)),
            ..HttpConfig::default()
        };
        let write = |certificate: &str, key: &str, year| {
            let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            let pair = rcgen::KeyPair::generate().unwrap();
            std::fs::write(file(certificate), parameters.self_signed(&pair).unwrap().pem()).unwrap();
            std::fs::write(file(key), pair.serialize_pem()).unwrap();
        };
        write("valid.pem", "valid.key", 4000);
        write("expired.pem", "expired.key", 2001);
        let status = |certificate, key| tls(&config(certificate, key)).unwrap().status;
        assert_eq!(status("valid.pem", "valid.key"), Status::Ok);
        assert_eq!(status("expired.pem", "expired.key"), Status::Warning);
        assert_eq!(status("valid.pem", "expired.key"), Status::Failed);
        assert_eq!(status("missing.pem", "valid.key"), Status::Failed);
        assert_eq!(tls(&HttpConfig::default()), None);
    }

    #[test]
    fn a_daemon_that_ends_when_idle_needs_a_socket() {
        assert_eq!(idle_exit(&HttpConfig::default()), None);
        let config = HttpConfig { idle_exit: Some(Duration::from_secs(60)), ..HttpConfig::default() };
        assert_eq!(idle_exit(&config).unwrap().status, Status::Warning);
    }
}
