//! Cache of pictures from image APIs, in an object store, bounded in bytes with least-recently-used eviction.
//!
//! One object per picture: the SHA-256 of its key and its picture, then the picture as received. An object whose
//! checksum does not match is deleted. Several daemons may share a location, and each reads pictures that the others
//! wrote. Each daemon has an index in memory, which orders its evictions. Before a write it lists the store if its
//! listing is older than [`RELIST`], so that the bound includes the others' objects. Eviction precedes writes.
//!
//! Pictures are written in the background, at most [`MAX_WRITES`] at once; further ones are not stored meanwhile. A
//! lookup finds a picture that is being written.
//!
//! A failing cache never fails a request: the picture is generated again, and a warning reports the failure. Failed
//! lookups are also counted.
//!
//! The built-in generator has no cache: prompt and size determine its output, and drawing takes about as long as
//! reading and decoding a file.

mod key;
mod lru;

pub(super) use key::CacheKey;

use crate::source::StorageLocation;
use crate::telemetry::{metrics, with_causes};
use bytes::Bytes;
use futures_util::TryStreamExt;
use key::CHECKSUM_BYTES;
use lru::LruIndex;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// Time limit of one operation of the store. Lookups, and the evictions that they cause, delay a request.
const TIMEOUT: Duration = Duration::from_secs(5);
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of concurrent writes. Their pictures stay in memory until written, up to 25 s if the store hangs.
const MAX_WRITES: usize = 4;
/// Age up to which a listing is used. Within it, several daemons together may exceed the bound by what they write.
const RELIST: Duration = Duration::from_secs(10 * 60);

/// A bounded cache of pictures in an object store.
#[derive(Debug)]
pub(super) struct Cache {
    objects: StorageLocation,
    max_picture_bytes: usize,
    index: Mutex<LruIndex>,
    writing: Mutex<HashMap<CacheKey, Bytes>>,
    /// Time of the last listing; locked while the store is listed.
    listed_at: AsyncMutex<Option<Instant>>,
    relist: Duration,
}

impl Cache {
    /// A cache of at most `max_bytes` in `objects`, for pictures of at most `max_picture_bytes`.
    pub(super) fn new(objects: StorageLocation, max_bytes: u64, max_picture_bytes: usize) -> Self {
        let (index, listed_at) = (Mutex::new(LruIndex::new(max_bytes)), AsyncMutex::default());
        Self { objects, max_picture_bytes, index, writing: Mutex::default(), listed_at, relist: RELIST }
    }

