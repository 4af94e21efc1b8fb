//! A local folder as an [`ObjectStore`], for resumable bulk runs.
//!
//! Wraps `object_store`'s [`LocalFileSystem`], with differences that make an interrupted run repeatable:
//!
//! - Listings are sorted by name in each folder, so that two runs have one order. Hidden files and linked folders are
//!   left out, as in `backdrop remove`. A name that no key can contain (not Unicode, or with control characters) is
//!   listed as unaddressable, like everything below it, and does not end the listing.
//! - An object is written under a hidden random name, then renamed. Of concurrent writes, in this process or others
//!   that share the folder, the last one remains. A write interrupted by a crash leaves its hidden file.
//! - An object's version is its size and modification time, without the inode, so that a copied folder is unchanged.
//! - Media types and metadata, which files lack, are dropped instead of refused.
//!
//! A store may be confined to its folder, for callers who may use no other: listing, reading and writing then resolve
//! symbolic links and refuse links out of the folder. The check precedes the access, so it does not protect against a
//! local process that replaces folders by links at that moment.

use super::place::canonical;
use super::unaddressable_keys::encode_unaddressable;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};
use tokio::sync::mpsc;

/// Listed entries buffered ahead of the reader.
const BUFFERED_ENTRIES: usize = 1024;

const TEMPORARY_PREFIX: &str = ".backdrop-";

#[derive(Debug)]
pub(super) struct LocalStore {
    inner: LocalFileSystem,
    root: PathBuf,
    is_confined: bool,
}

impl LocalStore {
    /// A store in the existing folder `root`.
    pub(super) fn new(root: &FilePath) -> Result<Self> {
        Ok(Self { inner: LocalFileSystem::new_with_prefix(root)?, root: root.to_owned(), is_confined: false })
    }

    /// As [`Self::new`], for a canonical path. Links out of the folder are neither listed nor read or written through.
    pub(super) fn confined(root: &FilePath) -> Result<Self> {
        Ok(Self { is_confined: true, ..Self::new(root)? })
    }

    /// Refuses a path outside of a confined store's folder.
    async fn require_inside(&self, path: &FilePath) -> Result<()> {
        if !self.is_confined {
            return Ok(());
        }
        let (path, root) = (path.to_owned(), self.root.clone());
        tokio::task::spawn_blocking(move || require_inside(&path, &root)).await?.map_err(store_error)
    }

    /// Refuses to write an object into a folder outside. A link at the object's path is replaced, not followed.
    async fn require_folder_inside(&self, location: &Path) -> Result<()> {
        let path = self.inner.path_to_filesystem(location)?;
        self.require_inside(path.parent().unwrap_or(&path)).await
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.display().fmt(f)
    }
}

impl ObjectStore for LocalStore {
    fn put_opts<'life0, 'life1, 'async_trait>(
        &'life0 self,
        location: &'life1 Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> BoxFuture<'async_trait, Result<PutResult>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            self.require_folder_inside(location).await?;
            let options = PutOptions { attributes: Attributes::default(), ..options };
            if options.mode != PutMode::Overwrite {
                return self.inner.put_opts(location, payload, options).await;
            }
            let path = self.inner.path_to_filesystem(location)?;
            let written = tokio::task::spawn_blocking(move || write(&path, &payload)).await?;
            written.map_err(store_error)?;
            Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
        })
    }

    fn put_multipart_opts<'life0, 'life1, 'async_trait>(
        &'life0 self,
        location: &'life1 Path,
        options: PutMultipartOptions,
    ) -> BoxFuture<'async_trait, Result<Box<dyn MultipartUpload>>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            self.require_folder_inside(location).await?;
            let options = PutMultipartOptions { attributes: Attributes::default(), ..options };
            self.inner.put_multipart_opts(location, options).await
        })
    }

    fn get_opts<'life0, 'life1, 'async_trait>(
        &'life0 self,
        location: &'life1 Path,
        options: GetOptions,
    ) -> BoxFuture<'async_trait, Result<GetResult>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            self.require_inside(&self.inner.path_to_filesystem(location)?).await?;
            let mut got = self.inner.get_opts(location, options).await?;
            got.meta.e_tag = None;
            Ok(got)
        })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned().unwrap_or_default();
        let (root, is_confined) = (self.root.clone(), self.is_confined);
        let walk = async move {
            let (sender, receiver) = mpsc::channel(BUFFERED_ENTRIES);
            // Ends when the receiver is dropped.
            tokio::task::spawn_blocking(move || {
                let start = prefix.parts().fold(root.clone(), |path, part| path.join(part.as_ref()));
                let key = Key { plain: prefix.to_string(), unaddressable: Vec::new() };
                let _ = walk(&start, &key, is_confined.then_some(root.as_path()), &sender);
            });
            stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|listed| (listed, receiver)))
        };
        stream::once(walk).flatten().boxed()
    }

    fn list_with_delimiter<'life0, 'life1, 'async_trait>(
        &'life0 self,
        prefix: Option<&'life1 Path>,
    ) -> BoxFuture<'async_trait, Result<ListResult>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        self.inner.list_with_delimiter(prefix)
    }

    fn copy_opts<'life0, 'life1, 'life2, 'async_trait>(
        &'life0 self,
        from: &'life1 Path,
        to: &'life2 Path,
        options: CopyOptions,
    ) -> BoxFuture<'async_trait, Result<()>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        Self: 'async_trait,
    {
        self.inner.copy_opts(from, to, options)
    }
}

