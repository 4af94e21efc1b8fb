//! `backdrop serve`: assembles and runs the daemon.
//!
//! Order: log → engine (loads in its own thread) → database, if one is configured → listeners → store and keys → jobs →
//! serve until a signal. The listeners are bound before the network is loaded: clients may connect at once and wait for it.

mod bulk_metrics;
mod bulk_worker;
mod http_adapters;
mod inherited_sockets;

use super::config_args::EngineArgs;
use super::exit_code::{Failure, Outcome};
use super::signals::StopSignals;
use super::{local_engine, stdout, variable};
use crate::account::admin::{Admin, AdminEndpoint};
use crate::account::{ApiKey, CreatedKey, Keys, Presets};
use crate::bulk::StopSignal;
use crate::cli::bulk::{Leader, RunRequests};
use crate::codec::sandbox;
use crate::config::Config;
use crate::generate::Providers;
use crate::http::descriptors;
use crate::http::tls::{Listener, Tls, TlsError};
use crate::http::{self, App, BulkRuns, Inspect, Inspector};
use crate::jobs::results::Results;
use crate::jobs::secret::DaemonSecret;
use crate::jobs::webhook_client::WebhookClient;
use crate::jobs::{Deps, Jobs, VideoWorker};
use crate::source::Fetcher;
use crate::store::{self, Database, OpenError, PostgresServer, RedbStore, Store};
use crate::telemetry;
use bulk_worker::BulkWorker;
use clap::Args;
use http_adapters::AdminAdapter;
use inherited_sockets::{InheritedSockets, notify_ready, notify_stopping};
use std::fs::File;
#[cfg(unix)]
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How long a daemon waits at its start for a command that has the store's file open, such as `backdrop keys`, and how often it
/// tries.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
const STORE_RETRY: Duration = Duration::from_millis(25);

/// How often a waiting daemon tries to open the database.
const DATABASE_PAUSE: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// Address of the API and, at `/`, of the page to try it on (`server.page`), unless systemd passes a socket [env: BACKDROP_LISTEN]
    /// [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address of health, metrics and key administration [env: BACKDROP_ADMIN_LISTEN] [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// Certificate of the API as a PEM file, for HTTPS; reloaded on SIGHUP [env: BACKDROP_SERVER_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Private key of the certificate as a PEM file [env: BACKDROP_SERVER_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl Serve {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let flags = [
            ("server.listen", "--listen", &self.listen),
            ("server.admin_listen", "--admin-listen", &self.admin_listen),
            ("server.tls_cert", "--tls-cert", &self.tls_cert),
            ("server.tls_key", "--tls-key", &self.tls_key),
        ];
        let config = self.engine_args.load(&flags)?;
        // Before the first thread: accounts, clips and results are readable by the daemon's user only.
        #[cfg(unix)]
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        // No other process of this user can read pictures and keys from the memory of this one, and no core dump has them.
        #[cfg(target_os = "linux")]
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(|error| format!("the daemon's memory cannot be protected from other processes: {error}"))?;
        telemetry::logging::init(&config.log)?;
        local_engine::block_on(serve(config))??;
        Ok(Outcome::Done)
    }
}

