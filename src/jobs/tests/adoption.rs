//! Tests of jobs that another daemon cancels or adopts, of jobs that are adopted from it, and of their clips.

use super::shared_store::SharedStore;
use super::support::*;
use crate::jobs::expiry;
use crate::store::{JobEnd, QuotaCheck};

/// A daemon with its background tasks, and the store that it shares.
fn run(env: &TestEnv) -> (Daemon, SharedStore) {
    let store = SharedStore::new(env.store());
    let mut daemon = env.start_on(store.clone());
    daemon.start_tasks();
    (daemon, store)
}

/// A job of the other daemon.
fn of_other(what: &str, number: u32) -> Job {
    let hook = Webhook { url: "https://example.com/hook".into(), base: String::new(), attempts: 0, next_at: None };
    Job {
        id: format!("job_{number:024}"),
        fields: vec![("do".into(), what.into())],
        reserved: 4,
        webhook: Some(hook),
        ..job(KEY)
    }
}

/// Puts the clip of a job of the other daemon into the result store.
fn put_input(env: &TestEnv, id: &str) {
    env.results.objects.lock().expect("no panic").insert(input_name(id), b"a clip".to_vec());
}

fn cancelled(id: &str) -> Change {
    let error = JobError { code: "cancelled".into(), message: "the job was cancelled".into() };
    let end = JobEnd::Cancelled { error, progress: 0 };
    Change::FinishJob { id: id.into(), at: UnixSeconds(NOW), expires_at: UnixSeconds(NOW + RECORD_SECONDS), end }
}

