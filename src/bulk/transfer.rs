//! Getting sources and storing results, whole or not at all.
//!
//! `object_store` tries again what fails on the way to an answer. What comes after is looked at here: a body that breaks
//! off and cannot be continued, one that is shorter or longer than the listing says, a write whose answer was lost.

use super::failure::{Code, Failure};
use super::row::{Row, Status, now, version};
use super::run::Worked;
use crate::source::Objects;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutOptions,
};
use std::time::{Duration, Instant};

/// How often a transfer is tried in all.
const TRIES: u32 = 4;

/// Before the second try; each further one waits four times as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// After so long nothing is tried again: what took so long are the tries of the store itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// A source as it came.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// All of it.
    pub bytes: Bytes,
    /// The version that came, which may be newer than the one that was listed.
    pub version: String,
}

/// Gets the object that was listed as `listed`, of at most `most` bytes.
///
/// # Errors
/// A [`Failure`] after the last try, or at once when no other try could help.
pub async fn fetch(store: &dyn ObjectStore, listed: &ObjectMeta, most: u64) -> Result<Fetched, Failure> {
    tried(async || once(store, listed, most).await).await
}

async fn once(store: &dyn ObjectStore, listed: &ObjectMeta, most: u64) -> Result<Fetched, (Failure, bool)> {
    let of_store = |error| {
        let (failure, again) = Failure::of_store(&error, "read");
        let code = if failure.code == Code::UpstreamFailed.name() { Code::FetchFailed.name() } else { failure.code };
        (Failure { code, ..failure }, again)
    };
    let got = store.get(&listed.location).await.map_err(of_store)?;
    let (came, said) = (version(&got.meta), got.meta.size);
    // One that was replaced since the listing is another object, of its own size.
    let expected = if came == version(listed) { listed.size } else { said };
    if expected > most {
        return Err((too_large(most), false));
    }
    let mut body = got.into_stream();
    let mut bytes = BytesMut::with_capacity(usize::try_from(expected).unwrap_or_default());
    while let Some(chunk) = body.try_next().await.map_err(of_store)? {
        if (bytes.len() + chunk.len()) as u64 > expected {
            return Err((wrong_length(expected, "more"), true));
        }
        bytes.extend_from_slice(&chunk);
    }
    if (bytes.len() as u64) < expected {
        return Err((wrong_length(expected, &format!("only {}", bytes.len())), true));
    }
    Ok(Fetched { bytes: bytes.freeze(), version: came })
}

pub(super) fn too_large(most: u64) -> Failure {
    Failure::new(Code::PayloadTooLarge, format!("the file has more than {most} bytes"))
}

fn wrong_length(expected: u64, came: &str) -> Failure {
    Failure::new(Code::FetchFailed, format!("it should have {expected} bytes, and {came} came"))
}

/// Stores a result under `output`, with what tells what it was made of where the place keeps such things.
pub(super) async fn store(to: &Objects, output: &Path, worked: &Worked, row: &Row) -> Result<(), Failure> {
    let attributes = if to.has_attributes { attributes(worked, row) } else { Attributes::default() };
    tried(async || {
        let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
        let stored = to.store.put_opts(output, worked.bytes.clone().into(), options).await;
        stored.map(|_| ()).map_err(|error| Failure::of_store(&error, "write"))
    })
    .await
}

async fn tried<T>(attempt: impl AsyncFn() -> Result<T, (Failure, bool)>) -> Result<T, Failure> {
    let began = Instant::now();
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err((_, true)) if began.elapsed() < PATIENCE => {}
            Err((failure, _)) => return Err(failure),
        }
        // Machines that were turned away together do not come back together.
        tokio::time::sleep(wait.mul_f64(0.5 + rand::random::<f64>())).await;
        wait *= 4;
    }
    attempt().await.map_err(|(failure, _)| failure)
}

// Underscores, because Azure takes names of variables only.
const SOURCE: &str = "backdrop_source";
const ETAG: &str = "backdrop_source_etag";
const PARAMETERS: &str = "backdrop_parameters";
const MODEL: &str = "backdrop_model";
const SIZE: &str = "backdrop_size";
const UNCERTAINTY: &str = "backdrop_uncertainty";

/// What a result says of itself.
fn attributes(worked: &Worked, row: &Row) -> Attributes {
    let own = [
        (SOURCE, in_ascii(&row.source)),
        (ETAG, in_ascii(&row.source_etag)),
        (PARAMETERS, row.parameters.clone()),
        (MODEL, in_ascii(&row.model)),
        (SIZE, format!("{}x{}", worked.width, worked.height)),
    ];
    let uncertainty = worked.uncertainty.map(|uncertainty| (UNCERTAINTY, uncertainty.to_string()));
    let own = own
        .into_iter()
        .chain(uncertainty)
        .map(|(name, value)| (Attribute::Metadata(name.into()), AttributeValue::from(value)));
    std::iter::once((Attribute::ContentType, AttributeValue::from(worked.media_type))).chain(own).collect()
}

/// Headers hold ASCII, and S3 takes 2 kB of metadata in all: other characters are escaped as in a URL, and a text that
/// is too long for that is its hash.
fn in_ascii(text: &str) -> String {
    const MOST: usize = 1200;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'$' | b'&'..=b'~' => escaped.push(char::from(byte)),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    if escaped.len() <= MOST { escaped } else { format!("hash:{:032x}", super::hash(&[text])) }
}

/// The finished row, when the result that is there says that it was made of exactly this.
pub(super) async fn found_done(to: &Objects, output: &Path, row: &Row) -> Option<Row> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    // What cannot be asked is simply made.
    let there = to.store.get_opts(output, options).await.ok()?;
    let says = |name: &'static str| there.attributes.get(&Attribute::Metadata(name.into())).map(AsRef::<str>::as_ref);
    let is_it = says(SOURCE)? == in_ascii(&row.source)
        && says(ETAG)? == in_ascii(&row.source_etag)
        && says(PARAMETERS)? == row.parameters;
    let size = says(SIZE).and_then(|size| size.split_once('x'));
    is_it.then(|| Row {
        status: Status::Done,
        output_bytes: Some(there.meta.size),
        width: size.and_then(|(width, _)| width.parse().ok()),
        height: size.and_then(|(_, height)| height.parse().ok()),
        uncertainty: says(UNCERTAINTY).and_then(|text| text.parse().ok()),
        finished_at: now(),
        ..row.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_ascii_and_short() {
        assert_eq!(in_ascii("s3://a/b c%ü.jpg"), "s3://a/b%20c%25%C3%BC.jpg");
        let long = in_ascii(&"ü".repeat(512));
        assert!(long.starts_with("hash:") && long.len() == 37, "{long}");
        assert_eq!(in_ascii(&"a".repeat(1024)).len(), 1024);
    }
}
