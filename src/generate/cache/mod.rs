//! Cache of pictures from image APIs, in an object store, bounded in bytes with least-recently-used eviction.
//!
//! One object per picture: the SHA-256 of its key and its picture, then the picture as received. An object whose checksum
//! does not match is deleted. The store is listed once, at the first use, oldest first; from then on an index in memory
//! is authoritative, so a location must not be shared by two daemons. Eviction precedes every write.
//!
//! A failing cache never fails a request: the picture is generated again, and a warning and a metric report the failure.
//!
//! The built-in generator has no cache: its output follows from prompt and size, and drawing takes about as long as reading
//! and decoding a file would.

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
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// How long one lookup or one write may delay a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long listing the store may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// A bounded cache of pictures in an object store.
#[derive(Debug)]
pub(super) struct Cache {
    objects: StorageLocation,
    max_picture_bytes: usize,
    max_bytes: u64,
    index: OnceCell<Mutex<LruIndex>>,
}

impl Cache {
    /// A cache of at most `max_bytes` in `objects`, of pictures of at most `max_picture_bytes`.
    pub(super) const fn new(objects: StorageLocation, max_bytes: u64, max_picture_bytes: usize) -> Self {
        Self { objects, max_picture_bytes, max_bytes, index: OnceCell::const_new() }
    }

    /// The cached picture of `key`.
    pub(super) async fn get(&self, key: CacheKey) -> Option<Bytes> {
        let read = async {
            if !lock(self.index().await?).touch(key) {
                return Ok(None);
            }
            let path = self.path(key);
            match self.objects.store.get(&path).await {
                Ok(got) if got.meta.size > (CHECKSUM_BYTES + self.max_picture_bytes) as u64 => Ok(Some(None)),
                Ok(got) => Ok(Some(verified(key, &got.bytes().await?))),
                // Deleted from outside.
                Err(object_store::Error::NotFound { .. }) => Ok(Some(None)),
                Err(error) => Err(error.into()),
            }
        };
        match timeout(TIMEOUT.max(LIST_TIMEOUT), read).await {
            Ok(Ok(Some(Some(picture)))) => {
                metrics::backdrop_looked_up("hit");
                return Some(picture);
            }
            Ok(Ok(Some(None))) => {
                metrics::backdrop_looked_up("damaged");
                self.discard(key).await;
            }
            Ok(Ok(None)) => metrics::backdrop_looked_up("miss"),
            Ok(Err(error)) => self.report_failure("read", &error),
            Err(elapsed) => self.report_failure("read", &Box::from(elapsed)),
        }
        None
    }

    /// Stores a picture.
    pub(super) async fn put(&self, key: CacheKey, picture: &Bytes) {
        let write = async {
            let index = self.index().await?;
            let Some(evicted) = lock(index).insert(key, (CHECKSUM_BYTES + picture.len()) as u64) else { return Ok(()) };
            for old in evicted {
                self.delete(old).await?;
            }
            let checksum = Bytes::copy_from_slice(&key.checksum(picture));
            let written =
                self.objects.store.put(&self.path(key), PutPayload::from_iter([checksum, picture.clone()])).await;
            written.map(|_| ()).map_err(Failure::from)
        };
        let error = match timeout(TIMEOUT, write).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(elapsed) => Box::from(elapsed),
        };
        self.report_failure("write", &error);
        if let Some(index) = self.index.get() {
            lock(index).remove(key);
        }
    }

    async fn index(&self) -> Result<&Mutex<LruIndex>, Failure> {
        self.index.get_or_try_init(|| async { Ok(Mutex::new(self.load_index().await?)) }).await
    }

    /// Indexes the stored objects, oldest first, and deletes those beyond the bound.
    async fn load_index(&self) -> Result<LruIndex, Failure> {
        let prefix = &self.objects.prefix;
        let listed: Vec<_> = self.objects.store.list(Some(prefix)).try_collect().await?;
        let own = |meta: object_store::ObjectMeta| {
            let key = CacheKey::from_name(meta.location.filename()?)?;
            // Objects in subfolders are not of this cache.
            (self.path(key) == meta.location).then_some((meta.last_modified, key, meta.size))
        };
        let mut own: Vec<_> = listed.into_iter().filter_map(own).collect();
        own.sort_unstable_by_key(|&(written, CacheKey(key), _)| (written, key));
        let mut index = LruIndex::new(self.max_bytes);
        for (_, key, bytes) in own {
            match index.insert(key, bytes) {
                Some(evicted) => {
                    for old in evicted {
                        self.delete(old).await?;
                    }
                }
                None => self.delete(key).await?,
            }
        }
        Ok(index)
    }

    /// Removes a damaged entry from the index and the store.
    async fn discard(&self, key: CacheKey) {
        if let Some(index) = self.index.get() {
            lock(index).remove(key);
        }
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

    fn path(&self, key: CacheKey) -> Path {
        self.objects.prefix.clone().join(key.name())
    }

    fn report_failure(&self, operation: &'static str, error: &Failure) {
        metrics::backdrop_looked_up("failed");
        tracing::warn!(
            place = self.objects.address_prefix(),
            operation,
            error = with_causes(&**error),
            "backdrop cache failed"
        );
    }
}

type Failure = Box<dyn Error + Send + Sync>;

/// The picture of an object, when its checksum matches.
fn verified(key: CacheKey, object: &Bytes) -> Option<Bytes> {
    let (checksum, picture) = object.split_at_checked(CHECKSUM_BYTES)?;
    (key.checksum(picture) == *checksum).then(|| object.slice(CHECKSUM_BYTES..))
}

/// Never held across an await; a poisoned index is still consistent.
fn lock(index: &Mutex<LruIndex>) -> MutexGuard<'_, LruIndex> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn a_stored_picture_is_found_again_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let first = cache(folder.path(), 10_000);
        assert_eq!(first.get(key(1)).await, None);
        first.put(key(1), &picture(1)).await;
        assert_eq!(first.get(key(1)).await, Some(picture(1)));
        assert_eq!(cache(folder.path(), 10_000).get(key(1)).await, Some(picture(1)));
        assert_eq!(cache(folder.path(), 10_000).get(key(2)).await, None);
    }

    #[tokio::test]
    async fn the_byte_bound_holds_also_after_a_restart() {
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
        assert_eq!(smaller.get(key(9)).await, None);
        assert_eq!(files(folder.path()).unwrap(), 2, "one entry and the foreign file");
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
        // A deleted file, and one larger than any picture.
        fs::remove_file(path(2)).unwrap();
        assert_eq!(cache.get(key(2)).await, None);
        cache.put(key(3), &picture(3)).await;
        fs::write(path(3), vec![0; 2000]).unwrap();
        assert_eq!(cache.get(key(3)).await, None);
        assert_eq!(files(folder.path()).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_failing_store_only_loses_the_picture() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder.path().join("there"), 10_000);
        fs::remove_dir(folder.path().join("there")).unwrap();
        fs::write(folder.path().join("there"), "a file where the folder was").unwrap();
        assert_eq!(cache.get(key(1)).await, None);
        cache.put(key(1), &picture(1)).await;
        assert_eq!(cache.get(key(1)).await, None);
        // The next use lists the store again.
        fs::remove_file(folder.path().join("there")).unwrap();
        fs::create_dir(folder.path().join("there")).unwrap();
        cache.put(key(1), &picture(1)).await;
        assert_eq!(cache.get(key(1)).await, Some(picture(1)));
    }
}
