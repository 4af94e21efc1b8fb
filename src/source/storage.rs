//! Opens a location in object storage by its URL: `s3://`, `gs://`, `az://` or `file://`.
//!
//! Credentials and endpoints come from the environment variables of each provider's tools (`AWS_…`, `GOOGLE_…`,
//! `AZURE_…`). The stores retry throttling, server errors and broken connections with exponential backoff.

use super::local_store::LocalStore;
use super::place::Place;
use super::unaddressable_keys::Connector;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use url::{Position, Url};

/// A location in object storage: a store, and a key prefix in it.
#[derive(Clone, Debug)]
pub struct StorageLocation {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// Prefix of every key in this location; may be empty.
    pub prefix: Path,
    /// Signs URLs; `None` for a local store.
    pub signer: Option<Arc<dyn Signer>>,
    /// Prefix of the address of every object in the store, without the last slash: `s3://bucket` or `file:///folder`.
    pub root: String,
    /// Whether objects have a media type and metadata; files have none.
    pub has_attributes: bool,
}

/// Why a location cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Not a URL.
    #[error("`{0}` is not a URL such as s3://bucket/folder or file:///folder")]
    NotAUrl(String),
    /// An unknown scheme.
    #[error("`{0}://` is not a supported storage; expected s3, gs, az or file")]
    Scheme(String),
    /// The folder of this `file://` URL cannot be created, or the URL has a host or leads through a forbidden link.
    #[error("{0} is not a folder that can be used")]
    Folder(String),
    /// This S3 endpoint has no TLS, which was not allowed.
    #[error("AWS_ENDPOINT_URL={0} is not https; AWS_ALLOW_HTTP=true allows it")]
    PlainEndpoint(String),
    /// The provider's settings are incomplete or wrong, or the path has segments that no key can contain.
    #[error(transparent)]
    Store(#[from] object_store::Error),
    /// The path has segments that no key can contain.
    #[error(transparent)]
    Path(#[from] object_store::path::Error),
}

impl StorageLocation {
    /// Opens the location of a URL without contacting a remote store. With `create` a missing local folder is created.
    ///
    /// # Errors
    /// See [`StorageError`].
    pub fn open(text: &str, create: bool) -> Result<Self, StorageError> {
        let url = parse(text)?;
        // Fails when a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match url.scheme() {
            "s3" | "s3a" => {
                if let Some(endpoint) = plain_endpoint() {
                    return Err(StorageError::PlainEndpoint(endpoint));
                }
                let builder = AmazonS3Builder::from_env().with_http_connector(Connector);
                Self::signed(builder.with_url(text).with_retry(retry_config()).build()?, &url)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_http_connector(Connector);
                Self::signed(builder.with_url(text).with_retry(retry_config()).build()?, &url)
            }
            "az" | "azure" | "abfs" | "abfss" | "adl" => {
                let builder = MicrosoftAzureBuilder::from_env().with_http_connector(Connector);
                Self::signed(builder.with_url(text).with_retry(retry_config()).build()?, &url)
            }
            "file" => {
                let folder = folder_of(&url, create).ok_or_else(|| no_folder(text))?;
                Ok(Self::local(LocalStore::new(&folder)?, &folder))
            }
            scheme => Err(StorageError::Scheme(scheme.to_owned())),
        }
    }

    /// As [`Self::open`], for a caller confined to this location. A `file://` path must be [resolved](Place::resolved);
    /// nothing is listed, read or written through links out of it.
    ///
    /// # Errors
    /// See [`StorageError`]; [`StorageError::Folder`] also for a path that leads through a link.
    pub fn open_confined(text: &str, create: bool) -> Result<Self, StorageError> {
        let url = parse(text)?;
        if url.scheme() != "file" {
            return Self::open(text, create);
        }
        let place = Place::parse(url.as_str()).ok_or_else(|| no_folder(text))?;
        let is_same = |other: Option<Place>| other.is_some_and(|other| other == place);
        // Checked before a folder could be created through a link, and afterwards for links created meanwhile.
        let folder = is_same(place.resolved()).then(|| folder_of(&url, create)).flatten();
        let folder = folder.filter(|folder| is_same(Place::of_folder(folder))).ok_or_else(|| no_folder(text))?;
        Ok(Self::local(LocalStore::confined(&folder)?, &folder))
    }

    fn local(store: LocalStore, folder: &FilePath) -> Self {
        Self {
            store: Arc::new(store),
            prefix: Path::default(),
            signer: None,
            root: format!("file://{}", folder.display().to_string().trim_end_matches('/')),
            has_attributes: false,
        }
    }

    fn signed(store: impl ObjectStore + Signer, url: &Url) -> Result<Self, StorageError> {
        let store = Arc::new(store);
        Ok(Self {
            store: store.clone(),
            prefix: Path::from_url_path(url.path())?,
            signer: Some(store),
            root: url[..Position::BeforePath].to_owned(),
            has_attributes: true,
        })
    }

    /// The address of a key for display, unescaped.
    #[must_use]
    pub fn address(&self, key: &str) -> String {
        format!("{}/{key}", self.root)
    }

    /// Prefix of the addresses in this location; ends in a slash.
    #[must_use]
    pub fn address_prefix(&self) -> String {
        let prefix = self.prefix.as_ref();
        if prefix.is_empty() { format!("{}/", self.root) } else { format!("{}/{prefix}/", self.root) }
    }
}

