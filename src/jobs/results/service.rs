//! The result service: dispatches storing, opening, fetching and deleting to the local folder or the object store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use http::Method;
use object_store::ObjectStoreExt;
use object_store::signer::Signer;
use tokio::task::spawn_blocking;
use url::Url;

use super::download::download;
use super::error::ResultsError;
use super::folder::{StoredResult, remove_unfinished, store_file};
use super::object_name::{checkpoint_folder, checkpoint_name, format_of, input_name, object_name, path_of};
use super::signed_path::PathSigner;
use super::upload::upload;
use crate::jobs::Job;
use crate::jobs::deps::{ResultStore, ResultStoreError};
use crate::jobs::secret::DaemonSecret;
use crate::recipe::VideoFormat;
use crate::source::{StorageError, StorageLocation};
use crate::store::{UnixSeconds, create_private_dir, make_private};
use crate::telemetry::with_causes;

/// The media type of clips and checkpoints.
const OTHER_TYPE: &str = "application/octet-stream";

/// The folder in the data directory.
pub(super) const FOLDER: &str = "results";

/// Stored results. Clones share one place.
#[derive(Clone, Debug)]
pub struct Results(pub(super) Arc<Place>);

#[derive(Debug)]
pub(super) enum Place {
    /// A local folder, and the signer of paths into it.
    Folder { folder: PathBuf, paths: PathSigner },
    /// An object store that signs URLs itself.
    Store { objects: StorageLocation, signer: Arc<dyn Signer> },
}

/// The address of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultUrl {
    /// An absolute URL, signed by the provider.
    Absolute(String),
    /// Path and query on this daemon.
    Path(String),
}

impl Place {
    fn of(url: &str, secret: &DaemonSecret) -> Result<Self, StorageError> {
        let objects = StorageLocation::open(url, true)?;
        if let Some(signer) = objects.signer.clone() {
            return Ok(Self::Store { objects, signer });
        }
        let folder = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
        let folder = folder.ok_or_else(|| StorageError::Folder(url.to_owned()))?;
        Ok(Self::Folder { folder, paths: PathSigner::new(secret) })
    }
}

impl Results {
    /// Opens the place that `jobs.results` names, or the folder in the data directory. A remote store is not contacted.
    /// Blocks; meant for start-up.
    ///
    /// # Errors
    /// [`ResultsError::Place`] and [`ResultsError::Io`].
    pub fn open(url: Option<&str>, data_dir: &Path, secret: &DaemonSecret) -> Result<Self, ResultsError> {
        let place = match url {
            Some(url) => Place::of(url, secret)?,
            None => {
                let folder = data_dir.join(FOLDER);
                let created = create_private_dir(&folder).and_then(|()| make_private(&folder));
                created
                    .map_err(|source| ResultsError::io(format!("{} cannot be created", folder.display()), source))?;
                // The folder is this daemon's alone.
                remove_unfinished(&folder).map_err(|source| ResultsError::io("results cannot be listed", source))?;
                Place::Folder { folder, paths: PathSigner::new(secret) }
            }
        };
        Ok(Self(Arc::new(place)))
    }

    /// Stores the finished file of a job and returns the object name. It is durable when this returns. A repeated call
    /// replaces it.
    ///
    /// # Errors
    /// Every kind but [`ResultsError::Place`].
    pub async fn put(&self, job_id: &str, file: &Path, media_type: &str) -> Result<String, ResultsError> {
        let format = VideoFormat::ALL.iter().find(|format| format.media_type() == media_type);
        let format = format.ok_or_else(|| ResultsError::Name(format!("{job_id} of type {media_type}")))?;
        let object = object_name(job_id, *format);
        validate(&object)?;
        self.store(&object, file, format.media_type()).await?;
        Ok(object)
    }

    /// The address that opens a result until `expires_at`.
    ///
    /// # Errors
    /// [`ResultsError::Store`] when the provider's credentials cannot sign.
    pub async fn url(
        &self,
        object: &str,
        now: UnixSeconds,
        expires_at: UnixSeconds,
    ) -> Result<ResultUrl, ResultsError> {
        validate(object)?;
        match &*self.0 {
            Place::Folder { paths, .. } => Ok(ResultUrl::Path(paths.sign(object, expires_at))),
            Place::Store { objects, signer } => {
                let left = u64::try_from(expires_at.0.saturating_sub(now.0)).unwrap_or(0).max(1);
                let path = path_of(&objects.prefix, object);
                let url = signer.signed_url(Method::GET, &path, Duration::from_secs(left)).await?;
                Ok(ResultUrl::Absolute(url.into()))
            }
        }
    }

