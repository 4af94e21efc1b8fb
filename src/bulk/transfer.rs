//! Downloads sources and uploads results, whole or not at all, with retries.
//!
//! `object_store` retries what fails before a response. The rest is handled here: a body that breaks off and cannot be
//! resumed, one whose length differs from the listing, a write whose response was lost.

use super::failure::{Code, Failure};
use super::processor::Processed;
use super::report_row::{ReportRow, object_version};
use super::result_metadata::attributes;
use crate::source::StorageLocation;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Attributes, ObjectMeta, ObjectStore, ObjectStoreExt, PutOptions};
use std::time::{Duration, Instant};

/// Attempts of a transfer in all.
const ATTEMPTS: u32 = 4;

/// Delay before the second attempt; each further one is four times as long.
const FIRST_DELAY: Duration = Duration::from_millis(200);

/// No further attempt after this long: the time went into the store's own retries.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// A downloaded source.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The whole file.
    pub bytes: Bytes,
    /// Its version, which may be newer than the listed one.
    pub version: String,
}

/// Downloads the object that was listed as `listed`, of at most `max_bytes`.
///
/// # Errors
/// A [`Failure`] after the last attempt, or at once when it is permanent.
pub async fn fetch(store: &dyn ObjectStore, listed: &ObjectMeta, max_bytes: u64) -> Result<Fetched, Failure> {
    with_retries(async || fetch_once(store, listed, max_bytes).await).await
}

async fn fetch_once(store: &dyn ObjectStore, listed: &ObjectMeta, max_bytes: u64) -> Result<Fetched, (Failure, bool)> {
    let from_store = |error| {
        let (failure, retry) = Failure::from_store(&error, "read");
        let code = if failure.code == Code::UpstreamFailed.name() { Code::FetchFailed.name() } else { failure.code };
        (Failure { code, ..failure }, retry)
    };
    let response = store.get(&listed.location).await.map_err(from_store)?;
    let (version, size) = (object_version(&response.meta), response.meta.size);
    // An object that was replaced since the listing has another size.
    let expected = if version == object_version(listed) { listed.size } else { size };
    if expected > max_bytes {
        return Err((Failure::too_large(max_bytes), false));
    }
    let mut body = response.into_stream();
    let mut bytes = BytesMut::with_capacity(usize::try_from(expected).unwrap_or_default());
    while let Some(chunk) = body.try_next().await.map_err(from_store)? {
        if (bytes.len() + chunk.len()) as u64 > expected {
            return Err((wrong_length(expected, "more"), true));
        }
        bytes.extend_from_slice(&chunk);
    }
    if (bytes.len() as u64) < expected {
        return Err((wrong_length(expected, &format!("only {}", bytes.len())), true));
    }
    Ok(Fetched { bytes: bytes.freeze(), version })
}

fn wrong_length(expected: u64, received: &str) -> Failure {
    Failure::new(Code::FetchFailed, format!("expected {expected} bytes, received {received}"))
}

/// Uploads a result as `output`, with its provenance where the store keeps metadata.
pub(super) async fn store(
    destination: &StorageLocation,
    output: &Path,
    result: &Processed,
    row: &ReportRow,
) -> Result<(), Failure> {
    let attributes = if destination.has_attributes { attributes(result, row) } else { Attributes::default() };
    with_retries(async || {
        let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
        let stored = destination.store.put_opts(output, result.bytes.clone().into(), options).await;
        stored.map(|_| ()).map_err(|error| Failure::from_store(&error, "write"))
    })
    .await
}

/// Repeats `attempt` with jittered exponential backoff while its error is marked as transient.
async fn with_retries<T>(attempt: impl AsyncFn() -> Result<T, (Failure, bool)>) -> Result<T, Failure> {
    let started = Instant::now();
    let mut delay = FIRST_DELAY;
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err((_, true)) if started.elapsed() < RETRY_TIMEOUT => {}
            Err((failure, _)) => return Err(failure),
        }
        // Jitter, so that machines that were throttled together do not retry together.
        tokio::time::sleep(delay.mul_f64(0.5 + rand::random::<f64>())).await;
        delay *= 4;
    }
    attempt().await.map_err(|(failure, _)| failure)
}
