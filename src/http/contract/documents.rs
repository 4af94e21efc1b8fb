//! Documents that replies carry as JSON and that other schemas refer to: jobs, presets, batches, errors.

use super::node::Object;
use super::schema::{
    any_of, array, boolean, integer, integer_within, moment, named, nullable, number, object, of_kind, one_of,
    optional, record, required, share, string,
};
use crate::http::admission::authenticate::OUT_OF_SCOPE;
use crate::http::admission::authorize::{PLAN_REQUIRED, QUOTA_EXHAUSTED};
use crate::http::reply::error::ErrorCode;
use crate::recipe::{CutoutFormat, Value, VideoFormat};
use crate::source::FetchFailure;
use crate::store::JobState;

/// Classes of `payment_required` and `forbidden`, beside those of `fetch_failed`.
const OTHER_REASONS: [&str; 3] = [QUOTA_EXHAUSTED, PLAN_REQUIRED, OUT_OF_SCOPE];

/// Every component schema of a reply.
pub(super) fn schemas() -> Object {
    [
        ("Job", job()),
        ("BulkRun", bulk_run()),
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
    let status = one_of(JobState::ALL.map(JobState::name)).described(
        "`queued`, `processing`, then `done` or `error`; it only ever returns to `queued`, when the service restarts or another machine continues it.",
    );
    record([
        required("job_id", string()),
        required("status", status),
        required(
            "progress",
            integer_within(0, 100)
                .described("Percent, never decreasing while it runs on one machine; 100 when the job is `done`."),
        ),
        required("created_at", moment().extension()),
        required("updated_at", moment().extension().described("Time of the last change of its status.")),
        required("expires_at", moment().extension().described("Time at which the job is deleted.")),
        optional("format", one_of(VideoFormat::ALL.map(VideoFormat::name)).extension().described("Of a clip.")),
        optional("bulk", named("BulkRun").extension()),
        optional(
            "result_url",
            string().described("Address of the result, readable without a key; for an hour, when the job is `done`."),
        ),
        optional(
            "result_expires_at",
            moment().extension().described("Time at which the result is deleted; when the job is `done`."),
        ),
        optional(
            "result_expired",
            boolean()
                .with("const", true)
                .extension()
                .described("In place of `result_url` after the result was deleted."),
        ),
        optional(
            "output_seconds",
            number().described("Exact duration of the result, which was billed; when the job is `done`."),
        ),
        optional("size_bytes", integer().extension().described("Size of the result.")),
        optional(
            "warnings",
            array(string())
                .extension()
                .described("Warnings for the caller, a sentence each; only where there are any."),
        ),
        optional(
            "error",
            record([
                required("code", string().described("A code of `ErrorCode`, or `cancelled`.")),
                required("message", string()),
            ])
            .extension()
            .described("The reason for the failure, when the job is `error`."),
        ),
    ])
}

fn bulk_run() -> Object {
    let summary = object().described(
        "Totals of a run that has ended, as `backdrop bulk --json` prints them: `done`, `skipped`, `failed`, `failures` by code, \
         `passed_over`, `bytes_in`, `bytes_out`, `seconds`, `stopped`, `report`.",
    );
    record([
        required("from", string().described("Place of the pictures.")),
        required("to", string().described("Place of the results.")),
        required(
            "report",
            string().described("The report, JSON Lines; complete when the job is over. A CSV is beside it."),
        ),
        required(
            "listed",
            boolean().described("Whether `objects` is the number of all objects, and not of those listed so far."),
        ),
        required("objects", integer().described("Objects to process.")),
        required("done", integer().described("Objects that are finished, without the failed ones.")),
        required(
            "failed",
            integer().described("Objects without a result; while the run goes on, of the chunks that are done."),
        ),
        optional(
            "state",
            one_of(["running", "paused", "cancelled"])
                .described("Until the job is over. A cancelled run is over once its report is written."),
        ),
        optional("estimated_end", moment().described("While objects are processed.")),
        optional("summary", summary),
    ])
    .described("A bulk run, of a job from /bulk.")
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
    let rows = array(named("Row")).described("A row for each picture, in the order in which they were sent.");
    let error = record([
        required("code", string().with("const", ErrorCode::FetchFailed.name())),
        required("message", string()),
        optional("reason", named("Reason")),
    ]);
    record([
        required("count", integer().described("Number of pictures that were sent.")),
        required("format", of_kind(&CutoutFormat::KIND).described("Format of all results.")),
        required("results", rows),
        required("succeeded", integer()),
        required("failed", integer()),
        required("request_id", string().described("The same as the header `x-request-id`.")),
        optional(
            "error",
            error
                .extension()
                .described("Only where no picture could be fetched. `reason` is present where all rows have the same."),
        ),
        optional(
            "billed",
            boolean()
                .with("const", false)
                .extension()
                .described("Only where the bill of the rows failed: their costs are not known to be charged."),
        ),
    ])
}

fn row() -> Object {
    let sides = ["left", "top", "width", "height"].map(|side| required(side, integer()));
    record([
        required("index", integer().described("Index of the picture in the request, from 0.")),
        optional("url", string().described("The address as it was sent.")),
        optional("filename", nullable("string").described("The file name of the form part.")),
        required("success", boolean()),
        required("status", integer().described("HTTP status of a request with this picture alone.")),
        optional("format", of_kind(&CutoutFormat::KIND)),
        optional("width", integer()),
        optional("height", integer()),
        optional("size_bytes", integer().described("Size of the file, before base64.")),
        optional("foreground", string().described("The subject in the result: left,top,width,height.")),
        optional("file", string().extension().described("In an archive: the name of the picture's file.")),
        optional(
            "cost",
            number().extension().described(
                "Price in US dollars, as x-service-cost; 0 for a failed row and for one that was billed before.",
            ),
        ),
        optional("uncertainty", share().extension().described("As x-service-uncertainty.")),
        optional("box", record(sides).extension().described("The subject in the result, in pixels.")),
        optional(
            "warnings",
            array(string()).extension().described("As x-service-warnings, a sentence each; only where there are any."),
        ),
        optional(
            "data_base64",
            string().described("The file as base64. Absent from the `results.json` of an archive."),
        ),
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
         With `forbidden`: `out_of_scope` where the scopes of the key exclude the endpoint. With `fetch_failed`: the host of the URL \
         has no public address that can be reached, took too long, failed the TLS handshake, or did not answer with a \
         file. More detail is not disclosed.",
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
                    string()
                        .described("One sentence, such as: invalid `edge`: \"fuzzy\" (expected soft, hard or auto)."),
                ),
                optional("param", string().described("The invalid field, where it is one field.")),
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