    /// Opens a result by a path that [`Results::url`] has signed. `None` when the signature does not match name and time,
    /// the time has passed, or the file is gone; callers must not distinguish these cases in public.
    ///
    /// # Errors
    /// [`ResultsError::Io`].
    pub async fn open_signed(
        &self,
        object: &str,
        query: &str,
        now: UnixSeconds,
    ) -> Result<Option<StoredResult>, ResultsError> {
        let Place::Folder { folder, paths } = &*self.0 else { return Ok(None) };
        let Some(format) = format_of(object).filter(|_| paths.verify(object, query, now)) else { return Ok(None) };
        let path = folder.join(object);
        let opened = spawn_blocking(move || StoredResult::open(&path, format.media_type()));
        match opened.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(result) => Ok(Some(result)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ResultsError::io("a result cannot be opened", error)),
        }
    }

    /// Deletes a result; a missing one is no error.
    ///
    /// # Errors
    /// [`ResultsError::Io`] and [`ResultsError::Store`].
    pub async fn delete(&self, object: &str) -> Result<(), ResultsError> {
        validate(object)?;
        self.remove(object).await
    }

    /// Stores a copy of a job's clip. It is durable when this returns. A repeated call replaces it.
    pub(super) async fn put_input(&self, job_id: &str, file: &Path) -> Result<(), ResultsError> {
        self.store(&name_of_input(job_id)?, file, OTHER_TYPE).await
    }

    /// Writes the stored clip of a job to the file `to`; it is durable when this returns. False when there is none.
    pub(super) async fn fetch_input(&self, job_id: &str, to: &Path) -> Result<bool, ResultsError> {
        self.fetch(&name_of_input(job_id)?, to).await
    }

    /// Stores a copy of a file of a job's checkpoint. It is durable when this returns. A repeated call replaces it.
    pub(super) async fn put_checkpoint(&self, job_id: &str, file: &Path) -> Result<(), ResultsError> {
        let name = file.file_name().and_then(|name| checkpoint_name(job_id, name.to_str()?));
        let object = name.ok_or_else(|| ResultsError::Name(file.display().to_string()))?;
        if let Place::Folder { folder, .. } = &*self.0 {
            let folder = folder.join(folder_of_checkpoint(job_id)?);
            blocking("a folder for the checkpoint cannot be created", move || create_private_dir(&folder)).await?;
        }
        self.store(&object, file, OTHER_TYPE).await
    }

    /// Writes the files of a job's stored checkpoint to a folder, each durable when this returns.
    pub(super) async fn fetch_checkpoint(&self, job_id: &str, into: &Path) -> Result<(), ResultsError> {
        for name in self.checkpoint(job_id).await? {
            // Files with other names were not written by a daemon.
            if let Some(object) = checkpoint_name(job_id, &name) {
                self.fetch(&object, &into.join(&name)).await?;
            }
        }
        Ok(())
    }

    /// Deletes the stored checkpoint of a job; a missing one is no error.
    pub(super) async fn delete_checkpoint(&self, job_id: &str) -> Result<(), ResultsError> {
        let of_job = folder_of_checkpoint(job_id)?;
        match &*self.0 {
            Place::Folder { folder, .. } => {
                let folder = folder.join(of_job);
                let remove = move || match std::fs::remove_dir_all(&folder) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    Ok(()) | Err(_) => Ok(()),
                };
                blocking("the checkpoint cannot be deleted", remove).await
            }
            Place::Store { .. } => {
                for name in self.checkpoint(job_id).await? {
                    self.remove(&format!("{of_job}/{name}")).await?;
                }
                Ok(())
            }
        }
    }

    /// The names of the files of a job's stored checkpoint.
    async fn checkpoint(&self, job_id: &str) -> Result<Vec<String>, ResultsError> {
        let of_job = folder_of_checkpoint(job_id)?;
        match &*self.0 {
            Place::Folder { folder, .. } => {
                let folder = folder.join(of_job);
                let names = move || match std::fs::read_dir(&folder) {
                    Ok(entries) => entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                    Err(error) => Err(error),
                };
                blocking("the files of a checkpoint cannot be listed", names).await
            }
            Place::Store { objects, .. } => {
                let listed = objects.store.list(Some(&path_of(&objects.prefix, &of_job)));
                let names = listed.try_filter_map(async |meta| Ok(meta.location.filename().map(str::to_owned)));
                Ok(names.try_collect().await?)
            }
        }
    }

    /// Writes an object to the file `to`; false when there is none.
    async fn fetch(&self, object: &str, to: &Path) -> Result<bool, ResultsError> {
        let into = to.parent().ok_or_else(|| ResultsError::Name(to.display().to_string()))?;
        match &*self.0 {
            Place::Folder { folder, .. } => {
                let (from, into, to) = (folder.join(object), into.to_owned(), to.to_owned());
                let fetch = move || {
                    // Checked before: a missing target folder has the same error.
                    let exists = from.try_exists()?;
                    if exists {
                        store_file(&from, &into, &to)?;
                    }
                    Ok(exists)
                };
                blocking("the file could not be fetched", fetch).await
            }
            Place::Store { objects, .. } => download(objects, object, into, to).await,
        }
    }

    /// Deletes the stored clip of a job; a missing one is no error.
    pub(super) async fn delete_input(&self, job_id: &str) -> Result<(), ResultsError> {
        self.remove(&name_of_input(job_id)?).await
    }

    /// Stores a file under a valid object name.
    async fn store(&self, object: &str, file: &Path, media_type: &'static str) -> Result<(), ResultsError> {
        match &*self.0 {
            Place::Folder { folder, .. } => {
                let (from, to) = (file.to_owned(), folder.join(object));
                let store = move || store_file(&from, to.parent().unwrap_or(&to), &to);
                blocking("the file could not be stored", store).await
            }
            Place::Store { objects, .. } => upload(objects, object, file, media_type).await,
        }
    }

    /// Deletes the object of a valid name; a missing one is no error.
    async fn remove(&self, object: &str) -> Result<(), ResultsError> {
        match &*self.0 {
            Place::Folder { folder, .. } => match tokio::fs::remove_file(folder.join(object)).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(ResultsError::io("an object cannot be deleted", error))
                }
                Ok(()) | Err(_) => Ok(()),
            },
            Place::Store { objects, .. } => match objects.store.delete(&path_of(&objects.prefix, object)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }
}

