//! Requests with bills that one PostgreSQL server carries, from several daemons without a network, and claims of bulk runs:
//! `cargo bench --profile release --bench cluster_capacity`.
//!
//! All daemons are in this process, each with its connections. A request is
//! admission, `Idempotency-Key`, reservation and durable bill; each caller sends the next one at once. Server and
//! daemons share the processors of this machine (`make cluster-bench`, which installs PostgreSQL). The distance of a server on
//! another machine is added by a proxy that delays both directions.

#[path = "support/content.rs"]
#[allow(dead_code, reason = "another bench uses the rest")]
mod content;
#[path = "../tests/it/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod postgres_server;
#[path = "../tests/it/support/skipped.rs"]
mod skipped;

use backdrop::account::token_hash;
use backdrop::store::{
    Admission, Allowance, BilledPictures, BulkRun, Claim, Credential, NewChunk, Payer, Plan, PostgresServer, RateKind,
    RateRule, Store, StoreConfig, UnixSeconds,
};
use content::Size;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How long a row is measured, after as long as [`WARM_UP`].
const MEASURED: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(2);

/// As many keys as callers of the largest row.
const SMALL: Size = Size { accounts: 192, keys: 192, presets: 0 };
const LARGE: Size = Size { accounts: 10_000, keys: 10_000, presets: 0 };

/// Round trips to the server: on one machine, and between machines of one data centre.
const NEAR: Duration = Duration::ZERO;
const FAR: Duration = Duration::from_micros(500);

/// Sessions that claim chunks.
const WORKERS: usize = 4;

/// Daemons on one database, and who calls them.
struct Row {
    daemons: usize,
    /// Of each daemon.
    callers: usize,
    round_trip: Duration,
}

const ROWS: [Row; 10] = [
    Row { daemons: 1, callers: 1, round_trip: NEAR },
    Row { daemons: 1, callers: 16, round_trip: NEAR },
    Row { daemons: 1, callers: 64, round_trip: NEAR },
    Row { daemons: 2, callers: 64, round_trip: NEAR },
    Row { daemons: 3, callers: 64, round_trip: NEAR },
    Row { daemons: 1, callers: 1, round_trip: FAR },
    Row { daemons: 1, callers: 16, round_trip: FAR },
    Row { daemons: 1, callers: 64, round_trip: FAR },
    Row { daemons: 2, callers: 64, round_trip: FAR },
    Row { daemons: 3, callers: 64, round_trip: FAR },
];

/// A database with its content.
struct Database<'a> {
    server: &'a postgres_server::Server,
    url: String,
    tokens: Arc<Vec<String>>,
}

impl<'a> Database<'a> {
    fn filled(server: &'a postgres_server::Server, size: Size, runtime: &Runtime) -> Self {
        let url = server.database();
        let content = async { content::fill(&load(&url).await, size).await };
        let tokens = Arc::new(runtime.block_on(content).tokens);
        Self { server, url, tokens }
    }

    /// The bytes of its tables and indexes.
    fn bytes(&self) -> u64 {
        let text = "SELECT pg_database_size(current_database())";
        self.server.sql(postgres_server::name_of(&self.url), text).trim().parse().expect("a number")
    }

    /// The same database behind a network.
    fn url_at(&self, round_trip: Duration) -> String {
        if round_trip.is_zero() {
            return self.url.clone();
        }
        let mut url = url::Url::parse(&self.url).expect("a URL");
        let port = delayed(url.port().expect("it has a port"), round_trip / 2);
        url.set_port(Some(port)).expect("it takes a port");
        url.into()
    }
}

fn open(url: &str) -> PostgresServer {
    let config = StoreConfig { url: Some(url.to_owned().into()), ca_file: None };
    PostgresServer::configured(&config).expect("a valid URL").expect("one is configured")
}

async fn load(url: &str) -> Store {
    Store::Database(open(url).open(u64::MAX).await.expect("a database"))
}

/// A port of this machine whose connections reach `port` with a delay in each direction.
fn delayed(port: u16, delay: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let own = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.expect("a connection");
            let far = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
            for (from, to) in [(&near, &far), (&far, &near)] {
                to.set_nodelay(true).expect("a socket");
                let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                forward(from, to, delay);
            }
        }
    });
    own
}

fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            drop(sender.send((Instant::now() + delay, buffer[..length].to_vec())));
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        // The other end is gone, or this one.
        drop(to.shutdown(std::net::Shutdown::Both));
    });
}

/// What a daemon does for a picture, the picture aside.
async fn request(daemon: &Store, token: &str, number: u64) {
    let rule = RateRule { kind: RateKind::Calls, limits: [u32::MAX; Plan::ALL.len()] };
    let hash = token_hash(token).expect("a token");
    let admission = daemon.admit(Credential::Key(hash), &rule).await.expect("it answers");
    let Admission::Admitted(admitted) = admission else { panic!("the key is active") };
    assert!(admitted.rate.allowed);
    let (account, key) = (&admitted.account, admitted.key.as_ref().expect("a key"));
    let (fingerprint, now) = (Sha256::digest(number.to_le_bytes()).into(), UnixSeconds::now());
    let name = format!("order-{number}");
    let claim =
        daemon.claim(&account.name, &name, fingerprint, now, Duration::from_secs(60)).await.expect("it answers");
    let Claim::New(mut guard) = claim else { panic!("each request has its key") };
    let allowance = Allowance::from(admitted.left);
    let payer = Payer {
        account: &account.name,
        plan: account.plan,
        key_id: Some(&key.id),
        images_per_month: None,
        allowance: &allowance,
    };
    let reserved = daemon.reserve(&payer, 1, now).expect("the quota is large");
    reserved.bill(1, 5000, Some((&mut guard, BilledPictures::default()))).await.expect("the store writes");
}