#[tokio::test]
async fn a_job_cancelled_through_another_daemon_stops_and_leaves_nothing() {
    let env = TestEnv::new();
    let (daemon, store) = run(&env);
    let reservation = daemon.reserve(10).expect("none is held");
    let running = daemon.create_new(NewJob { reservation: Some(reservation), ..with_webhook("hang") }).await.job.id;
    until(async || daemon.view(&running).await.progress == 40).await;
    let queued = daemon.create_new(new_job("make")).await.job.id;
    assert_eq!(env.results.names().len(), 2, "the clips are stored");
    for id in [&queued, &running] {
        store.by_other(cancelled(id));
    }
    until(async || env.worker.running.load(Ordering::SeqCst) == 0 && env.folders().is_empty()).await;
    until(async || env.results.names().is_empty()).await;
    assert!(daemon.reserve(10).is_ok(), "the reservation is released");
    assert_eq!(*env.worker.started.lock().expect("no panic"), [running.as_str()]);
    // The webhook is still this daemon's, and due at once.
    until(async || env.webhooks.count() == 1).await;
    let next = daemon.create_new(new_job("make")).await.job.id;
    assert_eq!(daemon.ended(&next).await.job.state, JobState::Done);
    assert_eq!(daemon.view(&running).await.job.error.expect("it was cancelled").code, "cancelled");
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_of_another_daemon_can_be_cancelled() {
    let env = TestEnv::new();
    let (daemon, store) = run(&env);
    let job = of_other("make", 1);
    put_input(&env, &job.id);
    store.create_by_other(job.clone());
    let removed = daemon.jobs.remove(KEY, &job.id).await.expect("it is there");
    let Some(Removed::Cancelled(view)) = removed else { panic!("{removed:?}") };
    assert_eq!(view.job.error.expect("it was cancelled").code, "cancelled");
    assert!(env.results.names().is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_that_another_daemon_adopts_stops_here_and_keeps_its_clip_and_result() {
    let env = TestEnv::new();
    let (daemon, store) = run(&env);
    let reservation = daemon.reserve(10).expect("none is held");
    let running = daemon.create_new(NewJob { reservation: Some(reservation), ..new_job("hang") }).await.job.id;
    until(async || daemon.view(&running).await.progress == 40).await;
    let queued = daemon.create_new(new_job("make")).await.job.id;
    // The adopter has stored its result already.
    env.results.objects.lock().expect("no panic").insert(running.clone(), b"a finished clip".to_vec());
    store.adopt_by_other(&[&running, &queued]);
    until(async || env.worker.running.load(Ordering::SeqCst) == 0 && env.folders().is_empty()).await;
    let kept: BTreeSet<String> = [running.clone(), input_name(&running), input_name(&queued)].into();
    assert_eq!(env.results.names().into_iter().collect::<BTreeSet<_>>(), kept);
    assert!(daemon.reserve(10).is_ok(), "the reservation is released");
    assert!(!daemon.jobs.has_unfinished().await);
    let view = daemon.view(&running).await;
    assert_eq!((view.job.state, view.progress), (JobState::Queued, 0), "as the record says");
    let next = daemon.create_new(new_job("make")).await.job.id;
    assert_eq!(daemon.ended(&next).await.job.state, JobState::Done);
    assert_eq!(*env.worker.started.lock().expect("no panic"), [running, next]);
    daemon.stop().await;
}

/// The checkpoint of a job in the result store.
fn stored_checkpoint(env: &TestEnv, id: &str) -> Vec<String> {
    let of_job = format!("{id}.checkpoint/");
    env.results.names().iter().filter_map(|name| name.strip_prefix(&of_job)).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_checkpoint_of_a_running_job_is_stored_and_deleted_with_the_jobs_end() {
    let env = TestEnv::new();
    let (daemon, _store) = run(&env);
    let id = daemon.create_new(new_job("begin, hang and make")).await.job.id;
    until(async || stored_checkpoint(&env, &id) == ["segment-0", "segment-1"]).await;
    env.worker.release.store(true, Ordering::SeqCst);
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    until(async || env.results.names() == [id.as_str()]).await;
    daemon.stop().await;

    // Not on a store that this daemon has alone.
    let env = TestEnv::new();
    let mut daemon = env.start();
    daemon.start_tasks();
    let id = daemon.create_new(new_job("begin, hang and make")).await.job.id;
    until(async || daemon.view(&id).await.progress == 40).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(env.results.names().is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn a_checkpoint_of_an_earlier_start_is_replaced() {
    let env = TestEnv::new();
    let (daemon, store) = run(&env);
    let id = daemon.create_new(new_job("begin, hang and make")).await.job.id;
    until(async || stored_checkpoint(&env, &id).len() == 2).await;
    daemon.stop().await;
    drop(store);
    // Of a version whose files have other names.
    env.results.objects.lock().expect("no panic").insert(format!("{id}.checkpoint/other"), b"x".to_vec());
    let (daemon, _store) = run(&env);
    until(async || stored_checkpoint(&env, &id) == ["segment-0", "segment-1"]).await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_adopted_job_resumes_from_its_stored_checkpoint_and_one_without_begins_again() {
    for (stored, written) in [(0, 4), (3, 1)] {
        let env = TestEnv::new();
        let (daemon, store) = run(&env);
        let job = of_other("make", 1);
        put_input(&env, &job.id);
        for segment in 0..stored {
            let object = format!("{}.checkpoint/segment-{segment}", job.id);
            env.results.objects.lock().expect("no panic").insert(object, b"x".to_vec());
        }
        store.create_by_other(job.clone());
        store.lose_other();
        assert_eq!(daemon.ended(&job.id).await.job.state, JobState::Done);
        assert_eq!(env.worker.segments.load(Ordering::SeqCst), written);
        until(async || env.results.names() == [job.id.as_str()]).await;
        daemon.stop().await;
    }
}

#[tokio::test]
async fn the_end_of_a_job_that_another_daemon_has_is_not_recorded() {
    for what in ["hang and make", "hang and break"] {
        let env = TestEnv::new();
        let (daemon, store) = run(&env);
        let reservation = daemon.reserve(10).expect("none is held");
        let id = daemon.create_new(NewJob { reservation: Some(reservation), ..new_job(what) }).await.job.id;
        until(async || daemon.view(&id).await.progress == 40).await;
        store.adopt_by_other_unnoticed(&[&id]);
        env.worker.release.store(true, Ordering::SeqCst);
        until(async || env.folders().is_empty() && !daemon.jobs.has_unfinished().await).await;
        assert_eq!(daemon.view(&id).await.job.state, JobState::Queued, "{what}");
        assert!(env.results.names().contains(&input_name(&id)), "{what}");
        assert_eq!(env.results.names().contains(&id), what == "hang and make", "{what}");
        assert_eq!(daemon.used(), Usage::default());
        assert!(daemon.reserve(10).is_ok(), "the reservation is released");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn an_adopted_job_fetches_its_clip_and_is_done_billed_posted_and_deleted() {
    let env = TestEnv::new();
    let (daemon, store) = run(&env);
    for number in [1, 2] {
        let job = of_other("make", number);
        put_input(&env, &job.id);
        store.create_by_other(job);
    }
    let (unfinished, finished) = (of_other("", 1).id, of_other("", 2).id);
    store.by_other(cancelled(&finished));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(env.worker.started.lock().expect("no panic").is_empty(), "its daemon is there");
    store.lose_other();
    let ended = daemon.ended(&unfinished).await;
    assert_eq!((ended.job.state, ended.progress), (JobState::Done, 100));
    daemon.expect_usage(Usage { images: 3, microdollars: 250_000 }, "it is billed").await;
    assert!(daemon.reserve(7).is_ok(), "the reservation is released");
    // Both webhooks are this daemon's now.
    until(async || env.webhooks.count() == 2).await;
    until(async || env.folders().is_empty() && !env.results.names().contains(&input_name(&unfinished))).await;
    assert!(env.results.names().contains(&unfinished));
    // So are the deletions.
    env.advance(RESULT_SECONDS);
    expiry::delete_expired(&daemon.jobs.0, UnixSeconds(NOW + RESULT_SECONDS)).await;
    assert!(!env.results.names().contains(&unfinished));
    expiry::delete_expired(&daemon.jobs.0, UnixSeconds(NOW + RECORD_SECONDS)).await;
    let stored = [unfinished, finished].map(|id| daemon.services.store.job(&id).expect("it reads"));
    assert_eq!(stored, [None, None]);
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_that_is_adopted_back_runs_again_from_its_clip() {
    let env = TestEnv::new();
    let (daemon, store) = run(&env);
    let id = daemon.create_new(new_job("hang and make")).await.job.id;
    until(async || daemon.view(&id).await.progress == 40).await;
    store.adopt_by_other(&[&id]);
    store.lose_other();
    until(async || env.worker.started.lock().expect("no panic").len() == 2).await;
    env.worker.release.store(true, Ordering::SeqCst);
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.expect_usage(Usage { images: 3, microdollars: 250_000 }, "once").await;
    until(async || env.folders().is_empty() && env.results.names() == [id.as_str()]).await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_adopted_job_whose_clip_cannot_be_fetched_fails() {
    for (is_down, why) in [(false, "ended unexpectedly"), (true, "could not be fetched")] {
        let env = TestEnv::new();
        let (daemon, store) = run(&env);
        let job = of_other("make", 1);
        store.create_by_other(job.clone());
        env.results.is_down.store(is_down, Ordering::SeqCst);
        store.lose_other();
        let error = daemon.ended(&job.id).await.job.error.expect("it has no clip");
        assert!(error.code == "internal_error" && error.message.contains(why), "{error:?}");
        until(async || env.folders().is_empty()).await;
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_stored_clip_is_deleted_at_every_end_of_its_job() {
    let env = TestEnv::new();
    let (daemon, _store) = run(&env);
    let no_clips = async || until(async || !env.results.names().iter().any(|name| name.ends_with(".input"))).await;
    for what in ["make", "fail", "panic"] {
        let id = daemon.create_new(new_job(what)).await.job.id;
        daemon.ended(&id).await;
        no_clips().await;
    }
    let running = daemon.create_new(new_job("hang")).await.job.id;
    until(async || daemon.view(&running).await.progress == 40).await;
    let queued = daemon.create_new(named("make", "order")).await.job.id;
    let other = NewJob { fingerprint: [8; 32], ..named("make", "order") };
    assert_eq!(daemon.create(other).await.expect("it exists"), Created::Conflict);
    assert!(matches!(daemon.create(named("make", "order")).await, Ok(Created::Same(_))));
    until(async || env.folders().len() == 2).await;
    assert_eq!(env.results.names().iter().filter(|name| name.ends_with(".input")).count(), 2);
    for id in [queued, running] {
        daemon.jobs.remove(KEY, &id).await.expect("it is there");
    }
    no_clips().await;
    // One that cannot be deleted at the end goes with the record.
    let id = daemon.create_new(new_job("hang and fail")).await.job.id;
    until(async || daemon.view(&id).await.progress == 40).await;
    env.results.is_down.store(true, Ordering::SeqCst);
    env.worker.release.store(true, Ordering::SeqCst);
    daemon.ended(&id).await;
    until(async || env.folders().is_empty()).await;
    env.results.is_down.store(false, Ordering::SeqCst);
    assert!(env.results.names().contains(&input_name(&id)));
    assert_eq!(daemon.jobs.remove(KEY, &id).await.expect("it is there"), Some(Removed::Deleted));
    no_clips().await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_clip_that_cannot_be_stored_creates_no_job() {
    let env = TestEnv::new();
    let (daemon, _store) = run(&env);
    env.results.is_down.store(true, Ordering::SeqCst);
    let reservation = daemon.reserve(10).expect("none is held");
    let refused = daemon.create(NewJob { reservation: Some(reservation), ..new_job("make") }).await;
    assert!(matches!(refused, Err(JobsError::Results(_))), "{refused:?}");
    until(async || env.folders().is_empty()).await;
    assert!(daemon.reserve(10).is_ok());
    assert_eq!(daemon.jobs.list(KEY, None, 10).await.expect("it reads"), Page::default());
    daemon.stop().await;
}

#[tokio::test]
async fn images_that_another_daemon_reserved_meanwhile_are_not_reserved_twice() {
    let env = TestEnv::new();
    let (daemon, store) = run(&env);
    let reservation = daemon.reserve(8).expect("none is held");
    assert_eq!(
        reservation.quota_check(),
        Some(QuotaCheck { plan_images: Some(10), key_images: None }),
        "of a store that other daemons use"
    );
    store.create_by_other(of_other("make", 1));
    let refused = daemon.create(NewJob { reservation: Some(reservation), ..new_job("hang") }).await;
    assert!(matches!(refused, Err(JobsError::Quota(_))), "{refused:?}");
    until(async || env.results.names().is_empty()).await;
    assert!(daemon.reserve(8).is_ok(), "the reservation is released");
    daemon.stop().await;
}
