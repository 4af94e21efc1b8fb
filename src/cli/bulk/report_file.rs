//! The report of a bulk run as a local file or an object, which is downloaded before and uploaded after the run.

use crate::bulk::{Locations, Shard, csv_path};
use crate::cli::exit_code::Failure;
use crate::source::{StorageError, StorageLocation};
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{Attribute, Attributes, Error as StoreError, ObjectStore, ObjectStoreExt, WriteMultipart};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Part size of a multipart upload in bytes.
const PART_BYTES: usize = 8 << 20;

/// Location of a report.
pub(super) enum ReportFile {
    /// A local file.
    File(PathBuf),
    /// An object; a local file in `folder` during the run.
    Object { location: StorageLocation, key: Key, folder: TempDir },
}

impl ReportFile {
    /// The report `name`, by default named after the run's locations; with a shard's name in it.
    pub(super) fn new(name: Option<&str>, locations: &Locations, shard: Option<Shard>) -> Result<Self, Failure> {
        let name = name.map_or_else(|| Self::default_name(locations), str::to_owned);
        let name = match shard {
            None => name,
            Some(shard) => match name.rsplit_once('.').filter(|(_, extension)| !extension.contains('/')) {
                Some((stem, extension)) => format!("{stem}.{}.{extension}", shard.name()),
                None => format!("{name}.{}", shard.name()),
            },
        };
        require_report_name(&name)?;
        Self::at(&name)
    }

    /// The name of the report of a run between these locations.
    fn default_name(locations: &Locations) -> String {
        let (source, destination) = (locations.source.address_prefix(), locations.destination.address_prefix());
        let hash = Sha256::digest(format!("{source}\n{destination}"));
        format!("backdrop-bulk-{hash:.8x}.jsonl")
    }

    /// A report by its path or address.
    pub(super) fn at(name: &str) -> Result<Self, Failure> {
        if !name.contains("://") {
            return Ok(Self::File(name.into()));
        }
        Self::object(name, StorageLocation::open)
    }

    /// The report of a run over HTTP at the address `name`; its account may use no other place.
    pub(super) fn confined(name: &str) -> Result<Self, Failure> {
        Self::object(name, StorageLocation::open_confined)
    }

    fn object(
        name: &str,
        open: impl FnOnce(&str, bool) -> Result<StorageLocation, StorageError>,
    ) -> Result<Self, Failure> {
        let location = open(name.rsplit_once('/').map_or(name, |(folder, _)| folder), true)?;
        let last = name.rsplit('/').next().unwrap_or_default();
        let key = Key::parse(format!("{}/{}", location.prefix, Key::from_url_path(last)?))?;
        Ok(Self::Object { location, key, folder: tempfile::tempdir()? })
    }

    /// Path of the local file to append to, with the rows of earlier runs.
    pub(super) async fn open(&self) -> Result<PathBuf, Failure> {
        if let Self::File(path) = self
            && let Some(folder) = path.parent()
        {
            tokio::fs::create_dir_all(folder).await?;
        }
        self.download().await
    }

    /// Path of the local file; downloads an object that exists.
    pub(super) async fn download(&self) -> Result<PathBuf, Failure> {
        let path = self.path();
        let Self::Object { location, key, .. } = self else { return Ok(path) };
        match location.store.get(key).await {
            Ok(response) => {
                let mut file = tokio::fs::File::create(&path).await?;
                let mut body = response.into_stream();
                while let Some(chunk) = body.try_next().await? {
                    file.write_all(&chunk).await?;
                }
                file.flush().await?;
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(path)
    }

    /// Bytes of an object that exists; 0 for any other report.
    pub(super) async fn object_bytes(&self) -> Result<u64, Failure> {
        let Self::Object { location, key, .. } = self else { return Ok(0) };
        match location.store.head(key).await {
            Ok(object) => Ok(object.size),
            Err(StoreError::NotFound { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Path of the local file.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Object { folder, .. } => folder.path().join("report.jsonl"),
        }
    }

    /// Uploads a report that is an object, and its CSV.
    pub(super) async fn close(&self) -> Result<(), Failure> {
        let Self::Object { location, key, .. } = self else { return Ok(()) };
        let path = self.path();
        upload(location, key, &path, "application/x-ndjson").await?;
        let csv = csv_path(Path::new(key.as_ref()));
        upload(location, &Key::parse(csv.to_string_lossy())?, &csv_path(&path), "text/csv").await
    }
}

/// Refuses the name of the table next to the report, and the name of a folder.
pub(super) fn require_report_name(name: &str) -> Result<(), Failure> {
    if name.ends_with(".csv") || name.ends_with('/') {
        let format = "the report is JSON Lines, such as report.jsonl; a .csv is written next to it";
        return Err(format!("{name}: {format}").into());
    }
    Ok(())
}

/// Uploads a file, a large one in parts, so that it is never in memory as a whole.
async fn upload(location: &StorageLocation, key: &Key, path: &Path, media_type: &'static str) -> Result<(), Failure> {
    let attributes = Attributes::from_iter([(Attribute::ContentType, media_type)]);
    if tokio::fs::metadata(path).await?.len() <= PART_BYTES as u64 {
        let bytes = Bytes::from(tokio::fs::read(path).await?);
        location.store.put_opts(key, bytes.into(), attributes.into()).await?;
        return Ok(());
    }
    let mut file = tokio::fs::File::open(path).await?;
    let parts = location.store.put_multipart_opts(key, attributes.into()).await?;
    let mut parts = WriteMultipart::new_with_chunk_size(parts, PART_BYTES);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).await? {
            0 => break,
            read => {
                parts.wait_for_capacity(2).await?;
                parts.put(Bytes::copy_from_slice(&buffer[..read]));
            }
        }
    }
    parts.finish().await?;
    Ok(())
}

impl fmt::Display for ReportFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Object { location, key, .. } => f.write_str(&location.address(key.as_ref())),
        }
    }
}
