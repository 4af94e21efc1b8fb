//! Schemas of the contract as rows of tables: name, accepted values, default, description.

use super::html::{line, plain};
use crate::http::contract::CONTRACT;
use crate::http::contract::node::{Node, Object};
use std::slice;

/// The target of a `$ref`, else the object itself.
pub(super) fn resolved(object: &'static Object) -> &'static Object {
    match object.get("$ref").and_then(Node::as_text) {
        Some(path) => resolved(
            path.split('/').skip(1).try_fold(&*CONTRACT, Object::object).expect("a test follows every reference"),
        ),
        None => object,
    }
}

/// A schema of a request as a table of its members.
pub(super) fn request_table(page: &mut String, schema: &'static Object) {
    page.push_str("<div class=\"wide\"><table><thead><tr><th>Field<th>Value<th>Default<th>Meaning<tbody>");
    let required = schema.list("required");
    for (name, member) in schema.members_of("properties") {
        let member = resolved(member.as_object().expect("a schema is a mapping"));
        let default = match member.get("default") {
            Some(default) => codes(slice::from_ref(default)),
            None if required.iter().any(|one| one.as_text() == Some(&**name)) => "required".to_owned(),
            None => String::new(),
        };
        let (value, about) = (values(member), line(member.text("description")));
        *page += &format!("<tr><td><code>{name}</code><td>{value}<td>{default}<td>{about}");
    }
    page.push_str("</table></div>");
}

/// Parameters of the path, the query and the header as a table.
pub(super) fn parameter_table(page: &mut String, parameters: &'static [Node]) {
    page.push_str("<div class=\"wide\"><table><thead><tr><th>Parameter<th>In<th>Value<th>Meaning<tbody>");
    for parameter in parameters {
        let parameter = resolved(parameter.as_object().expect("a parameter is a mapping"));
        let (name, place) = (parameter.text("name"), parameter.text("in"));
        let value = parameter.object("schema").map(|schema| values(resolved(schema))).unwrap_or_default();
        let about = line(parameter.text("description"));
        *page += &format!("<tr><td><code>{name}</code><td>{place}<td>{value}<td>{about}");
    }
    page.push_str("</table></div>");
}

/// A schema of a reply as a table of its members; members of nested objects are `outer.inner`, of sequences `rows[].x`.
pub(super) fn reply_table(page: &mut String, schema: &'static Object) {
    let mut rows = String::new();
    add_members(&mut rows, "", schema);
    if !rows.is_empty() {
        let head = "<div class=\"wide\"><table><thead><tr><th>Member<th>Value<th>Meaning<tbody>";
        *page += &format!("{head}{rows}</table></div>");
    }
}

fn add_members(rows: &mut String, prefix: &str, schema: &'static Object) {
    let schema = resolved(schema);
    for part in schema.list("allOf").iter().chain(schema.list("anyOf").first()).filter_map(Node::as_object) {
        add_members(rows, prefix, part);
    }
    for (name, member) in schema.members_of("properties") {
        let member = resolved(member.as_object().expect("a schema is a mapping"));
        let (value, about) = (values(member), line(member.text("description")));
        *rows += &format!("<tr><td><code>{prefix}{name}</code><td>{value}<td>{about}");
        let nested = member.object("items").map(resolved);
        match (nested, member.object("properties")) {
            (Some(items), _) => add_members(rows, &format!("{prefix}{name}[]."), items),
            (None, Some(_)) => add_members(rows, &format!("{prefix}{name}."), member),
            (None, None) => {}
        }
    }
}

/// The values that a schema allows, as HTML.
fn values(schema: &'static Object) -> String {
    let several = schema.list("anyOf");
    if !several.is_empty() {
        let kinds = several.iter().filter_map(Node::as_object).map(|kind| values(resolved(kind)));
        return kinds.collect::<Vec<_>>().join(" or ");
    }
    if let Some(only) = schema.get("const") {
        return codes(slice::from_ref(only));
    }
    let words = schema.list("enum");
    if !words.is_empty() {
        return codes(words);
    }
    let types = match schema.get("type") {
        Some(Node::List(types)) => types.iter().filter_map(Node::as_text).collect::<Vec<_>>(),
        Some(one) => one.as_text().into_iter().collect(),
        None => Vec::new(),
    };
    types.into_iter().map(|name| of_type(name, schema)).collect::<Vec<_>>().join(" or ")
}

fn of_type(name: &str, schema: &'static Object) -> String {
    let bound = |key| schema.get(key).map(written);
    match name {
        "boolean" => "<code>true</code> <code>false</code>".to_owned(),
        "integer" | "number" => {
            let range = match (bound("minimum"), bound("maximum")) {
                (Some(min), Some(max)) => format!("{min}–{max}"),
                (Some(min), None) => format!("at least {min}"),
                (None, Some(max)) => format!("at most {max}"),
                (None, None) => "a number".to_owned(),
            };
            if name == "number" && range != "a number" { format!("{range}, decimal") } else { range }
        }
        "array" => match (bound("minItems"), bound("maxItems")) {
            (Some(min), Some(max)) => format!("{min} to {max}, as a list"),
            (Some(_) | None, _) => "a list".to_owned(),
        },
        "object" => "an object".to_owned(),
        "null" => "<code>null</code>".to_owned(),
        _ => match schema.text("format") {
            "binary" => "a file".to_owned(),
            "date-time" => "a moment (RFC 3339)".to_owned(),
            "date" => "a day (RFC 3339)".to_owned(),
            _ => {
                let examples = codes(schema.list("examples"));
                if examples.is_empty() { "text".to_owned() } else { format!("text, such as {examples}") }
            }
        },
    }
}

/// Plain values as they are sent, as HTML.
fn codes(values: &[Node]) -> String {
    let codes: Vec<_> = values.iter().map(|value| format!("<code>{}</code>", plain(&written(value)))).collect();
    codes.join(" ")
}

/// A plain value as it is sent.
pub(super) fn written(value: &Node) -> String {
    match value {
        Node::Text(text) => text.to_string(),
        Node::Boolean(value) => value.to_string(),
        Node::Number(value) => value.to_string(),
        Node::List(_) | Node::Object(_) => serde_json::to_string(value).expect("plain data is JSON"),
    }
}
