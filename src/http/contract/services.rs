//! The contract of account operations (prices, presets, jobs, quota and use), with the schemas of their documents.

use super::documents::{deleted, removed_job};
use super::node::Object;
use super::operation::{Operation, parameter};
use super::requests::json_body;
use super::responses::{header, json, json_with, queued_job, shared};
use super::schema::{
    Member, array, boolean, closed, day, integer, integer_within, moment, named, nullable, number, object, of_kind,
    one_of, optional, record, reference, required, string,
};
use crate::bulk::KeyTemplate;
use crate::http::reply::error::ErrorCode;
use crate::http::router::Routine;
use crate::recipe::{Scale, Value};
use crate::store::Plan;
use hyper::Method;

/// The operation of a routine; where it has several methods, of that method.
pub(super) fn operation(routine: Routine, method: &Method) -> Operation {
    match (routine, method) {
        (Routine::Estimate, _) => estimate(),
        (Routine::Presets, &Method::POST) => save_preset(),
        (Routine::Presets, &Method::DELETE) => delete_preset(),
        (Routine::Presets, _) => list_presets(),
        (Routine::Bulk, _) => bulk(),
        (Routine::Jobs, _) => list_jobs(),
        (Routine::Job, &Method::DELETE) => delete_job(),
        (Routine::Job, &Method::PATCH) => change_job(),
        (Routine::Job, _) => show_job(),
        (Routine::Models, _) => models(),
        (Routine::Account, _) => account(),
        (Routine::Usage, _) => usage(),
    }
}

/// What a body of JSON can be refused for.
const OF_BODY: [ErrorCode; 4] = [
    ErrorCode::InvalidParameter,
    ErrorCode::RequestTimeout,
    ErrorCode::PayloadTooLarge,
    ErrorCode::UnsupportedMediaType,
];

fn estimate() -> Operation {
    let request = closed([
        required("endpoint", string().described("Path of the endpoint, such as `/remove`.")),
        optional("scale", of_kind(&Scale::KIND).described("`scale` of /upscale.")),
        optional("stroke_width", integer_within(0, 100).described("`stroke_width` of /sticker.")),
        optional(
            "width",
            integer_within(1, 8192).described("`width` of the result: above 4096×4096 pixels it costs more."),
        ),
        optional("height", integer_within(1, 8192).described("`height` of the result.")),
        optional("count", integer().with("minimum", 1u32).extension().described("Number of images.")),
        optional("seconds", number().with("minimum", 0u32).extension().described("Duration of the resulting video.")),
    ]);
    let answer = record([
        required("endpoint", string()),
        required("estimated_cost_usd", number()),
        required("unit_price_usd", number()),
        required("units", number()),
        required("unit", one_of(["image", "second"])),
        required("currency", string().with("const", "USD")),
    ]);
    let reply = json_with("The estimated cost.", answer, [shared("x-service-latency")]);
    Operation { body: Some(json_body(request, true)), ..Operation::keyed("estimate", 200, reply, &OF_BODY) }
}

/// The parameters of a list that comes in pages.
fn pages() -> Vec<Object> {
    vec![
        parameter("query", "limit", false, integer_within(1, 100).with("default", 100u32)),
        parameter("query", "cursor", false, string()).described("`next_cursor` of the previous page."),
    ]
}

/// A page of a list.
fn list(name: &'static str, item: &str) -> Object {
    record([
        required(name, array(named(item))),
        optional("next_cursor", string().described("Only where there are further pages.")),
    ])
}

fn list_presets() -> Operation {
    let codes = [ErrorCode::InvalidParameter, ErrorCode::Forbidden, ErrorCode::Unavailable];
    let reply = json("The presets, ordered by id.", list("presets", "SavedPreset"));
    Operation { parameters: pages(), ..Operation::keyed("listPresets", 200, reply, &codes) }
}

