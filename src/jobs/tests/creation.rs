//! Tests of creating jobs: repeated requests, limits per key, and failures that leave nothing behind.

use super::support::*;

#[tokio::test]
async fn a_repeated_request_returns_its_first_job_and_another_one_under_its_name_is_a_conflict() {
    let env = TestEnv::new();
    let daemon = env.start();
    let first = daemon.create_new(named("make", "order 1")).await;
    assert_eq!(daemon.create(named("make", "order 1")).await.expect("it exists"), Created::Same(first.clone()));
    let other = NewJob { fingerprint: [8; 32], ..named("make", "order 1") };
    assert_eq!(daemon.create(other).await.expect("it exists"), Created::Conflict);
    // Each key has its own names.
    let theirs = daemon.create_new(NewJob { key_id: "key_2".into(), ..named("make", "order 1") }).await;
    assert_ne!(theirs.job.id, first.job.id);
    // Nothing is left of the jobs that were not created.
    let expected: BTreeSet<String> = [first.job.id, theirs.job.id].into();
    until(async || env.folders().into_iter().collect::<BTreeSet<_>>() == expected).await;
}

#[tokio::test]
async fn a_refusal_of_too_many_unfinished_jobs_releases_the_reservation() {
    let env = TestEnv::new();
    let daemon = env.start();
    for turn in 0..5 {
        daemon.create_new(named("make", &turn.to_string())).await;
    }
    let reservation = daemon.reserve(10).expect("none is held");
    let refused = daemon.create(NewJob { reservation: Some(reservation), ..new_job("make") }).await;
    assert!(matches!(refused, Err(JobsError::TooMany(5))), "{refused:?}");
    assert!(daemon.reserve(10).is_ok(), "the refused job has released its reservation");
    // A repetition is no further job.
    assert!(matches!(daemon.create(named("make", "3")).await, Ok(Created::Same(_))));
    until(async || env.folders().len() == 5).await;
}

#[tokio::test]
async fn a_job_that_cannot_be_recorded_leaves_nothing_behind() {
    let env = TestEnv::new();
    let daemon = env.start();
    let reservation = daemon.reserve(10).expect("none is held");
    let unknown = NewJob { account: "unknown".into(), reservation: Some(reservation), ..new_job("make") };
    assert!(matches!(daemon.create(unknown).await, Err(JobsError::Write(_))));
    // The same for a job without a clip,
    let incoming = daemon.jobs.incoming("acme", 6).await.expect("a folder");
    assert!(matches!(daemon.jobs.create(new_job("make"), incoming).await, Err(JobsError::Io { .. })));
    // and for a clip without a job.
    drop(daemon.jobs.incoming("acme", 6).await.expect("a folder"));
    until(async || env.folders().is_empty()).await;
    assert!(daemon.reserve(10).is_ok());
    assert_eq!(daemon.jobs.list(KEY, None, 10).await.expect("it reads"), Page::default());
}
