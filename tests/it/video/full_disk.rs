//! Clips on a disk that gets full while they are encoded and muxed.

use crate::support::child_process::child_input;
use crate::support::small_disk;
use crate::video::support::{boxed, engine, made, recipe, tools};
use backdrop::engine::Tenant;
use backdrop::recipe::VideoFormat;
use backdrop::video::{self, VideoError};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

const CHILD: &str = concat!(module_path!(), "::on_a_small_disk");

/// The last line of the child.
const PASSED: &str = "every result is whole";

const PAGE: u64 = 4096;

#[test]
fn a_clip_on_a_full_disk_fails_or_is_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(output) = small_disk::run(CHILD, 1, folder.path()) else { return };
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(PASSED), "{out}\n{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by a_clip_on_a_full_disk_fails_or_is_whole"]
async fn on_a_small_disk() {
    let disk = child_input();
    let disk = Path::new(&disk);
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let clip = made(elsewhere.path(), "clip.mp4", &[&boxed((160, 90), "10", 1)], "-pix_fmt yuv420p");
    let (engine, tools) = (engine(), tools());
    for format in [VideoFormat::Webm, VideoFormat::Mp4, VideoFormat::Gif] {
        let recipe = recipe(format);
        let (mut whole, mut full) = (None, 0);
        // The disk has no free page, then more of them, and in the end no limit.
        for pages in [0, 1, 2, 4, 6, 9, 12, 15, u64::MAX] {
            let (folder, filler) = (disk.join("job"), disk.join("filler"));
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("plan"), "another clip's").expect("a plan takes a page");
            if pages < u64::MAX {
                small_disk::fill(&filler);
                let file = File::options().write(true).open(&filler).expect("it is there");
                let size = file.metadata().expect("it is there").len();
                file.set_len(size - pages * PAGE).expect("a shorter file");
            }
            match video::remove(&engine, Tenant::default(), &tools, &clip, &folder, &recipe, &|_| {}).await {
                Ok(finished) => {
                    let result = fs::read(finished.file).expect("a result");
                    let first = whole.get_or_insert_with(|| result.clone());
                    assert!(*first == result, "{format:?} with {pages} pages: {} bytes", result.len());
                }
                Err(VideoError::Io { source, .. }) if source.kind() == ErrorKind::StorageFull => full += 1,
                Err(error) => panic!("{format:?} with {pages} pages: {error}"),
            }
            fs::remove_dir_all(&folder).expect("it is there");
            if pages < u64::MAX {
                fs::remove_file(&filler).expect("it is there");
            }
        }
        assert!(whole.is_some() && full > 0, "{format:?}: {full} of 9 found the disk full");
    }
    println!("{PASSED}");
}
