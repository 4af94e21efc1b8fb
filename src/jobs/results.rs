//! Where finished files wait to be fetched, and the addresses that open them.
//!
//! Without `jobs.results` they lie in the folder `results` of the data directory, and the daemon serves them itself
//! under `/results/`: a path that it has signed opens one file until one moment, without a key. With an object store the
//! provider signs. A result is put there whole or not at all.

use super::secret::{DaemonSecret, hmac, is_signed, sync_folder};
use super::{Job, Keep, KeepError};
use crate::recipe::VideoFormat;
use crate::source::{StorageError, StorageLocation};
use crate::store::{UnixSeconds, create_private_dir, make_private};
use crate::telemetry::with_causes;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, stream};
use http::Method;
use object_store::signer::Signer;
use object_store::{Attribute, Attributes, ObjectStoreExt, PutMultipartOptions, WriteMultipart};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;
use url::Url;

/// The folder in the data directory.
const FOLDER: &str = "results";

/// What the daemon's own addresses begin with.
pub const RESULTS_PATH: &str = "/results/";

/// Bytes of one part of an upload; a store takes ten thousand parts.
const PART_BYTES: usize = 8 << 20;

/// Parts on their way at once.
const PARTS_AT_ONCE: usize = 4;

/// Bytes read from a file at once.
const PIECE_BYTES: usize = 256 << 10;

/// Finished files. Clones share everything.
#[derive(Clone, Debug)]
pub struct Results(Arc<Place>);

#[derive(Debug)]
enum Place {
    /// A folder of this machine, and the key that signs paths into it.
    Folder { folder: PathBuf, key: Key },
    /// A store that signs for itself.
    Store { objects: StorageLocation, signer: Arc<dyn Signer> },
}

/// Signs paths; never shown.
struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What opens a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultUrl {
    /// The whole address, signed by the provider.
    Whole(String),
    /// Path and query on this daemon.
    Own(String),
}

/// A result to be read.
#[derive(Debug)]
pub struct StoredResult {
    file: File,
    /// Its size in bytes.
    pub bytes: u64,
    /// What it is.
    pub media_type: &'static str,
}

