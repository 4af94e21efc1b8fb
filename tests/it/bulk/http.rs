//! Bulk runs over HTTP on a PostgreSQL database: `POST /bulk`, `/jobs`, and the daemons that lead the runs.

#![cfg(unix)]

use super::cluster::{Process, Scene, empty_queue, fill_with_failures, wait};
use super::support::{assert_exit, bulk, fill, rows, tree, url};
use crate::cli::serve::KEY;
use crate::support::command::{http_client, json};
use crate::support::moto::Moto;
use crate::support::postgres::name_of;
use crate::support::skipped;
use backdrop::store::{BulkJobCreated, BulkJobEnd, BulkRun, BulkRunState, JobError, JobState, NewBulkJob, NewChunk};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A place in the bucket of moto.
const S3_PLACE: &str = "s3://results/bulk";

/// The message of a daemon in its log when it begins to lead a run.
const LEADS: &str = "this daemon leads the run";

/// Daemons that lead runs between places in the folder of the scene or in S3, and process none: workers do.
struct Daemons<'a> {
    scene: &'a Scene,
    addresses: Vec<[String; 2]>,
    processes: Vec<Process>,
    runtime: Runtime,
    client: Client,
}

impl<'a> Daemons<'a> {
    fn start(scene: &'a Scene, size: usize) -> Self {
        Self::start_with(scene, size, |_| {})
    }

