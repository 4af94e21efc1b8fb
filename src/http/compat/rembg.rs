//! `GET` and `POST /api/remove`: translates the parameters of rembg's server to recipe fields; the reply is a PNG.

use super::cutout::{self, CutoutRequest};
use super::input::{self, Names, ParsedBody};
use super::refusal::invalid_request;
use super::reply::{self, ResultFile};
use super::values::flag;
use crate::http::admission::Caller;
use crate::http::reply::{MODEL, Reply, Result};
use crate::http::request::image_request::Pictures;
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::image::SourceUrl;
use crate::model::added::AddedModels;
use crate::recipe::{FieldError, Fields, InferenceMode};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use serde_json::Value;

const TEXTS: &[&str] = &["url", "model", "a", "af", "ab", "ae", "om", "ppm", "dc", "vm", "bgc", "extras"];

pub(super) const NAMES: Names = Names { texts: TEXTS, files: &["file"], base64: None };

pub(super) async fn answer(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply> {
    let is_get = context.method == Method::GET;
    let mut sent = if is_get {
        ParsedBody::default()
    } else {
        input::read(context, NAMES, state.limits.max_bytes, &state.memory.of(&caller.account)).await?
    };
    let received = context.body.received();
    let query = context.uri.query().unwrap_or_default();
    add_query(&mut sent, query);
    let source = if is_get {
        let url = sent.text("url").ok_or_else(|| FieldError::Missing { param: "url".to_owned() })?;
        let url = SourceUrl::parse(url).map_err(|error| {
            invalid_request("invalid_url", format!("`url` is {error}; expected a public https URL"))
        })?;
        Pictures::Url(url)
    } else {
        let file = sent.take("file").into_iter().next();
        Pictures::File(file.ok_or_else(|| FieldError::Missing { param: "file".to_owned() })?)
    };
    let request = CutoutRequest { fields: translated(&sent)?, source, background: None, limits: state.limits };
    let processor = &state.app.processor;
    let headers = with_model(&context.headers, model(&sent, &processor.model(), processor.added())?);
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

pub(super) fn translated(sent: &ParsedBody) -> Result<Fields> {
    // Validated but without effect: the band that is solved follows from the mask, which is always cleaned, and colours
    // are always unmixed.
    switch(sent, "ppm")?;
    switch(sent, "dc")?;
    for (name, most) in [("af", 255), ("ab", 255), ("ae", 1000)] {
        if let Some(text) = sent.text(name)
            && !text.parse::<u32>().is_ok_and(|value| value <= most)
        {
            return Err(FieldError::invalid(name, text, format!("an integer from 0 to {most}")).into());
        }
    }
    let mut fields = Fields::default();
    fields.push("matting", if switch(sent, "a")? { "closed-form" } else { "none" })?;
    if switch(sent, "om")? {
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

/// A switch, refused as a parameter.
fn switch(sent: &ParsedBody, name: &str) -> Result<bool, FieldError> {
    let value = sent.text(name).unwrap_or_default();
    flag(sent, name, "").map_err(|_| FieldError::invalid(name, value, "true or false"))
}

/// `R,G,B,A` as `#RRGGBBAA`.
fn parse_rgba(text: &str) -> Option<String> {
    let numbers: Option<Vec<u8>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers?[..] {
        [red, green, blue, alpha] => Some(format!("#{red:02X}{green:02X}{blue:02X}{alpha:02X}")),
        _ => None,
    }
}

/// The prompts in `extras` as fields: a rectangle is the box, points of label 1 are subject, points of label 0 background.
/// Extras that are not JSON are ignored, as by rembg.
fn prompts(extras: &str) -> Result<Vec<(&'static str, String)>> {
    let Ok(extras) = serde_json::from_str::<Value>(extras) else { return Ok(Vec::new()) };
    let Some(prompts) = extras.get("sam_prompt").and_then(Value::as_array) else { return Ok(Vec::new()) };
    let refused = |why: &str| invalid_request("invalid_extras", format!("`extras.sam_prompt`: {why}"));
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

/// Models of rembg that the built-in network replaces.
const STANDARD: &[&str] = &["u2net", "u2netp", "u2net_human_seg", "silueta", "sam"];

/// What `x-service-model` says for a model of rembg's: the added model of this name, or the built-in network; nothing for the account's
/// own. `vm`, its refinement of the edge, has no effect: `a` always has matting here.
pub(super) fn model(sent: &ParsedBody, weights: &str, added: &AddedModels) -> Result<Option<String>> {
    switch(sent, "vm")?;
    let Some(name) = sent.text("model") else { return Ok(None) };
    if let Some(model) = name.parse().ok().and_then(|name| added.find(&name).ok()) {
        return Ok(Some(model.name.to_string()));
    }
    if STANDARD.contains(&name) {
        return Ok(Some(InferenceMode::Standard.of(weights)));
    }
    let shown: String = name.chars().take(80).collect();
    let message = format!(
        "there is no model `{shown}`: add its file with `backdrop models add FILE --name {shown}`, or leave `model` out"
    );
    Err(invalid_request("invalid_model", message))
}

/// The request's headers with `model` as `x-service-model`.
fn with_model(headers: &HeaderMap, model: Option<String>) -> HeaderMap {
    let mut headers = headers.clone();
    if let Some(value) = model.and_then(|name| HeaderValue::from_str(&name).ok()) {
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
    fn a_model_of_rembg_is_the_built_in_network_or_is_refused_with_what_to_do() {
        let model = |pairs: &[(&str, &str)]| model(&sent(pairs), "fgnet-384/10", &AddedModels::default());
        assert_eq!(model(&[]).ok(), Some(None));
        assert_eq!(model(&[("vm", "true")]).ok(), Some(None));
        for known in STANDARD {
            assert_eq!(model(&[("model", known)]).ok(), Some(Some("fgnet-384/10".to_owned())), "{known}");
        }
        let others =
            "birefnet-general-lite bria-rmbg isnet-general-use isnet-anime u2net_cloth_seg u2net_custom ben2 ../x";
        for other in others.split(' ') {
            let refused = model(&[("model", other)]).expect_err("no such model");
            assert!(format!("{refused:?}").contains("backdrop models add"), "{other}");
        }
        assert!(model(&[("vm", "maybe")]).is_err());
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