/// Why something could not be done with a result.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// `jobs.results` names no store that can be used.
    #[error("jobs.results: {0}")]
    Place(#[from] StorageError),
    /// A file or folder of this machine, or the finished file itself.
    #[error("{what}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The store refused or failed.
    #[error("the store of results failed")]
    Store(#[from] object_store::Error),
    /// A name that no result has.
    #[error("no result is called `{0}`")]
    Name(String),
}

impl Place {
    fn of(url: &str, secret: &DaemonSecret) -> Result<Self, StorageError> {
        let objects = StorageLocation::open(url, true)?;
        if let Some(signer) = objects.signer.clone() {
            return Ok(Self::Store { objects, signer });
        }
        let folder = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
        let folder = folder.ok_or_else(|| StorageError::Folder { url: url.to_owned() })?;
        Ok(Self::folder(folder, secret))
    }

    fn folder(folder: PathBuf, secret: &DaemonSecret) -> Self {
        Self::Folder { folder, key: Key(secret.derive("result URLs")) }
    }
}

impl Results {
    /// Opens the place that `jobs.results` names, or the folder in the data directory. Nothing is asked of a remote
    /// store yet. Blocks; meant for start-up.
    ///
    /// # Errors
    /// [`ResultsError::Place`] and [`ResultsError::Io`].
    pub fn open(url: Option<&str>, data_dir: &Path, secret: &DaemonSecret) -> Result<Self, ResultsError> {
        let place = match url {
            Some(url) => Place::of(url, secret)?,
            None => {
                let folder = data_dir.join(FOLDER);
                let made = create_private_dir(&folder).and_then(|()| make_private(&folder));
                made.map_err(|source| cannot(format!("{} cannot be made", folder.display()), source))?;
                Place::folder(folder, secret)
            }
        };
        Ok(Self(Arc::new(place)))
    }

    /// Puts the finished file of a job there; gives the name of the result. It is durable when this returns. Doing it
    /// again replaces it.
    ///
    /// # Errors
    /// Every kind but [`ResultsError::Place`].
    pub async fn put(&self, job_id: &str, file: &Path, media_type: &str) -> Result<String, ResultsError> {
        let format = VideoFormat::ALL.iter().find(|format| format.media_type() == media_type);
        let format = format.ok_or_else(|| ResultsError::Name(format!("{job_id} of type {media_type}")))?;
        let object = object_of(job_id, *format);
        judge(&object)?;
        match &*self.0 {
            Place::Folder { folder, .. } => {
                let (from, folder, to) = (file.to_owned(), folder.clone(), folder.join(&object));
                let kept = spawn_blocking(move || keep(&from, &folder, &to)).await;
                let kept = kept.unwrap_or_else(|error| Err(io::Error::other(error)));
                kept.map_err(|source| cannot("the result could not be kept".to_owned(), source))?;
            }
            Place::Store { objects, .. } => upload(objects, &object, file, format.media_type()).await?,
        }
        Ok(object)
    }

    /// The address that opens a result until `expires_at` and not a second longer.
    ///
    /// # Errors
    /// [`ResultsError::Store`] when the provider's credentials cannot sign.
    pub async fn url(
        &self,
        object: &str,
        now: UnixSeconds,
        expires_at: UnixSeconds,
    ) -> Result<ResultUrl, ResultsError> {
        judge(object)?;
        match &*self.0 {
            Place::Folder { key: Key(key), .. } => {
                let signature = URL_SAFE_NO_PAD.encode(hmac(key, &pieces(object, &expires_at.0.to_string())));
                let expires = expires_at.0;
                Ok(ResultUrl::Own(format!("{RESULTS_PATH}{object}?expires={expires}&signature={signature}")))
            }
            Place::Store { objects, signer } => {
                let left = u64::try_from(expires_at.0.saturating_sub(now.0)).unwrap_or(0).max(1);
                let path = objects.prefix.clone().join(object);
                let url = signer.signed_url(Method::GET, &path, Duration::from_secs(left)).await?;
                Ok(ResultUrl::Whole(url.into()))
            }
        }
    }

    /// Opens a result by the path that [`Results::url`] has signed; nothing when the signature is not that of the name
    /// and the time, the time is over, or the file is gone. Which of them it is nobody is told.
    ///
    /// # Errors
    /// [`ResultsError::Io`].
    pub async fn open_signed(
        &self,
        object: &str,
        query: &str,
        now: UnixSeconds,
    ) -> Result<Option<StoredResult>, ResultsError> {
        let Place::Folder { folder, key: Key(key) } = &*self.0 else { return Ok(None) };
        let (Some(format), Some((expires, signature))) = (format_of(object), signed_part(query)) else {
            return Ok(None);
        };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return Ok(None) };
        // The number is read after it was checked: another notation of it has another signature.
        let in_time = || expires.parse::<i64>().is_ok_and(|expires| now.0 < expires);
        if !is_signed(key, &pieces(object, expires), &signature) || !in_time() {
            return Ok(None);
        }
        let path = folder.join(object);
        let opened = spawn_blocking(move || {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok(StoredResult { file, bytes, media_type: format.media_type() })
        });
        match opened.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(result) => Ok(Some(result)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("a result cannot be opened".to_owned(), error)),
        }
    }

    /// Deletes a result; that there is none is as good.
    ///
    /// # Errors
    /// [`ResultsError::Io`] and [`ResultsError::Store`].
    pub async fn delete(&self, object: &str) -> Result<(), ResultsError> {
        judge(object)?;
        match &*self.0 {
            Place::Folder { folder, .. } => match tokio::fs::remove_file(folder.join(object)).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(cannot("a result cannot be deleted".to_owned(), error))
                }
                Ok(()) | Err(_) => Ok(()),
            },
            Place::Store { objects, .. } => match objects.store.delete(&objects.prefix.clone().join(object)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }
}