    fn start_with(scene: &'a Scene, size: usize, set: impl Fn(&mut Command)) -> Self {
        let config = scene.path("backdrop.toml");
        let places = json!([url(&scene.path("")).trim_end_matches('/'), S3_PLACE]);
        fs::write(&config, format!("[jobs.bulk_places]\ndefault = {places}\n")).unwrap();
        let (addresses, processes) = scene.daemons(size, |command| {
            command.arg("--config").arg(&config);
            command.env("BACKDROP_BOOTSTRAP_KEY", KEY).env("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000");
            set(command);
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = http_client().build().unwrap();
        Self { scene, addresses, processes, runtime, client }
    }

    /// Ends them, which drain.
    fn drain(mut self) {
        assert!(self.processes.iter_mut().all(|daemon| daemon.terminate() == Some(0)));
    }

    /// Ends a worker before them.
    fn drain_after(self, worker: Process) {
        self.scene.drain(worker);
        self.drain();
    }

    fn send_as(
        &self,
        key: &str,
        number: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, String, Value) {
        let request = self.request(key, number, method, path);
        self.answer(body.into_iter().fold(request, RequestBuilder::json))
    }

    fn request(&self, key: &str, number: usize, method: Method, path: &str) -> RequestBuilder {
        let [api, _] = &self.addresses[number];
        self.client.request(method, format!("http://{api}{path}")).bearer_auth(key)
    }

    /// Status, `Location` and body of an answer.
    fn answer(&self, request: RequestBuilder) -> (u16, String, Value) {
        self.runtime.block_on(async {
            let response = request.send().await.expect("an answer");
            let location = response.headers().get("location").map(|place| place.to_str().unwrap().to_owned());
            let status = response.status().as_u16();
            (status, location.unwrap_or_default(), response.json().await.expect("JSON"))
        })
    }

    /// `Location` and body of the answer to a request for a run.
    fn begin(&self, number: usize, body: &Value) -> (String, Value) {
        let (status, location, created) = self.send_as(KEY, number, Method::POST, "/bulk", Some(body));
        assert_eq!(status, 202, "{created}");
        (location, created)
    }

    fn get(&self, number: usize, path: &str) -> Value {
        let (status, _, body) = self.send_as(KEY, number, Method::GET, path, None);
        assert_eq!(status, 200, "{body}");
        body
    }

    /// A run into the folder `to`, with a report of the same name.
    fn run(&self, to: &str) -> Value {
        let report = url(&self.scene.path(to).with_extension("jsonl"));
        json!({ "from": url(&self.scene.path("in")), "to": url(&self.scene.path(to)), "report": report })
    }

    /// The job once it is over.
    fn ended(&self, number: usize, path: &str) -> Value {
        let mut job = Value::Null;
        self.scene.wait("the job ends", || {
            job = self.get(number, path);
            ["done", "error"].contains(&job["status"].as_str().unwrap())
        });
        job
    }
}

#[test]
fn a_run_whose_leading_daemon_is_killed_is_led_by_another_one_and_has_the_report_of_one_machine() {
    let Some(scene) = Scene::new() else { return };
    fill_with_failures(&scene.path("in"), 300);
    let mut daemons = Daemons::start(&scene, 2);
    let body = daemons.run("out");
    let (location, created) = daemons.begin(0, &body);
    assert_eq!((&created["status_url"], &created["progress"]), (&json!(location), &json!(0)));
    let id = created["job_id"].as_str().unwrap().to_owned();
    assert_eq!(location, format!("/jobs/{id}"));
    // The same run, at any daemon.
    assert_eq!(daemons.begin(1, &body).1["job_id"], json!(id));

    // Without workers it is listed, and nothing is processed.
    scene.until("SELECT is_listed FROM bulk_runs", "t");
    let leader = (0..2).find(|&number| scene.log_of(number).contains(LEADS)).expect("one leads it");
    let other = 1 - leader;
    assert!(!scene.log_of(other).contains(LEADS), "one at a time");
    daemons.processes[leader].kill();

    let worker = scene.worker();
    scene.until("SELECT count(*) > 0 FROM bulk_chunks WHERE state = 'claimed'", "t");
    let change = |state: &str| daemons.send_as(KEY, other, Method::PATCH, &location, Some(&json!({ "state": state })));
    assert_eq!(change("paused").0, 200);
    scene.until("SELECT count(*) FROM bulk_chunks WHERE state = 'claimed'", "0");
    let (status, _, paused) = change("paused");
    assert_eq!(status, 200, "{paused}");
    let run = &paused["bulk"];
    assert_eq!(
        (&paused["status"], &run["state"], &run["objects"]),
        (&json!("processing"), &json!("paused"), &json!(304))
    );
    assert!(paused["progress"].as_u64().unwrap() < 100 && run["listed"] == true, "{paused}");
    assert_eq!(change("cancelled").0, 400);
    // The command takes the same id.
    assert_exit(&scene.run(&["bulk", "resume", &id]), 0);

    let done = daemons.ended(other, &location);
    assert!(scene.log_of(other).contains(LEADS), "{}", scene.log_of(other));
    let run = &done["bulk"];
    assert_eq!((&done["status"], &done["progress"]), (&json!("done"), &json!(100)), "{done}");
    assert_eq!((&run["objects"], &run["done"], &run["failed"]), (&json!(304), &json!(301), &json!(3)), "{done}");
    assert_eq!((&run["summary"]["done"], &run["summary"]["failed"]), (&json!(301), &json!(3)), "{done}");
    assert_eq!(run["report"], body["report"]);
    scene.assert_same_as_on_one_machine("out", 1);
    assert!(scene.runs().is_empty(), "the database keeps no run whose report is written");
    scene.drain(worker);

    assert_eq!(change("paused").0, 409, "it is over");
    assert_eq!(daemons.get(other, "/jobs")["jobs"][0]["job_id"], json!(id));
    let (status, _, deleted) = daemons.send_as(KEY, other, Method::DELETE, &location, None);
    assert_eq!((status, &deleted["deleted"]), (200, &json!(true)));
    assert_eq!(daemons.send_as(KEY, other, Method::GET, &location, None).0, 404);
    assert_eq!(daemons.processes[other].terminate(), Some(0));
}

#[test]
fn a_daemon_without_a_temporary_folder_processes_runs_once_there_is_one() {
    let Some(scene) = Scene::new() else { return };
    fill_with_failures(&scene.path("in"), 20);
    let temporary = scene.path("temporary");
    let number = Cell::new(0);
    let daemons = Daemons::start_with(&scene, 2, |command| {
        // The first one leads, the second one processes and lacks the folder.
        if number.replace(number.get() + 1) == 1 {
            command.env("BACKDROP_JOBS_BULK_PICTURES", "1").env("TMPDIR", &temporary);
        }
    });
    let body = daemons.run("out");
    let location = loop {
        let (location, _) = daemons.begin(0, &body);
        let mut has_failed = false;
        scene.wait("the worker fails, or the second daemon led the run, which needs the folder", || {
            has_failed = daemons.get(0, &location)["status"] == "error";
            has_failed || scene.log_of(1).contains("their worker ended")
        });
        if !has_failed {
            break location;
        }
    };
    scene.until("SELECT count(*) FROM bulk_chunks WHERE state = 'claimed'", "0");
    fs::create_dir(&temporary).unwrap();
    let done = daemons.ended(0, &location);
    assert_eq!((&done["status"], &done["bulk"]["objects"]), (&json!("done"), &json!(24)), "{done}");
    scene.assert_same_as_on_one_machine("out", 1);
    daemons.drain();
}

#[test]
fn a_run_is_cancelled_with_the_report_of_what_is_done_and_the_same_request_does_the_rest() {
    let Some(scene) = Scene::new() else { return };
    fill_with_failures(&scene.path("in"), 300);
    let daemons = Daemons::start(&scene, 1);
    let body = daemons.run("out");
    let (location, created) = daemons.begin(0, &body);
    let worker = scene.worker();
    scene.until("SELECT count(*) > 0 FROM bulk_chunks WHERE state = 'claimed'", "t");
    // The command cancels it as `DELETE` does.
    assert_exit(&scene.run(&["bulk", "cancel", created["job_id"].as_str().unwrap()]), 0);
    let ended = daemons.ended(0, &location);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("cancelled")), "{ended}");
    let done = scene.rows("out").values().filter(|row| row["status"] == "done").count();
    assert!(done < 301, "it was cancelled on the way");
    assert_eq!(tree(&scene.path("out")).len(), done);
    scene.until("SELECT count(*) FROM bulk_runs", "0");

