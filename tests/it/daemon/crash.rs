//! A daemon killed repeatedly under load keeps what it acknowledged and bills nothing twice.

#![cfg(unix)]

use crate::cli::serve::{KEY, Running};
use crate::support::command::{backdrop, json, stderr};
use crate::support::pictures::png;
use crate::support::tier::rounds;
use backdrop::image::Size;
use bytes::Bytes;
use reqwest::Client;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CLIENTS: usize = 6;

/// A picture that is a cutout already, so that the network is not run.
fn cutout() -> Bytes {
    png(Size::new(16, 16), |x, _| [200, 90, 30, if x < 8 { 255 } else { 0 }])
}

/// What the clients sent and received.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    answered: AtomicU64,
    saved: Mutex<BTreeSet<String>>,
}

/// Sends requests until the daemon stops answering.
async fn load(client: Client, url: String, file: Bytes, progress: Arc<Progress>, name: String) {
    for turn in 0.. {
        progress.sent.fetch_add(1, Ordering::SeqCst);
        let form = Form::new().part("file", Part::stream(file.clone()));
        let response = client.post(format!("{url}/remove")).bearer_auth(KEY).multipart(form).send().await;
        match response {
            Ok(response) if response.status() == 200 => progress.answered.fetch_add(1, Ordering::SeqCst),
            Ok(response) => panic!("{}", response.status()),
            Err(_) => return,
        };
        if turn % 16 == 0 {
            let name = format!("{name} {turn}");
            let preset = client.post(format!("{url}/presets")).bearer_auth(KEY).json(&json!({ "name": name }));
            match preset.send().await {
                Ok(response) if response.status() == 200 => progress.saved.lock().unwrap().insert(name),
                Ok(response) => panic!("{}", response.status()),
                Err(_) => return,
            };
        }
    }
}

/// What `backdrop keys …` prints. The clients go on meanwhile.
async fn keys(folder: &Path, arguments: [&str; 2]) -> Value {
    let mut command = backdrop();
    command.arg("keys").args(arguments).args(["--json", "--data-dir"]).arg(folder);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it runs");
    assert!(output.status.success(), "{}", stderr(&output));
    json(&output)
}

#[tokio::test]
async fn kills_under_load_lose_nothing_acknowledged_and_bill_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (file, progress) = (cutout(), Arc::new(Progress::default()));
    let mut billed = 0;
    // Each with the response to it from its acknowledgement on.
    let mut secrets: Vec<(String, u16)> = Vec::new();
    let kills = rounds(8, 100);
    for run in 0..=kills {
        let mut running = Running::start(folder.path(), &[("BACKDROP_LIMITS_RATE_PER_MINUTE", "1000000")]);
        let used = running.get("/account").await["used"].as_u64().expect("a number");
        let (answered, sent) = (progress.answered.load(Ordering::SeqCst), progress.sent.load(Ordering::SeqCst));
        assert!((answered..=sent).contains(&used), "{answered} answered, {sent} sent, {used} billed in run {run}");
        billed = used;
        for (secret, expected) in &secrets {
            let response = running.client.get(format!("{}/account", running.url)).bearer_auth(secret).send().await;
            assert_eq!(response.expect("a response").status(), *expected, "a key in run {run}");
        }
        // The bills of requests in progress at the kill are known now.
        progress.answered.store(used, Ordering::SeqCst);
        progress.sent.store(used, Ordering::SeqCst);
        if run == kills {
            let mut stored = BTreeSet::new();
            let mut path = "/presets".to_owned();
            loop {
                let page = running.get(&path).await;
                let names = page["presets"].as_array().expect("a list").iter();
                stored.extend(names.map(|preset| preset["name"].as_str().expect("a name").to_owned()));
                let Some(cursor) = page["next_cursor"].as_str() else { break };
                path = format!("/presets?cursor={cursor}");
            }
            let saved = progress.saved.lock().unwrap();
            assert!(saved.is_subset(&stored), "{} saved, {} stored", saved.len(), stored.len());
            assert!(!saved.is_empty());
            break;
        }
        let revoked = keys(folder.path(), ["create", "--label=revoked"]).await;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let name = format!("{run} {number}");
                let (client, url) = (running.client.clone(), running.url.clone());
                tokio::spawn(load(client, url, file.clone(), Arc::clone(&progress), name))
            })
            .collect();
        // A loaded machine may need longer than the pause below.
        let is_loaded = async {
            while progress.answered.load(Ordering::SeqCst) < used + 2 || progress.saved.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), is_loaded).await.expect("the daemon answers the clients");
        // Runs of different lengths, so that kills happen at different moments.
        tokio::time::sleep(Duration::from_millis(20 + (run as u64 * 37) % 90)).await;
        let revocation = ["revoke", revoked["id"].as_str().expect("an id")];
        let (kept, _) = tokio::join!(keys(folder.path(), ["create", "--label=kept"]), keys(folder.path(), revocation));
        let secret = |key: &Value| key["key"].as_str().expect("a secret").to_owned();
        secrets.extend([(secret(&kept), 200), (secret(&revoked), 401)]);
        running.daemon.0.kill().expect("it runs");
        running.daemon.0.wait().expect("it ends");
        for number in clients {
            number.await.expect("no response but 200");
        }
    }
    assert!(billed > kills as u64, "{billed} bills: there was hardly any load");
}