impl Keep for Results {
    fn put<'a>(
        &'a self,
        job_id: &'a str,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<String, KeepError>> {
        Box::pin(async move { Ok(Self::put(self, job_id, file, media_type).await?) })
    }

    fn delete<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), KeepError>> {
        Box::pin(async move { Ok(Self::delete(self, object).await?) })
    }

    fn discard<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), KeepError>> {
        Box::pin(async move {
            let format = VideoFormat::ALL.into_iter().find(|format| format.name() == job.format);
            match format {
                Some(format) => Ok(Self::delete(self, &object_of(&job.id, format)).await?),
                // Of a format that is not known here nothing was put here.
                None => Ok(()),
            }
        })
    }

    fn folder(&self) -> Option<&Path> {
        match &*self.0 {
            Place::Folder { folder, .. } => Some(folder),
            Place::Store { .. } => None,
        }
    }
}

impl From<ResultsError> for KeepError {
    fn from(error: ResultsError) -> Self {
        Self(with_causes(&error))
    }
}

impl StoredResult {
    /// The bytes from `first` on, `count` of them, piece by piece as they are taken; nothing is read ahead.
    pub fn read(self, first: u64, count: u64) -> impl Stream<Item = io::Result<Bytes>> + Send {
        let start = Some((self.file, first, count));
        stream::try_unfold(start, async |reading| {
            let Some((mut file, at, left)) = reading.filter(|(.., left)| *left > 0) else { return Ok(None) };
            let read = spawn_blocking(move || {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
                let mut piece = Vec::with_capacity(most);
                file.seek(SeekFrom::Start(at))?;
                (&mut file).take(most as u64).read_to_end(&mut piece)?;
                if piece.is_empty() {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
                Ok((file, Bytes::from(piece)))
            });
            let (file, piece) = read.await.map_err(io::Error::other)??;
            let read = piece.len() as u64;
            Ok(Some((piece, Some((file, at + read, left - read)))))
        })
    }
}

/// Takes a finished file into the folder, without copying it where both are on one file system. The file itself stays:
/// until the job is over, its folder must be able to bring it forth again.
fn keep(from: &Path, folder: &Path, to: &Path) -> io::Result<()> {
    // A name of nobody's: the link is made under it and renamed, which replaces what a start before has left.
    let name = NamedTempFile::new_in(folder)?.into_temp_path();
    fs::remove_file(&name)?;
    if fs::hard_link(from, &name).is_err() {
        fs::copy(from, &name)?;
    }
    make_private(&name)?;
    File::open(&name)?.sync_all()?;
    let temporary = name.to_path_buf();
    name.persist(to).map_err(|error| error.error)?;
    // Two names of one file are left as they are by a rename (POSIX): then what is kept is this file already.
    if let Err(error) = fs::remove_file(temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    sync_folder(folder)
}

/// Sends a file to a store, part by part.
async fn upload(
    objects: &StorageLocation,
    object: &str,
    file: &Path,
    media_type: &'static str,
) -> Result<(), ResultsError> {
    let unreadable = |source| cannot("the finished file cannot be read".to_owned(), source);
    let attributes = Attributes::from_iter([
        (Attribute::ContentType, media_type.to_owned()),
        (Attribute::ContentDisposition, disposition(object)),
    ]);
    let mut file = tokio::fs::File::open(file).await.map_err(unreadable)?;
    let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
    let path = objects.prefix.clone().join(object);
    let upload = objects.store.put_multipart_opts(&path, options).await?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = match tokio::io::AsyncReadExt::read(&mut file, &mut piece).await {
            Ok(read) => read,
            Err(error) => {
                // What is there already would be paid for until somebody notices.
                let _ = upload.abort().await;
                return Err(unreadable(error));
            }
        };
        if read == 0 {
            break;
        }
        piece.truncate(read);
        upload.wait_for_capacity(PARTS_AT_ONCE).await?;
        upload.put(piece.into());
    }
    upload.finish().await?;
    Ok(())
}

/// The value of `content-disposition`: to be saved, under its own name.
#[must_use]
pub fn disposition(object: &str) -> String {
    format!("attachment; filename=\"{object}\"")
}

fn cannot(what: String, source: io::Error) -> ResultsError {
    ResultsError::Io { what, source }
}

/// What is signed of a path. A name has no line break, so two pairs never read the same.
fn pieces<'a>(object: &'a str, expires: &'a str) -> [&'a [u8]; 3] {
    [object.as_bytes(), b"\n", expires.as_bytes()]
}