fn save_preset() -> Operation {
    let request = closed([
        optional("id", string().described("Id of the preset to overwrite.")),
        required(
            "name",
            string().with("minLength", 1u32).with("maxLength", 100u32).described("Unique in the account."),
        ),
        optional("endpoint", string().described("Path of the endpoint that the preset is for.")),
        optional("params", object().described("Fields of that endpoint; at most 16 KB.")),
    ]);
    let reply = json_with("The saved preset.", named("SavedPreset"), [shared("x-service-latency")]);
    let more = [ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::Conflict, ErrorCode::Unavailable];
    let codes = [&OF_BODY[..], &more].concat();
    Operation { body: Some(json_body(request, true)), ..Operation::keyed("savePreset", 200, reply, &codes) }
}

fn delete_preset() -> Operation {
    let request = closed([optional("id", string())]);
    let codes = [&OF_BODY[..], &[ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::Unavailable]].concat();
    Operation {
        parameters: vec![parameter("query", "id", false, string())],
        body: Some(json_body(request, false)),
        ..Operation::keyed("deletePreset", 200, json("The preset was deleted.", deleted("id")), &codes)
    }
}

fn bulk() -> Operation {
    let place = |text| string().described(text);
    let globs = || array(string());
    let request = closed([
        required("from", place("Place of the pictures: `s3://`, `gs://`, `az://` or `file://`. The operator has to allow it to the account.")),
        required("to", place("Place of the results, as `from`.")),
        optional(
            "endpoint",
            string().with("default", "/remove").described("Path of the endpoint that is called with each picture."),
        ),
        optional("params", object().described("Fields of that endpoint, as in a preset.")),
        optional("preset", string().described("A preset, by its id or name; `params` take precedence.")),
        optional(
            "include",
            globs().described(
                "Globs of the keys to process instead of all pictures; one with a slash matches the key below `from`, one without the \
                 file name.",
            ),
        ),
        optional("exclude", globs().described("Globs of the keys to exclude.")),
        optional(
            "output",
            string()
                .with("default", KeyTemplate::DEFAULT)
                .described("Keys of the results below `to`, at most 1,024 bytes; placeholders are {dir}, {stem}, {name} and {ext}."),
        ),
        optional("limit", integer().with("minimum", 1u32).described("Maximum number of pictures to process.")),
        optional(
            "report",
            place("URL of the report, `.jsonl`, in an allowed place; by default an object in `to`. What it has as done is not processed again."),
        ),
    ]);
    let reply = queued_job("The queued job. A repeated request is answered with the same job until it is over.");
    let more = [ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::Conflict, ErrorCode::IdempotencyConflict];
    let codes = [&OF_BODY[..], &more, &[ErrorCode::FetchFailed, ErrorCode::Unavailable]].concat();
    Operation {
        is_extension: true,
        description: Some(
            "For accounts to which the operator has allowed the places (`jobs.bulk_places`), on a service with a database. The run is \
             processed by all workers and daemons that take part, and is not billed and not counted. `GET /jobs/{job_id}` shows how far \
             it is, and `DELETE` cancels it: the report has what is done. The same request after the end processes what is new or failed.",
        ),
        parameters: vec![reference("parameters", "Model"), reference("parameters", "IdempotencyKey")],
        body: Some(json_body(request, true)),
        ..Operation::keyed("bulk", 202, reply, &codes)
    }
}

fn list_jobs() -> Operation {
    let codes = [ErrorCode::InvalidParameter, ErrorCode::Unavailable];
    let operation = Operation::keyed("listJobs", 200, json("The jobs.", list("jobs", "Job")), &codes);
    Operation { is_extension: true, parameters: pages(), ..operation }
}

const OF_JOB: [ErrorCode; 3] = [ErrorCode::InvalidParameter, ErrorCode::NotFound, ErrorCode::Unavailable];

fn show_job() -> Operation {
    let retry = header(integer(), "Seconds until the next poll; only while the job is not over.");
    let reply = json_with("The job.", named("Job"), [("retry-after", retry.extension())]);
    Operation { parameters: vec![job_id()], ..Operation::keyed("job", 200, reply, &OF_JOB) }
}

