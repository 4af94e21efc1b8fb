//! Several daemons on one PostgreSQL database: all work, each knows what the others did, and the others go on when one is killed.

#![cfg(unix)]

mod storm;
mod support;
mod updates;

use crate::support::command::{backdrop, stderr, stdout};
use crate::support::postgres::{PASSWORD, Server, name_of, results_in};
use crate::video::support::made;
use bytes::Bytes;
use reqwest::multipart::{Form, Part};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Caller, Cluster, KEY, PATIENCE, create_key, cutout, until_billed, until_status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_daemon_works_and_knows_what_the_others_did() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 3);
    let caller = Caller::new(&cluster);
    cluster.until_ready(&caller.client).await;
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
    until_billed(&caller.client, &cluster).await;
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "2");
    let body = json!({ "name": "shop" });
    let post = |client: &Client, api: &str| client.post(format!("{api}/presets")).json(&body);
    assert_eq!(caller.until_answered(post).await.status(), 200);
    for _ in 0..3 {
        assert_eq!(caller.get("/presets").await["presets"].as_array().map(Vec::len), Some(1));
    }

    let key = create_key(&cluster).expect("it is created");
    println!("a key is known everywhere after {:?}", caller.all_answer("/account", &key, 200).await);
    let id = stdout(&cluster.command(&["keys", "list"]));
    let id = id.lines().find(|line| line.contains("storm")).and_then(|line| line.split_whitespace().next());
    let revoked = cluster.command(&["keys", "revoke", id.expect("it is listed")]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    println!("a revoked key is refused everywhere after {:?}", caller.all_answer("/account", &key, 401).await);

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
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 2);
    let caller = Caller::new(&cluster);
    cluster.until_ready(&caller.client).await;
    let clip = made(folder.path(), "clip.mp4", &["testsrc2=size=160x96:rate=10:duration=20"], "-pix_fmt yuv420p");
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
    cluster.kill(0);
    let start = Instant::now();
    let done = until_job(&caller, &apis[1], &path, "done").await;
    println!("a clip of twenty seconds is finished elsewhere {:?} after its daemon was killed", start.elapsed());
    assert!(cluster.log(1).contains("a clip resumes"), "{}", cluster.log(1));
    assert_eq!((&done["progress"], &done["output_seconds"]), (&100.into(), &20.0.into()));
    let result = caller.client.get(done["result_url"].as_str().expect("an address"));
    let result = result.send().await.unwrap().bytes().await.unwrap();
    assert_eq!(Some(result.len() as u64), done["size_bytes"].as_u64());
    until_billed(&caller.client, &cluster).await;
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT images FROM usage").trim(), "20", "it is billed once");

    // The one that was killed comes back, and knows all of it.
    cluster.restart_ended();
    until_job(&caller, &apis[0], &path, "done").await;
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
async fn without_a_lease_bills_are_refused_with_503_while_the_database_is_away_and_readiness_fails() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), server.database(), 1);
    let caller = Caller::new(&cluster);
    // No picture before: a key has a lease once it was billed.
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
    ] {
        let response = request.bearer_auth(KEY).send().await.expect("it answers");
        let retry = response.headers().contains_key("retry-after");
        let (url, status) = (response.url().clone(), response.status());
        let body = response.text().await.expect("a text");
        assert!(status == 503 && retry && !body.contains(PASSWORD), "{url}: {status} {retry} {body}");
    }
    // From memory.
    let account = caller.client.get(format!("{api}/account")).bearer_auth(KEY).send().await.expect("it answers");
    assert_eq!(account.json::<Value>().await.expect("JSON")["used"], 0);
    server.resume(&[]);
    until_status(&caller.client, &ready, 200).await;
    assert_eq!(caller.picture("second", &cutout()).await.status(), 200);
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "1");
    assert!(!cluster.log(0).contains(PASSWORD));
}

/// A picture at one daemon.
async fn post_picture(client: &Client, api: &str, key: &str, name: Option<&str>) -> Response {
    let form = Form::new().part("file", Part::stream(cutout()));
    let mut request = client.post(format!("{api}/remove")).bearer_auth(key).multipart(form);
    if let Some(name) = name {
        request = request.header("Idempotency-Key", name);
    }
    request.send().await.expect("it answers")
}

