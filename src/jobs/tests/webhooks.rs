//! Tests of webhooks and their retries.

use super::support::*;

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
    assert_eq!(env.webhooks.ids().len(), 1);
    daemon.stop().await;
}