async fn serve(config: Config) -> Result<(), Failure> {
    let mut stop = Box::pin(stop_signal()?);
    descriptors::raise_limit();
    let metrics = telemetry::metrics::exporter();
    let tls = tls(&config)?;
    #[cfg(unix)]
    reload_on_hangup(tls.clone())?;
    let inherited = InheritedSockets::take()?;
    if config.server.idle_exit.is_some() && inherited.api.is_none() {
        let without = "without a socket from the service manager (LISTEN_FDS) nothing would start the daemon again";
        return Err(format!("server.idle_exit: {without}").into());
    }
    let mut admin = listener(inherited.admin, config.server.admin_listen, "--admin-listen").await?;
    // Its thread loads the network meanwhile, so that a daemon that waited answers as soon as it has the database.
    let (engine, device) = local_engine::start_engine(&config)?;
    let (mut database, mut queue) = (None, None);
    if let Some(server) = PostgresServer::configured(&config.store)? {
        // The API's listener is not bound yet: a load balancer must send nothing to a daemon that waits for the database.
        let (standby, after_waiting) = http::stand_by(admin, &config.server)?;
        tracing::info!(admin = %after_waiting.local_addr()?, database = server.name(), "opening the database");
        database = tokio::select! {
            opened = open_database(&server, &config) => Some(opened?),
            () = &mut stop => return Ok(()),
        };
        drop(standby);
        admin = after_waiting;
        queue = database.as_ref().map(|(database, _)| database.bulk_queue());
    }
    // Ends the worker and the leader of bulk runs.
    let bulk_stop = StopSignal::default();
    let bulk = match &queue {
        Some(queue) => BulkWorker::start(&config, &engine, &device, queue.clone(), bulk_stop.clone())?,
        None => None,
    };
    let data_dir = &config.data_dir;
    store::create_private_dir(data_dir).map_err(|error| format!("cannot create {}: {error}", data_dir.display()))?;
    // The API's listener is not bound yet here either.
    let _data_dir_lock;
    let store = match database {
        Some((database, lock)) => {
            _data_dir_lock = Some(lock);
            Store::Database(database)
        }
        None => tokio::select! {
            opened = open_file(&config) => opened?,
            () = &mut stop => return Ok(()),
        },
    };
    let shared_config = Arc::new(config.clone());
    let bulk_runs = queue.clone().map(|queue| BulkRuns {
        queue,
        config: Arc::new(config.jobs.clone()),
        prepare: Arc::new(RunRequests::new(Arc::clone(&shared_config))),
    });
    let leader = queue.clone().filter(|_| !config.jobs.bulk_places.is_empty()).map(|queue| Leader {
        config: shared_config,
        queue,
        stop: bulk_stop.clone(),
    });
    let public = listener(inherited.api, config.server.listen, "--listen").await?;
    let (address, admin_address) = (public.local_addr()?, admin.local_addr()?);
    // An inherited socket has an address of its own.
    if let Some(error) = config.compat.validate(address, &config.server).into_iter().next() {
        return Err(error.into());
    }
    let fetcher = Fetcher::new(&config.fetch)?.with_max_bytes(config.limits.max_bytes);
    let providers = open_providers(&config).await?;
    let secret = daemon_secret(&config, &store).await?;
    let keys = Keys::new(store.clone());
    let endpoint = AdminEndpoint::new(admin_address);
    let operator = AdminAdapter(Admin::new(keys.clone(), endpoint.token.clone()));
    let endpoint = endpoint.publish(&config.data_dir)?;
    sandbox::start_early();
    let configured = config.bootstrap_key.as_ref().map(|key| ApiKey::parse(key.expose())).transpose()?;
    let is_generated = configured.is_none();
    if let Some(created) = keys.bootstrap(configured).await?
        && is_generated
    {
        let scheme = if tls.is_some() { "https" } else { "http" };
        if let Err(error) = stdout::print_line(&welcome(&created, address, scheme, config.server.page)) {
            keys.revoke(&created.key.id).await?;
            let error = telemetry::with_causes(&error);
            tracing::error!(error, "the first key could not be printed; create one with `backdrop keys create`");
        }
    }
    if tls.is_none() && address.ip().is_unspecified() {
        tracing::warn!(%address, "other machines reach the API, and their keys and pictures are sent without TLS");
    }
    if admin_address.ip().is_unspecified() {
        tracing::warn!(address = %admin_address, "other machines reach the admin interface; keep its port private");
    }
    tracing::info!(%address, admin = %admin_address, tls = tls.is_some(), "listening");
    let results = Results::open(config.jobs.results.as_deref(), &config.data_dir, &secret)?;
    let inspector = Inspector::new(config.video.clone(), engine.clone());
    if let Err(missing) = inspector.ready().await {
        tracing::warn!(%missing, "clips cannot be processed");
    }
    let deps = Deps {
        store: store.clone(),
        results: Arc::new(results.clone()),
        worker: Arc::new(VideoWorker::new(engine.clone(), config.video.clone())),
        webhooks: Arc::new(WebhookClient::new(fetcher.clone(), secret.clone(), results.clone())),
    };
    let jobs = Jobs::start(deps, &config.jobs, &config.data_dir).await?;
    let app = App {
        processor: Arc::new(engine.clone()),
        compat: config.compat.clone(),
        model: config.engine.model.clone(),
        fetcher: Arc::new(fetcher),
        store: store.clone(),
        presets: Presets::new(store.clone()),
        providers,
        jobs: jobs.clone(),
        bulk: bulk_runs,
        results,
        inspector: Arc::new(inspector),
        secret,
        prices: Arc::new(config.prices),
        operator: Arc::new(operator),
        metrics,
    };
    let grace = config.server.shutdown_grace;
    let maintenance = tokio::spawn({
        let store = store.clone();
        async move {
            tokio::join!(store.run_maintenance(), bulk_metrics::report(queue));
        }
    });
    let (stopping, mut stopped) = watch::channel(None);
    let stop_bulk = bulk_stop.clone();
    let stop = async move {
        stop.await;
        notify_stopping();
        stop_bulk.request();
        // Fails when the jobs have ended by themselves.
        let _ = stopping.send(Some(Instant::now()));
    };
    let leading = leader.map(|leader| tokio::spawn(leader.run()));
    let mut working = tokio::spawn({
        let mut stopped = stopped.clone();
        async move {
            let stop = async move {
                // A dropped sender also means stop.
                let _ = stopped.wait_for(Option::is_some).await;
            };
            jobs.run(stop).await;
        }
    });
    notify_ready();
    let is_own_machine = address.ip().is_loopback() && config.server.trusted_proxies.is_empty();
    let limits = if is_own_machine { config.limits.on_loopback() } else { config.limits };
    http::serve(config.server, limits, app, Listener::new(public, tls), admin, stop).await;
    notify_stopping();
    // Where the daemon was idle there was no signal.
    bulk_stop.request();
    maintenance.abort();
    // Jobs and requests share the grace period; a job that needs more resumes at the next start.
    let since = stopped.borrow_and_update().unwrap_or_else(Instant::now);
    if timeout_at(since + grace, &mut working).await.is_err() {
        working.abort();
        let _ = working.await;
    }
    if let Some(bulk) = bulk {
        bulk.join(since + grace).await;
    }
    if let Some(leading) = leading {
        // Otherwise another daemon leads its runs after their leases.
        let _ = timeout_at(since + grace, leading).await;
    }
    if let Err(error) = store.write_uses().await {
        tracing::warn!(%error, "could not write when keys were last used");
    }
    // The grace period of connections is over; the engine's remaining work has no client any more.
    let _ = tokio::time::timeout(grace, engine.shutdown()).await;
    drop(endpoint);
    tracing::info!("stopped");
    Ok(())
}