    assert_eq!(daemons.begin(0, &body).1["job_id"], created["job_id"]);
    let ended = daemons.ended(0, &location);
    assert_eq!(ended["status"], "done", "{ended}");
    scene.assert_same_as_on_one_machine("out", 1);
    daemons.drain_after(worker);
}

#[test]
fn a_run_needs_the_operators_permission_and_is_visible_to_its_key_only() {
    let Some(scene) = Scene::new() else { return };
    fill_with_failures(&scene.path("in"), 1);
    let daemons = Daemons::start(&scene, 1);
    let run = daemons.run("out");
    let refused = |key: &str, body: &Value, status: u16, code: &str, param: &str| {
        let (found, _, answer) = daemons.send_as(key, 0, Method::POST, "/bulk", Some(body));
        let error = &answer["error"];
        assert_eq!(
            (found, error["code"].as_str(), error["param"].as_str()),
            (status, Some(code), Some(param)),
            "{body}"
        );
    };
    let with = |member: &str, value: &str| {
        let mut body = run.clone();
        body[member] = value.into();
        body
    };
    for member in ["from", "to"] {
        for place in ["s3://shop/photos", "file:///", "file:///etc"] {
            refused(KEY, &with(member, place), 403, "forbidden", member);
        }
        let climbing = format!("{}/../../etc", run[member].as_str().unwrap());
        refused(KEY, &with(member, &climbing), 400, "invalid_parameter", member);
    }
    refused(KEY, &with("report", "file:///etc/report.jsonl"), 403, "forbidden", "report");
    // A link in the allowed folder that leads out of it.
    std::os::unix::fs::symlink("/etc", scene.path("link")).unwrap();
    refused(KEY, &with("from", &url(&scene.path("link"))), 403, "forbidden", "from");
    refused(KEY, &with("to", &url(&scene.path("link/new"))), 403, "forbidden", "to");
    // Globs are compiled after that.
    let mut many = with("from", "file:///etc");
    many["include"] = json!(["{a,b}".repeat(40)]);
    refused(KEY, &many, 403, "forbidden", "from");
    many["from"] = run["from"].clone();
    refused(KEY, &many, 400, "invalid_parameter", "include");
    refused(KEY, &with("from", &url(&scene.path("missing"))), 400, "invalid_parameter", "from");
    assert_exit(&scene.run(&["accounts", "create", "other", "--plan", "plus"]), 0);
    let other = json(&scene.run(&["keys", "create", "--account", "other", "--json"]));
    let other = other["key"].as_str().expect("a key");
    scene.wait("the key is known", || daemons.send_as(other, 0, Method::GET, "/jobs", None).0 == 200);
    refused(other, &run, 403, "forbidden", "from");
    assert_eq!(scene.sql("SELECT count(*) FROM bulk_runs"), "0", "a refused request begins no run");

    // The permission is gone once the run is created.
    let (location, created) = daemons.begin(0, &with("to", &url(&scene.path("denied"))));
    // Until it is over, no other run may write its report.
    refused(KEY, &run, 409, "conflict", "report");
    let id = created["job_id"].as_str().unwrap();
    scene.sql(&format!("UPDATE bulk_jobs SET account = 'other', leader = NULL, leader_until = NULL WHERE id = '{id}'"));
    let ended = daemons.ended(0, &location);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("forbidden")), "{ended}");
    assert_eq!(daemons.send_as(KEY, 0, Method::DELETE, &location, None).0, 200);
    assert_eq!(scene.sql("SELECT count(*) FROM bulk_runs"), "0", "it is deleted with its run");

    let request = || daemons.request(KEY, 0, Method::POST, "/bulk").header("idempotency-key", "name");
    let named = |body: &Value| daemons.answer(request().json(body));
    let (status, location, created) = named(&run);
    assert_eq!(status, 202, "{created}");
    for (key, expected) in [(KEY, 200), (other, 404)] {
        assert_eq!(daemons.send_as(key, 0, Method::GET, &location, None).0, expected);
        let listed = daemons.send_as(key, 0, Method::GET, "/jobs", None).2;
        assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(usize::from(expected == 200)), "{listed}");
    }
    assert_eq!(daemons.send_as(other, 0, Method::DELETE, &location, None).0, 404);
    assert_eq!(daemons.send_as(KEY, 0, Method::GET, "/jobs/bulk_%00", None).0, 404, "no id has U+0000");
    let worker = scene.worker();
    let ended = daemons.ended(0, &location);
    assert_eq!(ended["status"], "done", "{ended}");
    // The same request under its name is answered with the job, which has ended, and another one is refused.
    let (status, _, again) = named(&run);
    assert_eq!((status, &again["job_id"], &again["status"]), (202, &created["job_id"], &json!("done")));
    let (status, _, conflict) = named(&with("to", &url(&scene.path("else"))));
    assert_eq!((status, conflict["error"]["code"].as_str()), (409, Some("idempotency_conflict")));

    // A place without pictures is an error, as of the command.
    fs::create_dir(scene.path("empty")).unwrap();
    let (location, _) = daemons.begin(0, &with("from", &url(&scene.path("empty"))));
    let ended = daemons.ended(0, &location);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("not_found")), "{ended}");
    daemons.drain_after(worker);
}

