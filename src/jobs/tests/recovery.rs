//! Tests of recovery after a stop, a crash at any change, and a store that could not write.

use super::dying_store::{DyingStore, FullDisk};
use super::support::*;

#[tokio::test]
async fn a_job_interrupted_by_a_stop_is_queued_at_the_next_start() {
    let env = TestEnv::new();
    let daemon = env.run();
    let reservation = daemon.reserve(10).expect("none is held");
    let id = daemon.create_new(NewJob { reservation: Some(reservation), ..new_job("hang") }).await.job.id;
    until(async || daemon.view(&id).await.progress == 40).await;
    std::fs::write(env.folder.path().join("jobs").join(&id).join("segment-0"), "x").expect("the folder is there");
    daemon.stop().await;
    assert_eq!(env.worker.running.load(Ordering::SeqCst), 0, "the worker has stopped");

    // The folder of an upload that a kill interrupted, and the folder of a job that does not exist.
    std::fs::create_dir(env.folder.path().join("jobs/incoming-x")).expect("it is new");
    std::fs::create_dir(env.folder.path().join("jobs/job_000000000000000000000000")).expect("it is new");
    std::fs::write(env.folder.path().join("jobs/notes.txt"), "not ours").expect("it is new");
    let daemon = env.start();
    let mut folders = env.folders();
    folders.sort();
    assert_eq!(folders, [id.clone(), "notes.txt".into()]);
    assert_eq!(daemon.view(&id).await.job.state, JobState::Queued);
    assert!(env.folder.path().join("jobs").join(&id).join("segment-0").exists(), "segments stay");
    assert!(daemon.reserve(1).is_err(), "it reserves its images again");
    daemon.jobs.remove(KEY, &id).await.expect("it is there");
    assert!(daemon.reserve(10).is_ok());
}

#[tokio::test]
async fn a_job_that_begins_anew_below_its_shown_progress_is_not_at_a_standstill() {
    let env = TestEnv { stall: Duration::from_secs(3), ..TestEnv::new() };
    let mut daemon = env.start();
    let id = daemon.create_new(new_job("slowly")).await.job.id;
    std::fs::write(env.folder.path().join("jobs").join(&id).join("progress"), [60]).expect("the folder is there");
    daemon.kill().await;
    daemon = env.run();
    assert_eq!(daemon.view(&id).await.progress, 60);
    // It takes longer than a standstill may, and reports less than what is shown.
    let ended = daemon.ended(&id).await;
    assert_eq!((ended.job.state, ended.progress), (JobState::Done, 100), "{:?}", ended.job.error);
    daemon.stop().await;
}

#[tokio::test]
async fn after_a_crash_at_any_change_the_job_is_done_and_billed_once() {
    // The changes: create, start, finish, webhook attempt. After those the daemon survives.
    let mut died = 0;
    for life in 1..=4 {
        for writes_last in [false, true] {
            let env = TestEnv::new();
            let store = DyingStore::with_life(env.store(), life, writes_last);
            let dead = Arc::clone(&store.dead);
            let mut daemon = env.start_on(store);
            daemon.start_tasks();
            let reservation = daemon.reserve(9).expect("none is held");
            let order = || NewJob { name: Some("order".into()), ..with_webhook("make") };
            let first = daemon.create(NewJob { reservation: Some(reservation), ..order() }).await;
            until(async || dead.load(Ordering::SeqCst)).await;
            died += 1;
            daemon.kill().await;

            let daemon = env.run();
            // The client repeats its request.
            let id = match daemon.create(order()).await.expect("it is created or known") {
                Created::New(view) | Created::Same(view) => view.job.id,
                Created::Conflict => panic!("it is the same"),
            };
            if let Ok(Created::New(first)) = first {
                assert_eq!(id, first.job.id, "what was acknowledged is there");
            }
            let ended = daemon.ended(&id).await;
            assert_eq!((ended.job.state, ended.progress), (JobState::Done, 100), "{life} {writes_last}");
            daemon.expect_usage(Usage { images: 3, microdollars: 250_000 }, &format!("{life} {writes_last}")).await;
            assert!(daemon.reserve(7).is_ok(), "{life} {writes_last}: no reservation is left");
            until(async || daemon.view(&id).await.job.webhook.is_some_and(|hook| hook.next_at.is_none())).await;
            assert_eq!(env.webhooks.ids(), [id.replace("job_", "msg_")].into());
            until(async || env.folders().is_empty()).await;
            assert_eq!(env.results.names(), [id.as_str()]);
            daemon.stop().await;
            let report = env.store().check().expect("the store reads");
            assert!(report.is_sound(), "{life} {writes_last}: {:?}", report.findings);
            assert_eq!(report.rows.jobs, 1);
        }
    }
    assert_eq!(died, 8);
}

