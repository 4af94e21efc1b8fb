//! The checkpoint of a clip: finished segments and the temporal state after them, from which a job resumes.
//!
//! The file `plan` in the job's folder identifies clip, recipe and encoder version; a folder with another plan is
//! restarted. `segment-0000.*` and so on are finished segments. Before each, a `.state` file is written: the number of
//! frames so far and the temporal filter's state. Files are written as `part-*`, synced, and renamed when complete.

use super::VideoError;
use super::encode::Codec;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::task::spawn_blocking;

#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    folder: PathBuf,
    extension: &'static str,
    /// Files of the finished segments, in order.
    pub(super) files: Vec<PathBuf>,
    /// Number of frames of each segment.
    pub(super) frames: Vec<u64>,
    /// Saved state of the temporal filter after the last segment; empty at the beginning and at the end of the clip.
    pub(super) state: Vec<u8>,
}

impl Checkpoint {
    /// Opens an existing folder for the job of `plan`; removes segments of other plans. Fails with [`VideoError::Io`].
    pub(super) async fn open(folder: &Path, codec: Codec, plan: String) -> Result<Self, VideoError> {
        let folder = folder.to_owned();
        blocking(move || {
            let folder = std::path::absolute(folder)?;
            let saved_plan = fs::read(folder.join("plan"));
            let is_same = saved_plan.is_ok_and(|saved| saved == plan.as_bytes());
            let mut checkpoint =
                Self { folder, extension: codec.extension(), files: Vec::new(), frames: Vec::new(), state: Vec::new() };
            if is_same {
                checkpoint.load()?;
            }
            checkpoint.remove_stale()?;
            if !is_same {
                write_atomically(&checkpoint.folder, "plan", plan.as_bytes())?;
            }
            Ok(checkpoint)
        })
        .await
    }

    /// Number of frames in finished segments.
    pub(super) fn finished_frames(&self) -> u64 {
        self.frames.iter().sum()
    }

    /// Discards all segments. Fails with [`VideoError::Io`].
    pub(super) async fn restarted(mut self) -> Result<Self, VideoError> {
        self.files.clear();
        self.frames.clear();
        self.state.clear();
        blocking(move || {
            self.remove_stale()?;
            Ok(self)
        })
        .await
    }

    /// Path of segment `index` while it is being written.
    pub(super) fn part(&self, index: usize) -> PathBuf {
        self.folder.join(format!("part-{index:04}.{}", self.extension))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Completes a segment of `frames` frames: saves `state`, syncs and renames its file. Fails with
    /// [`VideoError::Io`].
    pub(super) async fn finish(&mut self, frames: u64, state: Vec<u8>) -> Result<(), VideoError> {
        let index = self.files.len();
        let (folder, part, name) = (self.folder.clone(), self.part(index), self.name(index));
        let before = self.finished_frames();
        let file = blocking(move || {
            let mut bytes = (before + frames).to_le_bytes().to_vec();
            bytes.extend_from_slice(&state);
            write_atomically(&folder, &format!("{name}.state"), &bytes)?;
            File::open(&part)?.sync_all()?;
            let file = folder.join(&name);
            fs::rename(&part, &file)?;
            File::open(&folder)?.sync_all()?;
            Ok(file)
        })
        .await?;
        self.files.push(file);
        self.frames.push(frames);
        Ok(())
    }

    fn name(&self, index: usize) -> String {
        format!("segment-{index:04}.{}", self.extension)
    }

    /// Loads the finished segments, up to the first missing one.
    fn load(&mut self) -> io::Result<()> {
        loop {
            let name = self.name(self.files.len());
            let (file, state) = (self.folder.join(&name), self.folder.join(format!("{name}.state")));
            if !file.try_exists()? || !state.try_exists()? {
                return Ok(());
            }
            let bytes = fs::read(state)?;
            let Some((so_far, state)) = bytes.split_first_chunk::<8>() else { return Ok(()) };
            let Some(frames) = u64::from_le_bytes(*so_far).checked_sub(self.finished_frames()) else { return Ok(()) };
            self.files.push(file);
            self.frames.push(frames);
            self.state = state.to_vec();
        }
    }

    /// Removes partial files and unfinished segments.
    fn remove_stale(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_kept = || {
                let whole = name.strip_suffix(".state").unwrap_or(name);
                self.files.iter().any(|file| file.file_name().is_some_and(|kept| kept == whole))
            };
            let is_ours = ["part-", "segment-", "result."].iter().any(|start| name.starts_with(start));
            if is_ours && !is_kept() {
                match fs::remove_file(entry.path()) {
                    // A run that was dropped in this process has renamed it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => removed?,
                }
            }
        }
        Ok(())
    }
}

