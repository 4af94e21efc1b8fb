//! The daemon's secret, 32 random bytes in the data directory, and the signing keys derived from it by HMAC-SHA-256.
//!
//! Losing the file invalidates earlier result URLs and webhook secrets, and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use rand::TryRngCore;
use rand::rngs::OsRng;
use sha2::Sha256;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

use crate::store::sync_dir;

/// The file in the data directory.
const FILE: &str = "secret";

/// The prefix of a Standard Webhooks secret.
const WEBHOOK_PREFIX: &str = "whsec_";

/// The root of all secrets; never shown.
#[derive(Clone)]
pub struct DaemonSecret([u8; 32]);

/// The key that a receiver of webhooks verifies signatures with.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; 32]);

/// Why the secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file has another length: it is not this program's.
    #[error("{} does not have 32 bytes; move it away to have a new one created", .0.display())]
    Damaged(PathBuf),
    /// It can be neither read nor created.
    #[error("{} cannot be read or created", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl DaemonSecret {
    /// Reads the secret of a data directory, or creates it, readable by its owner only and durable when this returns.
    /// Blocks; meant for start-up.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn open(data_dir: &Path) -> Result<Self, SecretError> {
        let path = data_dir.join(FILE);
        let secret = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(data_dir, &path).and_then(|()| read(&path)),
            read => read,
        };
        secret
            .map_err(|source| SecretError::Io { path: path.clone(), source })?
            .map(Self)
            .ok_or(SecretError::Damaged(path))
    }

    /// The secret that all daemons on a database have.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be stored where only this service reads them.
    #[must_use]
    pub const fn expose(&self) -> [u8; 32] {
        self.0
    }

    /// A key for one purpose; keys of different labels are independent.
    #[must_use]
    pub fn derive(&self, label: &str) -> [u8; 32] {
        hmac(&self.0, &[label.as_bytes()])
    }

    /// The key that signs the webhooks of an account.
    #[must_use]
    pub fn webhook(&self, account: &str) -> WebhookSecret {
        WebhookSecret(self.derive(&format!("webhooks of {account}")))
    }
}

impl fmt::Debug for DaemonSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl WebhookSecret {
    /// The form shown to its account: `whsec_` and base64.
    #[must_use]
    pub fn expose(&self) -> String {
        format!("{WEBHOOK_PREFIX}{}", STANDARD.encode(self.0))
    }

    /// The value of `webhook-signature`: HMAC-SHA-256 over `id.seconds.body` (Standard Webhooks, symmetric `v1`).
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let seconds = seconds.to_string();
        let signature = hmac(&self.0, &[id.as_bytes(), b".", seconds.as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(signature))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// HMAC-SHA-256 of the concatenated parts.
pub(super) fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    keyed(key, parts).finalize().into_bytes().into()
}

/// Whether `signature` signs the concatenated parts, compared in constant time.
pub(super) fn is_signed(key: &[u8; 32], parts: &[&[u8]], signature: &[u8]) -> bool {
    keyed(key, parts).verify_slice(signature).is_ok()
}

fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// `None` when the file has another length.
fn read(path: &Path) -> io::Result<Option<[u8; 32]>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(33).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok())
}

/// Creates the file atomically. Where another process was first, its file stays.
fn create(data_dir: &Path, path: &Path) -> io::Result<()> {
    let mut bytes = [0; 32];
    OsRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
    // Temporary files are readable by their owner only, and keep that mode when renamed.
    let mut file = NamedTempFile::new_in(data_dir)?;
    file.write_all(&bytes)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error),
    }
    sync_dir(data_dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_created_once_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = DaemonSecret::open(folder.path()).expect("a new one");
        let again = DaemonSecret::open(folder.path()).expect("the same");
        assert_eq!(first.derive("x"), again.derive("x"));
        let other = tempfile::tempdir().expect("a folder");
        assert_ne!(first.derive("x"), DaemonSecret::open(other.path()).expect("another").derive("x"));
    }

    #[test]
    fn a_file_of_another_length_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        for length in [0, 31, 33] {
            std::fs::write(folder.path().join(FILE), vec![1; length]).expect("written");
            assert!(matches!(DaemonSecret::open(folder.path()), Err(SecretError::Damaged(_))), "{length}");
            assert_eq!(std::fs::read(folder.path().join(FILE)).expect("there").len(), length);
        }
    }

    #[test]
    fn each_label_and_each_account_has_its_own_key() {
        let secret = DaemonSecret([7; 32]);
        assert_ne!(secret.derive("a"), secret.derive("b"));
        assert_ne!(secret.webhook("a"), secret.webhook("b"));
        let shown = secret.webhook("a").expose();
        let key = STANDARD.decode(shown.strip_prefix("whsec_").expect("the prefix")).expect("base64");
        assert_eq!(key.len(), 32);
        assert_eq!(format!("{secret:?} {:?}", secret.webhook("a")), "*** ***");
    }

    #[test]
    fn a_signature_matches_an_independent_implementation() {
        // Made with Python's hmac: base64(HMAC-SHA-256(bytes(range(32)), b'msg_1.1614265330.{"test": 2432232314}')).
        let secret = WebhookSecret(std::array::from_fn(|at| at as u8));
        let signature = secret.sign("msg_1", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,GWvjEzx3AphU7wha3hNZPXJnymF9Fg+ZdvPQqWPOjZ0=");
    }
}