#[test]
fn a_run_is_confined_to_its_places_where_links_lead_out_of_them() {
    let Some(scene) = Scene::new() else { return };
    for folder in ["in", "outside"] {
        fill(&scene.path(folder), 1);
    }
    let outside = tree(&scene.path("outside"));
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(scene.path(target), scene.path(name)).unwrap();
    link("outside/set 0/0000.png", "in/linked.png");
    let daemons = Daemons::start(&scene, 1);
    let begin = |to: &str, output: &str| {
        let mut body = daemons.run(to);
        body["output"] = output.into();
        let (location, _) = daemons.begin(0, &body);
        location
    };
    // The destination becomes a link once the run is created.
    let location = begin("exchanged", "{stem}.{ext}");
    scene.until("SELECT is_listed FROM bulk_runs", "t");
    fs::rename(scene.path("exchanged"), scene.path("moved")).unwrap();
    link("outside", "exchanged");
    let worker = scene.worker();
    scene.wait("the worker refuses the link", || scene.log().contains("leaves the run to others"));
    assert_eq!(daemons.send_as(KEY, 0, Method::DELETE, &location, None).0, 200);
    assert_eq!(daemons.ended(0, &location)["error"]["code"], "cancelled");

    // A linked source is no source, and a template names a linked folder.
    fs::create_dir(scene.path("into-link")).unwrap();
    link("outside", "into-link/link");
    for (to, output, done, failed) in [("out", "{stem}.{ext}", 1, 0), ("into-link", "link/{stem}.{ext}", 0, 1)] {
        let ended = daemons.ended(0, &begin(to, output));
        let run = &ended["bulk"];
        assert_eq!(
            (&run["objects"], &run["done"], &run["failed"]),
            (&json!(1), &json!(done), &json!(failed)),
            "{ended}"
        );
    }
    assert_eq!(tree(&scene.path("out")).into_keys().collect::<Vec<_>>(), ["0000.png"]);
    let rows = scene.rows("into-link");
    assert!(rows.values().all(|row| row["code"] == "forbidden"), "{rows:?}");
    assert!(tree(&scene.path("outside")) == outside, "something was written outside of the places");
    daemons.drain_after(worker);
}

#[test]
fn keys_without_the_scope_start_no_run_and_a_run_is_resumed_while_its_places_are_allowed() {
    let Some(scene) = Scene::new() else { return };
    fill(&scene.path("in"), 3);
    let daemons = Daemons::start(&scene, 1);
    let created = |arguments: &[&str]| json(&scene.run(&[&["keys", "create", "--json"][..], arguments].concat()));
    assert_exit(&scene.run(&["accounts", "create", "other"]), 0);
    let [own, unscoped, other] = [
        &["--scope", "bulk", "--scope", "remove"][..],
        &["--scope", "remove"],
        &["--account", "other", "--scope", "bulk"],
    ]
    .map(created);
    let secret = |key: &Value| key["key"].as_str().expect("a key").to_owned();
    let send = |key: &Value, method: Method, path: &str, body: &Value| {
        let (status, location, answer) = daemons.send_as(&secret(key), 0, method, path, Some(body));
        let error = &answer["error"];
        (status, json!([error["code"], error["param"], error["reason"]]), location)
    };
    for key in [&own, &unscoped, &other] {
        scene.wait("the key is known", || daemons.send_as(&secret(key), 0, Method::GET, "/jobs", None).0 == 200);
    }
    let run = daemons.run("out");
    let (status, error, _) = send(&unscoped, Method::POST, "/bulk", &run);
    assert_eq!((status, error), (403, json!(["forbidden", null, "out_of_scope"])));
    let (status, error, location) = send(&own, Method::POST, "/bulk", &run);
    assert_eq!(status, 202, "{error}");

    // The jobs of a key are its own, and open to it whatever its scopes.
    let change = |key: &Value, state: &str| {
        let (status, error, _) = send(key, Method::PATCH, &location, &json!({ "state": state }));
        (status, error)
    };
    for key in [&unscoped, &other] {
        assert_eq!(change(key, "paused"), (404, json!(["not_found", "job_id", null])));
    }
    assert_eq!(scene.sql("SELECT state FROM bulk_runs"), "running");
    assert_exit(&scene.run(&["keys", "set", own["id"].as_str().expect("an id"), "--scope", "remove"]), 0);
    scene.wait("the scope is known", || send(&own, Method::POST, "/bulk", &run).0 == 403);
    assert_eq!(change(&own, "paused").0, 200);

    // It is listed, and has no leader that could end it.
    scene.until("SELECT bulk_runs.is_listed, leader_until IS NULL FROM bulk_runs JOIN bulk_jobs USING (id)", "t|t");
    for (column, param) in [("source", "from"), ("destination", "to"), ("report", "report")] {
        let set = |place: &str| scene.sql(&format!("UPDATE bulk_jobs SET {column} = '{place}'"));
        let allowed = scene.sql(&format!("SELECT {column} FROM bulk_jobs"));
        // As after a restart with other places.
        set("file:///etc/report.jsonl");
        assert_eq!(change(&own, "running"), (403, json!(["forbidden", param, null])));
        assert_eq!(scene.sql("SELECT state FROM bulk_runs"), "paused");
        assert_eq!(change(&own, "paused").0, 200, "a pause needs no permission");
        set(&allowed);
    }
    assert_eq!(change(&own, "running").0, 200);
    let worker = scene.worker();
    scene.until("SELECT state FROM bulk_jobs", "done");
    assert_eq!(tree(&scene.path("out")).len(), 3);
    daemons.drain_after(worker);
}

