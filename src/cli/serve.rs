//! `backdrop serve`: the daemon, put together.
//!
//! Order: log → store and keys → engine (loads in its own thread) → jobs → listeners → serve until a signal. The
//! listeners are bound before the network is loaded: callers may connect at once and wait for it.

use super::exit::{Failure, Outcome};
use super::settings::Settings;
use super::{print, runtime};
use crate::account::admin::{Admin, AdminToken, Door};
use crate::account::{ApiKey, CreatedKey, Keys, Scopes, Services};
use crate::config::Config;
use crate::generate::Providers;
use crate::http::descriptors;
use crate::http::tls::{Listener, Tls};
use crate::http::{self, Administer, App, Authenticate, Caller, Inspect, Inspector};
use crate::jobs::results::Results;
use crate::jobs::secret::DaemonSecret;
use crate::jobs::webhook_sender::WebhookSender;
use crate::jobs::{Jobs, Means, VideoWork};
use crate::source::Fetcher;
use crate::store::{self, RedbStore, UnixSeconds};
use crate::telemetry;
use ::http::{HeaderValue, Request, Response, header};
use bytes::Bytes;
use clap::Args;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Disk space kept for the store ahead of its file: some ten thousand bills.
const STORE_RESERVE_BYTES: u64 = 16 << 20;

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// Address of the API [env: BACKDROP_LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address of health, metrics and key administration [env: BACKDROP_ADMIN_LISTEN] [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// Certificate of the API, a PEM file: HTTPS in place of HTTP. Read again on SIGHUP [env: BACKDROP_SERVER_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Private key of the certificate, a PEM file [env: BACKDROP_SERVER_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    #[command(flatten)]
    settings: Settings,
}

impl Serve {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let flags = [
            ("server.listen", "--listen", &self.listen),
            ("server.admin_listen", "--admin-listen", &self.admin_listen),
            ("server.tls_cert", "--tls-cert", &self.tls_cert),
            ("server.tls_key", "--tls-key", &self.tls_key),
        ];
        let config = self.settings.load(&flags)?;
        // Before the first thread: accounts, clips and results are the daemon's own user's to read.
        #[cfg(unix)]
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        telemetry::tracing::init(&config.log)?;
        runtime::block_on(serve(config))??;
        Ok(Outcome::Done)
    }
}

async fn serve(config: Config) -> Result<(), Failure> {
    let stop = stop_signal()?;
    descriptors::raise_limit();
    let metrics = telemetry::metrics::exporter();
    let tls = tls(&config)?;
    let public = bind(config.server.listen, "the API").await?;
    let admin = bind(config.server.admin_listen, "the admin interface").await?;
    let (address, admin_address) = (public.local_addr()?, admin.local_addr()?);
    let fetcher = Fetcher::new(&config.fetch)?.up_to(config.limits.max_bytes);
    let providers = open_providers(&config).await?;
    let services = open_services(&config).await?;
    let keys = services.keys.clone();
    let token = AdminToken::generate();
    let operator = Operator(Admin::new(keys.clone(), token.clone()));
    let door = Door { address: admin_address, token }.publish(&config.data_dir)?;
    let engine = runtime::start_engine(&config)?;
    let chosen = config.bootstrap_key.as_ref().map(|key| ApiKey::parse(key.expose())).transpose()?;
    let is_fresh = chosen.is_none();
    if let Some(created) = keys.bootstrap(chosen).await?
        && is_fresh
    {
        print::line(&welcome(&created, address, if tls.is_some() { "https" } else { "http" }))?;
    }
    tracing::info!(%address, admin = %admin_address, tls = tls.is_some(), "listening");
    let secret = DaemonSecret::open(&config.data_dir)?;
    let results = Results::open(config.jobs.results.as_deref(), &config.data_dir, &secret)?;
    let inspector = Inspector::new(config.video.clone());
    if let Err(missing) = inspector.ready().await {
        tracing::warn!(%missing, "clips cannot be worked on");
    }
    let means = Means {
        store: services.store.clone(),
        ledger: services.ledger.clone(),
        keep: Arc::new(results.clone()),
        work: Arc::new(VideoWork::new(engine.clone(), config.video.clone())),
        deliver: Arc::new(WebhookSender::new(fetcher.clone(), secret.clone(), results.clone())),
    };
    let jobs = start_jobs(means, &config).await?;
    let app = App {
        remover: Arc::new(engine.clone()),
        compat: config.compat.clone(),
        model: config.engine.model,
        keys: Arc::new(keys),
        fetcher: Arc::new(fetcher),
        store: services.store.clone(),
        ledger: services.ledger.clone(),
        requests: services.requests.clone(),
        presets: services.presets.clone(),
        daily: services.daily.clone(),
        providers,
        jobs: jobs.clone(),
        results,
        inspector: Arc::new(inspector),
        secret,
        prices: Arc::new(config.prices),
        operator: Arc::new(operator),
        metrics,
    };
    let grace = config.server.shutdown_grace;
    let tending = tokio::spawn({
        let services = services.clone();
        async move { services.tend().await }
    });
    let (stopping, mut stopped) = watch::channel(None);
    let stop = async move {
        stop.await;
        // Nobody listens any more where the jobs have ended by themselves.
        let _ = stopping.send(Some(Instant::now()));
    };
    let mut working = tokio::spawn({
        let mut stopped = stopped.clone();
        async move {
            let stop = async move {
                // A sender that is gone means the same.
                let _ = stopped.wait_for(Option::is_some).await;
            };
            jobs.run(stop).await;
        }
    });
    http::serve(config.server, config.limits, app, Listener::new(public, tls), admin, stop).await;
    tending.abort();
    // Jobs and requests have the same time to end; a job that needs more goes on at the next start.
    let since = stopped.borrow_and_update().unwrap_or_else(Instant::now);
    if timeout_at(since + grace, &mut working).await.is_err() {
        working.abort();
        let _ = working.await;
    }
    if let Err(error) = services.keys.write_uses().await {
        tracing::warn!(%error, "could not write when keys were last used");
    }
    // Connections have had their grace; what is left in the engine belongs to callers who are gone.
    let _ = tokio::time::timeout(grace, engine.shutdown()).await;
    drop(door);
    tracing::info!("stopped");
    Ok(())
}

