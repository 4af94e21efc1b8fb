//! Request bodies: a schema for each endpoint from its table of fields, and the components that they share.

use super::node::Object;
use super::schema::{Member, array, binary, closed, named, of_field, optional, record, required, string};
use crate::codec::Limits;
use crate::http::request::input_names::{FILE, FILES, IMAGE_BASE64, URL, URLS};
use crate::image::SourceUrl;
use crate::recipe::{
    BG_FILE, ENDPOINTS, Endpoint, Field, Input, Kind, MASK_FILE, MAX_BATCH, Origin, VIDEO_FIELDS, VIDEO_PATH, Value,
};
use crate::video;

const FORM: &str = "multipart/form-data";
const JSON: &str = "application/json";
const BODY: &str = "application/octet-stream";

/// Fields that several endpoints take alike: the component's name, and an endpoint and a field whose row it is. Any field
/// with an equal row refers to it.
const SHARED: [(&str, &str, &str); 33] = [
    ("Format", "/remove", "format"),
    ("Matting", "/remove", "matting"),
    ("Edge", "/remove", "edge"),
    ("Channels", "/remove", "channels"),
    ("Detect", "/remove", "detect"),
    ("Decontaminate", "/remove", "decontaminate"),
    ("Engine", "/remove", "engine"),
    ("Quality", "/remove", "quality"),
    ("Compression", "/remove", "compression"),
    ("MaxDim", "/remove", "max_dim"),
    ("Width", "/remove", "width"),
    ("Height", "/remove", "height"),
    ("Preset", "/remove", "preset"),
    ("KeepAlpha", "/remove", "keep_alpha"),
    ("MaskUrl", "/remove", "mask_url"),
    ("MaskMode", "/remove", "mask_mode"),
    ("Box", "/remove", "box"),
    ("Point", "/remove", "point"),
    ("NotPoint", "/remove", "not_point"),
    ("Despill", "/remove", "despill"),
    ("Watermark", "/remove", "watermark"),
    ("WatermarkOpacity", "/remove", "watermark_opacity"),
    ("DespillOfUrl", "/remove-url", "despill"),
    ("WatermarkText", "/remove-url", "watermark"),
    ("WatermarkTextOpacity", "/remove-url", "watermark_opacity"),
    ("OpaqueFormat", "/mask", "format"),
    ("RgbaOnly", "/replace-bg", "channels"),
    ("VideoFormat", VIDEO_PATH, "format"),
    ("VideoChannels", VIDEO_PATH, "channels"),
    ("VideoBgColor", VIDEO_PATH, "bg_color"),
    ("Smoothing", VIDEO_PATH, "smoothing"),
    ("Audio", VIDEO_PATH, "audio"),
    ("WebhookUrl", VIDEO_PATH, "webhook_url"),
];

/// The request body of an endpoint that takes pictures.
pub(super) fn picture_body(endpoint: &Endpoint) -> Object {
    let own = schema_name(endpoint.path);
    match endpoint.input {
        Input::File | Input::FileAndBackground => body(&[(FORM, &own), (JSON, "PictureJson"), (BODY, "PictureBody")]),
        Input::Url => body(&[(JSON, &own), (FORM, "PictureForm"), (BODY, "PictureBody")]),
        Input::Files => body(&[(FORM, &own)]),
        Input::Urls => body(&[(JSON, &own)]),
    }
}

/// The request body of `/video/remove`.
pub(super) fn clip_body() -> Object {
    body(&[(FORM, "VideoRemove"), (JSON, "VideoRemoveUrl")])
}

/// A request body of JSON.
pub(super) fn json_body(schema: Object, is_required: bool) -> Object {
    let content: Object = [(JSON, Object::default().with("schema", schema))].into_iter().collect();
    Object::default().with("required", is_required).with("content", content)
}