#[test]
fn a_report_of_more_than_4_gib_ends_its_run_which_continues_once_it_is_gone() {
    let Some(scene) = Scene::new() else { return };
    fill(&scene.path("in"), 3);
    let daemons = Daemons::start(&scene, 1);
    let report = scene.path("out.jsonl");
    // Without blocks on the disk.
    File::create(&report).unwrap().set_len((4 << 30) + 1).unwrap();
    let body = daemons.run("out");
    let (location, created) = daemons.begin(0, &body);
    let ended = daemons.ended(0, &location);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("payload_too_large")), "{ended}");
    assert_eq!(scene.sql("SELECT state, is_listed FROM bulk_runs"), "paused|f", "it is kept");
    fs::remove_file(&report).unwrap();
    assert_eq!(daemons.begin(0, &body).1["job_id"], created["job_id"]);
    let worker = scene.worker();
    let ended = daemons.ended(0, &location);
    assert_eq!((&ended["status"], &ended["bulk"]["done"]), (&json!("done"), &json!(3)), "{ended}");
    scene.assert_same_as_on_one_machine("out", 0);
    daemons.drain_after(worker);
}

#[test]
fn a_run_between_places_in_s3_stores_each_result_once_and_the_same_request_skips_what_is_done() {
    let Some(moto) = Moto::start() else {
        return skipped::notice(
            "no moto (make cluster-test), bulk runs over HTTP between places in S3 were NOT tested",
        );
    };
    let Some(scene) = Scene::with(moto.variables()) else { return };
    fill_with_failures(&scene.path("in"), 10);
    let daemons = Daemons::start(&scene, 1);
    let (runtime, client) = (&daemons.runtime, &daemons.client);
    for (name, bytes) in tree(&scene.path("in")) {
        runtime.block_on(moto.put(client, &format!("bulk/in/{name}"), bytes));
    }
    let place = |name: &str| format!("{S3_PLACE}/{name}");
    let body = json!({ "from": place("in"), "to": place("out"), "report": place("report.jsonl") });
    let worker = scene.worker();
    for (done, skipped) in [(11, 0), (0, 11)] {
        let (location, _) = daemons.begin(0, &body);
        let ended = daemons.ended(0, &location);
        let (run, summary) = (&ended["bulk"], &ended["bulk"]["summary"]);
        assert_eq!((&ended["status"], &run["report"], &run["failed"]), (&json!("done"), &body["report"], &json!(3)));
        let expected = json!({ "path": body["report"], "done": 11, "failed": 3 });
        assert_eq!(
            (&summary["done"], &summary["skipped"], &summary["failed"], &summary["report"]),
            (&json!(done), &json!(skipped), &json!(3), &expected),
            "{ended}"
        );
    }
    scene.drain(worker);

    assert_exit(&bulk(&scene.path("in"), &scene.path("alone"), &scene.path("alone.jsonl"), &[]), 1);
    let results = runtime.block_on(moto.objects(client, "bulk/out/"));
    assert!(results == tree(&scene.path("alone")), "{:?}", results.keys());
    let reports = runtime.block_on(moto.objects(client, "bulk/report"));
    assert_eq!(reports.keys().collect::<Vec<_>>(), [".csv", ".jsonl"]);
    fs::write(scene.path("s3.jsonl"), &reports[".jsonl"]).unwrap();
    let outcomes = |rows: BTreeMap<String, Value>| {
        rows.into_iter().map(|(name, row)| (name, row["status"].clone(), row["code"].clone())).collect::<Vec<_>>()
    };
    let in_s3 = rows(&scene.path("s3.jsonl"), &format!("{}/", place("in")));
    assert_eq!(outcomes(in_s3), outcomes(scene.rows("alone")));
    daemons.drain();
}

