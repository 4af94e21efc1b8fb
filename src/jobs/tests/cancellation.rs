//! Tests of cancelling queued and running jobs.

use super::support::*;

#[tokio::test]
async fn a_cancelled_queued_job_never_starts() {
    let env = TestEnv::new();
    let mut daemon = env.start();
    let reservation = daemon.reserve(10).expect("none is held");
    let id = daemon.create_new(NewJob { reservation: Some(reservation), ..with_webhook("make") }).await.job.id;
    let removed = daemon.jobs.remove(KEY, &id).await.expect("it is there");
    let Some(Removed::Cancelled(view)) = removed else { panic!("{removed:?}") };
    assert_eq!(view.job.state, JobState::Failed);
    assert_eq!(view.job.error.as_ref().map(|error| error.code.as_str()), Some("cancelled"));
    assert_eq!(daemon.view(&id).await, *view, "it is still visible");
    assert!(env.folders().is_empty() && daemon.reserve(10).is_ok());
    daemon.start_tasks();
    // Its webhook is sent.
    until(async || env.webhooks.count() == 1).await;
    let other = daemon.create_new(new_job("make")).await.job.id;
    daemon.ended(&other).await;
    assert_eq!(env.worker.started(), [other]);
    assert_eq!(daemon.jobs.remove(KEY, &id).await.expect("it is there"), Some(Removed::Deleted));
    assert_eq!(daemon.get(&id).await, None);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_cancelled_at_any_moment_is_either_done_or_cancelled() {
    let env = TestEnv::new();
    let daemon = env.run();
    let (mut done, mut cancelled) = (0, 0);
    for turn in 0..60_u64 {
        let id = daemon.create_new(new_job("make")).await.job.id;
        tokio::time::sleep(Duration::from_micros(turn * 150)).await;
        match daemon.jobs.remove(KEY, &id).await.expect("it is there").expect("it is ours") {
            Removed::Cancelled(view) => {
                assert_eq!(daemon.view(&id).await.job.error, view.job.error);
                cancelled += 1;
            }
            Removed::Deleted => {
                assert_eq!(daemon.get(&id).await, None);
                done += 1;
            }
        }
    }
    until(async || env.folders().is_empty() && env.results.names().is_empty()).await;
    let expected = Usage { images: 3 * done, microdollars: 250_000 * done };
    daemon.expect_usage(expected, "only jobs that were done are billed").await;
    println!("{done} done, {cancelled} cancelled");
    daemon.stop().await;
}
