//! Replies: pictures, batches and results with their headers, and the one shape of every error.

use super::node::{Node, Object};
use super::schema::{any_of, binary, integer, named, number, one_of, record, reference, required, share, string};
use crate::recipe::VideoFormat;

const PICTURES: [&str; 3] = ["image/png", "image/webp", "image/jpeg"];

/// Headers of every reply with a picture, which have the same meaning in each.
const OF_PICTURES: [&str; 14] = [
    "content-length",
    "x-service-latency",
    "x-service-width",
    "x-service-height",
    "x-service-cost",
    "server-timing",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-quota-remaining",
    "x-request-id",
    "x-service-version",
    "cache-control",
    "x-content-type-options",
];

/// Headers of a picture whose subject was cut out.
const OF_SUBJECTS: [&str; 3] = ["x-service-foreground", "x-service-uncertainty", "x-service-warnings"];

/// Every component of a reply.
pub(super) fn responses() -> Object {
    [
        ("Image", cutout("The picture.", [edge()])),
        ("BackdropImage", cutout("The picture on its backdrop.", backdrop_headers())),
        (
            "Headshot",
            cutout(
                "The portrait; without a face, the result of /studio-shot in the colour of this endpoint.",
                [face(
                    "The face in the result: left, top, width, height; `none` where none was found on the subject. A face is found from \
                     about a 28th of the picture's longest side on; in a picture over 1280 pixels in which there is no such face, from \
                     about 40 pixels on.",
                )],
            ),
        ),
        (
            "Restored",
            picture(
                "The picture with restored faces, at most 64; without enlargement nothing else changes. A face is found from 16 pixels \
                 and about a 28th of the picture's longest side on, in pictures over 1280 pixels from about 40 pixels on (in those \
                 over 24 megapixels the limit grows with the picture).",
                [
                    model("Name and version of the model that restored the faces."),
                    face("The largest face in the result: left, top, width, height."),
                ],
            ),
        ),
        ("Enlarged", picture("The enlarged picture.", [model("Name and version of the model that enlarged it.")])),
        ("Batch", batch()),
        ("NothingFetched", nothing_fetched()),
        ("Result", result("The file.", None)),
        ("ResultPart", result("The requested range of bytes.", Some("^bytes [0-9]+-[0-9]+/[0-9]+$"))),
        ("Error", error()),
    ]
    .into_iter()
    .collect()
}

/// Headers that several replies have.
pub(super) fn headers() -> Object {
    let count = |text: &'static str| header(integer(), text);
    [
        ("content-length", count("Size in bytes.")),
        (
            "x-service-latency",
            count("Whole milliseconds from the last byte of the request to the first byte of the reply."),
        ),
        ("x-service-model", header(string(), "Name and version of the segmentation model.")),
        ("x-service-width", count("Width of the result.").extension()),
        ("x-service-height", count("Height of the result.").extension()),
        (
            "x-service-foreground",
            header(
                string().with("pattern", "^[0-9]+,[0-9]+,[0-9]+,[0-9]+$"),
                "The subject in the result: left, top, width, height.",
            )
            .extension(),
        ),
        ("x-service-cost", header(number(), "The billed price in US dollars.").extension()),
        (
            "x-service-uncertainty",
            header(
                share(),
                "Estimated probability that the cutout is bad, from the mask alone: that its mean absolute error (0 to 1, over \
                 the whole picture) is above 0.05. 0 for an input that was cut out already.",
            )
            .extension(),
        ),
        (
            "x-service-warnings",
            header(
                string(),
                "Warnings for the caller, a sentence each, as a list of strings (RFC 9651); in brackets it is a JSON array. Only where there are \
                 any: the mask is uncertain (above 0.5), the picture's own transparency was kept, a headshot has no face, no word of a \
                 prompt was recognized.",
            )
            .extension(),
        ),
        (
            "server-timing",
            header(
                string(),
                "The stages fetch, decode, queue, segment, retouch, matte, compose and encode in milliseconds; those that did not run are 0. They add up to the time from the head of the request to that of the reply: fetch includes reading the request, queue is all waiting and what no other stage took. On a GPU `device` describes the bytes of the picture that were moved to it and back.",
            )
            .extension(),
        ),
        ("x-ratelimit-limit", count("Requests a key may make in 60 seconds.")),
        ("x-ratelimit-remaining", count("Requests left now.")),
        ("x-ratelimit-reset", count("Seconds until one more request is allowed.").extension()),
        (
            "x-quota-remaining",
            count("Images left in this month; only where the plan or the key has a quota.").extension(),
        ),
        (
            "x-request-id",
            header(
                string(),
                "The caller's own, if it is 1 to 128 visible ASCII characters, else a new one. On every reply.",
            )
            .extension(),
        ),
        ("x-service-version", header(string(), "Version of the service. On every reply.").extension()),
        ("cache-control", header(string().with("const", "no-store"), "On every reply.").extension()),
        ("x-content-type-options", header(string().with("const", "nosniff"), "On every reply.").extension()),
        ("content-disposition", header(string(), "File name to save it under.")),
    ]
    .into_iter()
    .collect()
}

/// A reply of JSON.
pub(super) fn json(description: &'static str, schema: Object) -> Object {
    Object::default().described(description).with("content", content(["application/json"], &schema))
}

