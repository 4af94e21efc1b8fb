//! How a command reaches the admin interface: in its own process on the store, or over HTTP at the daemon that has it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{Door, Keys, operate};
use crate::store::{self, OpenError, RedbStore};

/// How long to wait for a store that is locked while no daemon answers: another command, or a daemon that starts.
const PATIENCE: Duration = Duration::from_secs(3);

/// A daemon answers these calls in milliseconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A listing of some 100,000 keys.
const MAX_REPLY_BYTES: usize = 32 << 20;

/// A way to the admin interface.
#[derive(Debug)]
pub enum Link {
    /// The store is open in this process.
    Here(Keys),
    /// A daemon has it.
    Daemon(Door),
}

/// Why there is no way to the admin interface, or a call did not get through.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Nothing to administer yet.
    #[error("no store at {}: check the data directory, or create an account or start the daemon first", path.display())]
    Missing {
        /// The file that is not there.
        path: PathBuf,
    },
    /// The store cannot be opened here and no daemon has it.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Another process has the store and does not answer as a daemon.
    #[error("{} is in use by another process, and no daemon answers for it", path.display())]
    Unreachable {
        /// The locked file.
        path: PathBuf,
        /// Why the daemon could not be asked.
        #[source]
        source: io::Error,
    },
    /// The daemon was reached, and then the call failed.
    #[error("the call to the daemon failed")]
    Call(#[source] io::Error),
}

impl Link {
    /// Opens the store of a data directory, or finds the daemon that has it.
    ///
    /// # Errors
    /// When there is no store, it cannot be opened, or it is locked and no daemon answers.
    pub async fn open(data_dir: &Path) -> Result<Self, LinkError> {
        let path = store::file_in(data_dir);
        // A mistyped directory must not become an empty store.
        if path.exists() { Self::open_or_create(data_dir).await } else { Err(LinkError::Missing { path }) }
    }

    /// As [`Self::open`], but creates the store where there is none.
    ///
    /// # Errors
    /// As [`Self::open`], a missing store apart.
    pub async fn open_or_create(data_dir: &Path) -> Result<Self, LinkError> {
        let start = Instant::now();
        loop {
            match RedbStore::open(&store::file_in(data_dir)) {
                Ok(opened) => return Ok(Self::Here(Keys::load(opened)?)),
                Err(OpenError::Locked { path }) => match reachable_door(data_dir).await {
                    Ok(door) => return Ok(Self::Daemon(door)),
                    Err(source) if start.elapsed() >= PATIENCE => return Err(LinkError::Unreachable { path, source }),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Calls the interface; `target` is a path with its query.
    ///
    /// # Errors
    /// When the daemon goes away or answers with something else than JSON.
    pub async fn call(
        &self,
        method: Method,
        target: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), LinkError> {
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        match self {
            Self::Here(keys) => {
                let reply = operate(keys, &method, target, &body).await;
                Ok((reply.status, reply.body))
            }
            Self::Daemon(door) => tokio::time::timeout(CALL_TIMEOUT, over_http(door, method, target, body))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                .map_err(LinkError::Call),
        }
    }
}

/// The door of the data directory, if somebody listens there.
async fn reachable_door(data_dir: &Path) -> io::Result<Door> {
    let door = Door::read(data_dir)?;
    connect(&door).await?;
    Ok(door)
}

async fn connect(door: &Door) -> io::Result<TcpStream> {
    tokio::time::timeout(CALL_TIMEOUT, TcpStream::connect(door.address)).await?
}

async fn over_http(door: &Door, method: Method, target: &str, body: Vec<u8>) -> io::Result<(StatusCode, Value)> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(connect(door).await?)).await.map_err(io::Error::other)?;
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(HOST, door.address.to_string())
        .header(AUTHORIZATION, format!("Bearer {}", door.token.0))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(bytes::Bytes::from(body)))
        .map_err(io::Error::other)?;
    // Ends by itself when `sender` is gone; an error of it reaches us as an error of the request.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_REPLY_BYTES).collect().await.map_err(io::Error::other)?;
    Ok((status, serde_json::from_slice(&body.to_bytes())?))
}