/// The endpoint of the environment if it is plain HTTP without permission: requests would fail to connect.
#[expect(clippy::disallowed_methods, reason = "not a setting: a variable of the provider's own tools")]
fn plain_endpoint() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].into_iter().find_map(variable)?;
    let is_allowed = variable("AWS_ALLOW_HTTP")
        .is_some_and(|value| ["true", "1", "on", "yes", "y"].contains(&value.to_lowercase().as_str()));
    (endpoint.starts_with("http://") && !is_allowed).then_some(endpoint)
}

fn parse(text: &str) -> Result<Url, StorageError> {
    Url::parse(text).map_err(|_| StorageError::NotAUrl(text.to_owned()))
}

fn no_folder(text: &str) -> StorageError {
    StorageError::Folder(text.to_owned())
}

/// The canonical path of a `file://` URL's folder; with `create` a missing folder is created first.
fn folder_of(url: &Url, create: bool) -> Option<PathBuf> {
    let folder = url.to_file_path().ok()?;
    if create {
        std::fs::create_dir_all(&folder).ok()?;
    }
    folder.canonicalize().ok().filter(|folder| folder.is_dir())
}

/// Ten retries within three minutes, 0.1 to 15 s apart.
fn retry_config() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(15),
            base: 2.0,
        },
        max_retries: 10,
        retry_timeout: Duration::from_secs(180),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_url_is_refused() {
        for text in ["bucket/folder", "", "s3:", "ftp://host/x", "https://example.org/x", "file://host/x"] {
            assert!(StorageLocation::open(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn a_folder_is_created_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let url = Url::from_file_path(folder.path().join("a b/ü")).unwrap();
        assert!(matches!(StorageLocation::open(url.as_str(), false), Err(StorageError::Folder(_))));
        let location = StorageLocation::open(url.as_str(), true).unwrap();
        assert!(location.signer.is_none() && location.prefix.as_ref().is_empty());
        assert!(folder.path().join("a b/ü").is_dir());
    }

    #[cfg(unix)]
    #[test]
    fn a_confined_folder_is_not_opened_or_created_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("outside")).unwrap();
        std::os::unix::fs::symlink("outside", root.join("link")).unwrap();
        let open = |name: &str| StorageLocation::open_confined(&format!("file://{}/{name}", root.display()), true);
        for name in ["link", "link/new"] {
            assert!(matches!(open(name), Err(StorageError::Folder(_))), "{name}");
        }
        assert!(!root.join("outside/new").exists());
        assert_eq!(open("new/").unwrap().root, format!("file://{}/new", root.display()));
        assert_eq!(StorageLocation::open_confined("s3://shop/photos", false).unwrap().prefix.as_ref(), "photos");
    }

    #[test]
    fn a_url_is_split_into_bucket_and_prefix() {
        let location = StorageLocation::open("s3://shop/photos/a%20b", false).unwrap();
        assert_eq!(location.prefix.as_ref(), "photos/a b");
        assert!(location.signer.is_some() && location.has_attributes);
        assert_eq!(
            (location.root.as_str(), location.address_prefix().as_str()),
            ("s3://shop", "s3://shop/photos/a b/")
        );
        assert_eq!(location.address("x#.jpg"), "s3://shop/x#.jpg");
        assert_eq!(StorageLocation::open("s3://shop", false).unwrap().address_prefix(), "s3://shop/");
    }
}