fn store_error(error: io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "folder", source: Box::new(error) }
}

/// The receiver of a listing was dropped.
struct Dropped;

/// A path below the root.
#[derive(Clone, Debug)]
struct Key {
    /// The path up to the first name that no key can contain.
    plain: String,
    /// The path from that name on; usually empty.
    unaddressable: Vec<u8>,
}

impl Key {
    fn join(&self, name: &OsStr) -> Self {
        let mut key = self.clone();
        let is_plain = |name: &&str| self.unaddressable.is_empty() && !name.chars().any(|c| c.is_ascii_control());
        if let Some(name) = name.to_str().filter(is_plain) {
            key.plain.extend((!self.plain.is_empty()).then_some('/'));
            key.plain.push_str(name);
        } else {
            key.unaddressable.extend((!self.unaddressable.is_empty()).then_some(b'/'));
            key.unaddressable.extend(name.as_encoded_bytes());
        }
        key
    }

    fn location(self) -> std::result::Result<Path, object_store::path::Error> {
        if self.unaddressable.is_empty() {
            return Path::parse(self.plain);
        }
        let escaped = encode_unaddressable(&self.unaddressable);
        Path::parse(Self { unaddressable: Vec::new(), ..self }.join(escaped.as_ref()).plain)
    }
}

/// Refuses a path that is not below `root` after symbolic links are resolved, as far as it exists.
fn require_inside(path: &FilePath, root: &FilePath) -> io::Result<()> {
    if canonical(path)?.starts_with(root) {
        return Ok(());
    }
    let message = format!("{} is not below {} once links are resolved", path.display(), root.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Lists the files below `folder`, whose key is `key`, without links out of `confined_to`.
fn walk(
    folder: &FilePath,
    key: &Key,
    confined_to: Option<&FilePath>,
    listed: &mpsc::Sender<Result<ObjectMeta>>,
) -> std::result::Result<(), Dropped> {
    let send = |entry| listed.blocking_send(entry).map_err(|_| Dropped);
    let allowed = |path: &FilePath| confined_to.map_or(Ok(()), |root| require_inside(path, root));
    // The folder may have become a link since its parent was read.
    let entries = allowed(folder).and_then(|()| fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>());
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            let error = io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
            return send(Err(store_error(error)));
        }
    };
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    for name in names {
        let path = folder.join(&name);
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Skips dangling links and files deleted since the folder was read.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let key = key.join(&name);
        let is_link = || fs::symlink_metadata(&path).is_ok_and(|it| it.is_symlink());
        if metadata.is_dir() {
            // A link to a folder may lead to a parent.
            if !is_link() {
                walk(&path, &key, confined_to, listed)?;
            }
        } else if metadata.is_file() {
            if confined_to.is_some() && is_link() && allowed(&path).is_err() {
                continue;
            }
            let Ok(location) = key.location() else { continue };
            let last_modified = metadata.modified().unwrap_or(std::time::UNIX_EPOCH).into();
            send(Ok(ObjectMeta { location, last_modified, size: metadata.len(), e_tag: None, version: None }))?;
        }
    }
    Ok(())
}

