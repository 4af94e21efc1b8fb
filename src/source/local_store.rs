//! A folder as an object store.
//!
//! `object_store`'s own does most of it. This one differs where work that is killed and begun again needs it to:
//!
//! - Listings are sorted, name by name in each folder, so that two runs see the same order. Hidden files, and folders
//!   behind a link, are left out, as `backdrop remove` leaves them out; a name that is not Unicode is listed as one that
//!   cannot be addressed instead of ending the listing.
//! - An object is written to one hidden name that follows from its own, then renamed: whoever writes it again after a
//!   crash clears away what the crash left.
//! - An object's version is its size and time alone, so that a copied folder counts as the same.
//! - Media types and metadata, which files do not have, are dropped rather than refused.

use super::odd_keys::marked;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};
use tokio::sync::mpsc;

/// Entries that a listing is ahead of its reader.
const AHEAD: usize = 1024;

/// What our hidden names begin with.
const HIDDEN: &str = ".backdrop-";

/// A folder.
#[derive(Debug)]
pub(super) struct Folder {
    inner: LocalFileSystem,
    root: PathBuf,
}

impl Folder {
    /// The folder `root`, which is there.
    pub(super) fn new(root: &FilePath) -> Result<Self> {
        Ok(Self { inner: LocalFileSystem::new_with_prefix(root)?, root: root.to_owned() })
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.display().fmt(f)
    }
}

impl ObjectStore for Folder {
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
            let options = PutOptions { attributes: Attributes::default(), ..options };
            if options.mode != PutMode::Overwrite {
                return self.inner.put_opts(location, payload, options).await;
            }
            let path = self.inner.path_to_filesystem(location)?;
            let written = tokio::task::spawn_blocking(move || write(&path, &payload)).await?;
            written.map_err(failed)?;
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
        let options = PutMultipartOptions { attributes: Attributes::default(), ..options };
        self.inner.put_multipart_opts(location, options)
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
        let root = self.root.clone();
        let walk = async move {
            let (sender, receiver) = mpsc::channel(AHEAD);
            // Ends when the reader is gone.
            tokio::task::spawn_blocking(move || {
                let start = prefix.parts().fold(root, |path, part| path.join(part.as_ref()));
                let _ = walk(&start, prefix.as_ref(), &sender);
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

fn failed(error: io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "folder", source: Box::new(error) }
}

/// Nobody reads the listing any more.
struct Unread;

/// Lists what is below `folder`, whose objects begin with `prefix`.
fn walk(folder: &FilePath, prefix: &str, into: &mpsc::Sender<Result<ObjectMeta>>) -> std::result::Result<(), Unread> {
    let send = |listed| into.blocking_send(listed).map_err(|_| Unread);
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) => {
            let error = io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
            return send(Err(failed(error)));
        }
    };
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    for name in names {
        let path = folder.join(&name);
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // What went away since the folder was read, and a link to nothing, are not there.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let plain = name.to_str().filter(|name| !name.chars().any(|c| c.is_ascii_control()));
        let key = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        if metadata.is_dir() {
            // A link to a folder may lead back up.
            let is_link = fs::symlink_metadata(&path).is_ok_and(|it| it.is_symlink());
            match plain {
                Some(name) if !is_link => walk(&path, &key(name), into)?,
                Some(_) | None => {}
            }
        } else if metadata.is_file() {
            let key = key(&plain.map_or_else(|| marked(name.as_encoded_bytes()), str::to_owned));
            let Ok(location) = Path::parse(key) else { continue };
            let last_modified = metadata.modified().unwrap_or(std::time::UNIX_EPOCH).into();
            send(Ok(ObjectMeta { location, last_modified, size: metadata.len(), e_tag: None, version: None }))?;
        }
    }
    Ok(())
}

/// Writes `path` whole or not at all.
fn write(path: &FilePath, payload: &PutPayload) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidFilename)?;
    fs::create_dir_all(folder)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    // A hash, because the name may already be as long as a name may be.
    let hash: String =
        Sha256::digest(name.as_encoded_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let staged = folder.join(format!("{HIDDEN}{hash}.part"));
    let finish = || {
        let mut file = File::create(&staged)?;
        payload.iter().try_for_each(|chunk| file.write_all(chunk))?;
        // Without these a crash of the machine could leave the name on an empty file, or no name.
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
    use crate::source::unaddressable;
    use futures_util::TryStreamExt;
    use object_store::ObjectStoreExt;

    async fn keys(folder: &Folder, prefix: Option<&str>) -> Vec<String> {
        let prefix = prefix.map(Path::from);
        let listed: Vec<_> = folder.list(prefix.as_ref()).try_collect().await.unwrap();
        listed.iter().map(|meta| meta.location.to_string()).collect()
    }

    #[tokio::test]
    async fn a_folder_is_listed_in_order_without_what_is_hidden() {
        let root = tempfile::tempdir().unwrap();
        for file in ["b.jpg", "a/z.jpg", "a/y/x.jpg", ".git/x.jpg", "a/.backdrop-1.part", "ü .jpg", "c#12"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).unwrap();
            std::os::unix::fs::symlink("nowhere", root.path().join("broken.jpg")).unwrap();
            fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"x\xff.jpg")), "x").unwrap();
        }
        let folder = Folder::new(root.path()).unwrap();
        let mut listed = keys(&folder, None).await;
        if cfg!(unix) {
            let odd = listed.remove(4);
            assert_eq!(unaddressable(&Path::parse(odd).unwrap()).as_deref(), Some("x\u{fffd}.jpg"));
        }
        assert_eq!(listed, ["a/y/x.jpg", "a/z.jpg", "b.jpg", "c#12", "ü .jpg"]);
        assert_eq!(keys(&folder, Some("a/y")).await, ["a/y/x.jpg"]);
        let missing: Result<Vec<_>> = folder.list(Some(&Path::from("nothing"))).try_collect().await;
        assert!(missing.is_err());
    }

    #[tokio::test]
    async fn writing_again_clears_away_what_a_crash_left() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path()).unwrap();
        let key = Path::from("a/b c.png");
        folder.put(&key, "one".into()).await.unwrap();
        let hash: String = Sha256::digest("b c.png").iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        fs::write(root.path().join(format!("a/.backdrop-{hash}.part")), "half").unwrap();
        folder.put(&key, "two".into()).await.unwrap();
        assert_eq!(fs::read_dir(root.path().join("a")).unwrap().count(), 1);
        assert_eq!(folder.get(&key).await.unwrap().bytes().await.unwrap(), "two");
    }

    #[tokio::test]
    async fn what_a_file_system_cannot_hold_is_an_error_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path()).unwrap();
        folder.put(&Path::from("file"), "x".into()).await.unwrap();
        for key in ["n".repeat(300), "file/below".to_owned()] {
            assert!(folder.put(&Path::from(key), "x".into()).await.is_err());
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        // As long as a name may be.
        folder.put(&Path::from("n".repeat(255)), "x".into()).await.unwrap();
    }
}