    pub(super) async fn get(&self, key: CacheKey) -> Option<Bytes> {
        let written_now = self.writing().get(&key).cloned();
        if written_now.is_some() {
            metrics::backdrop_looked_up("hit");
            return written_now;
        }
        let read = timeout(TIMEOUT, self.read(key)).await;
        match read.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(Some(Some(picture))) => {
                metrics::backdrop_looked_up("hit");
                let evicted = self.index().insert(key, (CHECKSUM_BYTES + picture.len()) as u64).unwrap_or_default();
                self.succeeded("delete", timeout(TIMEOUT, self.delete_all(evicted)).await);
                return Some(picture);
            }
            Ok(Some(None)) => {
                metrics::backdrop_looked_up("damaged");
                self.discard(key).await;
            }
            Ok(None) => {
                // Another daemon evicted it, or it was never written.
                self.index().remove(key);
                metrics::backdrop_looked_up("miss");
            }
            Err(error) => {
                metrics::backdrop_looked_up("failed");
                self.report_failure("read", &error);
            }
        }
        None
    }

    /// Reads the object of `key`: `None` without an object, `Some(None)` for a damaged one.
    async fn read(&self, key: CacheKey) -> Result<Option<Option<Bytes>>, Failure> {
        let got = match self.objects.store.get(&self.path(key)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if got.meta.size > (CHECKSUM_BYTES + self.max_picture_bytes) as u64 {
            return Ok(Some(None));
        }
        Ok(Some(verified(key, &got.bytes().await?)))
    }

    /// Stores a picture in the background, unless [`MAX_WRITES`] writes are in progress. A shutdown does not wait for
    /// writes: after a lost write the picture is generated again.
    pub(super) fn put_in_background(self: &Arc<Self>, key: CacheKey, picture: Bytes) {
        let mut writing = self.writing();
        if writing.contains_key(&key) {
            return;
        }
        if writing.len() >= MAX_WRITES {
            drop(writing);
            tracing::warn!(
                place = self.objects.address_prefix(),
                "backdrop cache is slow: a picture is not stored, since {MAX_WRITES} others are being written"
            );
            return;
        }
        writing.insert(key, picture.clone());
        drop(writing);
        let write = BackgroundWrite { cache: self.clone(), key, picture };
        tokio::spawn(write.run());
    }

    async fn put(&self, key: CacheKey, picture: &Bytes) {
        let written = match timeout(LIST_TIMEOUT, self.list()).await {
            Ok(Ok(())) => timeout(TIMEOUT, self.write(key, picture)).await,
            Ok(Err(error)) => Ok(Err(error)),
            Err(elapsed) => Err(elapsed),
        };
        if !self.succeeded("write", written) {
            self.index().remove(key);
        }
    }

    async fn write(&self, key: CacheKey, picture: &Bytes) -> Result<(), Failure> {
        let Some(evicted) = self.index().insert(key, (CHECKSUM_BYTES + picture.len()) as u64) else { return Ok(()) };
        self.delete_all(evicted).await?;
        let checksum = Bytes::copy_from_slice(&key.checksum(picture));
        self.objects.store.put(&self.path(key), PutPayload::from_iter([checksum, picture.clone()])).await?;
        Ok(())
    }

    /// Lists the store, unless the last listing is recent. Drops missing entries, adds new ones as just used, oldest
    /// first, and deletes objects beyond the bound.
    async fn list(&self) -> Result<(), Failure> {
        let mut listed_at = self.listed_at.lock().await;
        if listed_at.is_some_and(|at| at.elapsed() < self.relist) {
            return Ok(());
        }
        let listed: Vec<_> = self.objects.store.list(Some(&self.objects.prefix)).try_collect().await?;
        let own = |meta: object_store::ObjectMeta| {
            let key = CacheKey::from_name(meta.location.filename()?)?;
            // Objects in subfolders do not belong to this cache.
            (self.path(key) == meta.location).then_some((meta.last_modified, key, meta.size))
        };
        let mut own: Vec<_> = listed.into_iter().filter_map(own).collect();
        own.sort_unstable_by_key(|&(written, CacheKey(key), _)| (written, key));
        let evicted = self.index().reconcile(own.into_iter().map(|(_, key, bytes)| (key, bytes)));
        self.delete_all(evicted).await?;
        *listed_at = Some(Instant::now());
        Ok(())
    }

    /// Never held across an await; a poisoned map is still consistent.
    fn writing(&self) -> MutexGuard<'_, HashMap<CacheKey, Bytes>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never held across an await; a poisoned index is still consistent.
    fn index(&self) -> MutexGuard<'_, LruIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a damaged entry from the index and the store.
    async fn discard(&self, key: CacheKey) {
        self.index().remove(key);
        if let Ok(Err(error)) = timeout(TIMEOUT, self.delete(key)).await {
            self.report_failure("delete", &error);
        }
    }

    /// Deletes an object; a missing one is not an error.
    async fn delete(&self, key: CacheKey) -> Result<(), Failure> {
        match self.objects.store.delete(&self.path(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_all(&self, keys: Vec<CacheKey>) -> Result<(), Failure> {
        for key in keys {
            self.delete(key).await?;
        }
        Ok(())
    }

    fn path(&self, key: CacheKey) -> Path {
        self.objects.prefix.clone().join(key.name())
    }

    /// Whether an operation succeeded in time; reports a failure.
    fn succeeded(&self, operation: &'static str, outcome: Result<Result<(), Failure>, Elapsed>) -> bool {
        match outcome {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => self.report_failure(operation, &error),
            Err(elapsed) => self.report_failure(operation, &Box::from(elapsed)),
        }
        false
    }

    fn report_failure(&self, operation: &'static str, error: &Failure) {
        tracing::warn!(
            place = self.objects.address_prefix(),
            operation,
            error = with_causes(&**error),
            "backdrop cache failed"
        );
    }
}

/// A write in progress. Dropping it frees its slot among the [`MAX_WRITES`], whether the write ended or not.
struct BackgroundWrite {
    cache: Arc<Cache>,
    key: CacheKey,
    picture: Bytes,
}

impl BackgroundWrite {
    async fn run(self) {
        self.cache.put(self.key, &self.picture).await;
    }
}

impl Drop for BackgroundWrite {
    fn drop(&mut self) {
        self.cache.writing().remove(&self.key);
    }
}

type Failure = Box<dyn Error + Send + Sync>;

/// The picture of an object; `None` when its checksum does not match.
fn verified(key: CacheKey, object: &Bytes) -> Option<Bytes> {
    let (checksum, picture) = object.split_at_checked(CHECKSUM_BYTES)?;
    (key.checksum(picture) == *checksum).then(|| object.slice(CHECKSUM_BYTES..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path as FilePath;
    use std::{fs, io};

    fn cache(folder: &FilePath, max_bytes: u64) -> Cache {
        let url = url::Url::from_directory_path(folder).expect("an absolute path");
        Cache::new(StorageLocation::open(url.as_str(), true).expect("a folder"), max_bytes, 1000)
    }

    fn key(number: u32) -> CacheKey {
        CacheKey::of([number.to_string().as_str()])
    }

    fn picture(number: u8) -> Bytes {
        vec![number; 100].into()
    }

    fn files(folder: &FilePath) -> io::Result<usize> {
        Ok(fs::read_dir(folder)?.count())
    }

    #[tokio::test]
    async fn the_byte_bound_holds_even_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        // Three entries with their checksums.
        let first = cache(folder.path(), 3 * 132);
        for number in 0..3 {
            first.put(key(number), &picture(0)).await;
        }
        assert!(first.get(key(0)).await.is_some());
        first.put(key(3), &picture(3)).await;
        assert_eq!(files(folder.path()).unwrap(), 3);
        assert_eq!(first.get(key(1)).await, None, "the least recently used is evicted");
        assert!(first.get(key(0)).await.is_some());
        drop(first);
        fs::write(folder.path().join("notes.txt"), "not ours").unwrap();
        let smaller = cache(folder.path(), 132);
        smaller.put(key(9), &picture(9)).await;
        assert_eq!(files(folder.path()).unwrap(), 2, "one entry and the foreign file");
        assert!(smaller.get(key(9)).await.is_some());
    }

    #[tokio::test]
    async fn daemons_at_one_location_share_pictures_and_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let always_listed = || Cache { relist: Duration::ZERO, ..cache(folder.path(), 3 * 132) };
        let (first, second) = (always_listed(), always_listed());
        for number in 0..6 {
            let (writer, reader) = if number % 2 == 0 { (&first, &second) } else { (&second, &first) };
            assert_eq!(reader.get(key(number)).await, None);
            writer.put(key(number), &picture(number as u8)).await;
            assert_eq!(reader.get(key(number)).await, Some(picture(number as u8)));
            assert!(files(folder.path()).unwrap() <= 3, "the bound is that of both");
        }
        // After eviction by the other daemon it is a miss, and can be written again.
        assert_eq!(first.get(key(0)).await, None);
        first.put(key(0), &picture(0)).await;
        assert_eq!(second.get(key(0)).await, Some(picture(0)));
    }

    #[tokio::test]
    async fn a_damaged_entry_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 10_000);
        let path = |number| folder.path().join(key(number).name());
        for damage in [&b"short"[..], &[0; 132], &[]] {
            cache.put(key(1), &picture(1)).await;
            fs::write(path(1), damage).unwrap();
            assert_eq!(cache.get(key(1)).await, None);
            assert!(!path(1).exists());
        }
        // The checksum covers the key: another entry's file is refused.
        cache.put(key(1), &picture(1)).await;
        cache.put(key(2), &picture(2)).await;
        fs::copy(path(2), path(1)).unwrap();
        assert_eq!(cache.get(key(1)).await, None);
        // A deleted file, and a file larger than any picture.
        fs::remove_file(path(2)).unwrap();
        assert_eq!(cache.get(key(2)).await, None);
        cache.put(key(3), &picture(3)).await;
        fs::write(path(3), vec![0; 2000]).unwrap();
        assert_eq!(cache.get(key(3)).await, None);
        assert_eq!(files(folder.path()).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_failing_store_loses_only_the_picture() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        let _recording = ::metrics::set_default_local_recorder(&recorder);
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder.path().join("there"), 10_000);
        fs::remove_dir(folder.path().join("there")).unwrap();
        fs::write(folder.path().join("there"), "a file where the folder was").unwrap();
        cache.put(key(1), &picture(1)).await;
        assert!(!exporter.render().contains("lookups"), "a failed write is no lookup: {}", exporter.render());
        assert_eq!(cache.get(key(1)).await, None);
        let counted = "backdrop_backdrop_lookups_total{outcome=\"failed\"} 1";
        assert!(exporter.render().contains(counted), "{}", exporter.render());
        // The next use lists the store again.
        fs::remove_file(folder.path().join("there")).unwrap();
        fs::create_dir(folder.path().join("there")).unwrap();
        cache.put(key(1), &picture(1)).await;
        assert_eq!(cache.get(key(1)).await, Some(picture(1)));
    }

    #[tokio::test]
    async fn pictures_are_written_in_the_background_a_few_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Arc::new(cache(folder.path(), 10_000));
        // Every write waits for this lock, as for a store that hangs.
        let hanging = cache.listed_at.lock().await;
        for number in 0..=MAX_WRITES as u8 {
            cache.put_in_background(key(number.into()), picture(number));
            cache.put_in_background(key(number.into()), picture(number));
        }
        tokio::task::yield_now().await;
        assert_eq!(files(folder.path()).unwrap(), 0);
        for number in 0..MAX_WRITES as u8 {
            assert_eq!(cache.get(key(number.into())).await, Some(picture(number)), "found while it is written");
        }
        assert_eq!(cache.get(key(MAX_WRITES as u32)).await, None, "one more than are written at once");
        drop(hanging);
        let finished = async {
            while !cache.writing().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(30), finished).await.expect("the writes finish");
        assert_eq!(files(folder.path()).unwrap(), MAX_WRITES);
        assert_eq!(cache.get(key(0)).await, Some(picture(0)));
        cache.put_in_background(key(9), picture(9));
        assert_eq!(cache.writing().len(), 1, "their places are free again");
    }
}