fn validate(object: &str) -> Result<(), ResultsError> {
    format_of(object).map(|_| ()).ok_or_else(|| ResultsError::Name(object.to_owned()))
}

fn folder_of_checkpoint(job_id: &str) -> Result<String, ResultsError> {
    checkpoint_folder(job_id).ok_or_else(|| ResultsError::Name(job_id.to_owned()))
}

/// Runs file operations on a thread that may block.
async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ResultsError> {
    let worked = spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    worked.map_err(|source| ResultsError::io(what, source))
}

fn name_of_input(job_id: &str) -> Result<String, ResultsError> {
    input_name(job_id).ok_or_else(|| ResultsError::Name(job_id.to_owned()))
}

impl ResultStore for Results {
    fn put<'a>(
        &'a self,
        job_id: &'a str,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<String, ResultStoreError>> {
        Box::pin(async move { Ok(Self::put(self, job_id, file, media_type).await?) })
    }

    fn delete<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move { Ok(Self::delete(self, object).await?) })
    }

    fn discard<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move {
            let format = VideoFormat::ALL.into_iter().find(|format| format.name() == job.format);
            match format {
                Some(format) => Ok(Self::delete(self, &object_name(&job.id, format)).await?),
                // This version has stored no result of an unknown format.
                None => Ok(()),
            }
        })
    }

    fn put_input<'a>(&'a self, job_id: &'a str, file: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move { Ok(Self::put_input(self, job_id, file).await?) })
    }

    fn fetch_input<'a>(&'a self, job_id: &'a str, to: &'a Path) -> BoxFuture<'a, Result<bool, ResultStoreError>> {
        Box::pin(async move { Ok(Self::fetch_input(self, job_id, to).await?) })
    }

    fn delete_input<'a>(&'a self, job_id: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move { Ok(Self::delete_input(self, job_id).await?) })
    }

    fn put_checkpoint<'a>(&'a self, job_id: &'a str, file: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move { Ok(Self::put_checkpoint(self, job_id, file).await?) })
    }

    fn fetch_checkpoint<'a>(&'a self, job_id: &'a str, into: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move { Ok(Self::fetch_checkpoint(self, job_id, into).await?) })
    }

    fn delete_checkpoint<'a>(&'a self, job_id: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move { Ok(Self::delete_checkpoint(self, job_id).await?) })
    }

    fn folder(&self) -> Option<&Path> {
        match &*self.0 {
            Place::Folder { folder, .. } => Some(folder),
            Place::Store { .. } => None,
        }
    }
}

impl From<ResultsError> for ResultStoreError {
    fn from(error: ResultsError) -> Self {
        Self(with_causes(&error))
    }
}
