//! Tests of workers that fail, panic or hang, and result stores that fail.

use super::support::*;

#[tokio::test]
async fn a_worker_that_fails_or_panics_fails_only_its_job() {
    let env = TestEnv::new();
    let daemon = env.run();
    for (what, code, progress) in [
        ("fail", "invalid_image", 30),
        ("panic", "internal_error", 0),
        ("no length", "internal_error", 75),
        ("no file", "internal_error", 75),
    ] {
        let id = daemon.create_new(new_job(what)).await.job.id;
        let ended = daemon.ended(&id).await;
        let error = ended.job.error.expect("a reason");
        assert_eq!((ended.job.state, error.code.as_str()), (JobState::Failed, code), "{what}");
        assert!(ended.progress <= progress && ended.job.result.is_none(), "{what}: {}", ended.progress);
    }
    let id = daemon.create_new(new_job("make")).await.job.id;
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.expect_usage(Usage { images: 3, microdollars: 250_000 }, "failed jobs are not billed").await;
    until(async || env.folders().is_empty() && env.results.names() == [id.as_str()]).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_that_hangs_fails_its_job_even_if_it_cannot_be_stopped() {
    let env = TestEnv { stall: Duration::from_millis(100), ..TestEnv::new() };
    let daemon = env.run();
    for what in ["hang", "block"] {
        let id = daemon.create_new(new_job(what)).await.job.id;
        let error = daemon.ended(&id).await.job.error.expect("a reason");
        assert!(error.code == "internal_error" && error.message.contains("standstill"), "{what}: {error:?}");
    }
    env.worker.release.store(true, Ordering::SeqCst);
    until(async || env.worker.running.load(Ordering::SeqCst) == 0).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_whose_worker_waits_is_not_at_a_standstill() {
    let env = TestEnv { stall: Duration::from_millis(20), ..TestEnv::new() };
    env.worker.waits.store(true, Ordering::SeqCst);
    let daemon = env.run();
    let id = daemon.create_new(new_job("hang")).await.job.id;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let job = daemon.jobs.get(KEY, &id).await.expect("it reads").expect("it is there").job;
    assert!(!job.state.is_final(), "{job:?}");
    env.worker.waits.store(false, Ordering::SeqCst);
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Failed);
    daemon.stop().await;
}

#[tokio::test]
async fn a_result_whose_storing_ended_after_its_job_is_deleted_with_the_record() {
    let env = TestEnv::new();
    let daemon = env.run();
    let id = daemon.create_new(new_job("fail")).await.job.id;
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Failed);
    until(async || env.folders().is_empty()).await;
    env.results.objects.lock().expect("no panic").insert(id.clone(), b"a clip".to_vec());
    assert_eq!(daemon.jobs.remove(KEY, &id).await.expect("it is there"), Some(Removed::Deleted));
    assert!(env.results.names().is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_fails_only_its_job() {
    let env = TestEnv::new();
    let daemon = env.run();
    env.results.is_down.store(true, Ordering::SeqCst);
    let id = daemon.create_new(new_job("make")).await.job.id;
    let error = daemon.ended(&id).await.job.error.expect("a reason");
    assert!(error.code == "internal_error" && error.message.contains("could not be stored"), "{error:?}");
    assert_eq!(daemon.used(), Usage::default());
    env.results.is_down.store(false, Ordering::SeqCst);
    let id = daemon.create_new(new_job("make")).await.job.id;
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);

    // A deletion fails, too, and the job stays.
    env.results.is_down.store(true, Ordering::SeqCst);
    assert!(matches!(daemon.jobs.remove(KEY, &id).await, Err(JobsError::Results(_))));
    assert_eq!(daemon.view(&id).await.job.state, JobState::Done);
    env.results.is_down.store(false, Ordering::SeqCst);
    assert_eq!(daemon.jobs.remove(KEY, &id).await.expect("it is there"), Some(Removed::Deleted));
    assert!(env.results.names().is_empty() && daemon.get(&id).await.is_none());
    daemon.stop().await;
}