/// The end of a run whose report is written.
fn reported() -> BulkJobEnd {
    BulkJobEnd { summary: Some("{}".into()), ..BulkJobEnd::default() }
}

/// The end of a run without a report.
fn failed() -> BulkJobEnd {
    let error = JobError { code: "upstream_failed".into(), message: "no report".into() };
    BulkJobEnd { error: Some(error), ..BulkJobEnd::default() }
}

fn new_job(id: &str, name: Option<&str>) -> NewBulkJob {
    NewBulkJob {
        run: BulkRun { id: id.into(), spec: "{}".into(), ..BulkRun::default() },
        key_id: "key_1".into(),
        account: "shop".into(),
        name: name.map(str::to_owned),
        source: "s3://a".into(),
        destination: "s3://b".into(),
        report: format!("s3://b/{id}.jsonl"),
    }
}

#[test]
fn a_stale_leader_can_neither_renew_nor_end_a_run() {
    let Some((server, url, queue)) = empty_queue() else { return };
    assert_eq!(wait(queue.create_job(&new_job("bulk_1", None), 2)).unwrap(), BulkJobCreated::Queued);
    wait(queue.begin(&new_job("bulk_1", None).run, 7)).unwrap();
    let chunk = NewChunk { number: 0, objects: 2, tasks: None, report: b"{}\n{}\n".to_vec() };
    assert!(wait(queue.add_chunk("bulk_1", 7, &chunk)).unwrap() && wait(queue.end_listing("bulk_1", 7, 0, 0)).unwrap());
    let first = wait(queue.lead(1, &[])).unwrap().unwrap();
    assert_eq!((first.id.as_str(), first.report.as_str()), ("bulk_1", "s3://b/bulk_1.jsonl"));
    assert_eq!(
        (first.account.as_str(), first.source.as_str(), first.destination.as_str()),
        ("shop", "s3://a", "s3://b")
    );
    assert_eq!(wait(queue.lead(2, &[])).unwrap(), None, "it has a leader");
    assert!(wait(queue.renew_lead(&first, 1, Some(Duration::from_secs(60)))).unwrap());
    let job = wait(queue.job("key_1", "bulk_1")).unwrap().unwrap();
    assert_eq!((job.state, job.objects, job.finished, job.failed), (JobState::Processing, 2, 2, 1));
    assert!(job.ends_at.is_some() && job.is_listed);
    // Its daemon does not answer for the length of the lease.
    server.sql(name_of(&url), "UPDATE bulk_jobs SET leader_until = now() - interval '1 ms'");
    assert_eq!(wait(queue.lead(2, &["bulk_1".into()])).unwrap(), None, "it is left to others");
    let second = wait(queue.lead(2, &[])).unwrap().unwrap();
    let end = reported();
    assert!(!wait(queue.renew_lead(&first, 0, None)).unwrap() && !wait(queue.end_job(&first, &end)).unwrap());
    wait(queue.release_lead(&first)).unwrap();
    assert_eq!(wait(queue.lead(3, &[])).unwrap(), None, "a stale leader releases nothing");
    wait(queue.release_lead(&second)).unwrap();
    let third = wait(queue.lead(3, &[])).unwrap().unwrap();
    assert!(wait(queue.end_job(&third, &end)).unwrap() && !wait(queue.end_job(&third, &end)).unwrap());
    let job = wait(queue.job("key_1", "bulk_1")).unwrap().unwrap();
    assert_eq!((job.state, job.objects, job.finished, job.run_state), (JobState::Done, 2, 2, None));
    assert_eq!(wait(queue.run("bulk_1")).unwrap(), None);
    assert_eq!(wait(queue.lead(4, &[])).unwrap(), None);
    assert_eq!(wait(queue.job("key_2", "bulk_1")).unwrap(), None, "another key's");
    wait(queue.remove_old_jobs(Duration::from_secs(3600))).unwrap();
    assert_eq!(wait(queue.jobs("key_1", None, 9)).unwrap().len(), 1);
    wait(queue.remove_job("key_2", "bulk_1")).unwrap();
    assert_eq!(wait(queue.jobs("key_1", None, 9)).unwrap().len(), 1);
    wait(queue.remove_job("key_1", "bulk_1")).unwrap();
    assert_eq!(wait(queue.jobs("key_1", None, 9)).unwrap(), []);
}

