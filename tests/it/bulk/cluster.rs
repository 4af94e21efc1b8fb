//! Bulk runs over several workers on a PostgreSQL database: `backdrop bulk --cluster` and `backdrop work`.

#![cfg(unix)]

use crate::bulk::support::{assert_exit, bulk, cutout, fill, picture, rows_below, tree, url, without_times};
use crate::support::command::{backdrop, http_client, json, stderr};
use crate::support::postgres::{PASSWORD, Server, name_of, results_in, stable_port};
use crate::support::tier::rounds;
use backdrop::store::{BulkQueue, BulkRun, BulkRunState, ChunkClaim, NewChunk, PostgresServer, StoreConfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Stops a test that hangs.
const LONG: Duration = Duration::from_secs(300);

/// Folders, a database, and commands that use both.
pub(super) struct Scene {
    server: Server,
    database: String,
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Scene {
    pub(super) fn new() -> Option<Self> {
        Self::with(Vec::new())
    }

    /// With further variables for every command.
    pub(super) fn with(variables: Vec<(&'static str, String)>) -> Option<Self> {
        let server = Server::start()?;
        let database = server.database();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        let scene = Self { server, database, folder, variables };
        // Creates the tables.
        assert!(scene.runs().is_empty());
        Some(scene)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = backdrop();
        command.args(arguments).env("BACKDROP_STORE_URL", &self.database);
        command.env("BACKDROP_JOBS_RESULTS", results_in(self.folder.path()));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// `backdrop bulk --cluster` into the folder `to`, with a report of the same name.
    pub(super) fn bulk(&self, to: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(&["bulk", &url(&self.path("in")), &url(&self.path(to)), "--cluster"]);
        command.arg("--report").arg(self.path(to).with_extension("jsonl")).args(arguments);
        command
    }

    /// A worker, which logs into a file.
    pub(super) fn worker(&self) -> Process {
        let log = File::options().create(true).append(true).open(self.path("worker.log")).unwrap();
        let child = self.command(&["work", "--jobs", "1"]).stderr(log).spawn().expect("the binary runs");
        Process(child)
    }

    /// Ends a worker, which drains.
    pub(super) fn drain(&self, mut worker: Process) {
        assert_eq!(worker.terminate(), Some(0), "{}", self.log());
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.path("worker.log")).unwrap_or_default()
    }

    /// Daemons, once they listen, with the addresses of the API and the admin interface of each.
    pub(super) fn daemons(&self, size: usize, set: impl Fn(&mut Command)) -> (Vec<[String; 2]>, Vec<Process>) {
        let start = |number: usize| {
            let addresses = [stable_port(), stable_port()].map(|port| format!("127.0.0.1:{port}"));
            let mut command = self.command(&["serve", "--listen", &addresses[0], "--admin-listen", &addresses[1]]);
            command.arg("--data-dir").arg(self.path(&format!("data {number}")));
            set(&mut command);
            let log = File::create(self.path(&format!("{number}.log"))).unwrap();
            let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("the binary runs");
            (addresses, Process(child))
        };
        let started = (0..size).map(start).unzip();
        self.wait("the daemons start", || (0..size).all(|number| self.log_of(number).contains("listening")));
        started
    }

    /// What a daemon has logged.
    pub(super) fn log_of(&self, number: usize) -> String {
        fs::read_to_string(self.path(&format!("{number}.log"))).unwrap_or_default()
    }

    /// Waits until something of the daemons is so.
    pub(super) fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            let logs = || (0..).map(|number| self.log_of(number)).take_while(|log| !log.is_empty());
            assert!(began.elapsed() < LONG, "{what}: {}", logs().collect::<String>());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn sql(&self, text: &str) -> String {
        self.server.sql(name_of(&self.database), text).trim().to_owned()
    }

    /// Waits until a query answers `expected`.
    pub(super) fn until(&self, query: &str, expected: &str) {
        let began = Instant::now();
        loop {
            let found = self.sql(query);
            if found == expected {
                return;
            }
            assert!(began.elapsed() < LONG, "{query}: {found}, not {expected}; {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The runs in the database.
    pub(super) fn runs(&self) -> Vec<Value> {
        let output = self.run(&["bulk", "runs", "--json"]);
        assert_exit(&output, 0);
        json(&output).as_array().unwrap().clone()
    }

    /// The identity of the only run, as soon as it is there.
    fn run_id(&self) -> String {
        self.until("SELECT count(*) FROM bulk_runs", "1");
        self.sql("SELECT id FROM bulk_runs")
    }

    pub(super) fn rows(&self, to: &str) -> BTreeMap<String, Value> {
        without_times(rows_below(&self.path(to).with_extension("jsonl"), &self.path("in")))
    }

    /// Checks results and report of a run into `to` against those of a run on one machine.
    pub(super) fn assert_same_as_on_one_machine(&self, to: &str, exit_code: i32) {
        let report = self.path("alone.jsonl");
        assert_exit(&bulk(&self.path("in"), &self.path("alone"), &report, &[]), exit_code);
        let (out, alone) = (tree(&self.path(to)), tree(&self.path("alone")));
        assert_eq!(out.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>());
        assert!(out == alone, "the results differ");
        assert_eq!(self.rows(to), self.rows("alone"));
        let columns = |name: &str| {
            let table = fs::read_to_string(self.path(name).with_extension("csv")).unwrap();
            (table.lines().next().unwrap().to_owned(), table.lines().count())
        };
        assert_eq!(columns(to), columns("alone"));
    }
}

/// A process that does not outlive its test.
pub(super) struct Process(pub(super) Child);

impl Process {
    pub(super) fn kill(&mut self) {
        self.0.kill().expect("it runs, or ended by itself");
        self.0.wait().expect("it ends");
    }

    /// Sends SIGTERM; returns the exit code.
    pub(super) fn terminate(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        self.0.wait().expect("it ends").code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended where a test passed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a command with piped standard error.
fn finish(child: Child) -> Output {
    child.wait_with_output().expect("it ends")
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// Pictures that take some milliseconds each, and files that fail: while they are listed, and while they are processed.
pub(super) fn fill_with_failures(folder: &Path, pictures: u32) {
    for seed in 0..pictures {
        let below = folder.join(format!("set {}", seed % 3));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(format!("{seed:04}.png")), cutout(192, seed)).unwrap();
    }
    fs::write(folder.join("broken.jpg"), b"\xff\xd8\xff\xe0 not a picture").unwrap();
    fs::write(folder.join("film.png"), b"GIF89a........").unwrap();
    // One result for two sources.
    fs::write(folder.join("twice.png"), picture(1)).unwrap();
    fs::write(folder.join("twice.webp"), picture(2)).unwrap();
    fs::write(folder.join("notes.txt"), b"no picture").unwrap();
}

#[test]
fn a_run_on_three_workers_of_which_two_are_killed_has_the_report_of_one_machine() {
    let Some(scene) = Scene::new() else { return };
    let pictures = u32::try_from(rounds(500, 2000)).unwrap();
    fill_with_failures(&scene.path("in"), pictures);
    let queued = scene.bulk("out", &["--detach"]).output().unwrap();
    assert_exit(&queued, 0);
    let objects = u64::from(pictures) + 4;
    assert_eq!(scene.runs()[0]["objects"], json!(objects), "{}", stderr(&queued));

    let mut workers: Vec<_> = (0..3).map(|_| scene.worker()).collect();
    for kill in 0..2 {
        // A worker in the middle of a chunk, which nothing but the end of its lease gives to another one.
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < LONG, "no worker was killed in a chunk; {}", scene.log());
            let owners = scene.sql("SELECT substring(owner from '[0-9]+$') FROM bulk_chunks WHERE state = 'claimed'");
            // Also of workers that were killed before.
            let owners: Vec<u32> = owners.lines().filter_map(|id| id.parse().ok()).collect();
            let Some(number) = workers.iter().position(|worker| owners.contains(&worker.0.id())) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let mut worker = workers.remove(number);
            worker.kill();
            let claims = format!(
                "SELECT count(*) FROM bulk_chunks WHERE state = 'claimed' AND owner LIKE '%/{}'",
                worker.0.id()
            );
            if scene.sql(&claims) == "1" {
                break;
            }
            // It had finished its chunk.
            workers.push(scene.worker());
        }
        if kill == 0 {
            // Added on the way.
            workers.insert(0, scene.worker());
        }
    }
    scene.until("SELECT count(*) FROM bulk_chunks WHERE state <> 'done'", "0");
    assert_eq!(scene.sql("SELECT sum(lost) FROM bulk_chunks"), "2", "{}", scene.log());
    assert_eq!(scene.runs()[0]["finished"], json!(objects));
    workers.into_iter().for_each(|worker| scene.drain(worker));

    // The same command follows the run and writes its report.
    let followed = scene.bulk("out", &["--json"]).output().unwrap();
    assert_exit(&followed, 1);
    let summary = json(&followed);
    assert_eq!(
        (&summary["done"], &summary["failed"], &summary["failures"]),
        (&json!(objects - 3), &json!(3), &json!({"conflict": 1, "invalid_image": 1, "unsupported_media_type": 1})),
        "{summary:#}"
    );
    scene.assert_same_as_on_one_machine("out", 1);
    assert!(scene.runs().is_empty(), "the database keeps no run whose report is written");
    // A further run has nothing to do but the failures.
    let again = scene.bulk("out", &["--detach"]).output().unwrap();
    assert_exit(&again, 0);
    assert_eq!(scene.runs()[0]["objects"], json!(3));
    assert!(!scene.log().contains(PASSWORD) && !stderr(&again).contains(PASSWORD));
}

#[test]
fn a_run_is_paused_resumed_and_followed_by_its_command() {
    let Some(scene) = Scene::new() else { return };
    fill_with_failures(&scene.path("in"), 400);
    let shown = scene.path("shown");
    let shown_file = fs::File::create(&shown).unwrap();
    let mut follower =
        scene.bulk("out", &[]).stdout(Stdio::null()).stderr(shown_file).spawn().expect("the binary runs");
    let id = scene.run_id();
    scene.until("SELECT is_listed FROM bulk_runs", "t");
    let worker = scene.worker();
    scene.until("SELECT count(*) > 0 FROM bulk_chunks WHERE state = 'claimed'", "t");
    assert_exit(&scene.run(&["bulk", "pause", &id]), 0);
    // What is in progress is finished, and the rest goes back to the queue with the rows so far.
    scene.until("SELECT count(*) FROM bulk_chunks WHERE state = 'claimed'", "0");
    assert_eq!(scene.runs()[0]["state"], json!("paused"));
    assert_eq!(scene.sql("SELECT sum(lost) FROM bulk_chunks"), "0");
    assert_exit(&scene.run(&["bulk", "pause", &id]), 0);
    // The command reads the state at intervals.
    let began = Instant::now();
    while !fs::read_to_string(&shown).unwrap().contains("the run is paused") {
        assert!(began.elapsed() < LONG, "{}", fs::read_to_string(&shown).unwrap());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_exit(&scene.run(&["bulk", "resume", &id]), 0);
    assert_eq!(follower.wait().unwrap().code(), Some(1));
    scene.assert_same_as_on_one_machine("out", 1);
    scene.drain(worker);
    let unknown = scene.run(&["bulk", "resume", &id]);
    assert_exit(&unknown, 2);
    assert!(stderr(&unknown).contains("there is no run"), "{}", stderr(&unknown));
}

#[test]
fn several_runs_are_worked_on_at_once_and_a_stopped_worker_gives_its_chunk_back() {
    let Some(scene) = Scene::new() else { return };
    fill(&scene.path("in"), 250);
    let followers: Vec<_> = ["first", "second"].map(|to| start(&mut scene.bulk(to, &[]))).into();
    scene.until("SELECT count(*) FROM bulk_runs WHERE is_listed", "2");
    let worker = scene.worker();
    scene.until("SELECT count(*) > 0 FROM bulk_chunks WHERE attempt > 0", "t");
    scene.drain(worker);
    assert_eq!(scene.sql("SELECT count(*), coalesce(sum(lost), 0) FROM bulk_chunks WHERE state = 'claimed'"), "0|0");
    let workers = [scene.worker(), scene.worker()];
    for follower in followers {
        assert_exit(&finish(follower), 0);
    }
    scene.assert_same_as_on_one_machine("first", 0);
    assert_eq!(scene.rows("second"), scene.rows("first"));
    workers.into_iter().for_each(|worker| scene.drain(worker));
}

#[test]
fn a_run_goes_on_after_a_crash_of_the_database() {
    let Some(scene) = Scene::new() else { return };
    fill_with_failures(&scene.path("in"), 300);
    let follower = start(&mut scene.bulk("out", &[]));
    scene.until("SELECT count(*) FROM bulk_runs WHERE is_listed", "1");
    let worker = scene.worker();
    scene.until("SELECT count(*) > 0 FROM bulk_chunks WHERE state = 'claimed'", "t");
    scene.server.crash();
    std::thread::sleep(Duration::from_secs(2));
    scene.server.resume(&[]);
    let ended = finish(follower);
    assert_exit(&ended, 1);
    assert!(stderr(&ended).contains("waiting for the database"), "{}", stderr(&ended));
    scene.assert_same_as_on_one_machine("out", 1);
    scene.drain(worker);
}

#[test]
fn a_run_with_other_weights_is_left_to_others_and_a_chunk_that_ends_its_workers_fails() {
    let Some(scene) = Scene::new() else { return };
    fill(&scene.path("in"), 3);
    assert_exit(&scene.bulk("out", &["--detach"]).output().unwrap(), 0);
    scene.sql("UPDATE bulk_runs SET spec = replace(spec, '\"parameters\":\"', '\"parameters\":\"0')");
    let worker = scene.worker();
    scene.until("SELECT attempt, state FROM bulk_chunks", "1|queued");
    scene.drain(worker);
    assert!(scene.log().contains("begun with other weights"), "{}", scene.log());
    scene.sql("UPDATE bulk_runs SET spec = replace(spec, '\"parameters\":\"0', '\"parameters\":\"')");
    scene.sql("UPDATE bulk_chunks SET lost = 5");
    let (follower, worker) = (start(&mut scene.bulk("out", &["--json"])), scene.worker());
    let ended = finish(follower);
    assert_exit(&ended, 1);
    assert_eq!(json(&ended)["failures"], json!({"internal_error": 3}));
    scene.drain(worker);
}

#[test]
fn cluster_needs_a_database_and_no_shard() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    let run = |arguments: &[&str]| {
        bulk(&folder.path().join("in"), &folder.path().join("out"), &folder.path().join("r.jsonl"), arguments)
    };
    let without = run(&["--cluster"]);
    assert_exit(&without, 2);
    assert!(stderr(&without).contains("store.url"), "{}", stderr(&without));
    assert_exit(&run(&["--cluster", "--shard", "0/2"]), 2);
    assert_exit(&run(&["--detach"]), 2);
}

/// Waits for a call of the queue, on a runtime to which its connections belong.
pub(super) fn wait<T>(call: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
    RUNTIME.block_on(call)
}

/// A queue in a new database, and the server.
pub(super) fn empty_queue() -> Option<(Server, String, BulkQueue)> {
    let server = Server::start()?;
    let url = server.database();
    let config = StoreConfig { url: Some(url.clone().into()), ca_file: None };
    let queue =
        wait(PostgresServer::configured(&config).unwrap().unwrap().bulk_queue()).expect("an empty database is taken");
    Some((server, url, queue))
}

/// The same with one run of two chunks.
fn queue() -> Option<(Server, String, BulkQueue)> {
    let (server, url, queue) = empty_queue()?;
    let run = BulkRun { id: "run".into(), spec: "{}".into(), background: Some(vec![1]), mark: None };
    wait(queue.begin(&run, 1)).unwrap();
    for number in 0..2 {
        assert!(wait(queue.add_chunk("run", 1, &chunk(number))).unwrap());
    }
    assert_eq!(wait(queue.run("run")).unwrap(), Some(run));
    Some((server, url, queue))
}

fn chunk(number: i64) -> NewChunk {
    NewChunk { number, objects: 2, tasks: Some(format!("tasks {number}")), report: Vec::new() }
}

fn claimed(queue: &BulkQueue) -> Option<ChunkClaim> {
    wait(queue.claim("test", &[])).unwrap()
}

#[test]
fn a_stale_attempt_can_neither_renew_nor_end_its_claim() {
    let Some((server, url, queue)) = queue() else { return };
    let first = claimed(&queue).unwrap();
    assert_eq!((first.number, first.attempt, first.lost), (0, 1, 0));
    assert_eq!(wait(queue.heartbeat(&first, b"a")).unwrap(), Some(BulkRunState::Running));
    assert_eq!(claimed(&queue).unwrap().number, 1);
    assert_eq!(claimed(&queue), None, "both have a lease");
    // Its worker does not answer for the length of the lease.
    let expire = "UPDATE bulk_chunks SET lease_until = now() - interval '1 ms' WHERE number = 0";
    server.sql(name_of(&url), expire);
    let second = claimed(&queue).unwrap();
    assert_eq!((second.number, second.attempt, second.lost, second.report.as_slice()), (0, 2, 1, b"a".as_slice()));
    let report = "SELECT state, attempt, convert_from(report, 'UTF8') FROM bulk_chunks WHERE number = 0";
    let before = server.sql(name_of(&url), report);
    assert_eq!(wait(queue.heartbeat(&first, b"stale")).unwrap(), None);
    for is_done in [true, false] {
        assert!(!wait(queue.end(&first, b"stale", is_done)).unwrap());
    }
    assert_eq!(server.sql(name_of(&url), report), before, "a stale attempt changes nothing");
    // The outcome of an end may be unknown: the second time it has the same effect.
    for _ in 0..2 {
        assert!(wait(queue.end(&second, b"ab", true)).unwrap());
    }
    assert!(!wait(queue.end(&first, b"stale", true)).unwrap());
    assert_eq!(server.sql(name_of(&url), report).trim(), "done|2|ab");
    assert_eq!(wait(queue.heartbeat(&second, b"more")).unwrap(), None, "a chunk that is done stays so");
    assert_eq!(wait(queue.reports("run", &[], false, 9)).unwrap(), [(0, b"ab".to_vec())]);
    assert_eq!(wait(queue.reports("run", &[0], true, 9)).unwrap(), [(1, Vec::new())]);
}

#[test]
fn a_claim_of_an_earlier_run_of_the_same_name_can_neither_be_renewed_nor_ended() {
    let Some((_server, _, queue)) = queue() else { return };
    let stale = claimed(&queue).unwrap();
    // Its worker is cut off; the run ends meanwhile, and the same command begins it again.
    wait(queue.remove("run")).unwrap();
    wait(queue.begin(&BulkRun { id: "run".into(), spec: "{}".into(), ..BulkRun::default() }, 2)).unwrap();
    assert!(wait(queue.add_chunk("run", 2, &chunk(0))).unwrap());
    let claim = claimed(&queue).unwrap();
    assert_eq!((claim.number, claim.attempt), (stale.number, stale.attempt));
    assert_eq!(wait(queue.heartbeat(&stale, b"stale")).unwrap(), None);
    for is_done in [true, false] {
        assert!(!wait(queue.end(&stale, b"stale", is_done)).unwrap());
    }
    assert_eq!(wait(queue.heartbeat(&claim, b"a")).unwrap(), Some(BulkRunState::Running));
    assert!(wait(queue.end(&claim, b"ab", true)).unwrap());
    assert_eq!(wait(queue.reports("run", &[], false, 9)).unwrap(), [(0, b"ab".to_vec())]);
}

#[test]
fn one_command_lists_a_run_at_a_time_and_states_change_as_allowed() {
    let Some((server, url, queue)) = queue() else { return };
    let run = BulkRun { id: "run".into(), spec: "{}".into(), ..BulkRun::default() };
    wait(queue.begin(&run, 2)).unwrap();
    assert!(!wait(queue.add_chunk("run", 1, &chunk(2))).unwrap(), "another command has begun to list");
    assert!(!wait(queue.end_listing("run", 1, 0, 0)).unwrap());
    assert!(wait(queue.add_chunk("run", 2, &chunk(2))).unwrap() && wait(queue.end_listing("run", 2, 3, 4)).unwrap());
    assert!(wait(queue.add_chunk("run", 2, &chunk(2))).unwrap(), "the second time has the same effect");
    let status = wait(queue.status(Some("run"))).unwrap().remove(0);
    assert_eq!((status.is_listed, status.skipped, status.ignored), (true, 3, 4));
    assert_eq!((status.objects, status.finished, status.open_chunks, status.claimed_chunks), (6, 0, 3, 0));

    let other = BulkRun { id: "other".into(), ..run };
    wait(queue.begin(&other, 3)).unwrap();
    assert!(wait(queue.add_chunk("other", 3, &chunk(0))).unwrap());
    let claims: Vec<_> = (0..2).map(|_| claimed(&queue).unwrap().run).collect();
    assert_eq!(claims, ["run", "other"], "of the run with the fewest claims");
    assert_eq!(wait(queue.claim("test", &["run".into()])).unwrap(), None, "a worker leaves a run to others");

    use BulkRunState::{Cancelled, Paused, Running};
    assert_eq!(wait(queue.set_state("run", Paused)).unwrap(), Some(Running));
    assert_eq!(claimed(&queue), None);
    assert_eq!(wait(queue.set_state("run", Paused)).unwrap(), Some(Paused));
    assert_eq!(wait(queue.set_state("run", Running)).unwrap(), Some(Paused));
    assert_eq!(claimed(&queue).unwrap().run, "run");
    assert_eq!(wait(queue.set_state("run", Cancelled)).unwrap(), Some(Running));
    assert_eq!(wait(queue.set_state("run", Running)).unwrap(), Some(Cancelled));
    assert_eq!(wait(queue.status(Some("run"))).unwrap()[0].state, Cancelled);
    assert!(!wait(queue.add_chunk("run", 2, &chunk(3))).unwrap());
    assert_eq!((claimed(&queue), wait(queue.set_state("none", Paused)).unwrap()), (None, None));
    wait(queue.remove("run")).unwrap();
    assert_eq!(server.sql(name_of(&url), "SELECT run FROM bulk_chunks").trim(), "other");

    // After a lost connection the next call has a new one.
    server.cut_connections();
    let again = (0..2).find_map(|_| wait(queue.status(None)).ok()).expect("it connects again");
    assert_eq!(again.len(), 1);
}

#[test]
fn daemons_process_queued_runs_beside_their_requests() {
    let Some(scene) = Scene::new() else { return };
    fill_with_failures(&scene.path("in"), 600);
    let (addresses, daemons) = scene.daemons(2, |command| {
        command.env("BACKDROP_JOBS_BULK_PICTURES", "1");
    });
    assert_exit(&scene.bulk("out", &[]).output().unwrap(), 1);
    scene.assert_same_as_on_one_machine("out", 1);
    for number in 0..2 {
        assert!(scene.log_of(number).contains("claimed"), "{}", scene.log_of(number));
    }

    // Without a command that follows it the finished run stays in the database, and in the metrics of both.
    assert_exit(&scene.bulk("again", &["--detach"]).output().unwrap(), 0);
    let objects = scene.sql("SELECT sum(objects) FROM bulk_chunks");
    let expected = [
        ("objects{state=\"finished\"}", objects.as_str()),
        ("objects{state=\"left\"}", "0"),
        ("chunks{state=\"queued\"}", "0"),
        ("chunks{state=\"claimed\"}", "0"),
    ]
    .map(|(name, value)| format!("backdrop_bulk_{name} {value}\n"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = http_client().build().unwrap();
    for [_, admin] in &addresses {
        scene.wait(&format!("{admin} shows {expected:?}"), || {
            let metrics = async { client.get(format!("http://{admin}/metrics")).send().await?.text().await };
            let metrics = runtime.block_on(metrics).unwrap();
            expected.iter().all(|line| metrics.contains(line))
        });
    }
    for mut daemon in daemons {
        assert_eq!(daemon.terminate(), Some(0));
    }
}
