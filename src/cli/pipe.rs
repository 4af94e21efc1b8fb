//! `backdrop pipe`: answers the requests of the parent process on standard input, without a port, a key or an account.
//!
//! A request and a reply are frames: the length of a head (u32, little endian), the head as JSON, and the bytes that the head announces.
//! Requests run concurrently and are answered as they finish. The end of standard input ends the process.

use super::config_args::EngineArgs;
use super::endpoint_args::{FieldArg, local_fields};
use super::exit_code::{Failure, Outcome};
use super::local_engine::{self, LocalEngine};
use super::picture_args::JobsArg;
use super::remove::{AuxFileError, AuxFiles, write_stdout};
use super::stdout::stdout_error;
use crate::http::{ApiError, ErrorCode, local_reply};
use crate::image::SourceUrl;
use crate::pipeline::Output;
use crate::recipe::{ENDPOINTS, FieldError, Value};
use crate::source::Fetcher;
use crate::telemetry::with_causes;
use bytes::Bytes;
use clap::Args;
use futures_util::{TryStreamExt, stream};
use hyper::header::HeaderValue;
use serde::Deserialize;
use std::error::Error;
use std::io::{self, Read};
use std::pin::pin;
use std::thread;
use std::time::Instant;
use tokio::sync::mpsc;

/// Longest head in bytes.
const MAX_HEAD: u32 = 1 << 20;

#[derive(Args, Debug)]
pub(super) struct Pipe {
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    engine_args: EngineArgs,
}

/// The head of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// Repeated in the reply.
    id: u64,
    /// The name of an endpoint.
    endpoint: String,
    fields: Vec<FieldArg>,
    /// The address of the picture, if it is not a file.
    url: Option<String>,
    /// Names and lengths of the files that follow: the picture (`file`) and the files of fields.
    files: Vec<(String, u64)>,
}

/// A request with its files.
type Request = (Head, Vec<Bytes>);

impl Pipe {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.engine_args.load(&[])?;
        local_engine::block_on(async {
            let fetcher = local_engine::fetcher(&config)?;
            let max_bytes = fetcher.max_bytes();
            let local = Local { engine: LocalEngine::start(&config).await?, fetcher };
            // Memory is bounded: a further request is read when one is finished.
            let (sender, mut requests) = mpsc::channel(1);
            thread::Builder::new().name("stdin".to_owned()).spawn(move || {
                let mut stdin = io::stdin().lock();
                while let Some(request) = read_request(&mut stdin, max_bytes).transpose()
                    && sender.blocking_send(request).is_ok()
                {}
            })?;
            let requests = stream::poll_fn(|context| requests.poll_recv(context));
            let replies = requests.map_ok(async |request| Ok(local.reply(request).await));
            let mut replies = pin!(replies.try_buffer_unordered(self.jobs.get()));
            while let Some((head, body)) = replies.try_next().await? {
                let mut head = serde_json::to_vec(&head)?;
                let len = u32::try_from(head.len()).expect("the headers of a picture are short");
                head.splice(..0, len.to_le_bytes());
                write_stdout(head.into()).await.map_err(stdout_error)?;
                write_stdout(body).await.map_err(stdout_error)?;
            }
            Ok(Outcome::Done)
        })?
    }
}

/// The next request; `None` at the end of the input. A file is cut off one byte after `max_bytes`, and the codec then refuses it.
fn read_request(from: &mut impl Read, max_bytes: usize) -> Result<Option<Request>, Failure> {
    let mut len = Vec::new();
    from.take(4).read_to_end(&mut len)?;
    let Ok(len) = len.try_into().map(u32::from_le_bytes) else { return Ok(None) };
    if len > MAX_HEAD {
        return Err(format!("the head of a request has {len} bytes, more than {MAX_HEAD}").into());
    }
    let mut head = vec![0; len as usize];
    from.read_exact(&mut head)?;
    let head: Head = serde_json::from_slice(&head).map_err(|error| format!("the head of a request: {error}"))?;
    let mut files = Vec::new();
    for &(_, len) in &head.files {
        let (kept, mut file) = (len.min(max_bytes as u64 + 1), Vec::new());
        let read = from.take(kept).read_to_end(&mut file)? as u64;
        if read + io::copy(&mut from.take(len - kept), &mut io::sink())? < len {
            return Err("standard input ended within a file".into());
        }
        files.push(file.into());
    }
    Ok(Some((head, files)))
}

/// The engine and the fetcher of all requests.
struct Local {
    engine: LocalEngine,
    fetcher: Fetcher,
}

impl Local {
    /// The head and the body of a reply.
    async fn reply(&self, request: Request) -> (serde_json::Value, Bytes) {
        let (id, started) = (request.0.id, Instant::now());
        let (head, body) = local_reply(self.answer(request).await, started.elapsed()).await;
        let text = |value| String::from_utf8_lossy(HeaderValue::as_bytes(value));
        let headers: Vec<_> = head.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect();
        (serde_json::json!({"id": id, "status": head.status.as_u16(), "headers": headers, "length": body.len()}), body)
    }

    async fn answer(&self, (head, files): Request) -> Result<Output, ApiError> {
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.name == head.endpoint);
        let unknown = || ApiError::new(ErrorCode::InvalidEndpoint, format!("there is no endpoint `{}`", head.endpoint));
        let endpoint = endpoint.ok_or_else(unknown)?;
        let (mut source, mut attached) = (None, Vec::new());
        for ((name, _), file) in head.files.into_iter().zip(files) {
            if name == "file" { source = Some(file) } else { attached.push((name, file)) }
        }
        let names = attached.iter().map(|(name, _)| (name.clone(), String::new()));
        let args: Vec<FieldArg> = head.fields.into_iter().chain(names).collect();
        let mut recipe = endpoint.recipe(&local_fields(endpoint, &args)?)?;
        self.engine.select_network(&mut recipe).map_err(|error| {
            ApiError::new(ErrorCode::InvalidParameter, error.to_string()).param("segmentation_model")
        })?;
        let mut aux_files = AuxFiles::load(&self.fetcher, &recipe, &[]).await.map_err(refusal)?;
        attached.into_iter().for_each(|(name, file)| aux_files.attach(&name, file));
        let source = match (source, head.url) {
            (Some(source), _) => source,
            (None, None) => return Err(FieldError::Missing { param: "file".to_owned() }.into()),
            (None, Some(url)) => {
                let invalid = |_| FieldError::invalid("url", &url, <SourceUrl as Value>::KIND.expected());
                let parsed = SourceUrl::parse(&url).map_err(invalid)?;
                self.fetcher.fetch(&parsed).await.map_err(refusal)?
            }
        };
        self.engine.run(aux_files.with(source), &recipe).await.map_err(refusal)
    }
}

/// The API's error, with the text that the command line prints.
fn refusal<E: Error + Into<ApiError>>(error: E) -> ApiError {
    let message = with_causes(&error);
    error.into().worded(message)
}

impl From<AuxFileError> for ApiError {
    fn from(error: AuxFileError) -> Self {
        match error {
            AuxFileError::Fetch { param, source, .. } => Self::from(source).param(param),
            AuxFileError::ImageApi(_) => Self::new(ErrorCode::Forbidden, String::new()).param("model"),
            AuxFileError::Read { name, error, .. } => {
                Self::new(ErrorCode::InvalidParameter, error.to_string()).param(name)
            }
        }
    }
}
