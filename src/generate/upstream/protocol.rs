//! The OpenAI images protocol, as much of it as is spoken here: one picture for one prompt.

use super::PictureSize;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// The path that is added to the base address.
pub(super) const PATH: &str = "/v1/images/generations";

/// A request.
#[derive(Serialize)]
pub(super) struct Order<'a> {
    pub(super) model: &'a str,
    pub(super) prompt: &'a str,
    pub(super) n: u32,
    #[serde(serialize_with = "shown")]
    pub(super) size: PictureSize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<&'a str>,
}

fn shown<S: serde::Serializer>(size: &PictureSize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(size)
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The picture itself.
    Picture(Bytes),
    /// Where it is.
    Address(String),
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

/// The first picture of an answer; what is wrong with one that has none.
pub(super) fn picture_in(body: &[u8]) -> Result<Answer, String> {
    let Images { data } = serde_json::from_slice(body).map_err(|error| format!("it is no list of images: {error}"))?;
    let Image { b64_json, url } = data.into_iter().next().ok_or("it has no image")?;
    match (b64_json, url) {
        (Some(text), _) => match STANDARD.decode(&text) {
            Ok(bytes) if !bytes.is_empty() => Ok(Answer::Picture(bytes.into())),
            Ok(_) => Err("b64_json is empty".to_owned()),
            Err(error) => Err(format!("b64_json: {error}")),
        },
        (None, Some(url)) => Ok(Answer::Address(url)),
        (None, None) => Err("its image has neither b64_json nor url".to_owned()),
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

/// Whether an error says that the prompt is not allowed, and not that the request is wrong. The protocol has no one
/// code for that; those that are in use have one of these words in them.
pub(super) fn refuses_prompt(status: StatusCode, body: &[u8]) -> bool {
    const WORDS: [&str; 4] = ["content_policy", "content_filter", "moderation", "safety"];
    let judged = matches!(status, StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY);
    let Some(Failure { error: Reason { code, r#type } }) = judged.then(|| serde_json::from_slice(body).ok()).flatten()
    else {
        return false;
    };
    let said = [code, r#type].into_iter().flatten().map(|text| text.to_lowercase());
    said.into_iter().any(|said| WORDS.iter().any(|word| said.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_order_has_what_was_set_and_nothing_else() {
        let size = PictureSize::parse("1024x1536").expect("a size");
        let order = Order { model: "image-1", prompt: "a \"beach\"", n: 1, size, quality: None, response_format: None };
        let plain = json!({ "model": "image-1", "prompt": "a \"beach\"", "n": 1, "size": "1024x1536" });
        assert_eq!(serde_json::to_value(&order).expect("plain data"), plain);
        let more = Order { quality: Some("high"), response_format: Some("url"), ..order };
        let more = serde_json::to_value(&more).expect("plain data");
        assert_eq!((&more["quality"], &more["response_format"]), (&json!("high"), &json!("url")));
    }

    #[test]
    fn a_picture_comes_as_base64_or_by_its_address() {
        let of = |value: serde_json::Value| picture_in(value.to_string().as_bytes());
        let picture = || Answer::Picture(Bytes::from_static(b"hi!"));
        assert_eq!(of(json!({ "created": 1, "data": [{ "b64_json": "aGkh", "revised_prompt": "x" }] })), Ok(picture()));
        assert_eq!(of(json!({ "data": [{ "b64_json": "aGkh", "url": "https://a.example" }, {}] })), Ok(picture()));
        let address = Answer::Address("https://a.example/x.png".to_owned());
        assert_eq!(of(json!({ "data": [{ "b64_json": null, "url": "https://a.example/x.png" }] })), Ok(address));
        for bad in [
            json!([]),
            json!({}),
            json!({ "data": [] }),
            json!({ "data": [{}] }),
            json!({ "data": "aGkh" }),
            json!({ "data": [{ "b64_json": "" }] }),
            json!({ "data": [{ "b64_json": "a" }] }),
            json!({ "data": [{ "b64_json": "*" }] }),
            json!({ "data": [{ "b64_json": 5 }] }),
        ] {
            assert!(of(bad.clone()).is_err(), "{bad}");
        }
        assert!(picture_in(b"").is_err() && picture_in(b"<html>").is_err() && picture_in(b"\xff").is_err());
    }

    #[test]
    fn a_refused_prompt_is_told_from_a_wrong_request() {
        let refuses = |status: u16, error: serde_json::Value| {
            let status = StatusCode::from_u16(status).expect("a status");
            refuses_prompt(status, json!({ "error": error }).to_string().as_bytes())
        };
        assert!(refuses(400, json!({ "code": "content_policy_violation", "message": "no" })));
        assert!(refuses(400, json!({ "code": "moderation_blocked", "type": "image_generation_user_error" })));
        assert!(refuses(403, json!({ "type": "Safety_Violation" })));
        assert!(!refuses(400, json!({ "code": "invalid_size", "message": "content_policy" })));
        assert!(!refuses(400, json!({ "code": null })));
        assert!(!refuses(500, json!({ "code": "content_policy_violation" })), "the server's own failure");
        assert!(!refuses_prompt(StatusCode::BAD_REQUEST, b"content_policy"));
    }
}
