//! Messages of the OpenAI images protocol: one picture for one prompt.

use crate::generate::picture_size::PictureSize;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// Path of the endpoint, appended to the base address.
pub(super) const PATH: &str = "/v1/images/generations";

#[derive(Serialize)]
pub(super) struct ImageRequest<'a> {
    pub(super) model: &'a str,
    pub(super) prompt: &'a str,
    pub(super) n: u32,
    #[serde(serialize_with = "as_text")]
    pub(super) size: PictureSize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<&'a str>,
}

fn as_text<S: serde::Serializer>(size: &PictureSize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(size)
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Inline(Bytes),
    Url(String),
}

#[derive(Deserialize)]
struct Images {
    data: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    b64_json: Option<String>,
    url: Option<String>,
}

/// Parses a successful response and returns its first picture.
///
/// # Errors
/// A description of the malformed part.
pub(super) fn parse_response(body: &[u8]) -> Result<Payload, String> {
    let Images { data } = serde_json::from_slice(body).map_err(|error| format!("not a list of images: {error}"))?;
    let Image { b64_json, url } = data.into_iter().next().ok_or("no image")?;
    match (b64_json, url) {
        (Some(text), _) => match STANDARD.decode(&text) {
            Ok(bytes) if !bytes.is_empty() => Ok(Payload::Inline(bytes.into())),
            Ok(_) => Err("b64_json is empty".to_owned()),
            Err(error) => Err(format!("b64_json: {error}")),
        },
        (None, Some(url)) => Ok(Payload::Url(url)),
        (None, None) => Err("the image has neither b64_json nor url".to_owned()),
    }
}

#[derive(Deserialize)]
struct Failure {
    error: Reason,
}

#[derive(Deserialize)]
struct Reason {
    code: Option<String>,
    r#type: Option<String>,
}

/// Whether an error response refuses the prompt by content policy instead of an invalid request. The protocol has no
/// single code for this; codes in use contain one of these words (`content_filter`, `contentFilter`).
pub(super) fn refuses_prompt(status: StatusCode, body: &[u8]) -> bool {
    const WORDS: [&str; 4] = ["contentpolicy", "contentfilter", "moderation", "safety"];
    let may_refuse =
        matches!(status, StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY);
    let Some(Failure { error: Reason { code, r#type } }) =
        may_refuse.then(|| serde_json::from_slice(body).ok()).flatten()
    else {
        return false;
    };
    let codes = [code, r#type].into_iter().flatten().map(|text| text.to_lowercase().replace('_', ""));
    codes.into_iter().any(|code| WORDS.iter().any(|word| code.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_picture_is_inline_base64_or_a_url() {
        let of = |value: serde_json::Value| parse_response(value.to_string().as_bytes());
        let picture = || Payload::Inline(Bytes::from_static(b"hi!"));
        assert_eq!(of(json!({ "created": 1, "data": [{ "b64_json": "aGkh", "revised_prompt": "x" }] })), Ok(picture()));
        assert_eq!(of(json!({ "data": [{ "b64_json": "aGkh", "url": "https://a.example" }, {}] })), Ok(picture()));
        let address = Payload::Url("https://a.example/x.png".to_owned());
        assert_eq!(of(json!({ "data": [{ "b64_json": null, "url": "https://a.example/x.png" }] })), Ok(address));
        for bad in [
            json!([]),
            json!({ "data": [{}] }),
            json!({ "data": "aGkh" }),
            json!({ "data": [{ "b64_json": "" }] }),
            json!({ "data": [{ "b64_json": "a" }] }),
            json!({ "data": [{ "b64_json": 5 }] }),
        ] {
            assert!(of(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refused_prompt_is_distinguished_from_an_invalid_request() {
        let refuses = |status: u16, error: serde_json::Value| {
            let status = StatusCode::from_u16(status).expect("a status");
            refuses_prompt(status, json!({ "error": error }).to_string().as_bytes())
        };
        assert!(refuses(400, json!({ "code": "content_policy_violation", "message": "no" })));
        assert!(refuses(400, json!({ "code": "moderation_blocked", "type": "image_generation_user_error" })));
        assert!(refuses(403, json!({ "type": "Safety_Violation" })));
        assert!(refuses(400, json!({ "code": "contentFilter" })) && refuses(400, json!({ "code": "content_filter" })));
        assert!(refuses(400, json!({ "code": "ContentPolicyViolation" })));
        assert!(!refuses(400, json!({ "code": "invalid_size", "message": "content_policy" })));
        assert!(!refuses(400, json!({ "code": null })));
        assert!(!refuses(500, json!({ "code": "content_policy_violation" })), "the server's own failure");
        assert!(!refuses_prompt(StatusCode::BAD_REQUEST, b"content_policy"));
    }
}
