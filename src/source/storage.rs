//! Object storage by its URL: `s3://`, `gs://`, `az://` and `file://`.
//!
//! Credentials, endpoints and the like come from the environment that each provider's own tools read (`AWS_…`,
//! `GOOGLE_…`, `AZURE_…`). Throttling, server errors and broken connections are tried again with exponential backoff by
//! the store itself.

use super::folder::Folder;
use super::odd_keys::Connector;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;
use url::{Position, Url};

/// A place in object storage: a store, and a prefix in it.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// What every key in this place begins with; may be empty.
    pub prefix: Path,
    /// Signs URLs; a local store has none.
    pub signer: Option<Arc<dyn Signer>>,
    /// What the address of every object in the store begins with, without the last slash: `s3://bucket`, or
    /// `file:///folder`.
    pub root: String,
    /// Whether objects have a media type and metadata here; files have none.
    pub has_attributes: bool,
}

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// Not a URL.
    #[error("`{url}` is not a URL such as s3://bucket/folder or file:///folder")]
    NotAUrl {
        /// What was given.
        url: String,
    },
    /// Another scheme.
    #[error("`{scheme}://` is not a storage that is known here; there are s3, gs, az and file")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// The folder of a `file://` URL is not there and cannot be made, or the URL has a host.
    #[error("{url} is no folder that can be used")]
    Folder {
        /// The URL.
        url: String,
    },
    /// The provider's settings are incomplete or wrong, or the path has segments that no key can have.
    #[error(transparent)]
    Store(#[from] object_store::Error),
    /// The path has segments that no key can have.
    #[error(transparent)]
    Path(#[from] object_store::path::Error),
}

impl Objects {
    /// Opens the place that a URL names. Nothing is asked of a remote store yet; a local folder is made when it is not
    /// there and `create` says so.
    ///
    /// # Errors
    /// See [`ObjectsError`].
    pub fn open(text: &str, create: bool) -> Result<Self, ObjectsError> {
        let url = Url::parse(text).map_err(|_| ObjectsError::NotAUrl { url: text.to_owned() })?;
        // Already installed is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match url.scheme() {
            "s3" | "s3a" => {
                let builder = AmazonS3Builder::from_env().with_http_connector(Connector);
                Self::signed(builder.with_url(text).with_retry(retries()).build()?, &url)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_http_connector(Connector);
                Self::signed(builder.with_url(text).with_retry(retries()).build()?, &url)
            }
            "az" | "azure" | "abfs" | "abfss" | "adl" => {
                let builder = MicrosoftAzureBuilder::from_env().with_http_connector(Connector);
                Self::signed(builder.with_url(text).with_retry(retries()).build()?, &url)
            }
            "file" => {
                let wrong = || ObjectsError::Folder { url: text.to_owned() };
                let folder = url.to_file_path().map_err(|()| wrong())?;
                if create {
                    std::fs::create_dir_all(&folder).map_err(|_| wrong())?;
                }
                let folder = folder.canonicalize().map_err(|_| wrong())?;
                if !folder.is_dir() {
                    return Err(wrong());
                }
                Ok(Self {
                    store: Arc::new(Folder::new(&folder)?),
                    prefix: Path::default(),
                    signer: None,
                    root: format!("file://{}", folder.display().to_string().trim_end_matches('/')),
                    has_attributes: false,
                })
            }
            scheme => Err(ObjectsError::Scheme { scheme: scheme.to_owned() }),
        }
    }

    fn signed(store: impl ObjectStore + Signer, url: &Url) -> Result<Self, ObjectsError> {
        let store = Arc::new(store);
        Ok(Self {
            store: store.clone(),
            prefix: Path::from_url_path(url.path())?,
            signer: Some(store),
            root: url[..Position::BeforePath].to_owned(),
            has_attributes: true,
        })
    }

    /// The address of a key, for people: as it is, nothing escaped.
    #[must_use]
    pub fn address(&self, key: &str) -> String {
        format!("{}/{key}", self.root)
    }

    /// What the address of everything in this place begins with; ends in a slash.
    #[must_use]
    pub fn place(&self) -> String {
        let prefix = self.prefix.as_ref();
        if prefix.is_empty() { format!("{}/", self.root) } else { format!("{}/{prefix}/", self.root) }
    }
}

/// Ten tries within three minutes, a tenth of a second to fifteen apart.
fn retries() -> RetryConfig {
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
    fn what_is_no_storage_is_refused() {
        for text in ["bucket/folder", "", "s3:", "ftp://host/x", "https://example.org/x", "file://host/x"] {
            assert!(Objects::open(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn a_folder_is_made_only_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let url = Url::from_file_path(folder.path().join("a b/ü")).unwrap();
        assert!(matches!(Objects::open(url.as_str(), false), Err(ObjectsError::Folder { .. })));
        let there = Objects::open(url.as_str(), true).unwrap();
        assert!(there.signer.is_none() && there.prefix.as_ref().is_empty());
        assert!(folder.path().join("a b/ü").is_dir());
    }

    #[test]
    fn a_bucket_and_a_prefix_are_told_apart() {
        let there = Objects::open("s3://shop/photos/a%20b", false).unwrap();
        assert_eq!(there.prefix.as_ref(), "photos/a b");
        assert!(there.signer.is_some() && there.has_attributes);
        assert_eq!((there.root.as_str(), there.place().as_str()), ("s3://shop", "s3://shop/photos/a b/"));
        assert_eq!(there.address("x#.jpg"), "s3://shop/x#.jpg");
        assert_eq!(Objects::open("s3://shop", false).unwrap().place(), "s3://shop/");
    }
}
