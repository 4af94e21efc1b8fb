//! A daemon killed repeatedly under load keeps what it acknowledged and bills nothing twice.

#![cfg(unix)]

use crate::cli::serve::Daemon;
use crate::support::command::http_client;
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

const KEY: &str = "bd_live_0123456789abcdefghijABCDEFGHIJ01";
const CLIENTS: usize = 6;

/// A picture that is a cutout already, so that the network is not run.
fn cutout() -> Bytes {
    png(Size::new(16, 16), |x, _| [200, 90, 30, if x < 8 { 255 } else { 0 }])
}

fn start(folder: &Path) -> (Daemon, String) {
    let settings = [("BACKDROP_BOOTSTRAP_KEY", KEY), ("BACKDROP_LIMITS_RATE_PER_MINUTE", "1000000")];
    let mut daemon = Daemon::start_with(folder, &settings);
    let url = format!("http://{}", daemon.address());
    (daemon, url)
}

async fn get(client: &Client, url: &str, path: &str) -> Value {
    let response = client.get(format!("{url}{path}")).bearer_auth(KEY).send().await.expect("a response");
    response.json().await.expect("JSON")
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

#[tokio::test]
async fn kills_under_load_lose_nothing_acknowledged_and_bill_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (file, progress) = (cutout(), Arc::new(Progress::default()));
    let mut billed = 0;
    let kills = rounds(8, 100);
    for run in 0..=kills {
        let (mut daemon, url) = start(folder.path());
        let client = http_client().build().expect("a client");
        let used = get(&client, &url, "/account").await["used"].as_u64().expect("a number");
        let (answered, sent) = (progress.answered.load(Ordering::SeqCst), progress.sent.load(Ordering::SeqCst));
        assert!((answered..=sent).contains(&used), "{answered} answered, {sent} sent, {used} billed in run {run}");
        billed = used;
        // The bills of requests in progress at the kill are known now.
        progress.answered.store(used, Ordering::SeqCst);
        progress.sent.store(used, Ordering::SeqCst);
        if run == kills {
            let mut stored = BTreeSet::new();
            let mut path = "/presets".to_owned();
            loop {
                let page = get(&client, &url, &path).await;
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
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let name = format!("{run} {number}");
                tokio::spawn(load(client.clone(), url.clone(), file.clone(), Arc::clone(&progress), name))
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
        daemon.0.kill().expect("it runs");
        daemon.0.wait().expect("it ends");
        for number in clients {
            number.await.expect("no response but 200");
        }
    }
    assert!(billed > kills as u64, "{billed} bills: there was hardly any load");
}
