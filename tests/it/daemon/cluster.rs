//! Several daemons on one PostgreSQL database: all work, each knows what the others did, and the others go on when one is killed.

#![cfg(unix)]

mod storm;
mod support;
mod updates;

use crate::support::command::{backdrop, stderr, stdout};
use crate::support::postgres::{PASSWORD, Server, name_of, results_in};
use crate::video::support::made;
use bytes::Bytes;
use reqwest::Client;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Caller, KEY, PATIENCE, cutout, started, until_status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_daemon_works_and_knows_what_the_others_did() {
    let Some((server, _folder, mut cluster, caller)) = started(3).await else { return };
    // The same request at each of them is billed once.
    for _ in 0..3 {
        assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    }
    // At the same time too.
    let file = cutout();
    let post = || caller.picture("second", &file);
    let at_once = tokio::join!(post(), post(), post());
    for response in [at_once.0, at_once.1, at_once.2] {
        assert_eq!(response.status(), 200);
    }
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "2");
    let body = json!({ "name": "shop" });
    let post = |client: &Client, api: &str| client.post(format!("{api}/presets")).json(&body);
    assert_eq!(caller.until_answered(post).await.status(), 200);
    for _ in 0..3 {
        assert_eq!(caller.get("/presets").await["presets"].as_array().map(Vec::len), Some(1));
    }

    // The others go on when two are killed, without a break.
    cluster.kill(0);
    cluster.kill(2);
    assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    assert_eq!(caller.get("/account").await["used"], 2, "a repeated request is not billed again");
}