/// Waits until both daemons have a lease that was taken or renewed lately.
async fn until_both_lease(server: &Server, cluster: &Cluster) {
    let start = Instant::now();
    let text = "SELECT count(DISTINCT daemon) FROM leases WHERE images > 0 AND lease_until > now() + interval '30 s'";
    while server.sql(name_of(&cluster.url), text).trim() != "2" {
        assert!(start.elapsed() < PATIENCE, "the daemons have no leases");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_leases_answer_pictures_which_are_billed_once_it_is_back() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 2);
    let caller = Caller::new(&cluster);
    let apis = cluster.apis();
    let ready = [0, 1].map(|number| format!("{}/readyz", cluster.admin(number)));
    cluster.until_ready(&caller.client).await;
    // With a quota, so that leases have rows.
    let create = ["keys", "create", "--account", "default", "--label", "leased", "--monthly-images", "1000"];
    let key = cluster.printed(&create);
    caller.all_answer("/account", &key, 200).await;
    let mut billed = 0;
    for api in &apis {
        assert_eq!(post_picture(&caller.client, api, &key, None).await.status(), 200);
        billed += 1;
    }
    until_both_lease(&server, &cluster).await;

    server.crash();
    let gone = Instant::now();
    let mut answered = 0;
    loop {
        let response = post_picture(&caller.client, &apis[0], &key, None).await;
        if response.status() != 200 {
            let retry = response.headers().contains_key("retry-after");
            assert!(response.status() == 503 && retry, "{response:?}");
            break;
        }
        if answered == 0 {
            // The same request at both is billed once.
            for api in &apis {
                assert_eq!(post_picture(&caller.client, api, &key, Some("twice")).await.status(), 200);
            }
            billed += 1;
            let shown = until_status(&caller.client, &ready[0], 200).await;
            assert!(shown.contains("the store cannot write") && !shown.contains(PASSWORD), "{shown}");
            let presets = caller.client.get(format!("{}/presets", apis[0])).bearer_auth(KEY).send().await;
            assert_eq!(presets.expect("it answers").status(), 503);
        }
        (billed, answered) = (billed + 1, answered + 1);
        assert!(gone.elapsed() < PATIENCE, "the lease does not end");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((2..100).contains(&answered), "until the lease ended, before its images were used up: {answered}");
    until_status(&caller.client, &ready[0], 503).await;
    server.resume(&[]);
    until_status(&caller.client, &ready[0], 200).await;
    until_status(&caller.client, &ready[1], 200).await;
    until_billed(&caller.client, &cluster).await;
    let sql = |text: &str| server.sql(name_of(&cluster.url), text).trim().to_owned();
    assert_eq!(sql("SELECT sum(images) FROM usage"), billed.to_string());
    assert_eq!(sql("SELECT count(*) FROM requests"), "1");

    // A daemon that is killed meanwhile loses what it answered, and its lease returns at its next start at the latest.
    for api in &apis {
        assert_eq!(post_picture(&caller.client, api, &key, None).await.status(), 200);
        billed += 1;
    }
    until_both_lease(&server, &cluster).await;
    server.crash();
    assert_eq!(post_picture(&caller.client, &apis[1], &key, None).await.status(), 200);
    cluster.kill(1);
    server.resume(&[]);
    cluster.restart_ended();
    cluster.until_ready(&caller.client).await;
    let sql = |text: &str| server.sql(name_of(&cluster.url), text).trim().to_owned();
    assert_eq!(sql("SELECT count(DISTINCT daemon) FROM leases WHERE lease_until > now() + interval '6 s'"), "1");
    assert_eq!(sql("SELECT sum(images) FROM usage"), billed.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_not_exceeded_by_daemons_that_lose_the_database() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.database();
    let cluster = Cluster::start(folder.path(), url.clone(), 2);
    let caller = Caller::new(&cluster);
    cluster.until_ready(&caller.client).await;
    // The free plan has 50 images a month.
    cluster.printed(&["accounts", "create", "free"]);
    let key = cluster.printed(&["keys", "create", "--account", "free", "--label", "free"]);
    caller.all_answer("/account", &key, 200).await;
    let statuses = async |most: usize| {
        let mut statuses = Vec::new();
        for number in 0..most {
            statuses.push(post_picture(&caller.client, &caller.apis[number % 2], &key, None).await.status().as_u16());
        }
        statuses
    };
    assert_eq!(statuses(10).await, [200; 10]);
    until_both_lease(&server, &cluster).await;
    server.crash();
    let away = statuses(30).await;
    let answered = away.iter().filter(|status| **status == 200).count();
    assert!((2..=8).contains(&answered), "as far as two leases of at most four images go: {away:?}");
    assert!(away.iter().all(|status| [200, 503].contains(status)), "{away:?}");
    server.resume(&[]);
    cluster.until_ready(&caller.client).await;
    // The rest, while the leases shrink with it. 503: a daemon leases the last images.
    let start = Instant::now();
    let mut exhausted = 0;
    while exhausted < 2 {
        exhausted = statuses(2).await.iter().filter(|status| **status == 402).count();
        assert!(start.elapsed() < PATIENCE, "the quota is not exhausted");
    }
    until_billed(&caller.client, &cluster).await;
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "50");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_database_lost_commits_ends_with_an_error() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 1);
    let caller = Caller::new(&cluster);
    assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    // As a standby that was promoted before the last commits reached it.
    let lose = "UPDATE meta SET number = number - 1 WHERE name = 'commits'; \
         DELETE FROM commits WHERE number > (SELECT number FROM meta WHERE name = 'commits')";
    server.sql(name_of(&cluster.url), lose);
    server.cut_connections();
    cluster.until_failed(0, "stale").await;
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
