//! Tests of webhooks and their retries.

use super::support::*;

#[tokio::test]
async fn a_webhook_is_sent_once_with_the_jobs_view() {
    let env = TestEnv::new();
    let daemon = env.run();
    let (done, failed) =
        (daemon.create_new(with_webhook("make")).await.job.id, daemon.create_new(with_webhook("fail")).await.job.id);
    until(async || daemon.view(&done).await.job.webhook.is_some_and(|hook| hook.attempts == 1)).await;
    until(async || daemon.view(&failed).await.job.webhook.is_some_and(|hook| hook.attempts == 1)).await;
    let mut attempts = env.webhooks.attempts.lock().expect("no panic").clone();
    attempts.sort_by_key(|(_, _, body)| body.ends_with("100"));
    let expected = |id: &str, end: &str| {
        ("https://example.com/hook".to_owned(), id.replace("job_", "msg_"), format!("{id} {end}"))
    };
    assert_eq!(attempts[1], expected(&done, "done 100"));
    assert!(attempts[0].2.starts_with(&format!("{failed} error")), "{:?}", attempts[0]);
    assert_eq!(daemon.services.store.webhook_jobs(UnixSeconds(NOW), 9).await.expect("it reads"), []);
    daemon.stop().await;
}

#[tokio::test]
async fn a_refused_webhook_is_retried_for_a_day_with_one_id_over_restarts() {
    let env = TestEnv::new();
    *env.webhooks.receiver.lock().expect("no panic") = Receiver::Refuses;
    let daemon = env.run();
    let id = daemon.create_new(with_webhook("make")).await.job.id;
    let mut daemon = daemon;
    let (mut attempts, mut at) = (0, 0);
    for delay in [0, 5, 60, 300, 1800, 7200, 21600, 21600, 21600] {
        if attempts == 3 {
            *env.webhooks.receiver.lock().expect("no panic") = Receiver::Panics;
            daemon.stop().await;
            daemon = env.run();
        }
        at += delay;
        env.advance(delay);
        // Its sleep follows the system clock, not the test's.
        daemon.jobs.0.ended.notify_one();
        attempts += 1;
        until(async || daemon.view(&id).await.job.webhook.is_some_and(|hook| hook.attempts == attempts)).await;
        assert_eq!(env.webhooks.count(), attempts as usize);
    }
    let hook = daemon.view(&id).await.job.webhook.expect("it has one");
    assert_eq!(hook.next_at, None, "the next attempt would be a day after the end: {at} s and 6 h");
    let ids: BTreeSet<String> =
        env.webhooks.attempts.lock().expect("no panic").iter().map(|(_, id, _)| id.clone()).collect();
    assert_eq!(ids.len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_webhook_is_not_retried_when_its_receiver_is_gone() {
    let env = TestEnv::new();
    *env.webhooks.receiver.lock().expect("no panic") = Receiver::Gone;
    let daemon = env.run();
    let id = daemon.create_new(with_webhook("make")).await.job.id;
    until(async || env.webhooks.count() == 1).await;
    until(async || daemon.view(&id).await.job.webhook.is_some_and(|hook| hook.attempts == 1)).await;
    assert_eq!(daemon.view(&id).await.job.webhook.and_then(|hook| hook.next_at), None);
    daemon.stop().await;
}
