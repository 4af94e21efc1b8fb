//! Latency that account services add to a request, with few and with many keys and presets: `cargo bench --profile release --bench accounts`.
//!
//! An almost empty store and a full one are measured alternately, because machines are shared and noisy. Both have the
//! same number of callers, so that only the content of the store differs. In the last row all keys of the full store call
//! in turn, which misses the processor's caches.
//!
//! With `BACKDROP_BENCH_POSTGRES=yes` a second table has the small store in a file and in a PostgreSQL database on this
//! machine, whose programs have to be installed (`make cluster-bench`).

#[path = "../tests/it/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod postgres_server;
#[path = "../tests/it/support/skipped.rs"]
mod skipped;

#[path = "support/content.rs"]
mod content;

use backdrop::account::{Presets, token_hash};
use backdrop::store::{
    self, Admission, Admitted, Allowance, Credential, LookupBy, Payer, Plan, PostgresServer, RateKind, RateRule,
    RedbStore, Reservation, Store, StoreConfig, UnixSeconds,
};
use content::{Content, Size, together};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const ROUNDS: usize = 15;
const REQUESTS: usize = 4000;
const BILLS: usize = 400;
/// Callers, and requests that are billed at the same time.
const CALLERS: usize = 16;

/// Keys and presets, spread evenly over the accounts.
const SMALL: Size = Size { accounts: CALLERS, keys: CALLERS, presets: CALLERS };
const LARGE: Size = Size { accounts: 100, keys: 10_000, presets: 100_000 };

const RULE: RateRule = RateRule { kind: RateKind::Calls, limits: [u32::MAX; Plan::ALL.len()] };

/// A store with content.
struct Fixture {
    store: Store,
    tokens: Vec<String>,
    /// Account and id.
    presets: Vec<(String, String)>,
}

impl Fixture {
    fn in_file(folder: &Path, size: Size, runtime: &Runtime) -> Self {
        let file = RedbStore::open(&store::file_in(folder)).expect("a new store");
        let store = runtime.block_on(async { Store::file(file, u64::MAX) }).expect("the store loads");
        runtime.block_on(Self::fill(store, size))
    }

    async fn fill(store: Store, size: Size) -> Self {
        let Content { tokens, presets } = content::fill(&store, size).await;
        Self { store, tokens, presets }
    }

    /// The steps of every request: authentication, rate limit and quota.
    async fn admit(&self, caller: usize) -> Duration {
        let started = Instant::now();
        let admitted = admitted(&self.store, &self.tokens[caller]).await;
        drop(black_box(reserve(&self.store, &admitted)));
        started.elapsed()
    }

    /// The further step of a request with a preset.
    async fn find(&self, caller: usize) -> Duration {
        let (account, id) = &self.presets[caller];
        let presets = Presets::new(self.store.clone());
        let started = Instant::now();
        black_box(presets.find(account, id, LookupBy::Id).await.expect("the store reads").expect("it is there"));
        started.elapsed()
    }

    /// The time from a finished result to its durable bill, for each request of a burst.
    async fn bill(&self) -> Vec<Duration> {
        together((0..CALLERS).collect(), |caller| {
            let (store, token) = (self.store.clone(), self.tokens[caller].clone());
            async move {
                let reserved = reserve(&store, &admitted(&store, &token).await);
                let started = Instant::now();
                reserved.bill(1, 5000, None).await.expect("the store writes");
                started.elapsed()
            }
        })
        .await
    }
}

async fn admitted(store: &Store, token: &str) -> Admitted {
    let hash = token_hash(token).expect("a token");
    let admission = store.admit(Credential::Key(hash), &RULE).await.expect("the store answers");
    let Admission::Admitted(admitted) = admission else { panic!("the key is active") };
    *admitted
}

fn reserve(store: &Store, admitted: &Admitted) -> Reservation {
    let (account, allowance) = (&admitted.account, Allowance::from(admitted.left));
    let payer = Payer {
        account: &account.name,
        plan: account.plan,
        key_id: None,
        images_per_month: None,
        allowance: &allowance,
    };
    store.reserve(&payer, 1, UnixSeconds::now()).expect("the quota is large")
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = Runtime::new().expect("a runtime");
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let fixtures = [(0, SMALL), (1, LARGE)].map(|(at, size)| Fixture::in_file(folders[at].path(), size, &runtime));
    let columns =
        [format!("{CALLERS} keys, {CALLERS} presets"), format!("{} keys, {} presets", LARGE.keys, LARGE.presets)];
    compare(&runtime, &fixtures, &columns);
    if with_postgres() {
        let server = postgres_server::Server::start_on_disk().expect("PostgreSQL is installed");
        let config = StoreConfig { url: Some(server.database().into()), ca_file: None };
        let database = PostgresServer::configured(&config).expect("a valid URL").expect("one is configured");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fixtures = [
            Fixture::in_file(folder.path(), SMALL, &runtime),
            runtime.block_on(async {
                Fixture::fill(Store::Database(database.open(u64::MAX).await.expect("a new database")), SMALL).await
            }),
        ];
        println!();
        compare(&runtime, &fixtures, &["redb".to_owned(), "PostgreSQL".to_owned()]);
    }
}

/// Whether PostgreSQL is measured too.
#[expect(clippy::disallowed_methods, reason = "a switch of the bench, not a setting of the program")]
fn with_postgres() -> bool {
    std::env::var("BACKDROP_BENCH_POSTGRES").is_ok_and(|value| value == "yes")
}

/// Measures both in turn, and prints the medians of the steps.
fn compare(runtime: &Runtime, fixtures: &[Fixture; 2], columns: &[String; 2]) {
    let mut times: [[Vec<Duration>; 4]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (fixture, [admit, find, bill, all]) in fixtures.iter().zip(&mut times) {
            runtime.block_on(async {
                for turn in 0..REQUESTS {
                    admit.push(fixture.admit(turn % CALLERS).await);
                }
                for turn in 0..REQUESTS / 10 {
                    find.push(fixture.find(turn % CALLERS).await);
                }
                for _ in 0..BILLS / CALLERS {
                    bill.extend(fixture.bill().await);
                }
                for turn in 0..REQUESTS {
                    all.push(fixture.admit(turn * 7919 % fixture.tokens.len()).await);
                }
            });
        }
    }
    println!("| step | {} | {} | ratio |\n|---|---|---|---|", columns[0], columns[1]);
    let [small, large] = times.map(|steps| steps.map(median));
    let steps =
        ["key, rate and quota", "preset", "durable bill, 16 at a time", "key, rate and quota, all keys in turn"];
    for ((step, small), large) in steps.iter().zip(small).zip(large) {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (small, large) = (micros(small), micros(large));
        println!("| {step} | {small:.1} µs | {large:.1} µs | {:.2} |", large / small);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
