//! Documents that replies carry as JSON and that other schemas refer to: jobs, presets, batches, errors.

use super::node::Object;
use super::schema::{
    any_of, array, boolean, integer, integer_within, moment, named, nullable, number, object, of_kind, one_of,
    optional, record, required, share, string,
};
use crate::http::error::ErrorCode;
use crate::recipe::{CutoutFormat, Value, VideoFormat};
use crate::source::FetchFailure;
use crate::store::JobState;

/// Classes of `payment_required` and `forbidden`, beside those of `fetch_failed`.
const OTHER_REASONS: [&str; 3] = ["quota_exhausted", "plan_required", "out_of_scope"];

/// Every component schema of a reply.
pub(super) fn schemas() -> Object {
    [
        ("Job", job()),
        ("SavedPreset", saved_preset()),
        ("Batch", batch()),
        ("Row", row()),
        ("Reason", reason()),
        ("Error", error()),
        ("ErrorCode", error_code()),
    ]
    .into_iter()
    .collect()
}

/// The answer to a deletion.
pub(super) fn deleted(id: &'static str) -> Object {
    record([required("deleted", boolean().with("const", true)), required(id, string())])
}

fn job() -> Object {
    let status = one_of(JobState::ALL.map(JobState::name))
        .described("`queued`, `processing`, then `done` or `error`; back only to `queued`, when the service restarts.");
    record([
        required("job_id", string()),
        required("status", status),
        required("progress", integer_within(0, 100).described("Never less than it was; 100 when it is done.")),
        required("created_at", moment().extension()),
        required("updated_at", moment().extension().described("When its status last changed.")),
        required("expires_at", moment().extension().described("When it is forgotten.")),
        required("format", one_of(VideoFormat::ALL.map(VideoFormat::name)).extension()),
        optional(
            "result_url",
            string()
                .described("Where the result is, for whoever has this address; for an hour, when the job is `done`."),
        ),
        optional(
            "result_expires_at",
            moment().extension().described("Until when it is there; when the job is `done`."),
        ),
        optional(
            "result_expired",
            boolean().with("const", true).extension().described("In place of `result_url`, when the hour is over."),
        ),
        optional(
            "output_seconds",
            number().described("The exact length of the result, which was billed; when the job is `done`."),
        ),
        optional("size_bytes", integer().extension().described("Of the result.")),
        optional(
            "warnings",
            array(string())
                .extension()
                .described("What the caller should know, each as a sentence; only where there is something."),
        ),
        optional(
            "error",
            record([
                required("code", string().described("One of the codes of errors, or `cancelled`.")),
                required("message", string()),
            ])
            .extension()
            .described("Why there is no result, when the job is `error`."),
        ),
    ])
}

fn saved_preset() -> Object {
    record([
        required("id", string()),
        required("name", string()),
        required("endpoint", nullable("string")),
        required("params", object()),
        required("created_at", moment()),
        required("updated_at", moment()),
    ])
}

fn batch() -> Object {
    let rows = array(named("Row")).described("A row for each picture, in the order they were sent.");
    let error = record([
        required("code", string().with("const", ErrorCode::FetchFailed.name())),
        required("message", string()),
        optional("reason", named("Reason")),
    ]);
    record([
        required("count", integer().described("How many pictures were sent.")),
        required("format", of_kind(&CutoutFormat::KIND).described("Format of all results.")),
        required("results", rows),
        required("succeeded", integer()),
        required("failed", integer()),
        required("request_id", string().described("The same as the header `x-request-id`.")),
        optional(
            "error",
            error
                .extension()
                .described("Where no picture could be fetched. `reason` is there where all rows share it."),
        ),
    ])
}

fn row() -> Object {
    let sides = ["left", "top", "width", "height"].map(|side| required(side, integer()));
    record([
        required("index", integer().described("Place of the picture in the request, from 0.")),
        optional("url", string().described("As it was sent.")),
        optional("filename", nullable("string").described("As the part named it.")),
        required("success", boolean()),
        required("status", integer().described("What the picture alone would have been answered with.")),
        optional("format", of_kind(&CutoutFormat::KIND)),
        optional("width", integer()),
        optional("height", integer()),
        optional("size_bytes", integer().described("Of the file, before base64.")),
        optional("foreground", string().described("The subject in the result: left,top,width,height.")),
        optional("file", string().extension().described("In an archive: the picture's name there.")),
        optional(
            "cost",
            number()
                .extension()
                .described("Dollars, as x-service-cost; 0 for a failed row and for one that was billed before."),
        ),
        optional("uncertainty", share().extension().described("As x-service-uncertainty.")),
        optional("box", record(sides).extension().described("The subject in the result, in pixels.")),
        optional("data_base64", string().described("The file. Not in the `results.json` of an archive.")),
        optional(
            "error",
            record([
                required("code", named("ErrorCode")),
                required("message", string()),
                optional("reason", named("Reason")),
            ]),
        ),
    ])
}

fn reason() -> Object {
    one_of(FetchFailure::REASONS.into_iter().chain(OTHER_REASONS)).extension().described(
        "With `payment_required`: the quota of the plan or of the key is used up, or the plan lacks the field or endpoint. \
         With `forbidden`: `out_of_scope` where the key is not for the endpoint. With `fetch_failed`: the host of the URL \
         has no public address that can be reached, took too long, failed the TLS handshake, or did not answer with a \
         file. There is no more detail.",
    )
}

fn error() -> Object {
    record([
        required(
            "error",
            record([
                required("code", named("ErrorCode")),
                required(
                    "message",
                    string().described("One sentence, such as: invalid `edge`: \"fuzzy\" (expected soft or hard)."),
                ),
                optional("param", string().described("The field that is at fault, where it is one field.")),
                optional("reason", named("Reason")),
            ]),
        ),
        required("request_id", string().described("The same as the header `x-request-id`.")),
    ])
}

fn error_code() -> Object {
    let statuses: Object = ErrorCode::ALL.iter().map(|code| (code.name(), u32::from(code.status().as_u16()))).collect();
    one_of(ErrorCode::ALL.iter().map(|code| code.name())).with("x-status", statuses)
}

/// The answer to the deletion of a job.
pub(super) fn removed_job() -> Object {
    any_of([named("Job"), deleted("job_id")])
}
