//! `GET` and `POST /api/remove`: translates the parameters of rembg's server to recipe fields; the reply is a PNG.

use super::cutout::{self, CutoutRequest, PictureSource};
use super::input::{self, Names, ParsedBody};
use super::refusal::Refusal;
use super::reply::{self, ResultFile};
use super::values::flag;
use crate::http::caller::Caller;
use crate::http::reply::{MODEL, Reply};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::image::SourceUrl;
use crate::recipe::{FieldError, Fields, InferenceMode};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use serde_json::Value;

const TEXTS: &[&str] = &["url", "model", "a", "af", "ab", "ae", "om", "ppm", "dc", "vm", "bgc", "extras"];

pub(super) const NAMES: Names = Names { texts: TEXTS, files: &["file"], base64: &[] };

pub(super) async fn answer(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply, Refusal> {
    let mut share = state.uploads.of(&caller.account).share();
    let is_get = context.method == Method::GET;
    let mut sent = if is_get {
        ParsedBody::default()
    } else {
        input::read(context, NAMES, state.limits.max_bytes, &mut share).await?
    };
    let received = context.body.received();
    let query = context.uri.query().unwrap_or_default();
    add_query(&mut sent, query);
    let source = if is_get {
        let url = sent.text("url").ok_or_else(|| FieldError::Missing { param: "url".to_owned() })?;
        let url = SourceUrl::parse(url).map_err(|error| {
            Refusal::invalid_request("invalid_url", format!("`url` is {error}; expected a public https URL"))
        })?;
        PictureSource::Url(url)
    } else {
        let file = sent.take("file").into_iter().next();
        PictureSource::File(file.ok_or_else(|| FieldError::Missing { param: "file".to_owned() })?)
    };
    let request = CutoutRequest { fields: translated(&sent)?, source, background: None, share, limits: state.limits };
    let headers = with_model(state, &context.headers, model(&sent)?);
    let cutout = cutout::cut_out(state, caller, &headers, received, request).await?;
    reply::picture(state, caller, cutout, ResultFile::Picture, None).await
}

/// Adds the texts of a query under known names.
pub(super) fn add_query(sent: &mut ParsedBody, query: &str) {
    for (name, text) in url::form_urlencoded::parse(query.as_bytes()) {
        if TEXTS.contains(&&*name) {
            sent.push(&name, &text);
        }
    }
}

pub(super) fn translated(sent: &ParsedBody) -> Result<Fields, Refusal> {
    let switch = |name: &str| {
        flag(sent, name, "").map_err(|_| {
            let value = sent.text(name).unwrap_or_default();
            Refusal::from(FieldError::invalid(name, value, "true or false"))
        })
    };
    // Validated but without effect: the band that is solved follows from the mask, which is always cleaned, and colours
    // are always unmixed.
    switch("ppm")?;
    switch("dc")?;
    for (name, most) in [("af", 255), ("ab", 255), ("ae", 1000)] {
        if let Some(text) = sent.text(name)
            && !text.parse::<u32>().is_ok_and(|value| value <= most)
        {
            return Err(FieldError::invalid(name, text, format!("an integer from 0 to {most}")).into());
        }
    }
    let mut fields = Fields::default();
    fields.push("matting", if switch("a")? { "closed-form" } else { "none" })?;
    if switch("om")? {
        fields.push("channels", "alpha")?;
    } else if let Some(color) = sent.text("bgc") {
        let hex = parse_rgba(color).ok_or_else(|| FieldError::invalid("bgc", color, "R,G,B,A, each from 0 to 255"))?;
        fields.push("bg_color", &hex)?;
    }
    for (name, value) in sent.text("extras").map(prompts).transpose()?.unwrap_or_default() {
        fields.push(name, &value)?;
    }
    Ok(fields)
}

/// `R,G,B,A` as `#RRGGBBAA`.
fn parse_rgba(text: &str) -> Option<String> {
    let numbers: Option<Vec<u8>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers?[..] {
        [red, green, blue, alpha] => Some(format!("#{red:02X}{green:02X}{blue:02X}{alpha:02X}")),
        _ => None,
    }
}

/// The prompts in `extras` as fields: a rectangle is the box, points of label 1 are subject and those of label 0 background.
/// Extras that are not JSON are ignored, as by rembg.
fn prompts(extras: &str) -> Result<Vec<(&'static str, String)>, Refusal> {
    let Ok(extras) = serde_json::from_str::<Value>(extras) else { return Ok(Vec::new()) };
    let Some(prompts) = extras.get("sam_prompt").and_then(Value::as_array) else { return Ok(Vec::new()) };
    let refused = |why: &str| Refusal::invalid_request("invalid_extras", format!("`extras.sam_prompt`: {why}"));
    let mut fields: Vec<(&str, String)> = Vec::new();
    for prompt in prompts {
        let data = prompt.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let numbers = data.iter().map(|at| at.as_f64().map(|at| at.clamp(0.0, 100_000.0).to_string()));
        let numbers: Option<Vec<_>> = numbers.collect();
        let numbers = |count: usize| numbers.filter(|numbers| numbers.len() == count).map(|it| it.join(","));
        match prompt.get("type").and_then(Value::as_str) {
            Some("rectangle") if fields.iter().any(|(name, _)| *name == "box") => {
                return Err(refused("only one rectangle is read"));
            }
            Some("rectangle") => {
                let corners = numbers(4).ok_or_else(|| refused("a rectangle has the numbers x1, y1, x2, y2"))?;
                fields.push(("box", corners));
            }
            Some("point") => {
                let at = numbers(2).ok_or_else(|| refused("a point has the numbers x, y"))?;
                let name = match prompt.get("label").map(Value::as_f64) {
                    None | Some(Some(1.0)) => "point",
                    Some(Some(0.0)) => "not_point",
                    Some(_) => return Err(refused("the label of a point is 1 (subject) or 0 (background)")),
                };
                fields.push((name, at));
            }
            _ => return Err(refused("expected prompts of the types point and rectangle")),
        }
    }
    Ok(fields)
}

/// The model that replaces one of rembg's; `None` for the account's own.
pub(super) fn model(sent: &ParsedBody) -> Result<Option<InferenceMode>, Refusal> {
    const STANDARD: &[&str] = &["u2net", "u2netp", "u2net_human_seg", "silueta", "sam"];
    const QUALITY: &[&str] = &["birefnet-", "bria-", "isnet-"];
    let needs_quality = flag(sent, "vm", "")
        .map_err(|_| Refusal::from(FieldError::invalid("vm", sent.text("vm").unwrap_or_default(), "true or false")))?;
    let named = match sent.text("model") {
        None => None,
        Some(name @ ("u2net_cloth_seg" | "isnet-anime")) => {
            let message = format!("model `{name}` has no counterpart here: it finds clothes or drawings");
            return Err(Refusal::invalid_request("invalid_model", message));
        }
        Some(name) if name.ends_with("_custom") => {
            let message = format!("model `{name}` has no counterpart here: weights are the operator's to install");
            return Err(Refusal::invalid_request("invalid_model", message));
        }
        Some(name) if QUALITY.iter().any(|prefix| name.starts_with(prefix)) => Some(InferenceMode::Quality),
        Some(name) if STANDARD.contains(&name) || name.starts_with("ben") => Some(InferenceMode::Standard),
        Some(name) => {
            let shown: String = name.chars().take(80).collect();
            return Err(Refusal::invalid_request("invalid_model", format!("no model `{shown}`")));
        }
    };
    Ok(if needs_quality { Some(InferenceMode::Quality) } else { named })
}

/// The request's headers with `model` as `x-service-model`.
fn with_model(state: &ApiState, headers: &HeaderMap, model: Option<InferenceMode>) -> HeaderMap {
    let mut headers = headers.clone();
    let name = model.map(|model| model.of(&state.app.processor.model()));
    if let Some(value) = name.and_then(|name| HeaderValue::from_str(&name).ok()) {
        headers.insert(MODEL, value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(&str, &str)]) -> ParsedBody {
        let mut sent = ParsedBody::default();
        pairs.iter().for_each(|(name, text)| sent.push(name, text));
        sent
    }

    #[test]
    fn a_model_of_rembg_is_one_of_the_two_or_is_refused() {
        for (pairs, expected) in [
            (&[][..], Some(None)),
            (&[("model", "u2net")], Some(Some(InferenceMode::Standard))),
            (&[("model", "birefnet-general-lite")], Some(Some(InferenceMode::Quality))),
            (&[("model", "bria-rmbg")], Some(Some(InferenceMode::Quality))),
            (&[("model", "isnet-general-use")], Some(Some(InferenceMode::Quality))),
            (&[("model", "u2net"), ("vm", "true")], Some(Some(InferenceMode::Quality))),
            (&[("model", "isnet-anime")], None),
            (&[("model", "u2net_cloth_seg")], None),
            (&[("model", "u2net_custom")], None),
            (&[("model", "other")], None),
        ] {
            assert_eq!(model(&sent(pairs)).ok(), expected, "{pairs:?}");
        }
    }

    #[test]
    fn prompts_become_fields_and_bad_json_is_ignored() {
        let of = |extras| prompts(extras).ok();
        let all = r#"{"sam_prompt":[{"type":"rectangle","data":[1,2.5,30,40],"label":1},
            {"type":"point","data":[7,-8],"label":1},{"type":"point","data":[9,10],"label":0},{"type":"point","data":[3,4]}]}"#;
        let expected = [("box", "1,2.5,30,40"), ("point", "7,0"), ("not_point", "9,10"), ("point", "3,4")];
        assert_eq!(of(all), Some(expected.map(|(name, value)| (name, value.to_owned())).into()));
        for ignored in ["{", "1", "{}", r#"{"other":1}"#, r#"{"sam_prompt":[]}"#] {
            assert_eq!(of(ignored), Some(Vec::new()), "{ignored}");
        }
        for refused in [
            r#"{"sam_prompt":[{"type":"point","data":[1,2],"label":2}]}"#,
            r#"{"sam_prompt":[{"type":"point","data":[1,2],"label":"1"}]}"#,
            r#"{"sam_prompt":[{"type":"point","data":[1]}]}"#,
            r#"{"sam_prompt":[{"type":"rectangle","data":[1,2,3,4]},{"type":"rectangle","data":[1,2,3,4]}]}"#,
            r#"{"sam_prompt":[{"type":"rectangle","data":[1,2]}]}"#,
            r#"{"sam_prompt":[{}]}"#,
        ] {
            assert_eq!(of(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_background_has_four_numbers() {
        assert_eq!(parse_rgba("255, 0,128,255").as_deref(), Some("#FF0080FF"));
        for bad in ["", "1,2,3", "1,2,3,4,5", "256,0,0,0", "a,b,c,d"] {
            assert_eq!(parse_rgba(bad), None, "{bad}");
        }
    }
}