#[test]
fn a_failed_run_is_kept_and_the_same_request_continues_it() {
    let Some((server, url, queue)) = empty_queue() else { return };
    use BulkJobCreated::{Conflict, Queued, Same, TooMany};
    assert_eq!(wait(queue.create_job(&new_job("bulk_1", Some("one")), 2)).unwrap(), Queued);
    assert_eq!(wait(queue.create_job(&new_job("bulk_1", Some("two")), 2)).unwrap(), Same, "it has not ended");
    assert_eq!(wait(queue.create_job(&new_job("bulk_2", Some("one")), 2)).unwrap(), Conflict);
    assert_eq!(wait(queue.create_job(&new_job("bulk_2", None), 2)).unwrap(), Queued);
    assert_eq!(wait(queue.create_job(&new_job("bulk_3", None), 2)).unwrap(), TooMany);
    let lead = wait(queue.lead(1, &[])).unwrap().unwrap();
    assert_eq!(lead.id, "bulk_1", "the oldest first");
    assert!(wait(queue.end_job(&lead, &failed())).unwrap());
    let job = wait(queue.job("key_1", "bulk_1")).unwrap().unwrap();
    assert_eq!((job.state, job.error), (JobState::Failed, failed().error));
    assert_eq!(server.sql(name_of(&url), "SELECT state FROM bulk_runs WHERE id = 'bulk_1'").trim(), "paused");
    assert_eq!(
        wait(queue.create_job(&new_job("bulk_1", Some("one")), 2)).unwrap(),
        Same,
        "under its name it stays as it ended"
    );
    assert_eq!(wait(queue.create_job(&new_job("bulk_1", None), 2)).unwrap(), Queued);
    assert_eq!(server.sql(name_of(&url), "SELECT state FROM bulk_runs WHERE id = 'bulk_1'").trim(), "running");
    let job = wait(queue.job("key_1", "bulk_1")).unwrap().unwrap();
    assert_eq!((job.state, job.error), (JobState::Queued, None));
    wait(queue.remove_job("key_1", "bulk_1")).unwrap();
    assert!(wait(queue.job("key_1", "bulk_1")).unwrap().is_some(), "only one that has ended is removed");
    // What ended a day ago goes with what is left of it.
    let lead = wait(queue.lead(2, &["bulk_2".into()])).unwrap().unwrap();
    assert!(wait(queue.end_job(&lead, &failed())).unwrap());
    server.sql(name_of(&url), "UPDATE bulk_jobs SET updated_at = now() - interval '2 hours'");
    wait(queue.remove_old_jobs(Duration::from_secs(3600))).unwrap();
    assert_eq!(
        (wait(queue.run("bulk_1")).unwrap(), wait(queue.jobs("key_1", None, 9)).unwrap().len()),
        (None, 1),
        "an unfinished one stays"
    );
}

#[test]
fn a_report_is_written_by_one_run_at_a_time() {
    let Some((_server, _url, queue)) = empty_queue() else { return };
    let with_report = |id: &str| NewBulkJob { report: "s3://b/r.jsonl".into(), ..new_job(id, None) };
    assert_eq!(wait(queue.create_job(&with_report("bulk_1"), 9)).unwrap(), BulkJobCreated::Queued);
    assert_eq!(wait(queue.create_job(&with_report("bulk_1"), 9)).unwrap(), BulkJobCreated::Same, "the same run");
    let of_other_key = NewBulkJob { key_id: "key_2".into(), ..with_report("bulk_2") };
    for other in [with_report("bulk_2"), of_other_key] {
        assert_eq!(wait(queue.create_job(&other, 9)).unwrap(), BulkJobCreated::ReportInUse);
    }
    assert_eq!((wait(queue.run("bulk_2")).unwrap(), wait(queue.jobs("key_1", None, 9)).unwrap().len()), (None, 1));
    let lead = wait(queue.lead(1, &[])).unwrap().unwrap();
    assert!(wait(queue.end_job(&lead, &reported())).unwrap());
    assert_eq!(wait(queue.create_job(&with_report("bulk_2"), 9)).unwrap(), BulkJobCreated::Queued);
}

