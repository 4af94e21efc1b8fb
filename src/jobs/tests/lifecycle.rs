//! Tests of a job from the queue to its result, its bill and its order in the queue.

use super::support::*;

#[tokio::test]
async fn a_job_runs_from_the_queue_to_its_result_and_is_billed_for_its_length() {
    let env = TestEnv::new();
    let mut daemon = env.start();
    let reservation = daemon.reserve(9).expect("10 are there");
    let made = daemon.create_new(NewJob { reservation: Some(reservation), ..new_job("make") }).await;
    assert!(Job::is_id(&made.job.id), "{}", made.job.id);
    assert_eq!((made.job.state, made.progress), (JobState::Queued, 0));
    assert_eq!(made.job.expires_at, UnixSeconds(NOW + RECORD_SECONDS));
    assert_eq!(daemon.view(&made.job.id).await, made);
    assert_eq!(env.folders(), [made.job.id.as_str()]);
    assert!(daemon.reserve(2).is_err(), "the job has reserved 9 of 10");

    env.advance(60);
    daemon.start_tasks();
    let ended = daemon.ended(&made.job.id).await;
    let result = ended.job.result.clone().expect("a result");
    assert_eq!((ended.job.state, ended.progress, ended.job.updated_at), (JobState::Done, 100, UnixSeconds(NOW + 60)));
    assert_eq!((result.bytes, result.frames, result.seconds()), (15, FRAMES, 2.5));
    assert_eq!(result.expires_at, UnixSeconds(NOW + 60 + RESULT_SECONDS));
    assert_eq!(ended.job.expires_at, UnixSeconds(NOW + 60 + RECORD_SECONDS));
    assert_eq!(ended.job.warnings, ["it was cut off"]);
    assert_eq!(env.results.names(), [result.object.expect("it is kept")]);
    // 2.5 s at 0.1 dollars each; 3 started seconds.
    let used = Usage { images: 3, microdollars: 250_000 };
    daemon.expect_usage(used, "a clip of three seconds").await;
    assert!(daemon.reserve(8).is_err() && daemon.reserve(7).is_ok(), "the rest is released");
    until(async || env.folders().is_empty()).await;
    daemon.stop().await;
    assert_eq!(env.start().used(), used, "after a restart");
}

#[tokio::test]
async fn jobs_start_in_order_and_with_bounded_concurrency() {
    let env = TestEnv { parallel: 2, ..TestEnv::new() };
    let mut daemon = env.start();
    let mut ids = Vec::new();
    for what in ["hang", "make", "make", "fail"] {
        ids.push(daemon.create_new(new_job(what)).await.job.id);
    }
    daemon.start_tasks();
    daemon.ended(&ids[3]).await;
    assert_eq!(env.worker.started(), ids);
    assert_eq!(env.worker.most.load(Ordering::SeqCst), 2);
    assert_eq!(daemon.view(&ids[0]).await.job.state, JobState::Processing);
    daemon.stop().await;
}

/// A job of another account.
fn of_other_account(what: &str) -> NewJob {
    NewJob { key_id: "key_2".into(), account: "other".into(), ..new_job(what) }
}

#[tokio::test]
async fn a_single_job_of_an_account_runs_after_the_first_of_many_of_another() {
    let env = TestEnv::new();
    let mut daemon = env.start();
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(daemon.create_new(new_job("make")).await.job.id);
    }
    // Another key of the same account gives no further turn.
    ids.push(daemon.create_new(NewJob { key_id: "key_3".into(), ..new_job("make") }).await.job.id);
    let single = daemon.create_new(of_other_account("make")).await.job.id;
    daemon.start_tasks();
    until(async || env.worker.started().len() == 6).await;
    ids.insert(1, single);
    assert_eq!(env.worker.started(), ids);
    daemon.stop().await;
}

#[tokio::test]
async fn the_accounts_turns_survive_a_restart() {
    let env = TestEnv::new();
    let daemon = env.run();
    let first = daemon.create_new(new_job("hang")).await.job.id;
    until(async || env.worker.started().len() == 1).await;
    let mut ids = vec![first.clone()];
    ids.push(daemon.create_new(of_other_account("make")).await.job.id);
    daemon.stop().await;
    let daemon = env.run();
    // The first account had its turn: its job resumes after the other account's.
    ids.push(first);
    until(async || env.worker.started().len() == 3).await;
    assert_eq!(env.worker.started(), ids);
    daemon.stop().await;
}
