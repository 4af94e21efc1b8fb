//! Tests of jobs whose records cannot be read, and of other jobs meanwhile.

use super::support::*;

/// A record of a version that does not exist.
const UNKNOWN_VERSION: &[u8] = &[99];

#[tokio::test]
async fn an_unreadable_record_delays_no_deletion_and_no_idle_exit() {
    let env = TestEnv::new();
    let daemon = env.run();
    let damaged = daemon.create_new(named("make", "order")).await.job.id;
    daemon.ended(&damaged).await;
    // Its result expires later.
    env.advance(1);
    let other = daemon.create_new(new_job("make")).await.job.id;
    daemon.ended(&other).await;
    daemon.stop().await;
    env.overwrite_record(&damaged, UNKNOWN_VERSION);

    let daemon = env.start();
    let page = daemon.jobs.list(KEY, None, 1).await.expect("it reads");
    assert_eq!(page.jobs.iter().map(|view| &view.job.id).collect::<Vec<_>>(), [&other]);
    assert_eq!(page.next, None);
    for refused in [daemon.jobs.get(KEY, &damaged).await, daemon.jobs.named(KEY, "order").await] {
        let error = refused.expect_err("its record is of an unknown version").to_string();
        assert!(error.contains(&format!("job {damaged}: malformed record")), "{error}");
    }
    assert!(daemon.jobs.has_unfinished().await, "the other result is stored");
    env.advance(RESULT_SECONDS);
    daemon.delete_expired().await;
    assert_eq!(env.results.names(), [damaged.as_str()]);
    assert!(!daemon.jobs.has_unfinished().await);
    drop(daemon);
    assert_eq!(env.overwrite_record(&damaged, UNKNOWN_VERSION), UNKNOWN_VERSION, "the row stays as it is");
}

#[tokio::test]
async fn a_queued_job_whose_record_cannot_be_read_keeps_its_clip_and_is_done_once_it_can() {
    let env = TestEnv::new();
    let daemon = env.start();
    let damaged = daemon.create_new(new_job("make")).await.job.id;
    let other = daemon.create_new(new_job("make")).await.job.id;
    daemon.kill().await;
    let record = env.overwrite_record(&damaged, UNKNOWN_VERSION);

    let daemon = env.run();
    assert_eq!(daemon.ended(&other).await.job.state, JobState::Done);
    until(async || env.folders() == [damaged.as_str()]).await;
    assert_eq!(env.worker.started(), [other.as_str()]);
    daemon.stop().await;

    env.overwrite_record(&damaged, &record);
    let daemon = env.run();
    assert_eq!(daemon.ended(&damaged).await.job.state, JobState::Done);
    daemon.stop().await;
}