#[test]
fn a_paused_run_has_no_leader_once_it_is_listed_and_keys_take_turns() {
    use BulkRunState::{Cancelled, Paused, Running};
    let Some((_server, _url, queue)) = empty_queue() else { return };
    let lead = |excluded: &[String]| wait(queue.lead(rand::random(), excluded)).unwrap();
    for id in ["bulk_1", "bulk_2"] {
        assert_eq!(wait(queue.create_job(&new_job(id, None), 9)).unwrap(), BulkJobCreated::Queued);
    }
    let newest = wait(queue.jobs("key_1", None, 1)).unwrap().remove(0);
    let rest = wait(queue.jobs("key_1", Some((newest.created_ms, &newest.id)), 9)).unwrap();
    assert_eq!((newest.id.as_str(), rest.len(), rest[0].id.as_str()), ("bulk_2", 1, "bulk_1"), "the newest first");
    let of_other_key = NewBulkJob { key_id: "key_2".into(), ..new_job("bulk_3", None) };
    assert_eq!(wait(queue.create_job(&of_other_key, 9)).unwrap(), BulkJobCreated::Queued);
    let first = lead(&[]).unwrap();
    let other = lead(&[]).unwrap();
    assert_eq!((first.id.as_str(), other.id.as_str()), ("bulk_1", "bulk_3"), "the key without a led run first");

    wait(queue.begin(&new_job("bulk_1", None).run, 7)).unwrap();
    assert_eq!(wait(queue.set_state("bulk_1", Paused)).unwrap(), Some(Running));
    assert!(wait(queue.renew_lead(&first, 0, None)).unwrap(), "it is listed while it is paused");
    let chunk = |number, tasks: Option<&str>| NewChunk {
        number,
        objects: 1,
        tasks: tasks.map(str::to_owned),
        report: Vec::new(),
    };
    assert!(wait(queue.add_chunk("bulk_1", 7, &chunk(0, None))).unwrap());
    assert!(wait(queue.end_listing("bulk_1", 7, 0, 0)).unwrap());
    assert!(wait(queue.renew_lead(&first, 0, None)).unwrap(), "all is done: its report is to be written");
    assert!(wait(queue.add_chunk("bulk_1", 7, &chunk(1, Some("[]")))).unwrap());
    assert!(!wait(queue.renew_lead(&first, 0, Some(Duration::from_secs(60)))).unwrap(), "there is nothing to lead");
    assert_eq!(wait(queue.job("key_1", "bulk_1")).unwrap().unwrap().ends_at, None);
    assert_eq!(lead(&[]).unwrap().id, "bulk_2");
    assert_eq!(lead(&[]), None, "it waits");
    assert_eq!(wait(queue.set_state("bulk_1", Running)).unwrap(), Some(Paused));
    let first = lead(&[]).unwrap();
    assert_eq!(first.id, "bulk_1");

    // Any daemon ends a run that is cancelled, also one that leaves it to others otherwise.
    wait(queue.release_lead(&first)).unwrap();
    let excluded = ["bulk_1".to_owned()];
    assert_eq!(lead(&excluded), None);
    assert_eq!(wait(queue.set_state("bulk_1", Cancelled)).unwrap(), Some(Running));
    assert_eq!(lead(&excluded).unwrap().id, "bulk_1");
}

#[test]
fn a_run_that_is_being_removed_is_hidden_and_begins_anew_without_its_chunks() {
    let Some((server, url, queue)) = empty_queue() else { return };
    let sql = |text: &str| server.sql(name_of(&url), text).trim().to_owned();
    let chunk = |number| NewChunk { number, objects: 2, tasks: None, report: b"{}\n{}\n".to_vec() };
    let remains = || sql("SELECT (SELECT count(*) FROM bulk_runs) + (SELECT count(*) FROM bulk_chunks)");
    let new = new_job("bulk_1", None);
    wait(queue.create_job(&new, 9)).unwrap();
    wait(queue.begin(&new.run, 7)).unwrap();
    assert!(
        wait(queue.add_chunk("bulk_1", 7, &chunk(0))).unwrap()
            && wait(queue.add_chunk("bulk_1", 7, &chunk(1))).unwrap()
    );
    let lead = wait(queue.lead(1, &[])).unwrap().unwrap();
    assert!(wait(queue.end_job(&lead, &failed())).unwrap());
    assert_eq!(remains(), "3", "a failed run is kept");

    // A daemon that ended in the middle of the removal.
    let mark = "UPDATE bulk_runs SET state = 'cancelled', lister = -1";
    sql(mark);
    assert_eq!(wait(queue.status(None)).unwrap(), []);
    assert_eq!(wait(queue.set_state("bulk_1", BulkRunState::Running)).unwrap(), None);
    let job = wait(queue.job("key_1", "bulk_1")).unwrap().unwrap();
    assert_eq!((job.objects, job.finished), (4, 4), "as it ended");
    assert_eq!(wait(queue.create_job(&new, 9)).unwrap(), BulkJobCreated::Queued);
    assert_eq!((remains().as_str(), wait(queue.job("key_1", "bulk_1")).unwrap().unwrap().objects), ("1", 0));

    // The command begins its runs anew as well, and any daemon removes what is left over.
    wait(queue.begin(&new.run, 7)).unwrap();
    assert!(wait(queue.add_chunk("bulk_1", 7, &chunk(0))).unwrap());
    sql(mark);
    wait(queue.begin(&new.run, 7)).unwrap();
    assert_eq!(remains(), "1");
    assert!(wait(queue.add_chunk("bulk_1", 7, &chunk(0))).unwrap());
    sql(mark);
    wait(queue.remove_old_jobs(Duration::from_secs(3600))).unwrap();
    assert_eq!(remains(), "0");
    wait(queue.begin(&new.run, 7)).unwrap();
    assert!(wait(queue.add_chunk("bulk_1", 7, &chunk(0))).unwrap());
    wait(queue.remove("bulk_1")).unwrap();
    assert_eq!(remains(), "0");
}
