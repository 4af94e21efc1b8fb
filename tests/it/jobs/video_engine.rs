//! A clip whose network cannot be loaded at first: the job waits for it.

#![cfg(unix)]

use crate::jobs::video_crash::{KEY, created, start_on};
use crate::store::support::{account, apply};
use crate::video::support::{boxed, cut, engine_after_failures, made, recipe};
use backdrop::jobs::JobState;
use backdrop::recipe::VideoFormat;
use backdrop::store::{self, RedbStore};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_clip_waits_until_the_network_can_be_loaded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data_dir = folder.path().join("data");
    std::fs::create_dir(&data_dir).expect("it is new");
    drop(apply(&RedbStore::open(&store::file_in(&data_dir)).expect("a new store"), account("acme")));
    let clip = made(folder.path(), "clip.mkv", &[&boxed((96, 54), "10", 1)], "-c:v libx264 -pix_fmt yuv420p");
    let engine = engine_after_failures(4);
    let (_store, jobs) = start_on(&data_dir, engine.clone()).await;
    let id = created(&jobs, &clip).await.job.id;
    let ended = async {
        loop {
            let job = jobs.get(KEY, &id).await.expect("it reads").expect("it is there").job;
            if job.state.is_final() {
                return job;
            }
            // Other work has the engine load its network, which else tries once a minute.
            drop(cut(&engine, &clip, &recipe(VideoFormat::Webm)).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = jobs.run(async { drop(stopped.await) });
    let ended = async {
        let job = ended.await;
        drop(stopping);
        job
    };
    let both = async { tokio::join!(running, ended) };
    let ((), job) = tokio::time::timeout(Duration::from_secs(120), both).await.expect("the clip is finished");
    assert_eq!((job.state, job.error), (JobState::Done, None));
}
