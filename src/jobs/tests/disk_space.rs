//! Tests of limits on disk space and free space.

use super::support::*;

fn is_out_of_room(refused: &Result<IncomingClip, JobsError>) -> bool {
    matches!(refused, Err(JobsError::DiskSpace(_)))
}

#[tokio::test]
async fn a_filling_disk_refuses_new_clips_first_and_then_fails_the_running_job() {
    let env = TestEnv::new();
    let daemon = env.run();
    let id = daemon.create_new(new_job("hang")).await.job.id;
    until(async || daemon.view(&id).await.progress == 40).await;
    // New clips leave 100 bytes free, running jobs half of them.
    env.free.store(105, Ordering::SeqCst);
    let first = daemon.jobs.incoming("acme", 5).await.expect("exactly as much as there is");
    assert!(is_out_of_room(&daemon.jobs.incoming("acme", 1).await), "it is reserved by the first");
    drop(first);
    drop(daemon.jobs.incoming("acme", 5).await.expect("it is released"));
    env.free.store(50, Ordering::SeqCst);
    assert!(is_out_of_room(&daemon.jobs.incoming("acme", 0).await));
    assert_eq!(daemon.view(&id).await.job.state, JobState::Processing);
    env.free.store(49, Ordering::SeqCst);
    let ended = daemon.ended(&id).await;
    let error = ended.job.error.expect("it failed");
    assert_eq!((ended.job.state, error.code.as_str()), (JobState::Failed, "unavailable"));
    assert!(error.message.contains("no room"), "{}", error.message);
    until(async || env.folders().is_empty()).await;
    env.free.store(1 << 30, Ordering::SeqCst);
    let id = daemon.create_new(new_job("make")).await.job.id;
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.stop().await;
}

#[tokio::test]
async fn clips_and_segments_share_one_limit() {
    let env = TestEnv { max_bytes: 1 << 20, ..TestEnv::new() };
    let daemon = env.run();
    // New clips get three quarters.
    assert!(is_out_of_room(&daemon.jobs.incoming("acme", (768 << 10) + 1).await));
    let id = daemon.create_new(new_job("hang")).await.job.id;
    until(async || daemon.view(&id).await.progress == 40).await;
    let folder = env.folder.path().join("jobs").join(&id);
    std::fs::write(folder.join("segment-0"), vec![1; 512 << 10]).expect("the folder is there");
    // A hard link uses no further space.
    std::fs::hard_link(folder.join("segment-0"), folder.join("segment-1")).expect("a link");
    drop(daemon.jobs.incoming("acme", 128 << 10).await.expect("there is room"));
    assert!(is_out_of_room(&daemon.jobs.incoming("acme", 256 << 10).await));
    assert_eq!(daemon.view(&id).await.job.state, JobState::Processing);
    std::fs::write(folder.join("segment-2"), vec![1; 512 << 10]).expect("the folder is there");
    let ended = daemon.ended(&id).await;
    assert_eq!(ended.job.error.expect("it failed").code, "unavailable");
    until(async || env.folders().is_empty()).await;
    drop(daemon.jobs.incoming("acme", 768 << 10).await.expect("all of it is free again"));
    daemon.stop().await;
}

#[tokio::test]
async fn the_results_of_one_account_leave_half_of_the_space_to_others() {
    let env = TestEnv { max_bytes: 1 << 20, ..TestEnv::new() };
    let daemon = env.run();
    let id = daemon.create_new(new_job("make")).await.job.id;
    let result = daemon.ended(&id).await.job.result.expect("it is done");
    let share = (1 << 19) - result.bytes;
    drop(daemon.jobs.incoming("acme", share).await.expect("half of it"));
    let refused = daemon.jobs.incoming("acme", share + 1).await;
    assert!(matches!(refused, Err(JobsError::Share { .. })), "{refused:?}");
    drop(daemon.jobs.incoming("other", share + 1).await.expect("another account has no results"));
    daemon.stop().await;
}