/// The same with headers.
pub(super) fn json_with(
    description: &'static str,
    schema: Object,
    headers: impl IntoIterator<Item = (&'static str, Object)>,
) -> Object {
    json(description, schema).with("headers", headers.into_iter().collect::<Object>())
}

/// The reply to a request that a job was created for.
pub(super) fn queued_job(description: &'static str) -> Object {
    let address = record([required("status_url", string().extension().described("Path of the job."))]);
    let job = Object::default().with("allOf", [named("Job"), address].into_iter().collect::<Node>());
    let headers = [
        ("location", header(string(), "Path of the job.")),
        ("retry-after", header(integer(), "Seconds until the first poll.")),
        shared("x-service-latency"),
    ];
    json_with(description, job, headers)
}

/// A document of one media type.
pub(super) fn document(description: &'static str, media_type: &'static str, schema: Object) -> Object {
    Object::default().described(description).with("content", content([media_type], &schema))
}

/// A header of this reply alone.
pub(super) fn header(schema: Object, description: &'static str) -> Object {
    Object::default().with("schema", schema).described(description)
}

/// One of [`headers`].
pub(super) fn shared(name: &'static str) -> (&'static str, Object) {
    (name, reference("headers", name))
}

fn content(media_types: impl IntoIterator<Item = &'static str>, schema: &Object) -> Object {
    media_types.into_iter().map(|media_type| (media_type, Object::default().with("schema", schema.clone()))).collect()
}

fn picture(description: &'static str, own: impl IntoIterator<Item = (&'static str, Object)>) -> Object {
    let headers: Object = own.into_iter().chain(OF_PICTURES.map(shared)).collect();
    Object::default().described(description).with("content", content(PICTURES, &binary())).with("headers", headers)
}

fn cutout(description: &'static str, own: impl IntoIterator<Item = (&'static str, Object)>) -> Object {
    let of_subjects = OF_SUBJECTS.map(shared).into_iter().chain([shared("x-service-model")]);
    picture(description, own.into_iter().chain(of_subjects))
}

fn model(description: &'static str) -> (&'static str, Object) {
    ("x-service-model", header(string(), description))
}

fn face(description: &'static str) -> (&'static str, Object) {
    let place = string().with("pattern", "^([0-9]+,[0-9]+,[0-9]+,[0-9]+|none)$");
    ("x-service-face", header(place, description).extension())
}

fn edge() -> (&'static str, Object) {
    let about = "The edge that was selected, only with `edge=auto`: `hard` where the subject's outline is opaque and sharp or `engine` is \
                 `product-v1`, else `soft`. Absent where the network did not run, or has other weights than the built-in ones.";
    ("x-service-edge", header(one_of(["soft", "hard"]), about).extension())
}

fn backdrop_headers() -> [(&'static str, Object); 3] {
    [
        ("x-service-engine", header(string().with("const", "standard"), "Always `standard`.")),
        (
            "x-service-backdrop-model",
            header(
                string(),
                "The id of the model that generated the backdrop, or `procedural` for the built-in generator.",
            )
            .extension(),
        ),
        (
            "x-service-prompt-words",
            header(
                string(),
                "Of the built-in generator: the words of the prompt that it recognized, separated by commas, percent-encoded where a \
                 header cannot carry them; `none` when it recognized none and drew a neutral studio.",
            )
            .extension(),
        ),
    ]
}

fn as_in_the_body() -> (&'static str, Object) {
    ("x-request-id", header(string(), "As `request_id` in the body.").extension())
}

fn batch() -> Object {
    let of = |schema: Object| Object::default().with("schema", schema);
    let content: Object =
        [("application/json", of(named("Batch"))), ("application/zip", of(binary()))].into_iter().collect();
    let headers = [
        shared("x-service-latency"),
        shared("x-service-model"),
        as_in_the_body(),
        ("content-disposition", header(string(), "With application/zip: file name to save it under.").extension()),
    ];
    Object::default()
        .described(
            "A row for each picture; the reply is streamed as rows finish. Where `Accept` prefers `application/zip`, an archive of \
             the pictures and of `results.json`.",
        )
        .with("content", content)
        .with("headers", headers.into_iter().collect::<Object>())
}

fn nothing_fetched() -> Object {
    json_with(
        "None of the pictures could be fetched; each row has the error. Where another address (`watermark`) could not be fetched, an error.",
        any_of([named("Batch"), named("Error")]),
        [as_in_the_body()],
    )
}

/// The result of a job, whole or the part that a pattern of `content-range` describes.
fn result(description: &'static str, range: Option<&'static str>) -> Object {
    let plain = |schema: Object| Object::default().with("schema", schema);
    let headers = [
        ("accept-ranges", plain(string().with("const", "bytes"))),
        ("etag", plain(string())),
        shared("content-disposition"),
    ];
    let range = range.map(|pattern| ("content-range", plain(string().with("pattern", pattern))));
    Object::default()
        .described(description)
        .with("content", content(VideoFormat::ALL.map(VideoFormat::media_type), &binary()))
        .with("headers", headers.into_iter().chain(range).collect::<Object>())
}

fn error() -> Object {
    json_with(
        "Any failure. 401 has the header `www-authenticate`, 405 `allow`, and 429, 503 and, where it is known, 502 \
         `retry-after` in seconds.",
        named("Error"),
        [
            as_in_the_body(),
            (
                "retry-after",
                header(
                    integer(),
                    "Seconds to wait before another attempt; with 429 and 503, and with 502 where it is known.",
                ),
            ),
        ],
    )
}