/// Requests per second, and the latencies of all of them in order.
async fn measure(daemons: &[Store], callers: usize, tokens: &Arc<Vec<String>>) -> (f64, Vec<Duration>) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let from = Instant::now() + WARM_UP;
    let until = from + MEASURED;
    let mut calling = JoinSet::new();
    for caller in 0..daemons.len() * callers {
        let (daemon, tokens) = (daemons[caller % daemons.len()].clone(), Arc::clone(tokens));
        calling.spawn(async move {
            let mut latencies = Vec::new();
            // All keys in turn.
            for turn in (caller..).step_by(7919) {
                let started = Instant::now();
                if started >= until {
                    break;
                }
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                request(&daemon, &tokens[turn % tokens.len()], number).await;
                if started >= from {
                    latencies.push(started.elapsed());
                }
            }
            latencies
        });
    }
    let mut latencies: Vec<Duration> = calling.join_all().await.into_iter().flatten().collect();
    let took = from.elapsed();
    latencies.sort_unstable();
    (latencies.len() as f64 / took.as_secs_f64(), latencies)
}

/// Measures a row and prints it.
fn print_row(runtime: &Runtime, database: &Database<'_>, row: &Row, first: &str) {
    let url = database.url_at(row.round_trip);
    let (rate, latencies) = runtime.block_on(async {
        let daemons = futures_util::future::join_all((0..row.daemons).map(|_| load(&url))).await;
        measure(&daemons, row.callers, &database.tokens).await
    });
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("| {first}{rate:.0} | {:.1} ms | {:.1} ms |", at(0.5), at(0.99));
}

/// Claims per second by sessions of a run with so many open chunks, each of which is ended at once.
async fn claims(server: &postgres_server::Server, chunks: i64) -> f64 {
    let url = server.database();
    let first = open(&url).bulk_queue().await.expect("a database");
    let run = BulkRun { id: "run".to_owned(), spec: "{}".to_owned(), ..BulkRun::default() };
    first.begin(&run, 1).await.expect("it begins");
    // The length of a hundred objects as a listing has them.
    let (tasks, report) = ("x".repeat(20_000), format!("{}\n", "x".repeat(199)).repeat(100).into_bytes());
    for number in 0..chunks {
        let chunk = NewChunk { number, objects: 100, tasks: Some(tasks.clone()), report: Vec::new() };
        assert!(first.add_chunk(&run.id, 1, &chunk).await.expect("it answers"));
    }
    let report = Arc::new(report);
    let (mut working, started) = (JoinSet::new(), Instant::now());
    for worker in 0..WORKERS {
        let (queue, report) = (open(&url).bulk_queue().await.expect("a database"), Arc::clone(&report));
        working.spawn(async move {
            let mut count = 0_u32;
            while started.elapsed() < MEASURED
                && let Some(claim) = queue.claim(&worker.to_string(), &[]).await.expect("it answers")
            {
                assert!(queue.end(&claim, &report, true).await.expect("it answers"));
                count += 1;
            }
            count
        });
    }
    let count: u32 = working.join_all().await.into_iter().sum();
    f64::from(count) / started.elapsed().as_secs_f64()
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let Some(server) = postgres_server::Server::start_on_disk() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let small = Database::filled(&server, SMALL, &runtime);
    println!("| daemons | callers of each | round trip | requests/s | median | p99 |\n|---|---|---|---|---|---|");
    for row in &ROWS {
        let Row { daemons, callers, round_trip } = row;
        print_row(&runtime, &small, row, &format!("{daemons} | {callers} | {round_trip:?} | "));
    }
    let large = Database::filled(&server, LARGE, &runtime);
    println!("\n| accounts, keys | requests/s | median | p99 |\n|---|---|---|---|");
    let row = Row { daemons: 3, callers: 64, round_trip: NEAR };
    for (database, size) in [(&small, SMALL), (&large, LARGE)] {
        print_row(&runtime, database, &row, &format!("{} | ", size.keys));
    }
    let bytes = large.bytes();
    let (rate, latencies) = runtime.block_on(async { measure(&[load(&large.url).await], 64, &large.tokens).await });
    let added = (large.bytes() - bytes) as f64 / (latencies.len() as f64 + rate * WARM_UP.as_secs_f64());
    println!("A request adds {added:.0} bytes to the database until its records are dropped");
    println!("\n| open chunks | claims/s by {WORKERS} sessions |\n|---|---|");
    for chunks in [1000, 10_000] {
        println!("| {chunks} | {:.0} |", runtime.block_on(claims(&server, chunks)));
    }
}
