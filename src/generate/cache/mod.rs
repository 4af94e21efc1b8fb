//! Pictures of upstreams, kept for the next request that asks for the same.
//!
//! An object for each: the SHA-256 of its key and its picture, then the picture as it came. What does not fit its sum is
//! not believed, and deleted. Which objects there are is listed once, at the first use, oldest first; from then on the
//! daemon knows, so that no place is for two daemons. The bound is kept by deleting what was not asked for the longest
//! before something new is written.
//!
//! A cache that cannot be reached costs pictures anew, and is no reason to fail: the log and the metrics tell.
//!
//! The built-in generator has none: what it draws follows from the prompt and the size alone, and drawing takes about as
//! long as reading and decoding a file would.

mod index;

use crate::source::StorageLocation;
use crate::telemetry::{metrics, with_causes};
use bytes::Bytes;
use futures_util::TryStreamExt;
use index::Index;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// What the names of our objects end with. Other objects are left alone.
const SUFFIX: &str = ".picture";
/// Bytes before the picture.
const SUM: usize = 32;
/// How long one look or one write may hold up a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long listing a place may take.
const LISTING: Duration = Duration::from_secs(20);

/// What a picture is known by: a SHA-256 of all that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CacheKey(pub(super) [u8; 32]);

impl CacheKey {
    /// The key of what depends on these texts, told apart by their lengths.
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Self(hash.finalize().into())
    }

    fn name(self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + SUFFIX
    }

    fn named(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(SUFFIX).filter(|digits| digits.len() == 64 && digits.is_ascii())?;
        let mut key = [0; 32];
        for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        // The one way to write it: `from_str_radix` takes signs and capitals too.
        Some(Self(key)).filter(|key| key.name() == name)
    }

    fn sum_with(self, picture: &[u8]) -> [u8; SUM] {
        Sha256::new().chain_update(self.0).chain_update(picture).finalize().into()
    }
}

/// A place with pictures in it.
#[derive(Debug)]
pub(super) struct Cache {
    objects: StorageLocation,
    most_picture: usize,
    bound: u64,
    index: OnceCell<Mutex<Index>>,
}

impl Cache {
    /// `bound` bytes in `objects`, no picture larger than `most_picture`.
    pub(super) const fn new(objects: StorageLocation, bound: u64, most_picture: usize) -> Self {
        Self { objects, most_picture, bound, index: OnceCell::const_new() }
    }

    /// The picture of that key, if there is one.
    pub(super) async fn get(&self, key: CacheKey) -> Option<Bytes> {
        let found = async {
            if !lock(self.index().await?).touch(key) {
                return Ok(None);
            }
            let place = self.place(key);
            match self.objects.store.get(&place).await {
                Ok(got) if got.meta.size > (SUM + self.most_picture) as u64 => Ok(Some(None)),
                Ok(got) => Ok(Some(checked(key, &got.bytes().await?))),
                // Somebody has tidied up.
                Err(object_store::Error::NotFound { .. }) => Ok(Some(None)),
                Err(error) => Err(error.into()),
            }
        };
        match timeout(PATIENCE.max(LISTING), found).await {
            Ok(Ok(Some(Some(picture)))) => {
                metrics::backdrop_looked_up("hit");
                return Some(picture);
            }
            Ok(Ok(Some(None))) => {
                metrics::backdrop_looked_up("damaged");
                self.drop_entry(key).await;
            }
            Ok(Ok(None)) => metrics::backdrop_looked_up("miss"),
            Ok(Err(error)) => self.complain("read", &error),
            Err(late) => self.complain("read", &Box::from(late)),
        }
        None
    }

