//! `POST /bulk`: queues a run over object storage as a job of the key.
//!
//! The checks, in order: `Idempotency-Key` syntax and the body (400), a database (503), the account's access to the places (403),
//! the globs (400), its access to generated backdrops (403), preset (404), the model (400), background and watermark by URL
//! (424), the places themselves (400), an earlier request under the `Idempotency-Key` (the same job, or 409), another run with
//! the report (409), and the key's number of runs (429).

use super::jobs::{self, bulk_document};
use crate::bulk::{KeyFilter, Selection};
use crate::http::admission::{Caller, merge_preset, require_backdrop_access, require_scope, select_model};
use crate::http::bulk_runs::{BulkRefusal, BulkRequest, BulkRuns};
use crate::http::reply::{ApiError, ErrorCode, Reply, Result};
use crate::http::request::fetching::fetch_aux_files;
use crate::http::request::json::{self, Object, is_absent};
use crate::http::request::{fingerprint, preset_fields};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::jobs::{BulkPlaces, JobsError};
use crate::recipe::{ENDPOINTS, Endpoint, FieldError, Fields, OF_ONE_PICTURE, PromptRequest, Source};
use crate::source::Place;
use crate::store::BulkJobCreated;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The endpoint that runs without `endpoint`.
const DEFAULT_ENDPOINT: &str = "/remove";

/// The members of the body.
const MEMBERS: [&str; 10] =
    ["from", "to", "endpoint", "params", "preset", "include", "exclude", "output", "limit", "report"];