fn body(kinds: &[(&'static str, &str)]) -> Object {
    let content = kinds.iter().map(|&(media_type, name)| (media_type, Object::default().with("schema", named(name))));
    Object::default().with("required", true).with("content", content.collect::<Object>())
}

/// `/remove-batch` as `RemoveBatch`.
pub(super) fn schema_name(path: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    path.split(['/', '-']).filter(|it| !it.is_empty()).map(word).collect()
}

/// Every component schema of a request.
pub(super) fn schemas() -> Object {
    let own = ENDPOINTS.iter().map(|endpoint| (schema_name(endpoint.path), of_endpoint(endpoint)));
    let clips = [("VideoRemove", FILE, "VideoFile"), ("VideoRemoveUrl", URL, "VideoUrl")];
    let clips = clips.map(|(name, part, file)| (name.to_owned(), of_clip(part, file)));
    let shared = SHARED.map(|(name, path, field)| (name.to_owned(), of_field(row(path, field))));
    let inputs = inputs().map(|(name, schema)| (name.to_owned(), schema));
    own.chain(clips).chain(shared).chain(inputs).collect()
}

fn of_endpoint(endpoint: &Endpoint) -> Object {
    let files = || array(named("File")).with("minItems", 1u32).with("maxItems", MAX_BATCH as u32);
    let urls = || array(string().described("As `url` of /remove-url; an invalid address is an error of its row."));
    let file = required(FILE, named("File"));
    let pictures = match endpoint.input {
        Input::File => vec![file],
        Input::FileAndBackground => vec![file, optional(BG_FILE, named("BgFile"))],
        Input::Files => vec![required(FILES, files().described("A part of this name for each picture."))],
        Input::Url => vec![required(URL, named("Url"))],
        Input::Urls => {
            let urls = urls().with("minItems", 1u32).with("maxItems", MAX_BATCH as u32);
            vec![required(URLS, urls.described("Addresses of the pictures."))]
        }
    };
    let takes_mask = endpoint.takes_mask() && !endpoint.input.is_url();
    let mask = takes_mask.then(|| optional(MASK_FILE, named("MaskFile").extension()));
    let schema = closed(pictures.into_iter().chain(mask).chain(endpoint.fields.iter().map(member)));
    schema.with_some("description", (!endpoint.restriction.is_empty()).then_some(endpoint.restriction))
}

fn of_clip(part: &'static str, file: &str) -> Object {
    closed([required(part, named(file))].into_iter().chain(VIDEO_FIELDS.iter().map(member)))
}

fn member(field: &Field) -> Member {
    let equal = |one: &Field| {
        (one.name, one.kind, one.default, one.about) == (field.name, field.kind, field.default, field.about)
    };
    let shared = SHARED.iter().find(|(_, path, name)| *name == field.name && equal(row(path, name)));
    let schema = shared.map_or_else(|| of_field(field), |(name, ..)| named(name));
    let schema = schema.extension_if(field.origin == Origin::Extension);
    if field.required { required(field.name, schema) } else { optional(field.name, schema) }
}

/// The row of a field.
fn row(path: &str, name: &str) -> &'static Field {
    let fields = match ENDPOINTS.iter().find(|endpoint| endpoint.path == path) {
        Some(endpoint) => endpoint.fields.iter(),
        None => VIDEO_FIELDS.iter(),
    };
    fields.into_iter().find(|field| field.name == name).expect("a test finds every shared field")
}

/// The ways to send a picture or a clip.
fn inputs() -> [(&'static str, Object); 9] {
    let address = || string().with("maxLength", 2048u32).described("Public https address of the picture.");
    let base64 = string().described(
        "The picture as base64, standard or URL-safe, with or without padding, optionally after `data:image/…;base64,`.",
    );
    let Limits { max_bytes, max_side, .. } = Limits::default();
    let file = format!(
        "JPEG, PNG, WebP or HEIC; by default at most {} MiB ({} bytes) and {max_side}×{max_side} pixels. Another limit may be configured; the message of the 413 states it.",
        max_bytes >> 20,
        grouped(max_bytes as u64),
    );
    let clip = format!(
        "MP4, MOV, WebM, MKV or GIF; at most {} bytes, 60 seconds, 60 frames a second and 1920×1080 pixels. Send it after the other fields: invalid ones are then refused before it is read.",
        grouped(video::MAX_BYTES),
    );
    let https = || {
        let Kind::Text(form) = SourceUrl::KIND else { unreachable!("an address is text") };
        string().with("maxLength", form.max_length).with_some("pattern", form.pattern)
    };
    [
        (
            "PictureJson",
            record([optional(URL, address()), optional(IMAGE_BASE64, base64)])
                .extension()
                .described("A picture as either `url` or `image_base64`, and every field of the endpoint as a member."),
        ),
        (
            "PictureForm",
            record([optional(FILE, named("File")), optional(MASK_FILE, named("MaskFile")), optional(URL, address())])
                .extension()
                .described("A picture as either `file` or `url`, and every field of the endpoint as a part."),
        ),
        (
            "PictureBody",
            binary()
                .extension()
                .described("The picture itself, also as `image/*`; the fields of the endpoint are in the query string."),
        ),
        ("File", binary().described(file)),
        ("BgFile", binary().described("The new background, as `file`; overrides `bg_url` and `bg_color`.")),
        (
            "MaskFile",
            binary().described(
                "A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of \
                 `mask_url`.",
            ),
        ),
        (
            "Url",
            https().described(
                "A public https address. It is fetched within 10 seconds, following one redirect at most; only from \
                 addresses of the public Internet.",
            ),
        ),
        ("VideoFile", binary().described(clip)),
        (
            "VideoUrl",
            https().described(
                "A public https address of such a file. It is fetched within 60 seconds, following one redirect at most; \
                 only from addresses of the public Internet.",
            ),
        ),
    ]
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.chars().enumerate().flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_is_named_after_its_path() {
        assert_eq!(
            ["/remove", "/replace-bg-ai", "/video/remove"].map(schema_name),
            ["Remove", "ReplaceBgAi", "VideoRemove"]
        );
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1000, 10_485_760].map(grouped), ["0", "999", "1,000", "10,485,760"]);
    }

    #[test]
    fn a_field_with_a_row_of_its_own_refers_to_no_component() {
        let endpoint = |path: &str| ENDPOINTS.iter().find(|endpoint| endpoint.path == path).expect(path);
        let property = |path, name: &str| json!(of_endpoint(endpoint(path)))["properties"][name].clone();
        assert_eq!(property("/sticker", "detect")["$ref"], "#/components/schemas/Detect");
        assert_eq!(property("/sticker", "detect")["x-origin"], "extension");
        assert_eq!(property("/replace-bg-ai", "despill")["default"], 100);
        assert_eq!(property("/mask", "channels")["enum"], json!(["alpha"]));
    }
}