/// The plan of a job's folder, and the files from which the job resumes, also in a copy of the folder: the plan, then
/// each finished segment preceded by its state. `None` without a plan. Blocks.
///
/// # Errors
/// When the folder cannot be read.
pub fn checkpoint(folder: &Path) -> io::Result<Option<(Vec<u8>, Vec<PathBuf>)>> {
    let plan_file = folder.join("plan");
    let plan = match fs::read(&plan_file) {
        Ok(plan) => plan,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("segment-") && !name.ends_with(".state")) else {
            continue;
        };
        // The state was written before the segment got its name.
        segments.extend([folder.join(format!("{name}.state")), folder.join(name)]);
    }
    segments.sort_unstable();
    Ok(Some((plan, [vec![plan_file], segments].concat())))
}

/// Writes a small file atomically: synced under another name, then renamed.
fn write_atomically(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let part = folder.join(format!("part-{name}"));
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(part, folder.join(name))
}

/// Runs file operations on the blocking thread pool.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, VideoError> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| VideoError::Io { what: "the job's folder could not be used".to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODEC: Codec = Codec::H264;

    async fn open(folder: &Path, plan: &str) -> Checkpoint {
        Checkpoint::open(folder, CODEC, plan.to_owned()).await.unwrap()
    }

    async fn finish(segments: &mut Checkpoint, frames: u64, state: &[u8]) {
        fs::write(segments.part(segments.files.len()), b"frames").unwrap();
        segments.finish(frames, state.to_vec()).await.unwrap();
    }

    #[tokio::test]
    async fn a_copy_of_the_files_resumes_elsewhere() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(checkpoint(here.path()).unwrap(), None);
        let mut segments = open(here.path(), "a").await;
        finish(&mut segments, 20, b"one").await;
        finish(&mut segments, 20, b"two").await;
        fs::write(segments.part(2), b"half").unwrap();
        fs::write(segments.file("segment-0002.mp4.state"), b"12345678").unwrap();
        fs::write(here.path().join("input"), b"clip").unwrap();
        let (plan, files) = checkpoint(here.path()).unwrap().unwrap();
        assert_eq!((plan.as_slice(), files.len()), (&b"a"[..], 5), "the plan and two segments: {files:?}");
        // In this order a copy that stops half way is a checkpoint too.
        for (copied, finished) in [(1, 0), (3, 20), (4, 20), (5, 40)] {
            for file in &files[..copied] {
                fs::copy(file, there.path().join(file.file_name().unwrap())).unwrap();
            }
            assert_eq!(open(there.path(), "a").await.finished_frames(), finished);
        }
    }

    #[tokio::test]
    async fn another_plan_restarts_and_unrelated_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("input"), b"clip").unwrap();
        let mut segments = open(folder.path(), "a").await;
        finish(&mut segments, 20, b"one").await;
        assert_eq!(open(folder.path(), "b").await.finished_frames(), 0);
        assert_eq!(open(folder.path(), "a").await.finished_frames(), 0, "the plan of b was saved");
        assert!(folder.path().join("input").exists());
    }

    #[tokio::test]
    async fn a_segment_without_its_state_is_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let mut segments = open(folder.path(), "a").await;
        finish(&mut segments, 20, b"one").await;
        finish(&mut segments, 20, b"two").await;
        fs::remove_file(segments.file("segment-0000.mp4.state")).unwrap();
        let again = open(folder.path(), "a").await;
        assert_eq!(again.finished_frames(), 0);
        assert!(!again.file("segment-0001.mp4").exists());
    }
}
