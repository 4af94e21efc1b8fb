//! A daemon that is killed under load, again and again: what it has acknowledged is there, and nothing is there twice.

#![cfg(unix)]

use crate::cli::serve::Daemon;
use crate::support::command::http_client;
use crate::support::tier::rounds;
use backdrop::codec::{self, Channels, EncodeOptions, PngEffort};
use backdrop::image::{Buffer, Composite, Frame, OutputFormat, Quality, Size};
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
const AT_A_TIME: usize = 6;

/// A picture that is cut out already: it needs no network, and is made in a millisecond.
fn cutout() -> Bytes {
    let pixels = (0..16 * 16).flat_map(|at| [200, 90, 30, if at % 16 < 8 { 255 } else { 0 }]).collect::<Vec<u8>>();
    let options = EncodeOptions {
        format: OutputFormat::Png,
        quality: Quality::DEFAULT,
        png: PngEffort::Fast,
        channels: Channels::Rgba,
    };
    codec::encode(Composite::unchanged(Frame::new(Size::new(16, 16), Buffer::from(pixels))), &options).unwrap().bytes
}

fn start(folder: &Path) -> (Daemon, String) {
    let settings = [("BACKDROP_BOOTSTRAP_KEY", KEY), ("BACKDROP_LIMITS_RATE_PER_MINUTE", "1000000")];
    let mut daemon = Daemon::start_with(folder, &settings);
    let url = format!("http://{}", daemon.address());
    (daemon, url)
}

async fn get(client: &Client, url: &str, path: &str) -> Value {
    let answer = client.get(format!("{url}{path}")).bearer_auth(KEY).send().await.expect("an answer");
    answer.json().await.expect("JSON")
}

/// What callers know.
#[derive(Default)]
struct Ledger {
    asked: AtomicU64,
    answered: AtomicU64,
    saved: Mutex<BTreeSet<String>>,
}

/// Calls until nobody answers any more.
async fn load(client: Client, url: String, file: Bytes, ledger: Arc<Ledger>, name: String) {
    for turn in 0.. {
        ledger.asked.fetch_add(1, Ordering::SeqCst);
        let form = Form::new().part("file", Part::stream(file.clone()));
        let answer = client.post(format!("{url}/remove")).bearer_auth(KEY).multipart(form).send().await;
        match answer {
            Ok(answer) if answer.status() == 200 => ledger.answered.fetch_add(1, Ordering::SeqCst),
            Ok(answer) => panic!("{}", answer.status()),
            Err(_) => return,
        };
        if turn % 16 == 0 {
            let name = format!("{name} {turn}");
            let preset = client.post(format!("{url}/presets")).bearer_auth(KEY).json(&json!({ "name": name }));
            match preset.send().await {
                Ok(answer) if answer.status() == 200 => ledger.saved.lock().unwrap().insert(name),
                Ok(answer) => panic!("{}", answer.status()),
                Err(_) => return,
            };
        }
    }
}

#[tokio::test]
async fn kills_under_load_lose_nothing_acknowledged_and_count_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (file, ledger) = (cutout(), Arc::new(Ledger::default()));
    let mut billed = 0;
    let kills = rounds(8, 100);
    for life in 0..=kills {
        let (mut daemon, url) = start(folder.path());
        let client = http_client().build().expect("a client");
        let used = get(&client, &url, "/account").await["used"].as_u64().expect("a number");
        let (answered, asked) = (ledger.answered.load(Ordering::SeqCst), ledger.asked.load(Ordering::SeqCst));
        assert!((answered..=asked).contains(&used), "{answered} answered, {asked} asked, {used} billed in life {life}");
        billed = used;
        // What was under way at the kill is known now.
        ledger.answered.store(used, Ordering::SeqCst);
        ledger.asked.store(used, Ordering::SeqCst);
        if life == kills {
            let mut stored = BTreeSet::new();
            let mut path = "/presets".to_owned();
            loop {
                let page = get(&client, &url, &path).await;
                let names = page["presets"].as_array().expect("a list").iter();
                stored.extend(names.map(|preset| preset["name"].as_str().expect("a name").to_owned()));
                let Some(cursor) = page["next_cursor"].as_str() else { break };
                path = format!("/presets?cursor={cursor}");
            }
            let saved = ledger.saved.lock().unwrap();
            assert!(saved.is_subset(&stored), "{} saved, {} stored", saved.len(), stored.len());
            assert!(!saved.is_empty());
            break;
        }
        let callers: Vec<_> = (0..AT_A_TIME)
            .map(|caller| {
                let name = format!("{life} {caller}");
                tokio::spawn(load(client.clone(), url.clone(), file.clone(), Arc::clone(&ledger), name))
            })
            .collect();
        // Some lives are longer than others, so that the kill falls into every kind of moment.
        tokio::time::sleep(Duration::from_millis(20 + (life as u64 * 37) % 90)).await;
        daemon.0.kill().expect("it runs");
        daemon.0.wait().expect("it ends");
        for caller in callers {
            caller.await.expect("no answer but 200");
        }
    }
    assert!(billed > kills as u64, "{billed} bills: it was hardly under load");
}
