//! Downloads a clip or a file of a checkpoint from an object store to a local file: streamed, readable by its owner only, and durable.

use std::io;
use std::path::Path;

use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_blocking;

use super::error::ResultsError;
use super::object_name::path_of;
use crate::source::StorageLocation;
use crate::store::sync_dir;

/// Writes an object to the file `to` in `folder`, whole or not at all. False when there is no such object.
pub(super) async fn download(
    objects: &StorageLocation,
    object: &str,
    folder: &Path,
    to: &Path,
) -> Result<bool, ResultsError> {
    let failed = |source| ResultsError::io("the file cannot be written", source);
    let mut pieces = match objects.store.get(&path_of(&objects.prefix, object)).await {
        Ok(found) => found.into_stream(),
        Err(object_store::Error::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let (file, name) = NamedTempFile::new_in(folder).map_err(failed)?.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    while let Some(piece) = pieces.try_next().await? {
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    file.sync_all().await.map_err(failed)?;
    let (folder, to) = (folder.to_owned(), to.to_owned());
    let persisted = spawn_blocking(move || {
        name.persist(to).map_err(|error| error.error)?;
        sync_dir(&folder)
    });
    persisted.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?;
    Ok(true)
}