/// `expires` and `signature`, once each; other parameters, such as one that keeps caches from answering, are ignored.
fn signed_part(query: &str) -> Option<(&str, &str)> {
    let only = |name: &str| {
        let mut values = query.split('&').filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        values.next().filter(|_| values.next().is_none())
    };
    only("expires").zip(only("signature"))
}

/// Refuses what is no name of a result; one that was made here never is.
fn judge(object: &str) -> Result<(), ResultsError> {
    format_of(object).map(|_| ()).ok_or_else(|| ResultsError::Name(object.to_owned()))
}

/// The name of what a job makes.
fn object_of(job_id: &str, format: VideoFormat) -> String {
    format!("{job_id}.{}", format.extension())
}

/// `name.extension`; the name has letters, digits and `_` only, so that it cannot lead out of the folder.
fn format_of(object: &str) -> Option<VideoFormat> {
    let (name, extension) = object.split_once('.')?;
    let plain = (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    VideoFormat::ALL.into_iter().find(|format| plain && format.extension() == extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::TryStreamExt;
    use object_store::aws::AmazonS3Builder;
    use object_store::memory::InMemory;
    use tempfile::TempDir;

    const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
    const LATER: UnixSeconds = UnixSeconds(NOW.0 + 3600);

    fn opened() -> (TempDir, Results) {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = DaemonSecret::open(folder.path()).expect("a new one");
        let results = Results::open(None, folder.path(), &secret).expect("a new folder");
        (folder, results)
    }

    async fn kept(folder: &TempDir, results: &Results, content: &[u8]) -> String {
        let file = folder.path().join("finished");
        fs::write(&file, content).expect("written");
        results.put("job_1", &file, "video/webm").await.expect("kept")
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_result_can_be_read_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let within = folder.path().join(FOLDER);
        fs::create_dir(&within).expect("a new folder");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        fs::set_permissions(&within, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let secret = DaemonSecret::open(folder.path()).expect("a new one");
        let results = Results::open(None, folder.path(), &secret).expect("it is there");
        let file = folder.path().join("finished");
        fs::write(&file, "x").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let object = results.put("job_1", &file, "video/webm").await.expect("kept");
        assert_eq!((mode(&within), mode(&within.join(object))), (0o700, 0o600));
    }

    async fn address(results: &Results, object: &str) -> String {
        match results.url(object, NOW, LATER).await.expect("signed") {
            ResultUrl::Own(path) => path.strip_prefix("/results/").expect("our path").to_owned(),
            ResultUrl::Whole(url) => panic!("{url}"),
        }
    }

    async fn read(results: &Results, address: &str, now: UnixSeconds) -> Option<Vec<u8>> {
        let (object, query) = address.split_once('?')?;
        let result = results.open_signed(object, query, now).await.expect("readable")?;
        let bytes = result.bytes;
        let pieces: Vec<Bytes> = result.read(0, bytes).try_collect().await.expect("readable");
        Some(pieces.concat())
    }

    #[tokio::test]
    async fn a_result_opens_with_its_address_until_its_time_is_over() {
        let (folder, results) = opened();
        let content = vec![7; 3 * PIECE_BYTES + 5];
        let object = kept(&folder, &results, &content).await;
        assert_eq!(object, "job_1.webm");
        let address = address(&results, &object).await;
        assert_eq!(read(&results, &address, NOW).await.as_deref(), Some(content.as_slice()));
        assert!(read(&results, &address, UnixSeconds(LATER.0 - 1)).await.is_some());
        assert_eq!(read(&results, &address, LATER).await, None);
        results.delete(&object).await.expect("deleted");
        assert_eq!(read(&results, &address, NOW).await, None);
        results.delete(&object).await.expect("nothing to delete");
    }

    #[tokio::test]
    async fn an_address_that_was_changed_anywhere_opens_nothing() {
        let (folder, results) = opened();
        let object = kept(&folder, &results, b"a clip").await;
        fs::write(folder.path().join("results/job_2.webm"), b"another").expect("written");
        let right = address(&results, &object).await;
        assert!(read(&results, &right, NOW).await.is_some());
        for at in 0..right.len() {
            for byte in [b'A', b'0', b'&'] {
                let mut wrong = right.clone().into_bytes();
                if wrong[at] != byte {
                    wrong[at] = byte;
                    let wrong = String::from_utf8(wrong).expect("ASCII");
                    assert_eq!(read(&results, &wrong, NOW).await, None, "{wrong}");
                }
            }
        }
        let (_, query) = right.split_once('?').expect("a query");
        let signature = query.split_once("&signature=").expect("a signature").1;
        for wrong in [
            format!("job_2.webm?{query}"),
            format!("job_1.webm?expires={}&signature={signature}", LATER.0 + 1),
            format!("job_1.webm?expires=+{}&signature={signature}", LATER.0),
            format!("job_1.webm?expires=0{}&signature={signature}", LATER.0),
            format!("job_1.webm?{query}&expires={}", LATER.0),
            format!("job_1.webm?{query}="),
            "job_1.webm?".to_owned(),
            format!("../secret?{query}"),
        ] {
            assert_eq!(read(&results, &wrong, NOW).await, None, "{wrong}");
        }
        for same in [format!("job_1.webm?signature={signature}&expires={}", LATER.0), format!("job_1.webm?{query}&x=1")]
        {
            assert_eq!(read(&results, &same, NOW).await.as_deref(), Some(&b"a clip"[..]), "{same}");
        }
        let (_other, others) = opened();
        assert_eq!(read(&others, &right, NOW).await, None, "another daemon's");
    }

    #[tokio::test]
    async fn a_finished_file_stays_where_it_is_and_may_be_kept_again() {
        let (folder, results) = opened();
        kept(&folder, &results, b"first").await;
        let object = kept(&folder, &results, b"second").await;
        assert_eq!(fs::read(folder.path().join("finished")).expect("there"), b"second");
        assert_eq!(read(&results, &address(&results, &object).await, NOW).await.as_deref(), Some(&b"second"[..]));
        let names: Vec<_> = fs::read_dir(folder.path().join("results")).expect("a folder").collect();
        assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
    }

    #[tokio::test]
    async fn parts_are_read_and_a_file_that_shrank_is_noticed() {
        let (folder, results) = opened();
        let content: Vec<u8> = (0..2 * PIECE_BYTES + 9).map(|at| (at % 251) as u8).collect();
        let object = kept(&folder, &results, &content).await;
        let address = address(&results, &object).await;
        let (_, query) = address.split_once('?').expect("a query");
        let open = async || results.open_signed(&object, query, NOW).await.expect("readable").expect("there");
        for (first, count) in [(0, 1), (5, PIECE_BYTES), (PIECE_BYTES - 1, 2), (content.len() - 3, 3), (9, 0)] {
            let pieces: Vec<Bytes> =
                open().await.read(first as u64, count as u64).try_collect().await.expect("readable");
            assert_eq!(pieces.concat(), content[first..first + count], "{first} {count}");
        }
        let beyond: Result<Vec<Bytes>, _> = open().await.read(0, content.len() as u64 + 1).try_collect().await;
        assert_eq!(beyond.expect_err("it ends").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_name_that_no_result_has_is_refused() {
        let (folder, results) = opened();
        for object in ["", "job_1", "job_1.exe", "../secret", "a/b.webm", ".webm", "job-1.webm", "job_1.webm.webm"] {
            assert!(matches!(results.delete(object).await, Err(ResultsError::Name(_))), "{object}");
            assert!(matches!(results.url(object, NOW, LATER).await, Err(ResultsError::Name(_))), "{object}");
        }
        let file = folder.path().join("x");
        fs::write(&file, b"x").expect("written");
        assert!(results.put("job_1", &file, "text/html").await.is_err());
        assert!(results.put("../job", &file, "video/webm").await.is_err());
        let missing = results.put("job_1", &folder.path().join("missing"), "video/webm").await;
        assert!(matches!(missing, Err(ResultsError::Io { .. })), "{missing:?}");
    }

    /// A store in memory, whose addresses are those of S3: signing asks nobody.
    fn remote() -> (Arc<InMemory>, Results) {
        // Installed already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Arc::new(InMemory::new());
        let signer = AmazonS3Builder::new()
            .with_bucket_name("clips")
            .with_region("eu-central-1")
            .with_access_key_id("AKIAEXAMPLE")
            .with_secret_access_key("secret")
            .build()
            .expect("a store");
        let signer: Arc<dyn Signer> = Arc::new(signer);
        let objects = StorageLocation {
            store: store.clone(),
            prefix: "made/here".into(),
            signer: Some(signer.clone()),
            root: "s3://clips".into(),
            has_attributes: true,
        };
        (store, Results(Arc::new(Place::Store { objects, signer })))
    }

    #[tokio::test]
    async fn a_provider_signs_for_what_is_left_of_the_hour() {
        let (_, results) = remote();
        let url = results.url("job_1.webm", UnixSeconds(LATER.0 - 90), LATER).await.expect("signed");
        let ResultUrl::Whole(url) = url else { panic!("{url:?}") };
        assert!(url.contains("/made/here/job_1.webm?") && url.contains("X-Amz-Expires=90"), "{url}");
        let address = "job_1.webm?expires=1&signature=x";
        assert_eq!(read(&results, address, UnixSeconds(0)).await, None, "the daemon serves none of it");
    }

    #[tokio::test]
    async fn a_store_gets_the_file_in_parts_with_its_type_and_its_name() {
        let (store, results) = remote();
        let folder = tempfile::tempdir().expect("a folder");
        let content: Vec<u8> = (0..PART_BYTES + PIECE_BYTES + 9).map(|at| (at % 251) as u8).collect();
        let object = kept(&folder, &results, &content).await;
        let there = store.get(&"made/here/job_1.webm".into()).await.expect("it is there");
        assert_eq!(there.attributes.get(&Attribute::ContentType).expect("a type").as_ref(), "video/webm");
        let saved = there.attributes.get(&Attribute::ContentDisposition).expect("a name");
        assert_eq!(saved.as_ref(), "attachment; filename=\"job_1.webm\"");
        assert!(there.bytes().await.expect("readable") == content);
        results.delete(&object).await.expect("deleted");
        assert!(store.head(&"made/here/job_1.webm".into()).await.is_err());
        results.delete(&object).await.expect("nothing to delete");
    }

    #[tokio::test]
    async fn a_folder_may_be_somewhere_else_and_what_is_no_place_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = DaemonSecret::open(folder.path()).expect("a new one");
        let place = Url::from_file_path(folder.path().join("elsewhere")).expect("a path");
        let results = Results::open(Some(place.as_str()), folder.path(), &secret).expect("a folder");
        let object = kept(&folder, &results, b"a clip").await;
        assert!(folder.path().join("elsewhere").join(&object).is_file());
        assert!(Results::open(Some("ftp://example.org"), folder.path(), &secret).is_err());
    }
}
