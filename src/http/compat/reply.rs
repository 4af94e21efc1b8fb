//! Headers and bodies of replies in other services' wire formats.

use super::archive;
use super::cutout::Cutout;
use crate::http::admission::Caller;
use crate::http::reply::{Reply, Result, picture_reply};
use crate::http::state::ApiState;
use crate::store::UnixSeconds;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::task::spawn_blocking;

const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The file of a finished picture.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResultFile {
    /// The picture itself.
    Picture,
    /// A ZIP archive of its colours and its alpha.
    Archive,
}

/// The texts of a JSON reply around the file in base64.
#[derive(Debug)]
pub(super) struct Json {
    pub(super) before: &'static str,
    pub(super) after: String,
}

/// Replaces the wait until the rate's reset, if sent, by the time of the reset in seconds since 1970, as in remove.bg's replies.
pub(super) fn write_reset_as_time(headers: &mut HeaderMap) {
    let wait = headers.get(RATE_RESET).and_then(|wait| wait.to_str().ok()?.parse::<i64>().ok());
    if let Some(wait) = wait {
        headers.insert(RATE_RESET, UnixSeconds::now().0.saturating_add(wait).into());
    }
}

/// Whether the caller accepts JSON and no file. axios, whose default has JSON and `*/*`, gets the file, as from remove.bg.
pub(super) fn accepts_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let types: Vec<_> = accepted
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
        .collect();
    let takes_file = |range: &String| range.starts_with("image/") || range == "*/*";
    types.iter().any(|range| range == "application/json") && !types.iter().any(takes_file)
}

/// The reply with a finished picture and its usual headers: the file, or JSON with the file. The picture is billed once its reply has
/// memory.
pub(super) async fn picture(
    state: &ApiState,
    caller: &Caller,
    cutout: Cutout,
    file: ResultFile,
    json: Option<Json>,
) -> Result<Reply> {
    let Cutout { mut output, bill, latency, deadline, .. } = cutout;
    let memory = state.memory.of(&caller.account);
    let mut bytes = std::mem::take(&mut output.image.bytes);
    let mut media_type = output.image.format.media_type();
    if matches!(file, ResultFile::Archive) {
        let archive =
            archive::color_and_alpha(bytes, state.app.processor.admission(), &caller.account, deadline).await?;
        bytes = memory.hold(archive.into(), deadline).await?;
        media_type = "application/zip";
    }
    if let Some(Json { before, after }) = json {
        let encoding = spawn_blocking(move || {
            let mut json = String::with_capacity(before.len() + bytes.len().div_ceil(3) * 4 + after.len());
            json.push_str(before);
            STANDARD.encode_string(&bytes, &mut json);
            json.push_str(&after);
            Bytes::from(json)
        });
        bytes = memory.hold(encoding.await?, deadline).await?;
        media_type = "application/json";
    }
    let mut reply = picture_reply::image(output, bill.pay().await?, latency)?;
    *reply.body_mut() = Full::new(bytes).boxed_unsync();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_sent_to_callers_that_accept_it_and_no_picture() {
        for (accept, json) in [
            ("application/json", true),
            ("Application/JSON; q=1", true),
            ("application/json, text/plain, */*", false),
            ("*/*", false),
            ("image/png, application/json", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(accepts_json(&headers), json, "{accept}");
        }
    }
}
