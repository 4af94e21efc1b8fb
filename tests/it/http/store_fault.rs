//! A store that cannot write: the daemon is unready with the reason, requests get 503, and it recovers without a restart.

use crate::http::daemon::{Daemon, KEY, LONG, TEST, Work, refusal, until};
use backdrop::store::{Change, ChangeError, OnCommit, RedbStore, StateStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the disk of a store is full.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) is_full: AtomicBool,
}

/// A store that refuses every change while its disk is full.
#[derive(Debug)]
pub(crate) struct FillingStore {
    pub(crate) store: RedbStore,
    pub(crate) disk: Arc<Disk>,
}

const REASON: &str = "no space left on device";

impl StateStore for FillingStore {
    fn file(&self) -> &RedbStore {
        &self.store
    }

    fn submit(&self, change: Change, done: OnCommit) {
        if self.fault().is_some() {
            done(Err(ChangeError::Unavailable(REASON.into())))
        } else {
            self.store.submit(change, done)
        }
    }

    fn fault(&self) -> Option<String> {
        self.disk.is_full.load(Ordering::SeqCst).then(|| REASON.to_owned())
    }
}

#[tokio::test]
async fn a_store_that_cannot_write_makes_the_daemon_unready_until_it_can() {
    let daemon = Daemon::start().await;
    let page = async |path: &str| {
        let get = daemon.client.get(format!("http://{}{path}", daemon.admin));
        get.send().await.expect("an answer")
    };
    let presets = async || {
        let get = daemon.client.get(daemon.url("/presets")).bearer_auth(KEY);
        get.send().await.expect("an answer")
    };
    assert_eq!(page("/readyz").await.status(), 200);
    daemon.disk.is_full.store(true, Ordering::SeqCst);

    let unready = refusal(page("/readyz").await).await;
    unready.is(503, "unavailable", None);
    assert!(unready.message.contains(REASON), "{}", unready.message);
    assert_eq!(page("/livez").await.status(), 200, "a restart would not help");
    // A bill that cannot be written: the client may retry; the reason is for the operator only.
    let refused = refusal(daemon.send("/remove", &[]).await).await;
    refused.is(503, "unavailable", None);
    assert!(refused.headers.contains_key("retry-after") && !refused.message.contains(REASON), "{}", refused.message);
    assert_eq!(daemon.engine.started(), 0, "refused before the work");
    let body = json!({ "name": "p2", "params": { "width": 7 } });
    let saved = daemon.post("/presets").json(&body).send().await.expect("an answer");
    refusal(saved).await.is(503, "unavailable", None);
    let listed: Value = presets().await.json().await.expect("JSON");
    assert_eq!(listed["presets"].as_array().map(Vec::len), Some(1), "reading still works");

    daemon.disk.is_full.store(false, Ordering::SeqCst);
    assert_eq!(page("/readyz").await.status(), 200);
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
    let account = daemon.client.get(daemon.url("/account")).bearer_auth(KEY).send().await.expect("an answer");
    assert_eq!(account.json::<Value>().await.expect("JSON")["used"], 1, "what was refused is not billed");
}

#[tokio::test]
async fn a_batch_is_refused_while_the_store_cannot_write_unless_it_is_not_billed() {
    let daemon = Daemon::start().await;
    daemon.disk.is_full.store(true, Ordering::SeqCst);
    let urls = json!({ "urls": ["https://example.org/5", "https://example.org/6"] });
    let send = async |key: &str| {
        let request = daemon.client.post(daemon.url("/remove-batch-url")).bearer_auth(key).timeout(LONG);
        request.json(&urls).send().await.expect("an answer")
    };
    let refused = refusal(send(KEY).await).await;
    refused.is(503, "unavailable", None);
    assert!(refused.headers.contains_key("retry-after") && !refused.message.contains(REASON), "{}", refused.message);
    assert_eq!((daemon.engine.started(), daemon.fetcher.fetches()), (0, 0));
    let body: Value = send(TEST).await.json().await.expect("JSON");
    assert_eq!(body["succeeded"], 2, "a sandbox key pays nothing");

    daemon.disk.is_full.store(false, Ordering::SeqCst);
    let body: Value = send(KEY).await.json().await.expect("JSON");
    assert_eq!(body["succeeded"], 2);
    assert_eq!(daemon.account(KEY).await["used"], 2);
}

#[tokio::test]
async fn a_row_whose_bill_fails_has_no_picture_and_is_billed_when_the_batch_is_sent_again() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Wait);
    let batch = async || -> Value {
        let request = daemon.post("/remove-batch-url").header("idempotency-key", "b");
        let urls = json!({ "urls": ["https://example.org/5", "https://example.org/6"] });
        request.json(&urls).send().await.expect("an answer").json().await.expect("JSON")
    };
    let fill = async {
        until("the work", || daemon.engine.started() == 2).await;
        daemon.engine.release.notify_one();
        while daemon.account(KEY).await["used"] != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        daemon.disk.is_full.store(true, Ordering::SeqCst);
        daemon.engine.release.notify_one();
    };
    let (body, ()) = tokio::join!(batch(), fill);
    assert_eq!((&body["succeeded"], &body["failed"]), (&json!(1), &json!(1)));
    let row = &body["results"][1];
    assert_eq!(
        (&row["status"], &row["error"]["code"], &row["cost"]),
        (&json!(503), &json!("unavailable"), &json!(0.0))
    );
    assert!(row.get("data_base64").is_none());
    daemon.disk.is_full.store(false, Ordering::SeqCst);
    daemon.engine.set(Work::Answer);
    let costs =
        batch().await["results"].as_array().expect("rows").iter().map(|row| row["cost"].clone()).collect::<Vec<_>>();
    assert_eq!((costs, &daemon.account(KEY).await["used"]), (vec![json!(0.0), json!(0.005)], &json!(2)));
}
