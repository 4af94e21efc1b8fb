//! Uploads a finished file, a clip, or a file of a checkpoint to an object store in parts, with its media type and file name.

use std::path::Path;

use object_store::{Attribute, Attributes, PutMultipartOptions, WriteMultipart};

use super::error::ResultsError;
use super::folder::PIECE_BYTES;
use super::object_name::{disposition, path_of};
use crate::source::StorageLocation;

/// Bytes of one part of an upload; a store takes ten thousand parts.
pub(super) const PART_BYTES: usize = 8 << 20;

/// Concurrent parts.
const CONCURRENT_PARTS: usize = 4;

/// Uploads a file under its object name.
pub(super) async fn upload(
    objects: &StorageLocation,
    object: &str,
    file: &Path,
    media_type: &'static str,
) -> Result<(), ResultsError> {
    let unreadable = |source| ResultsError::io("the file to be stored cannot be read", source);
    let attributes = Attributes::from_iter([
        (Attribute::ContentType, media_type.to_owned()),
        (Attribute::ContentDisposition, disposition(object)),
    ]);
    let mut file = tokio::fs::File::open(file).await.map_err(unreadable)?;
    let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
    let path = path_of(&objects.prefix, object);
    let upload = objects.store.put_multipart_opts(&path, options).await?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = match tokio::io::AsyncReadExt::read(&mut file, &mut piece).await {
            Ok(read) => read,
            Err(error) => {
                // Parts of an unfinished upload cost money until they are deleted.
                let _ = upload.abort().await;
                return Err(unreadable(error));
            }
        };
        if read == 0 {
            break;
        }
        piece.truncate(read);
        upload.wait_for_capacity(CONCURRENT_PARTS).await?;
        upload.put(piece.into());
    }
    upload.finish().await?;
    Ok(())
}