fn change_job() -> Operation {
    let state = one_of(["paused", "running"]);
    let state = state.described("`paused` finishes the pictures in progress and starts no others; `running` resumes.");
    let more = [ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::Conflict, ErrorCode::Unavailable];
    let codes = [&OF_BODY[..], &more].concat();
    Operation {
        is_extension: true,
        parameters: vec![job_id()],
        body: Some(json_body(closed([required("state", state)]), true)),
        ..Operation::keyed("changeJob", 200, json("The job.", named("Job")), &codes)
    }
}

fn delete_job() -> Operation {
    let reply = json(
        "A job that was not over was cancelled: it is answered with the error `cancelled`. One that was over was deleted.",
        removed_job(),
    );
    Operation { is_extension: true, parameters: vec![job_id()], ..Operation::keyed("deleteJob", 200, reply, &OF_JOB) }
}

fn job_id() -> Object {
    reference("parameters", "JobId")
}

fn models() -> Operation {
    let model = record([
        required("name", string().described("Name and version; requests may name it without the version.")),
        required("type", string().described("Family of the network.")),
        required("parameters", integer()),
        required("licence", string()),
        required(
            "commercial_use",
            nullable("boolean").described("Whether the licence allows it; null where that is disputed or unknown."),
        ),
        required(
            "device",
            string().described("What the network runs on; empty until the built-in one was loaded once."),
        ),
        required("loaded", boolean().described("Whether it is in memory.")),
        required("is_default", boolean().described("Whether it is the account's.")),
    ]);
    let answer = record([required("models", array(model))]);
    let reply = json("The models that cut out, the account's default first.", answer);
    Operation { is_extension: true, ..Operation::keyed("models", 200, reply, &[]) }
}

fn account() -> Operation {
    let rate = ["limit", "remaining", "reset_seconds"].map(|name| optional(name, integer()));
    let answer = record([
        required("account", string()),
        required("key_id", string()),
        required("plan", one_of(Plan::ALL.map(Plan::name))),
        required("model", string().described("Name and version of the model that cuts out by default.")),
        required("test", boolean().described("Whether the key is a sandbox key.")),
        required("used", integer().described("Images billed this calendar month (UTC).")),
        required("quota", nullable("integer").described("Images per month of the plan.")),
        required("remaining", nullable("integer")),
        required("resets_at", moment().described("Start of the next month.")),
        required("cost_usd", number().described("Price of the images billed this month, in US dollars.")),
        optional(
            "webhook_secret",
            string().with("pattern", "^whsec_[A-Za-z0-9+/]{43}=$").described(
                "Secret that signs the account's webhooks, in the notation of Standard Webhooks. Only for keys that may make \
                 clips or bulk runs.",
            ),
        ),
        required("rate", record(rate)),
    ]);
    Operation {
        is_extension: true,
        ..Operation::keyed("account", 200, json("Plan, quota and rate of the account.", answer), &[])
    }
}

/// Usage: images, seconds of video and their price.
fn figures() -> [Member; 3] {
    [required("images", integer()), required("seconds", number()), required("cost_usd", number())]
}

fn usage() -> Operation {
    let key = record([required("id", string()), required("name", nullable("string"))]);
    let row = record([required("date", day()), required("key", key)].into_iter().chain(figures()));
    let answer =
        record([required("usage", array(row)), required("total", record(figures())), required("request_id", string())]);
    let codes = [ErrorCode::InvalidParameter, ErrorCode::Unavailable];
    Operation {
        is_extension: true,
        parameters: vec![
            parameter("query", "from", false, day())
                .described("First day (UTC); without it, the first of the month of `to`."),
            parameter("query", "to", false, day()).described("Last day; without it, today. At most 400 days."),
        ],
        ..Operation::keyed("usage", 200, json("Usage by key and day.", answer), &codes)
    }
}