/// Waits until a daemon shows a job in a state.
async fn until_job(caller: &Caller, api: &str, path: &str, status: &str) -> Value {
    let start = Instant::now();
    loop {
        if let Ok(response) = caller.client.get(format!("{api}{path}")).bearer_auth(KEY).send().await
            && let Ok(job) = response.json::<Value>().await
            && job["status"] == status
        {
            return job;
        }
        assert!(start.elapsed() < PATIENCE, "{api}{path} is not {status}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemons_clips_are_finished_by_another_one_and_any_daemon_cancels_them() {
    let Some((server, folder, mut cluster, caller)) = started(2).await else { return };
    let clip = made(folder.path(), "clip.mp4", &["testsrc2=size=160x96:rate=10:duration=10"], "-pix_fmt yuv420p");
    let clip = Bytes::from(std::fs::read(clip).unwrap());
    let apis = cluster.apis();
    let post = async |name: &str| {
        let form = Form::new().part("file", Part::stream(clip.clone()).file_name("clip.mp4"));
        let request = caller.client.post(format!("{}/video/remove", apis[0])).header("Idempotency-Key", name);
        let job: Value = request.bearer_auth(KEY).multipart(form).send().await.unwrap().json().await.unwrap();
        job["status_url"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
    };
    // Through the other daemon.
    let cancelled = post("cancelled").await;
    let deleted = caller.client.delete(format!("{}{cancelled}", apis[1])).bearer_auth(KEY).send().await.unwrap();
    assert_eq!(deleted.status(), 200, "{}", deleted.text().await.unwrap_or_default());
    until_job(&caller, &apis[0], &cancelled, "error").await;

    let path = post("finished").await;
    until_job(&caller, &apis[1], &path, "processing").await;
    // The first segment of two seconds is in the result store.
    let id = path.trim_start_matches("/jobs/");
    let checkpoint = folder.path().join(format!("results/{id}.checkpoint"));
    let start = Instant::now();
    let is_state = |file: std::fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("segment-") && name.ends_with(".state")
    };
    while !std::fs::read_dir(&checkpoint).is_ok_and(|files| files.flatten().any(is_state)) {
        assert!(start.elapsed() < PATIENCE, "no checkpoint is stored");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let starts = |number: &usize| {
        let log = cluster.log(*number);
        log.lines().any(|line| line.contains("a job starts") && line.contains(id))
    };
    let runner = (0..2).find(starts).expect("one of them runs it");
    let other = 1 - runner;
    cluster.kill(runner);
    let done = until_job(&caller, &apis[other], &path, "done").await;
    assert!(cluster.log(other).contains("a clip resumes"), "{}", cluster.log(other));
    assert_eq!((&done["progress"], &done["output_seconds"]), (&100.into(), &10.0.into()));
    let result = caller.client.get(done["result_url"].as_str().expect("an address"));
    let result = result.send().await.unwrap().bytes().await.unwrap();
    assert_eq!(Some(result.len() as u64), done["size_bytes"].as_u64());
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT images FROM usage").trim(), "10", "it is billed once");

    // The one that was killed comes back, and knows all of it.
    cluster.restart_ended();
    until_job(&caller, &apis[runner], &path, "done").await;
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("results")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "only the result is left: {left:?}");

    let path = post("uninterrupted").await;
    let done = until_job(&caller, &apis[0], &path, "done").await;
    let uninterrupted = caller.client.get(done["result_url"].as_str().expect("an address"));
    let uninterrupted = uninterrupted.send().await.unwrap().bytes().await.unwrap();
    assert!(result == uninterrupted, "{} bytes, without a kill {} others", result.len(), uninterrupted.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_everything_is_503_with_a_reason_and_goes_on_by_itself_when_it_is_back() {
    let Some((server, _folder, cluster, caller)) = started(1).await else { return };
    assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    let [ready, live] = ["readyz", "livez"].map(|path| format!("{}/{path}", cluster.admin(0)));
    until_status(&caller.client, &ready, 200).await;
    server.crash();
    let reason = until_status(&caller.client, &ready, 503).await;
    assert!(reason.contains("the store cannot write") && !reason.contains(PASSWORD), "{reason}");
    until_status(&caller.client, &live, 200).await;
    let api = &caller.apis[0];
    let picture = || Form::new().part("file", Part::stream(cutout()));
    for request in [
        caller.client.post(format!("{api}/remove")).header("Idempotency-Key", "second").multipart(picture()),
        caller.client.post(format!("{api}/remove")).multipart(picture()),
        caller.client.post(format!("{api}/presets")).json(&json!({ "name": "one" })),
        caller.client.get(format!("{api}/presets")),
        caller.client.get(format!("{api}/jobs")),
        caller.client.get(format!("{api}/account")),
    ] {
        let response = request.bearer_auth(KEY).send().await.expect("it answers");
        let retry = response.headers().contains_key("retry-after");
        let (url, status) = (response.url().clone(), response.status());
        let body = response.text().await.expect("a text");
        assert!(status == 503 && retry && !body.contains(PASSWORD), "{url}: {status} {retry} {body}");
    }
    server.resume(&[]);
    until_status(&caller.client, &ready, 200).await;
    assert_eq!(caller.picture("second", &cutout()).await.status(), 200);
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "2");
    assert!(!cluster.log(0).contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_not_exceeded_by_pictures_and_batches_at_several_daemons_at_once() {
    let Some((server, _folder, cluster, caller)) = started(2).await else { return };
    // The free plan has 50 images a month.
    cluster.printed(&["accounts", "create", "free"]);
    let key = cluster.printed(&["keys", "create", "--account", "free", "--label", "free"]);
    let picture = async |number: usize| {
        let form = Form::new().part("file", Part::stream(cutout()));
        let request = caller.client.post(format!("{}/remove", caller.apis[number % 2])).bearer_auth(&key);
        request.multipart(form).send().await.expect("it answers").status().as_u16()
    };
    let mut statuses = Vec::new();
    while statuses.iter().filter(|status| **status == 402).count() < 10 {
        let first = statuses.len();
        statuses.extend(futures_util::future::join_all((first..first + 8).map(&picture)).await);
    }
    assert!(statuses.iter().all(|status| [200, 402].contains(status)), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 50);
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "50");

    // Together the batches have more rows than are left, and each batch alone has fewer.
    cluster.printed(&["accounts", "create", "batches"]);
    let key = cluster.printed(&["keys", "create", "--account", "batches", "--label", "batches"]);
    let batch = async |number: usize| {
        let form = (0..8).fold(Form::new(), |form, _| form.part("files", Part::stream(cutout()).file_name("a.png")));
        let request = caller.client.post(format!("{}/remove-batch", caller.apis[number % 2])).bearer_auth(&key);
        let body: Value = request.multipart(form).send().await.expect("it answers").json().await.expect("JSON");
        body["results"].as_array().map(|rows| rows.iter().filter_map(|row| row["status"].as_u64()).collect::<Vec<_>>())
    };
    let rows: Vec<_> =
        futures_util::future::join_all((0..12).map(&batch)).await.into_iter().flatten().flatten().collect();
    assert!(rows.iter().all(|status| [200, 402].contains(status)), "{rows:?}");
    let delivered = rows.iter().filter(|status| **status == 200).count();
    assert!((43..=50).contains(&delivered), "{delivered}");
    let billed = server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage WHERE account = 'batches'");
    assert_eq!(billed.trim(), delivered.to_string());
}

#[test]
fn commands_work_on_the_database_and_the_store_moves_between_the_two() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (url, other, results) = (server.database(), server.database(), results_in(folder.path()));
    let run = |database: Option<&str>, arguments: &[&str]| {
        let mut command = backdrop();
        command.args(arguments).arg("--data-dir").arg(folder.path().join("data"));
        if let Some(url) = database {
            command.env("BACKDROP_STORE_URL", url).env("BACKDROP_JOBS_RESULTS", &results);
        }
        command.output().expect("the binary runs")
    };
    let ok = |database: Option<&str>, arguments: &[&str]| {
        let output = run(database, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        output
    };
    ok(Some(&url), &["accounts", "create", "acme", "--plan", "paid"]);
    ok(Some(&url), &["keys", "create", "--account", "acme", "--label", "shop"]);
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    ok(Some(&url), &["store", "export", first.to_str().expect("text")]);
    // Into a file and from there into another database.
    ok(None, &["store", "import", first.to_str().expect("text")]);
    ok(None, &["store", "export", second.to_str().expect("text")]);
    ok(Some(&other), &["store", "import", second.to_str().expect("text")]);
    assert!(stdout(&ok(Some(&other), &["keys", "list"])).contains("shop"));
    let check = run(Some(&url), &["store", "check"]);
    assert!(stderr(&check).contains("PostgreSQL"), "{}", stderr(&check));
    // The file was not moved into this database.
    let empty = server.database();
    let refused = run(Some(&empty), &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    assert!(!refused.status.success() && stderr(&refused).contains("store export"), "{}", stderr(&refused));
    // Results must be where every daemon finds them.
    let alone = backdrop().args(["config"]).env("BACKDROP_STORE_URL", &url).output().expect("the binary runs");
    assert!(stderr(&alone).contains("jobs.results"), "{}", stderr(&alone));
    for output in [check, refused, alone] {
        assert!(!stderr(&output).contains(PASSWORD), "{}", stderr(&output));
    }
}