/// Writes `path` atomically: a temporary file, then a rename.
fn write(path: &FilePath, payload: &PutPayload) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidFilename)?;
    fs::create_dir_all(folder)?;
    let staged = folder.join(format!("{TEMPORARY_PREFIX}{:016x}.part", rand::random::<u64>()));
    let mut file = File::create_new(&staged)?;
    let mut finish = || {
        payload.iter().try_for_each(|chunk| file.write_all(chunk))?;
        // Without these syncs a crash of the machine could leave an empty file or none.
        file.sync_data()?;
        fs::rename(&staged, path)?;
        File::open(folder)?.sync_all()
    };
    finish().inspect_err(|_| {
        let _ = fs::remove_file(&staged);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::decode_unaddressable;
    use futures_util::TryStreamExt;
    use object_store::ObjectStoreExt;

    async fn keys(folder: &LocalStore, prefix: Option<&str>) -> Vec<String> {
        let prefix = prefix.map(Path::from);
        let listed: Vec<_> = folder.list(prefix.as_ref()).try_collect().await.unwrap();
        listed.iter().map(|meta| meta.location.to_string()).collect()
    }

    #[tokio::test]
    async fn a_folder_is_listed_in_order_without_hidden_files() {
        let root = tempfile::tempdir().unwrap();
        for file in ["b.jpg", "a/z.jpg", "a/y/x.jpg", ".git/x.jpg", "a/.backdrop-1.part", "ü .jpg", "c#12"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        #[cfg(unix)]
        for (target, link) in [(root.path(), "a/loop"), (std::path::Path::new("nowhere"), "broken.jpg")] {
            std::os::unix::fs::symlink(target, root.path().join(link)).unwrap();
        }
        let folder = LocalStore::new(root.path()).unwrap();
        assert_eq!(keys(&folder, None).await, ["a/y/x.jpg", "a/z.jpg", "b.jpg", "c#12", "ü .jpg"]);
        assert_eq!(keys(&folder, Some("a/y")).await, ["a/y/x.jpg"]);
        let missing: Result<Vec<_>> = folder.list(Some(&Path::from("nothing"))).try_collect().await;
        assert!(missing.is_err());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn files_below_a_folder_that_no_key_can_name_are_listed_as_unaddressable() {
        use std::os::unix::ffi::OsStrExt;
        let root = tempfile::tempdir().unwrap();
        for file in [&b"a/line\nbreak/b/c.jpg"[..], b"a/x\xff/\xfe.jpg", b"a/z.jpg"] {
            let path = root.path().join(OsStr::from_bytes(file));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let listed = keys(&LocalStore::new(root.path()).unwrap(), None).await;
        assert!(listed.iter().all(|key| key.starts_with("a/") && key.split('/').count() == 2), "{listed:?}");
        let names: Vec<_> = listed.iter().map(|key| decode_unaddressable(&Path::parse(key).unwrap())).collect();
        let expected = [Some("a/line\nbreak/b/c.jpg".to_owned()), Some("a/x\u{fffd}/\u{fffd}.jpg".to_owned()), None];
        assert_eq!(names, expected);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_do_not_lead_out_of_a_confined_folder() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("root"), base.join("outside"));
        for path in [root.join("a.jpg"), root.join("below/b.jpg"), outside.join("secret.jpg")] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        symlink(outside.join("secret.jpg"), root.join("c.jpg")).unwrap();
        symlink("below/b.jpg", root.join("d.jpg")).unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(base.join("missing"), root.join("dangling")).unwrap();
        symlink("below", root.join("same")).unwrap();
        let store = LocalStore::confined(&root).unwrap();
        assert_eq!(keys(&store, None).await, ["a.jpg", "below/b.jpg", "d.jpg"]);
        for key in ["a.jpg", "d.jpg", "same/b.jpg"] {
            assert_eq!(store.get(&Path::from(key)).await.unwrap().bytes().await.unwrap(), "x", "{key}");
        }
        for key in ["c.jpg", "out/secret.jpg"] {
            assert!(store.get(&Path::from(key)).await.is_err(), "{key}");
            assert!(
                LocalStore::new(&root).unwrap().get(&Path::from(key)).await.is_ok(),
                "{key}: its store follows links"
            );
        }
        assert!(matches!(store.get(&Path::from("none/e.jpg")).await, Err(object_store::Error::NotFound { .. })));
        for key in ["out/new.png", "out/new/folder/new.png", "dangling/new.png", "dangling/new/new.png"] {
            assert!(store.put(&Path::from(key), "y".into()).await.is_err(), "{key}");
            assert!(store.put_multipart(&Path::from(key)).await.is_err(), "{key}");
        }
        // A link at the object's path is replaced.
        for key in ["same/new.png", "new/folder/new.png", "c.jpg"] {
            store.put(&Path::from(key), "y".into()).await.unwrap();
        }
        assert_eq!(fs::read(outside.join("secret.jpg")).unwrap(), b"x");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert!(!base.join("missing").exists() && root.join("below/new.png").exists());

        // The folder itself becomes a link.
        fs::rename(&root, base.join("moved")).unwrap();
        symlink(&outside, &root).unwrap();
        let listed: Result<Vec<_>> = store.list(None).try_collect().await;
        assert!(listed.is_err() && store.get(&Path::from("secret.jpg")).await.is_err());
        assert!(store.put(&Path::from("new.png"), "y".into()).await.is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn of_two_concurrent_writes_one_remains() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("object");
        let contents = [vec![1_u8; 8 << 20], vec![2; 8 << 20]];
        let start = std::sync::Barrier::new(contents.len());
        for round in 0..20 {
            std::thread::scope(|scope| {
                for content in &contents {
                    let (payload, start, path) = (PutPayload::from(content.clone()), &start, &path);
                    scope.spawn(move || {
                        start.wait();
                        write(path, &payload).unwrap();
                    });
                }
            });
            let written = fs::read(&path).unwrap();
            assert!(contents.contains(&written), "round {round}: a mixture of {} bytes", written.len());
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn no_write_leaves_a_temporary_file_and_a_name_that_a_file_system_cannot_hold_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let folder = LocalStore::new(root.path()).unwrap();
        folder.put(&Path::from("file"), "x".into()).await.unwrap();
        for key in ["n".repeat(300), "file/below".to_owned()] {
            assert!(folder.put(&Path::from(key), "x".into()).await.is_err());
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        // The maximum length of a name.
        let key = Path::from("n".repeat(255));
        folder.put(&key, "x".into()).await.unwrap();
        folder.put(&key, "replaced".into()).await.unwrap();
        assert_eq!(folder.get(&key).await.unwrap().bytes().await.unwrap(), "replaced");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
