//! Schemas of request bodies, from the tables of fields.

use super::named;
use super::node::{Node, Object};
use crate::http::request::input_names::{FILE, FILES, URL, URLS};
use crate::recipe::{
    BG_FILE, ENDPOINTS, Endpoint, Field, Input, Kind, MASK_FILE, MAX_BATCH, Origin, VIDEO_FIELDS, VIDEO_PATH,
};

/// Component schemas of fields: name, endpoint and field. Each field of any endpoint with an equal row refers to the component.
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

/// `/remove-batch` as `RemoveBatch`.
pub(super) fn schema_name(path: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    path.split(['/', '-']).filter(|it| !it.is_empty()).map(word).collect()
}

/// Component schemas of the bodies of all endpoints, and of the fields in them.
pub(super) fn schemas() -> Object {
    let own = ENDPOINTS.iter().map(|endpoint| (schema_name(endpoint.path), of_endpoint(endpoint)));
    let clips = [("VideoRemove", FILE, "VideoFile"), ("VideoRemoveUrl", URL, "VideoUrl")].map(|(name, part, file)| {
        let members = [required(part, named(file))].into_iter().chain(VIDEO_FIELDS.iter().map(member));
        (name.to_owned(), closed(members))
    });
    let shared = SHARED.map(|(name, path, field)| (name.to_owned(), of_field(row(path, field))));
    own.chain(clips).chain(shared).collect()
}

fn of_endpoint(endpoint: &Endpoint) -> Object {
    let list = |items: Object, about: &str| {
        let list = array(items).with("minItems", 1u32).with("maxItems", MAX_BATCH as u32);
        list.with("description", about)
    };
    let file = required(FILE, named("File"));
    let pictures = match endpoint.input {
        Input::File => vec![file],
        Input::FileAndBackground => vec![file, optional(BG_FILE, named("BgFile"))],
        Input::Files => vec![required(FILES, list(named("File"), "A part of this name for each picture."))],
        Input::Url => vec![required(URL, named("Url"))],
        Input::Urls => {
            let about = "As `url` of /remove-url; an invalid address is an error of its row.";
            let address = string().with("description", about);
            vec![required(URLS, list(address, "Addresses of the pictures."))]
        }
    };
    let takes_mask = endpoint.takes_mask() && !endpoint.input.is_url();
    let mask = takes_mask.then(|| optional(MASK_FILE, named("MaskFile").extension_if(true)));
    let schema = closed(pictures.into_iter().chain(mask).chain(endpoint.fields.iter().map(member)));
    schema.with_some("description", (!endpoint.restriction.is_empty()).then_some(endpoint.restriction))
}

/// A member of an object: name, schema, and whether it is required.
type Member = (&'static str, Object, bool);

fn required(name: &'static str, schema: Object) -> Member {
    (name, schema, true)
}

fn optional(name: &'static str, schema: Object) -> Member {
    (name, schema, false)
}

fn member(field: &Field) -> Member {
    let equal = |one: &Field| {
        (one.name, one.kind, one.default, one.about) == (field.name, field.kind, field.default, field.about)
    };
    let shared = SHARED.iter().find(|(_, path, name)| *name == field.name && equal(row(path, name)));
    let schema = shared.map_or_else(|| of_field(field), |(name, ..)| named(name));
    (field.name, schema.extension_if(field.origin == Origin::Extension), field.required)
}

/// The row of a field.
fn row(path: &str, name: &str) -> &'static Field {
    let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.path == path);
    let fields = endpoint.map_or(&*VIDEO_FIELDS, |endpoint| &endpoint.fields);
    fields.iter().find(|field| field.name == name).expect("a test finds every shared field")
}

/// An object of these members and no others.
fn closed(members: impl IntoIterator<Item = Member>) -> Object {
    let members: Vec<_> = members.into_iter().collect();
    let required: Vec<_> =
        members.iter().filter(|(.., required)| *required).map(|(name, ..)| Node::from(*name)).collect();
    let object = Object::default().with("type", "object").with("additionalProperties", false);
    let properties: Object = members.into_iter().map(|(name, schema, _)| (name, schema)).collect();
    object.with_some("required", (!required.is_empty()).then_some(Node::List(required))).with("properties", properties)
}

fn string() -> Object {
    Object::default().with("type", "string")
}

fn integer() -> Object {
    Object::default().with("type", "integer")
}

fn array(items: Object) -> Object {
    Object::default().with("type", "array").with("items", items)
}

/// The schema of a field.
fn of_field(field: &Field) -> Object {
    let default = field.default.map(|text| literal(&field.kind, text).expect("a test sends every default"));
    of_kind(&field.kind).with_some("default", default).with("description", field.about.trim())
}

/// The JSON Schema (2020-12, the version of OpenAPI 3.1) of a kind.
pub(super) fn of_kind(kind: &Kind) -> Object {
    match kind {
        Kind::Choice(words) => string().with("enum", words.iter().copied().collect::<Node>()),
        Kind::Integer { min, max } => integer().with("minimum", *min).with("maximum", *max),
        Kind::IntegerChoice(numbers) => integer().with("enum", numbers.iter().copied().collect::<Node>()),
        Kind::Number { min, max } => {
            Object::default().with("type", "number").with("minimum", *min).with("maximum", *max)
        }
        Kind::Boolean => Object::default().with("type", "boolean"),
        Kind::Text(form) => {
            let schema = string().with("maxLength", form.max_length).with_some("pattern", form.pattern);
            schema.with("examples", form.examples.iter().copied().collect::<Node>())
        }
        Kind::List(form) => array(of_kind(&Kind::Text(*form))).with("minItems", 1u32),
        Kind::AnyOf(kinds) => Object::default().with("anyOf", kinds.iter().map(of_kind).collect::<Node>()),
    }
}

/// The text of a field as a value of its kind.
fn literal(kind: &Kind, text: &'static str) -> Option<Node> {
    match kind {
        Kind::Choice(_) | Kind::Text(_) | Kind::List(_) => Some(text.into()),
        Kind::Integer { .. } | Kind::IntegerChoice(_) => text.parse::<u32>().ok().map(Node::from),
        Kind::Number { .. } => text.parse::<f64>().ok().map(Node::from),
        Kind::Boolean => text.parse::<bool>().ok().map(Node::from),
        Kind::AnyOf(kinds) => kinds.iter().find_map(|kind| literal(kind, text)),
    }
}
