//! Client of the admin interface for the command line: in its own process on the store, or over HTTP at the daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::discovery::AdminEndpoint;
use super::operations::handle;
use crate::account::Keys;
use crate::store::{self, OpenError, PostgresServer, RedbStore, Store};

/// How long to wait for a store that is locked while no daemon answers: another command, or a starting daemon.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// A daemon answers these calls in milliseconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A listing of some 100,000 keys.
const MAX_REPLY_BYTES: usize = 32 << 20;

/// Where the store is, and where a daemon on it leaves its address.
#[derive(Debug)]
pub struct StorePlace {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The database server; `None` for a file in the data directory.
    pub server: Option<PostgresServer>,
}

impl StorePlace {
    async fn open(&self) -> Result<Keys, OpenError> {
        // No request is billed here.
        const NO_QUOTA: u64 = 0;
        Ok(Keys::new(match &self.server {
            Some(server) => Store::Database(server.open(NO_QUOTA).await?),
            None => Store::file(RedbStore::open(&store::file_in(&self.data_dir))?, NO_QUOTA)?,
        }))
    }
}

/// A connection to the admin interface.
#[derive(Debug)]
pub enum AdminClient {
    /// The store is open in this process.
    InProcess(Keys),
    /// A daemon has the store open.
    Http(AdminEndpoint),
}

/// Why the admin interface cannot be reached, or a call failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminClientError {
    /// Nothing to administer yet.
    #[error("no store at {}: check the data directory, or create an account or start the daemon first", path.display())]
    Missing {
        /// The file that is not there.
        path: PathBuf,
    },
    /// The store cannot be opened, and not because it is locked.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Another process has the store locked and does not answer as a daemon.
    #[error("{} is in use by another process, and no daemon answers for it", path.display())]
    Unreachable {
        /// The locked file.
        path: PathBuf,
        /// Why the daemon could not be reached.
        #[source]
        source: io::Error,
    },
    /// The connection to the daemon failed during the call.
    #[error("the call to the daemon failed")]
    Call(#[source] io::Error),
}

impl AdminClient {
    /// Opens the store, or finds the daemon of the data directory that has it open.
    ///
    /// # Errors
    /// When there is no store, it cannot be opened, or it is locked and no daemon answers.
    pub async fn open(place: &StorePlace) -> Result<Self, AdminClientError> {
        let path = store::file_in(&place.data_dir);
        // A mistyped directory must not create an empty store.
        if place.server.is_some() || path.exists() {
            Self::open_or_create(place).await
        } else {
            Err(AdminClientError::Missing { path })
        }
    }

    /// As [`Self::open`], but creates a missing store.
    ///
    /// # Errors
    /// As [`Self::open`], a missing store apart.
    pub async fn open_or_create(place: &StorePlace) -> Result<Self, AdminClientError> {
        let start = Instant::now();
        loop {
            match place.open().await {
                Ok(keys) => return Ok(Self::InProcess(keys)),
                Err(OpenError::Locked { path }) => match reachable_endpoint(&place.data_dir).await {
                    Ok(endpoint) => return Ok(Self::Http(endpoint)),
                    Err(source) if start.elapsed() >= LOCK_TIMEOUT => {
                        return Err(AdminClientError::Unreachable { path, source });
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Calls the interface; `target` is a path with its query.
    ///
    /// # Errors
    /// When the connection fails or the answer is not JSON.
    pub async fn call(
        &self,
        method: Method,
        target: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), AdminClientError> {
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        match self {
            Self::InProcess(keys) => {
                let reply = handle(keys, &method, target, &body).await;
                Ok((reply.status, reply.body))
            }
            Self::Http(endpoint) => tokio::time::timeout(CALL_TIMEOUT, over_http(endpoint, method, target, body))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                .map_err(AdminClientError::Call),
        }
    }
}

/// The endpoint in the data directory, if it accepts connections.
async fn reachable_endpoint(data_dir: &Path) -> io::Result<AdminEndpoint> {
    let endpoint = AdminEndpoint::read(data_dir)?;
    connect(&endpoint).await?;
    Ok(endpoint)
}

async fn connect(endpoint: &AdminEndpoint) -> io::Result<TcpStream> {
    tokio::time::timeout(CALL_TIMEOUT, TcpStream::connect(endpoint.address)).await?
}

async fn over_http(
    endpoint: &AdminEndpoint,
    method: Method,
    target: &str,
    body: Vec<u8>,
) -> io::Result<(StatusCode, Value)> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(connect(endpoint).await?))
        .await
        .map_err(io::Error::other)?;
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(HOST, endpoint.address.to_string())
        .header(AUTHORIZATION, format!("Bearer {}", endpoint.token.expose()))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(bytes::Bytes::from(body)))
        .map_err(io::Error::other)?;
    // Ends when `sender` is dropped; its errors surface as errors of the request.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_REPLY_BYTES).collect().await.map_err(io::Error::other)?;
    Ok((status, serde_json::from_slice(&body.to_bytes())?))
}