/// Answers 202 with the job.
pub(crate) async fn answer(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply> {
    let name = fingerprint::key(&context.headers)?;
    let object = json::read(&context.headers, &mut context.body).await?;
    let received = context.body.received();
    let body = BulkBody::parse(object)?;
    let runs = state.app.bulk.as_ref().ok_or_else(|| {
        ApiError::unavailable("bulk runs are not possible here: they need a PostgreSQL database (store.url)")
    })?;
    require_places(runs, caller, &body)?;
    body.require_globs()?;
    let request = request(state, caller, context, body, name.map(|name| name.as_str().to_owned())).await?;
    let preparing = Arc::clone(&runs.prepare);
    let new = spawn_blocking(move || preparing.prepare(request)).await??;
    let at_most = runs.config.max_queued_per_key;
    match runs.queue.create_job(&new, at_most).await? {
        BulkJobCreated::Queued | BulkJobCreated::Same => {}
        BulkJobCreated::Conflict => return Err(fingerprint::conflict()),
        BulkJobCreated::ReportInUse => {
            let message = "a run that is not over writes this report";
            return Err(ApiError::new(ErrorCode::Conflict, message).param("report"));
        }
        BulkJobCreated::TooMany => return Err(JobsError::TooMany(at_most).into()),
    }
    let job = runs.queue.job(&new.key_id, &new.run.id).await?;
    let job = job.ok_or_else(|| ApiError::internal("a bulk run that was created is gone"))?;
    jobs::accepted(&job.id, bulk_document(&job), job.state, received.elapsed())
}

/// Refuses places that the account may not use (403). A sandbox key, which stamps its results, may use none.
fn require_places(runs: &BulkRuns, caller: &Caller, body: &BulkBody) -> Result<()> {
    if caller.test {
        return Err(ApiError::new(ErrorCode::Forbidden, "a sandbox key cannot start bulk runs"));
    }
    let report = body.report.as_ref().map(Place::url);
    let places = BulkPlaces { from: body.from.url(), to: body.to.url(), report };
    match runs.config.refused_bulk_place(&caller.account, &places) {
        Some(param) => Err(BulkRefusal::Forbidden { param }.into()),
        None => Ok(()),
    }
}

/// The run of a body whose places are allowed, with the files that its fields name by URL.
async fn request(
    state: &ApiState,
    caller: &Caller,
    context: &RequestContext,
    body: BulkBody,
    name: Option<String>,
) -> Result<BulkRequest> {
    let BulkBody { from, to, report, endpoint, mut fields, preset, selection } = body;
    require_scope(caller, endpoint.path)?;
    require_backdrop_access(state, endpoint, caller, &fields)?;
    if let Some(preset) = preset {
        fields = merge_preset(state, endpoint, caller, fields, &preset).await?;
    }
    let mut recipe = endpoint.recipe(&fields)?;
    select_model(&state.app, &context.headers, caller, &mut recipe)?;
    let network = recipe.cut().map(|cut| cut.network.clone()).unwrap_or_default();
    if let Some(mask) = &recipe.inputs.mask {
        return Err(FieldError::not_taken(mask.param(), OF_ONE_PICTURE).into());
    }
    if let Some(Source::Generated(PromptRequest { model: Some(model), .. })) = &recipe.inputs.background {
        let expected = "auto: bulk runs use the built-in generator";
        return Err(FieldError::invalid("model", model.as_str(), expected).into());
    }
    let memory = state.memory.of(&caller.account);
    let aux = fetch_aux_files(&*state.app.fetcher, &memory, &recipe).await?;
    Ok(BulkRequest {
        key_id: caller.key_id.clone(),
        account: caller.account.clone(),
        name,
        from: from.url().to_owned(),
        to: to.url().to_owned(),
        report: report.map(|report| report.url().to_owned()),
        endpoint,
        fields,
        network,
        background: aux.background,
        mark: aux.mark,
        selection,
    })
}

/// A body whose members are valid, each alone and the fields together.
#[derive(Debug)]
struct BulkBody {
    from: Place,
    to: Place,
    report: Option<Place>,
    endpoint: &'static Endpoint,
    fields: Fields,
    preset: Option<String>,
    selection: Selection,
}

impl BulkBody {
    fn parse(object: Object) -> Result<Self, FieldError> {
        let (mut from, mut to, mut report, mut endpoint, mut preset) = (None, None, None, None, None);
        let (mut params, mut selection) = (Map::new(), Selection::default());
        for (name, value) in object.unique()? {
            if !MEMBERS.contains(&name.as_str()) {
                return Err(FieldError::unknown(&name, MEMBERS));
            }
            if is_absent(&value) {
                continue;
            }
            match name.as_str() {
                "from" => from = Some(place(&name, &value)?),
                "to" => to = Some(place(&name, &value)?),
                "report" => report = Some(report_place(&value)?),
                "endpoint" => endpoint = Some(json::text(&name, &value, EXPECTED_ENDPOINT)?),
                "preset" => preset = Some(json::text(&name, &value, "the id or the name of a preset")?),
                "output" => selection.output = template(&name, &value)?,
                "include" => selection.include = globs(&name, &value)?,
                "exclude" => selection.exclude = globs(&name, &value)?,
                "limit" => {
                    let number = value.as_u64().filter(|number| *number > 0);
                    let refuse = || FieldError::invalid(&name, &value.to_string(), "an integer of at least 1");
                    selection.limit = Some(number.ok_or_else(refuse)?);
                }
                _ => params = json::object(&name, value)?,
            }
        }
        if let Err(error) = selection.template() {
            return Err(FieldError::invalid("output", &selection.output, error.to_string()));
        }
        let path = endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT);
        let endpoint = ENDPOINTS.iter().find(|known| known.path == path && known.input.is_single());
        let endpoint = endpoint.ok_or_else(|| FieldError::invalid("endpoint", path, EXPECTED_ENDPOINT))?;
        let fields = preset_fields::fields_of(endpoint, &params)?;
        if preset.is_none() {
            endpoint.recipe(&fields)?;
        }
        let missing = |param: &str| FieldError::Missing { param: param.to_owned() };
        let (from, to) = (from.ok_or_else(|| missing("from"))?, to.ok_or_else(|| missing("to"))?);
        Ok(Self { from, to, report, endpoint, fields, preset, selection })
    }

    /// Compiles the globs, each member alone for its name in the error. Only for accounts that may start the run: a glob of a few
    /// bytes takes the time of a thousand patterns.
    fn require_globs(&self) -> Result<(), FieldError> {
        for (name, globs) in [("include", &self.selection.include), ("exclude", &self.selection.exclude)] {
            KeyFilter::new(globs, &[])
                .map_err(|error| FieldError::invalid(name, &globs.join(" "), error.to_string()))?;
        }
        Ok(())
    }
}

/// Longest template of result keys in bytes, as long as a key: each placeholder in it repeats a part of the source's key.
const MAX_TEMPLATE_BYTES: usize = 1024;

const EXPECTED_ENDPOINT: &str = "the path of an endpoint that takes one picture, such as /remove";
const EXPECTED_PLACE: &str = "s3://bucket/folder, gs://bucket/folder, az://container/folder or file:///folder";