#[tokio::test]
async fn an_unrecorded_result_is_deleted_with_its_job() {
    let env = TestEnv::new();
    // The crash is at the change that finishes the job.
    let store = DyingStore::with_life(env.store(), 3, false);
    let dead = Arc::clone(&store.dead);
    let mut daemon = env.start_on(store);
    daemon.start_tasks();
    let id = daemon.create_new(new_job("make")).await.job.id;
    until(async || dead.load(Ordering::SeqCst)).await;
    daemon.kill().await;
    assert_eq!(env.results.names(), [id.as_str()]);
    let daemon = env.start();
    assert!(matches!(daemon.jobs.remove(KEY, &id).await, Ok(Some(Removed::Cancelled(_)))));
    assert!(env.results.names().is_empty() && env.folders().is_empty());
    assert_eq!(daemon.used(), Usage::default());
}

/// A daemon with a job whose start a full store has refused three times; the first one `is_recorded` all the same.
async fn with_refused_start(env: &TestEnv, full: &Arc<FullDisk>, is_recorded: bool) -> (Daemon, String) {
    let mut daemon = env.start_on(DyingStore::on_disk(env.store(), full));
    let id = daemon.create_new(new_job("make")).await.job.id;
    full.hides_next.store(is_recorded, Ordering::SeqCst);
    full.is_full.store(true, Ordering::SeqCst);
    daemon.start_tasks();
    until(async || full.refused.load(Ordering::SeqCst) >= 3).await;
    (daemon, id)
}

#[tokio::test]
async fn a_job_whose_start_is_recorded_and_reported_as_failed_runs_when_the_store_can_write_again() {
    let (env, full) = (TestEnv::new(), Arc::new(FullDisk::default()));
    let (daemon, id) = with_refused_start(&env, &full, true).await;
    assert_eq!(daemon.view(&id).await.job.state, JobState::Processing);
    full.is_full.store(false, Ordering::SeqCst);
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    assert_eq!(env.worker.started().len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_whose_start_is_refused_runs_when_the_store_can_write_again() {
    let (env, full) = (TestEnv::new(), Arc::new(FullDisk::default()));
    let (daemon, id) = with_refused_start(&env, &full, false).await;
    assert_eq!(daemon.view(&id).await.job.state, JobState::Queued);
    // A stop does not wait for the disk.
    daemon.stop().await;
    let daemon = env.run();
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    assert_eq!(env.worker.started().len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_whose_start_was_refused_waits_for_disk_space() {
    let (env, full) = (TestEnv::new(), Arc::new(FullDisk::default()));
    let (daemon, id) = with_refused_start(&env, &full, false).await;
    // Fewer than running jobs leave free: it would fail.
    env.free.store(40, Ordering::SeqCst);
    // An attempt may be under way, whose check was before.
    tokio::time::sleep(Duration::from_millis(100)).await;
    full.is_full.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(daemon.view(&id).await.job.state, JobState::Queued);
    env.free.store(1 << 30, Ordering::SeqCst);
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.stop().await;
}

#[tokio::test]
async fn a_finished_job_is_recorded_and_billed_once_when_the_store_can_write_again() {
    let env = TestEnv::new();
    let full = Arc::new(FullDisk::default());
    let mut daemon = env.start_on(DyingStore::on_disk(env.store(), &full));
    let reservation = daemon.reserve(9).expect("none is held");
    let id = daemon.create_new(NewJob { reservation: Some(reservation), ..new_job("hang and make") }).await.job.id;
    daemon.start_tasks();
    until(async || daemon.view(&id).await.progress == 40).await;
    full.is_full.store(true, Ordering::SeqCst);
    env.worker.release.store(true, Ordering::SeqCst);
    until(async || full.refused.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(daemon.view(&id).await.job.state, JobState::Processing);
    // It keeps its reservation, except during an attempt.
    until(async || daemon.reserve(2).is_err()).await;
    let refused = daemon.create(new_job("make")).await;
    assert!(matches!(refused, Err(JobsError::Write(_))), "{refused:?}");
    until(async || env.folders() == [id.as_str()]).await;
    full.is_full.store(false, Ordering::SeqCst);
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.expect_usage(Usage { images: 3, microdollars: 250_000 }, "once").await;
    until(async || env.folders().is_empty()).await;
    assert_eq!(env.results.names(), [id.as_str()]);
    daemon.stop().await;
}