    /// Keeps a picture.
    pub(super) async fn put(&self, key: CacheKey, picture: &Bytes) {
        let kept = async {
            let index = self.index().await?;
            let Some(gone) = lock(index).insert(key, (SUM + picture.len()) as u64) else { return Ok(()) };
            for old in gone {
                self.delete(old).await?;
            }
            let sum = Bytes::copy_from_slice(&key.sum_with(picture));
            let written = self.objects.store.put(&self.place(key), PutPayload::from_iter([sum, picture.clone()])).await;
            written.map(|_| ()).map_err(Failure::from)
        };
        let error = match timeout(PATIENCE, kept).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(late) => Box::from(late),
        };
        self.complain("write", &error);
        if let Some(index) = self.index.get() {
            lock(index).forget(key);
        }
    }

    async fn index(&self) -> Result<&Mutex<Index>, Failure> {
        self.index.get_or_try_init(|| async { Ok(Mutex::new(self.listed().await?)) }).await
    }

    /// What is there, the oldest first; what is beyond the bound is deleted.
    async fn listed(&self) -> Result<Index, Failure> {
        let prefix = &self.objects.prefix;
        let listed: Vec<_> = self.objects.store.list(Some(prefix)).try_collect().await?;
        let own = |meta: object_store::ObjectMeta| {
            let key = CacheKey::named(meta.location.filename()?)?;
            // Not what lies deeper under a name like ours.
            (self.place(key) == meta.location).then_some((meta.last_modified, key, meta.size))
        };
        let mut own: Vec<_> = listed.into_iter().filter_map(own).collect();
        own.sort_unstable_by_key(|&(written, CacheKey(key), _)| (written, key));
        let mut index = Index::new(self.bound);
        for (_, key, bytes) in own {
            match index.insert(key, bytes) {
                Some(gone) => {
                    for old in gone {
                        self.delete(old).await?;
                    }
                }
                None => self.delete(key).await?,
            }
        }
        Ok(index)
    }

    /// Forgets a picture that is none, and deletes what is there in its place.
    async fn drop_entry(&self, key: CacheKey) {
        if let Some(index) = self.index.get() {
            lock(index).forget(key);
        }
        if let Ok(Err(error)) = timeout(PATIENCE, self.delete(key)).await {
            self.complain("delete", &error);
        }
    }

    /// Deletes an object; that there is none is as good.
    async fn delete(&self, key: CacheKey) -> Result<(), Failure> {
        match self.objects.store.delete(&self.place(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn place(&self, key: CacheKey) -> Path {
        self.objects.prefix.clone().join(key.name())
    }

    fn complain(&self, what: &'static str, error: &Failure) {
        metrics::backdrop_looked_up("failed");
        tracing::warn!(
            place = self.objects.address_prefix(),
            what,
            error = with_causes(&**error),
            "the cache of backdrops failed"
        );
    }
}

type Failure = Box<dyn Error + Send + Sync>;

/// The picture of an object, when it is the one that was put there.
fn checked(key: CacheKey, object: &Bytes) -> Option<Bytes> {
    let (sum, picture) = object.split_at_checked(SUM)?;
    (key.sum_with(picture) == *sum).then(|| object.slice(SUM..))
}

/// Held for a few sums, never across an await; poison is no reason to stop.
fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path as FilePath;
    use std::{fs, io};

    fn cache(folder: &FilePath, bound: u64) -> Cache {
        let url = url::Url::from_directory_path(folder).expect("an absolute path");
        Cache::new(StorageLocation::open(url.as_str(), true).expect("a folder"), bound, 1000)
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

    #[test]
    fn a_key_is_known_by_its_name_and_by_no_other() {
        assert_eq!(CacheKey::named(&key(1).name()), Some(key(1)));
        assert_ne!(CacheKey::of(["ab", "c"]), CacheKey::of(["a", "bc"]));
        let name = key(1).name();
        for other in [
            name.to_uppercase(),
            format!("{name}x"),
            name[1..].to_owned(),
            format!("+{}", &name[1..]),
            "é".repeat(32) + SUFFIX,
        ] {
            assert_eq!(CacheKey::named(&other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn what_was_put_there_is_found_again_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let first = cache(folder.path(), 10_000);
        assert_eq!(first.get(key(1)).await, None);
        first.put(key(1), &picture(1)).await;
        assert_eq!(first.get(key(1)).await, Some(picture(1)));
        assert_eq!(cache(folder.path(), 10_000).get(key(1)).await, Some(picture(1)));
        assert_eq!(cache(folder.path(), 10_000).get(key(2)).await, None);
    }

    #[tokio::test]
    async fn the_bound_is_kept_in_bytes_and_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        // Three of them, with their sums.
        let first = cache(folder.path(), 3 * 132);
        for number in 0..3 {
            first.put(key(number), &picture(0)).await;
        }
        assert!(first.get(key(0)).await.is_some());
        first.put(key(3), &picture(3)).await;
        assert_eq!(files(folder.path()).unwrap(), 3);
        assert_eq!(first.get(key(1)).await, None, "it was not asked for the longest");
        assert!(first.get(key(0)).await.is_some());
        drop(first);
        fs::write(folder.path().join("notes.txt"), "not ours").unwrap();
        let smaller = cache(folder.path(), 132);
        assert_eq!(smaller.get(key(9)).await, None);
        assert_eq!(files(folder.path()).unwrap(), 2, "one of ours, and the other file");
    }

    #[tokio::test]
    async fn a_damaged_entry_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 10_000);
        let path = |number| folder.path().join(key(number).name());
        for damage in [&b"short"[..], &[0; 132], &[]] {
            cache.put(key(1), &picture(1)).await;
            fs::write(path(1), damage).unwrap();
            assert_eq!(cache.get(key(1)).await, None);
            assert!(!path(1).exists());
        }
        // Another entry's file is no picture of this one.
        cache.put(key(1), &picture(1)).await;
        cache.put(key(2), &picture(2)).await;
        fs::copy(path(2), path(1)).unwrap();
        assert_eq!(cache.get(key(1)).await, None);
        // Gone, and larger than any picture.
        fs::remove_file(path(2)).unwrap();
        assert_eq!(cache.get(key(2)).await, None);
        cache.put(key(3), &picture(3)).await;
        fs::write(path(3), vec![0; 2000]).unwrap();
        assert_eq!(cache.get(key(3)).await, None);
        assert_eq!(files(folder.path()).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_place_that_fails_costs_nothing_but_the_picture() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder.path().join("there"), 10_000);
        fs::remove_dir(folder.path().join("there")).unwrap();
        fs::write(folder.path().join("there"), "a file where the folder was").unwrap();
        assert_eq!(cache.get(key(1)).await, None);
        cache.put(key(1), &picture(1)).await;
        assert_eq!(cache.get(key(1)).await, None);
        // It is looked for again when it is needed again.
        fs::remove_file(folder.path().join("there")).unwrap();
        fs::create_dir(folder.path().join("there")).unwrap();
        cache.put(key(1), &picture(1)).await;
        assert_eq!(cache.get(key(1)).await, Some(picture(1)));
    }
}
