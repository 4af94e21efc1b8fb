//! Tests of listing and viewing jobs: other keys, pages and progress.

use super::support::*;

#[tokio::test]
async fn a_listing_is_paged_newest_first_and_a_job_deleted_meanwhile_disturbs_no_page() {
    let env = TestEnv::new();
    let daemon = env.run();
    let mut ids = Vec::new();
    for turn in 0..7 {
        // The clock stands still, then runs backwards: the order is still the order of creation.
        env.advance(if turn > 3 { -100 } else { 0 });
        ids.insert(0, daemon.create_new(new_job("make")).await.job.id);
        daemon.create_new(NewJob { key_id: "key_2".into(), ..new_job("make") }).await;
        daemon.ended(&ids[0]).await;
    }
    let page = async |cursor: Option<&str>, limit| {
        let page = daemon.jobs.list(KEY, cursor, limit).await.expect("it reads");
        assert!(page.jobs.iter().all(|view| page.covers(&Cursor::of(&view.job))), "{page:?}");
        let next = page.next.map(|next| next.to_string());
        (page.jobs.into_iter().map(|view| view.job.id).collect::<Vec<_>>(), next)
    };
    assert_eq!(page(None, 100).await, (ids.clone(), None));
    let (first, next) = page(None, 3).await;
    assert_eq!(first, ids[..3]);
    // The job that the cursor names is deleted.
    daemon.jobs.remove(KEY, &ids[2]).await.expect("it is deleted");
    let (second, next) = page(next.as_deref(), 3).await;
    assert_eq!(second, ids[3..6]);
    assert_eq!(page(next.as_deref(), 3).await, (ids[6..].to_vec(), None));
    assert_eq!(page(None, 0).await.0.len(), 1, "a limit of 0 counts as 1");
    let refused = daemon.jobs.list(KEY, Some("1.x"), 3).await;
    assert!(matches!(refused, Err(JobsError::Cursor)), "{refused:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn progress_never_decreases_not_even_over_a_restart() {
    let env = TestEnv::new();
    let daemon = env.run();
    let id = daemon.create_new(new_job("hang")).await.job.id;
    until(async || daemon.view(&id).await.progress == 40).await;
    daemon.stop().await;
    let daemon = env.start();
    let view = daemon.view(&id).await;
    assert_eq!((view.job.state, view.progress), (JobState::Queued, 40));
    assert_eq!(daemon.jobs.list(KEY, None, 9).await.expect("it reads").jobs, [view]);
    // The end keeps the progress.
    let Some(Removed::Cancelled(view)) = daemon.jobs.remove(KEY, &id).await.expect("it is there") else {
        panic!("it had not ended");
    };
    assert_eq!(view.progress, 40);
    assert_eq!(daemon.view(&id).await.progress, 40);
}