fn place(name: &str, value: &Value) -> Result<Place, FieldError> {
    let text = json::text(name, value, EXPECTED_PLACE)?;
    Place::parse(&text).ok_or_else(|| FieldError::invalid(name, &text, EXPECTED_PLACE))
}

fn report_place(value: &Value) -> Result<Place, FieldError> {
    let is_report = |place: &Place| place.url().ends_with(".jsonl");
    let expected = "the URL of an object such as s3://bucket/report.jsonl";
    let place = Some(place("report", value)?).filter(is_report);
    place.ok_or_else(|| FieldError::invalid("report", &value.to_string(), expected))
}

fn template(name: &str, value: &Value) -> Result<String, FieldError> {
    let expected = "a template such as {dir}/{stem}.{ext}, of at most 1,024 bytes";
    let template = json::text(name, value, expected)?;
    if template.len() > MAX_TEMPLATE_BYTES {
        return Err(FieldError::invalid(name, &template, expected));
    }
    Ok(template)
}

fn globs(name: &str, value: &Value) -> Result<Vec<String>, FieldError> {
    let refuse = |expected: &str| FieldError::invalid(name, &value.to_string(), expected);
    let texts =
        value.as_array().ok_or_else(|| refuse("a list of globs"))?.iter().map(|glob| Some(glob.as_str()?.to_owned()));
    texts.collect::<Option<_>>().ok_or_else(|| refuse("a list of globs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(body: Value) -> Result<BulkBody, FieldError> {
        let body = BulkBody::parse(json::parse(body.to_string().as_bytes()).expect("an object"))?;
        body.require_globs().map(|()| body)
    }

    #[test]
    fn a_body_has_places_an_endpoint_with_its_params_and_filters() {
        let body = parsed(json!({
            "from": " s3://shop/photos ", "to": "s3://shop/cutouts", "endpoint": "/studio-shot",
            "params": {"width": 800, "transparent": true, "max_dim": null}, "include": ["*.jpg"], "exclude": ["thumbs/**"],
            "output": "{dir}/{stem}.{ext}", "limit": 5, "report": "s3://shop/reports/r.jsonl", "preset": null,
        }))
        .expect("valid");
        assert_eq!((body.from.url(), body.to.url()), ("s3://shop/photos", "s3://shop/cutouts"));
        assert_eq!(body.report.as_ref().map(Place::url), Some("s3://shop/reports/r.jsonl"));
        assert_eq!(body.endpoint.path, "/studio-shot");
        assert_eq!((body.fields.get("width"), body.fields.get("max_dim")), (Some("800"), None));
        assert_eq!((body.selection.include, body.selection.limit), (vec!["*.jpg".to_owned()], Some(5)));
        let least = parsed(json!({"from": "s3://a", "to": "s3://b"})).expect("valid");
        assert_eq!((least.endpoint.path, least.selection), (DEFAULT_ENDPOINT, Selection::default()));
    }

    #[test]
    fn an_invalid_body_is_refused_by_the_name_of_its_member() {
        for (member, value, param) in [
            ("from", json!("photos"), "from"),
            ("from", json!("s3://shop/../other"), "from"),
            ("from", json!(5), "from"),
            ("to", json!(null), "to"),
            ("endpoint", json!("/remove-batch"), "endpoint"),
            ("endpoint", json!("/video/remove"), "endpoint"),
            ("params", json!([]), "params"),
            ("params", json!({"edge": "fuzzy"}), "edge"),
            ("params", json!({"stroke": 3}), "stroke"),
            ("params", json!({"preset": "shop"}), "preset"),
            ("include", json!("*.jpg"), "include"),
            ("include", json!(["{a,b}".repeat(40)]), "include"),
            ("exclude", json!(["["]), "exclude"),
            ("exclude", json!(["{".repeat(60_000)]), "exclude"),
            ("output", json!("{base}"), "output"),
            ("output", json!("{dir}".repeat(300) + "{stem}"), "output"),
            ("limit", json!(0), "limit"),
            ("report", json!("s3://shop/photo.jpg"), "report"),
            ("reports", json!("s3://shop/r.jsonl"), "reports"),
        ] {
            let mut body = json!({"from": "s3://a", "to": "s3://b"});
            body[member] = value.clone();
            assert_eq!(parsed(body).expect_err(member).param(), param, "{member} {value}");
        }
    }
}
