//! Tests of deletion of expired results and records.

use super::support::*;
use crate::store::JobChange;

#[tokio::test]
async fn results_expire_after_an_hour_and_records_a_day_after_the_end() {
    let env = TestEnv::new();
    let daemon = env.run();
    let done = daemon.create_new(named("make", "order 1")).await.job.id;
    let failed = daemon.create_new(named("fail", "order 2")).await.job.id;
    let hangs = daemon.create_new(new_job("hang")).await.job.id;
    daemon.ended(&failed).await;
    until(async || daemon.view(&hangs).await.job.state == JobState::Processing).await;
    env.advance(RESULT_SECONDS - 1);
    daemon.delete_expired().await;
    assert_eq!(env.results.names(), [done.as_str()]);
    env.advance(1);
    // The bucket fails for a while.
    env.results.is_down.store(true, Ordering::SeqCst);
    daemon.delete_expired().await;
    env.results.is_down.store(false, Ordering::SeqCst);
    assert_eq!(env.results.names(), [done.as_str()]);
    daemon.delete_expired().await;
    assert!(env.results.names().is_empty());
    let result = daemon.view(&done).await.job.result.expect("the record keeps the result's figures");
    assert_eq!((result.object, result.frames, result.expires_at), (None, FRAMES, UnixSeconds(NOW + RESULT_SECONDS)));

    env.advance(RECORD_SECONDS - RESULT_SECONDS - 1);
    daemon.delete_expired().await;
    assert!(daemon.get(&done).await.is_some() && daemon.get(&failed).await.is_some());
    // From this second on they are invisible, deleted or not.
    env.advance(1);
    assert_eq!((daemon.get(&done).await, daemon.get(&failed).await), (None, None));
    assert_eq!(daemon.jobs.named(KEY, "order 1").await.expect("it reads"), None);
    let listed = daemon.jobs.list(KEY, None, 10).await.expect("it reads").jobs;
    assert_eq!(listed.iter().map(|view| &view.job.id).collect::<Vec<_>>(), [&hangs]);
    // The name is free again, before the record is deleted.
    daemon.create_new(named("make", "order 1")).await;
    daemon.delete_expired().await;
    // A running job never expires.
    assert_eq!(daemon.view(&hangs).await.job.state, JobState::Processing);
    env.advance(10 * RECORD_SECONDS);
    daemon.delete_expired().await;
    assert_eq!(daemon.view(&hangs).await.job.state, JobState::Processing);
    assert_eq!(daemon.store.expiring_jobs(10).await.expect("it reads"), []);
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_has_unfinished_work_until_the_last_result_is_deleted() {
    let env = TestEnv::new();
    let daemon = env.run();
    // The record of the first one, whose result is deleted already, expires before the result of the second one.
    for age in [RECORD_SECONDS - 1, RESULT_SECONDS] {
        daemon.ended(&daemon.create_new(new_job("make")).await.job.id).await;
        until(async || daemon.jobs.0.running.count() == 0).await;
        assert!(daemon.jobs.has_unfinished().await, "its result is stored");
        env.advance(age);
        daemon.delete_expired().await;
        assert!(env.results.names().is_empty() && !daemon.jobs.has_unfinished().await);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_hundred_failed_deletions_do_not_block_later_ones() {
    let env = TestEnv::new();
    let daemon = env.start();
    for number in 0..150 {
        let id = format!("job_{number:024}");
        env.results.objects.lock().expect("no panic").insert(id.clone(), Vec::new());
        let result = JobResult {
            object: Some(id.clone()),
            bytes: 1,
            frames: 1,
            rate_frames: 1,
            rate_seconds: 1,
            expires_at: UnixSeconds(NOW + number),
        };
        let end = store::JobEnd::Done { result, warnings: Vec::new(), bill: None };
        let job = Job { id: id.clone(), place: number, ..job(KEY) };
        let at = UnixSeconds(NOW);
        for change in [
            Change::CreateJob { job: Box::new(job), at_most: usize::MAX },
            Change::Job { id: id.clone(), attempt: None, change: JobChange::Start { at } },
            Change::Job {
                id,
                attempt: None,
                change: JobChange::Finish { at, expires_at: UnixSeconds(NOW + 999), end },
            },
        ] {
            daemon.store.change(change).await.expect("it is allowed");
        }
    }
    env.results.is_down.store(true, Ordering::SeqCst);
    expiry::delete_expired(&daemon.jobs.0, UnixSeconds(NOW + 500)).await;
    env.results.is_down.store(false, Ordering::SeqCst);
    assert_eq!(env.results.names().len(), 150);
    expiry::delete_expired(&daemon.jobs.0, UnixSeconds(NOW + 120)).await;
    assert_eq!(env.results.names().len(), 29);
    expiry::delete_expired(&daemon.jobs.0, UnixSeconds(NOW + 999)).await;
    assert_eq!(env.results.names().len(), 0);
    assert_eq!(daemon.jobs.list(KEY, None, 10).await.expect("it reads"), Page::default());
}