/// Opens a database, and locks the data directory, whose folders two daemons must not share. Waits while another process holds
/// the directory or uses the database exclusively; a server that is away during this wait is tried again.
async fn open_database(server: &PostgresServer, config: &Config) -> Result<(Database, File), Failure> {
    store::create_private_dir(&config.data_dir)?;
    let lock = File::create(config.data_dir.join("lock"))?;
    let mut waits_for = None;
    loop {
        let opened = match lock.try_lock() {
            Ok(()) => server.open(config.limits.free_images_per_month).await,
            Err(_) => Err(OpenError::Locked { path: config.data_dir.clone() }),
        };
        let reason = match opened {
            Ok(database) => return Ok((database, lock)),
            Err(OpenError::Locked { .. }) => {
                "an older version, an import or an export uses the database, or a daemon has this data directory"
                    .to_owned()
            }
            // A server that cannot be reached at the start may be a wrong address.
            Err(error @ OpenError::Io { .. }) if waits_for.is_some() => telemetry::with_causes(&error),
            Err(error) => return Err(error.into()),
        };
        if waits_for.is_none() {
            // Waiting may take for ever: the service manager must not take it for a start that hangs.
            notify_ready();
        }
        if waits_for.as_ref() != Some(&reason) {
            tracing::info!(database = server.name(), reason, "waiting");
            waits_for = Some(reason);
        }
        tokio::time::sleep(DATABASE_PAUSE).await;
    }
}

/// Opens the backdrop generators. Their keys are in environment variables that the configuration names.
async fn open_providers(config: &Config) -> Result<Providers, Failure> {
    let config = config.clone();
    let open = move || Providers::open(&config.generate, &config.fetch, &config.data_dir, variable);
    Ok(tokio::task::spawn_blocking(open).await??)
}