/// Who makes backdrops. The keys are in the variables that the configuration names.
async fn open_providers(config: &Config) -> Result<Providers, Failure> {
    let config = config.clone();
    let open = move || Providers::open(&config.generate, &config.fetch, &config.data_dir, environment);
    Ok(tokio::task::spawn_blocking(open).await??)
}

/// A variable that the configuration names.
#[expect(clippy::disallowed_methods, reason = "no setting of ours: the configuration says which variable it is")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

async fn start_jobs(means: Means, config: &Config) -> Result<Jobs, Failure> {
    let (jobs, data_dir) = (config.jobs.clone(), config.data_dir.clone());
    Ok(tokio::task::spawn_blocking(move || Jobs::start(means, &jobs, &data_dir)).await??)
}

async fn bind(address: SocketAddr, what: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address} for {what}: {error}").into())
}

/// The certificate of the API, if there is one. From now on SIGHUP reads it again.
fn tls(config: &Config) -> Result<Option<Tls>, Failure> {
    let (Some(certificate), Some(key)) = (&config.server.tls_cert, &config.server.tls_key) else { return Ok(None) };
    let tls = Tls::load(certificate, key)?;
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut hangups, tls) = (signal(SignalKind::hangup())?, tls.clone());
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                let tls = tls.clone();
                let reloaded = tokio::task::spawn_blocking(move || tls.reload()).await.map_err(Failure::from);
                match reloaded.and_then(|reloaded| Ok(reloaded?)) {
                    Ok(()) => tracing::info!("the TLS certificate was read again"),
                    Err(error) => {
                        let error = telemetry::with_causes(error.as_ref());
                        tracing::error!(error, "the TLS certificate was not exchanged; the old one stays");
                    }
                }
            }
        });
    }
    Ok(Some(tls))
}

async fn open_services(config: &Config) -> Result<Services, Failure> {
    let (data_dir, free_images) = (config.data_dir.clone(), config.limits.free_images_per_month);
    let open = move || -> Result<Services, Failure> {
        store::create_private_dir(&data_dir).map_err(|error| format!("cannot make {}: {error}", data_dir.display()))?;
        Ok(Services::load(RedbStore::open_reserving(&store::file_in(&data_dir), STORE_RESERVE_BYTES)?, free_images)?)
    };
    tokio::task::spawn_blocking(open).await?
}

/// What an operator sees once: the key, and how to use it.
fn welcome(created: &CreatedKey, address: SocketAddr, scheme: &str) -> String {
    let key = created.secret.expose();
    format!(
        "Made account `default` with this key. It is shown this once; keep it now.\n\n    {key}\n\nTry it:\n\n    \
         curl -H 'Authorization: Bearer {key}' -F file=@photo.jpg {scheme}://{address}/remove -o cutout.png\n"
    )
}

/// Resolves at the first SIGTERM or SIGINT; the second one ends the process at once.
fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    #[cfg(unix)]
    let mut signals = {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        async move || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
    };
    #[cfg(not(unix))]
    let mut signals = async || {
        // Without a handler nothing can be waited for; the console then ends the process itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    Ok(async move {
        signals().await;
        tracing::info!("draining; a second signal ends at once");
        tokio::spawn(async move {
            signals().await;
            tracing::warn!("ended by a second signal");
            std::process::exit(130);
        });
    })
}

impl Authenticate for Keys {
    fn authenticate(&self, token: &str) -> Option<Caller> {
        let known = Self::authenticate(self, token)?;
        Some(Caller {
            key_id: known.key_id,
            account: known.account,
            plan: known.plan,
            test: known.test,
            generates: known.generates,
            model: known.model,
            images_per_month: known.images_per_month,
            scopes: known.scopes,
        })
    }

    fn of_account(&self, name: &str) -> Option<Caller> {
        let account = self.account(name)?;
        Some(Caller {
            key_id: format!("without-key-{name}"),
            account: account.name,
            plan: account.plan,
            test: false,
            generates: account.generates,
            model: account.model.0,
            images_per_month: None,
            scopes: Scopes::default(),
        })
    }

    fn expired_at(&self, token: &str) -> Option<UnixSeconds> {
        Self::expired_at(self, token)
    }

    fn labels(&self, account: &str) -> Vec<(String, String)> {
        self.list(Some(account)).into_iter().map(|key| (key.id, key.label)).collect()
    }
}

/// Key administration behind the admin listener.
struct Operator(Admin);

impl Administer for Operator {
    fn handle<'a>(&'a self, request: &'a Request<Bytes>) -> BoxFuture<'a, Option<Response<Value>>> {
        Box::pin(async move {
            if !Admin::owns(request.uri().path()) {
                return None;
            }
            let target = request.uri().path_and_query().map_or("/", ::http::uri::PathAndQuery::as_str);
            let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let reply = self.0.answer(request.method(), target, authorization, request.body()).await;
            let mut response = Response::new(reply.body);
            *response.status_mut() = reply.status;
            if let Some(methods) = reply.allow {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
            }
            Some(response)
        })
    }
}