/// The inherited listener, or one of `address`, which `option` chooses.
async fn listener(inherited: Option<TcpListener>, address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    if let Some(inherited) = inherited {
        return Ok(inherited);
    }
    let refused = |error| format!("cannot listen on {address}: {error}; choose another address with {option}").into();
    TcpListener::bind(address).await.map_err(refused)
}

/// Loads the API's certificate, if configured.
fn tls(config: &Config) -> Result<Option<Tls>, TlsError> {
    let pair = config.server.tls_cert.as_ref().zip(config.server.tls_key.as_ref());
    pair.map(|(certificate, key)| Tls::load(certificate, key)).transpose()
}

/// Reloads the certificate on SIGHUP. It is handled without a certificate too: by default it ends the process, without a drain.
#[cfg(unix)]
fn reload_on_hangup(tls: Option<Tls>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let Some(tls) = tls.clone() else {
                tracing::info!("SIGHUP without a TLS certificate: nothing to reload");
                continue;
            };
            let reloaded = tokio::task::spawn_blocking(move || tls.reload()).await.map_err(Failure::from);
            match reloaded.and_then(|reloaded| Ok(reloaded?)) {
                Ok(()) => tracing::info!("reloaded the TLS certificate"),
                Err(error) => {
                    let error = telemetry::with_causes(error.as_ref());
                    tracing::error!(error, "cannot reload the TLS certificate; the old one stays in use");
                }
            }
        }
    });
    Ok(())
}

/// Opens the store's file; waits for a command that has it open.
async fn open_file(config: &Config) -> Result<Store, Failure> {
    let (file, began) = (store::file_in(&config.data_dir), Instant::now());
    let mut is_reported = false;
    loop {
        let path = file.clone();
        let free_images = config.limits.free_images_per_month;
        let open = move || Store::file(RedbStore::open(&path)?, free_images);
        match tokio::task::spawn_blocking(open).await? {
            Err(error @ OpenError::Locked { .. }) if began.elapsed() < STORE_TIMEOUT => {
                if !is_reported {
                    tracing::warn!(reason = telemetry::with_causes(&error), "waiting for the store");
                    is_reported = true;
                }
                tokio::time::sleep(STORE_RETRY).await;
            }
            opened => {
                AdminEndpoint::remove_stale(&config.data_dir)?;
                return Ok(opened?);
            }
        }
    }
}

/// The secret of the daemon: of its data directory, or of all daemons on the database.
async fn daemon_secret(config: &Config, store: &Store) -> Result<DaemonSecret, Failure> {
    let own = DaemonSecret::open(&config.data_dir)?;
    let Store::Database(database) = store else { return Ok(own) };
    let file = store::file_in(&config.data_dir);
    if file.exists() && store.accounts().await?.is_empty() {
        let moving = "`backdrop store export` without store.url and `import` with it, or move the file away";
        return Err(format!("the database is empty, and {} has a store: {moving}", file.display()).into());
    }
    // The first daemon gives its secret to all others, so that links stay valid after a move from a file.
    Ok(DaemonSecret::new(database.shared_secret(own.expose()).await?))
}

/// The message of the first start: the key, and how to use it.
fn welcome(created: &CreatedKey, address: SocketAddr, scheme: &str, has_page: bool) -> String {
    let key = created.secret.expose();
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let address = SocketAddr::new(ip, address.port());
    // A browser keeps what follows `#` to itself. Elsewhere the address that people use is not known.
    let page = if has_page && address.ip().is_loopback() {
        format!("    {scheme}://{address}/#key={key}\n\n")
    } else {
        String::new()
    };
    format!(
        "Created account `default` with this key. It is shown only once; save it now.\n\n    {key}\n\nTry it:\n\n{page}    \
         curl -H 'Authorization: Bearer {key}' -F file=@photo.jpg {scheme}://{address}/remove -o cutout.png\n"
    )
}

/// Resolves at the first SIGTERM or SIGINT; the second ends the process at once.
fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let mut signals = StopSignals::install()?;
    Ok(async move {
        signals.next().await;
        tracing::info!("draining; a second signal ends at once");
        tokio::spawn(async move {
            signals.next().await;
            tracing::warn!("ended by a second signal");
            std::process::exit(130);
        });
    })
}
