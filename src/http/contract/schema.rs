//! JSON Schema 2020-12 (that of OpenAPI 3.1): what fields take, and the shapes of documents.

use super::node::{Node, Object};
use crate::recipe::{Field, Kind};

/// A reference to a component.
pub(super) fn reference(section: &str, name: &str) -> Object {
    Object::default().with("$ref", format!("#/components/{section}/{name}"))
}

/// A reference to a component schema.
pub(super) fn named(name: &str) -> Object {
    reference("schemas", name)
}

/// Text.
pub(super) fn string() -> Object {
    Object::default().with("type", "string")
}

/// One of these words.
pub(super) fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
    string().with("enum", words.into_iter().collect::<Node>())
}

/// A moment, RFC 3339.
pub(super) fn moment() -> Object {
    string().with("format", "date-time")
}

/// A calendar day, RFC 3339.
pub(super) fn day() -> Object {
    string().with("format", "date")
}

/// The bytes of a file.
pub(super) fn binary() -> Object {
    string().with("format", "binary")
}

/// A whole number.
pub(super) fn integer() -> Object {
    Object::default().with("type", "integer")
}

/// A whole number in this range.
pub(super) fn integer_within(min: u32, max: u32) -> Object {
    integer().with("minimum", min).with("maximum", max)
}

/// A number.
pub(super) fn number() -> Object {
    Object::default().with("type", "number")
}

/// A number from 0 to 1.
pub(super) fn share() -> Object {
    number().with("minimum", 0.0).with("maximum", 1.0)
}

/// `true` or `false`.
pub(super) fn boolean() -> Object {
    Object::default().with("type", "boolean")
}

/// A type, or null.
pub(super) fn nullable(name: &'static str) -> Object {
    Object::default().with("type", [name, "null"].into_iter().collect::<Node>())
}

/// A sequence.
pub(super) fn array(items: Object) -> Object {
    Object::default().with("type", "array").with("items", items)
}

/// What one of these schemas takes.
pub(super) fn any_of(schemas: impl IntoIterator<Item = Object>) -> Object {
    Object::default().with("anyOf", schemas.into_iter().collect::<Node>())
}

/// An object of any members.
pub(super) fn object() -> Object {
    Object::default().with("type", "object")
}

/// A member of an object.
pub(super) struct Member {
    name: &'static str,
    schema: Object,
    required: bool,
}

/// A member that is always there.
pub(super) fn required(name: &'static str, schema: Object) -> Member {
    Member { name, schema, required: true }
}

/// A member that may be absent.
pub(super) fn optional(name: &'static str, schema: Object) -> Member {
    Member { name, schema, required: false }
}

/// An object of these members, and perhaps of others that are added later.
pub(super) fn record(members: impl IntoIterator<Item = Member>) -> Object {
    with_members(object(), members)
}

/// An object of these members alone.
pub(super) fn closed(members: impl IntoIterator<Item = Member>) -> Object {
    with_members(object().with("additionalProperties", false), members)
}

fn with_members(object: Object, members: impl IntoIterator<Item = Member>) -> Object {
    let members: Vec<_> = members.into_iter().collect();
    let names: Vec<_> = members.iter().filter(|member| member.required).map(|member| Node::from(member.name)).collect();
    let properties: Object = members.into_iter().map(|Member { name, schema, .. }| (name, schema)).collect();
    object.with_some("required", (!names.is_empty()).then_some(Node::List(names))).with("properties", properties)
}

/// What a kind of field takes.
pub(super) fn of_kind(kind: &Kind) -> Object {
    match kind {
        Kind::Choice(words) => one_of(words.iter().copied()),
        Kind::Integer { min, max } => integer_within(*min, *max),
        Kind::IntegerChoice(numbers) => integer().with("enum", numbers.iter().copied().collect::<Node>()),
        Kind::Number { min, max } => number().with("minimum", *min).with("maximum", *max),
        Kind::Boolean => boolean(),
        Kind::Text(form) => {
            let schema = string().with("maxLength", form.max_length).with_some("pattern", form.pattern);
            schema.with("examples", form.examples.iter().copied().collect::<Node>())
        }
        Kind::List(form) => array(of_kind(&Kind::Text(*form))).with("minItems", 1u32),
        Kind::AnyOf(kinds) => any_of(kinds.iter().map(of_kind)),
    }
}

/// A field of a request, but for where it comes from.
pub(super) fn of_field(field: &Field) -> Object {
    let default = field.default.map(|text| literal(&field.kind, text).expect("a test sends every default"));
    of_kind(&field.kind).with_some("default", default).described(field.about.trim())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Origin, TextSpec};
    use serde_json::json;

    #[test]
    fn every_kind_of_field_has_its_schema() {
        const TEXT: TextSpec = TextSpec { expected: "", pattern: Some("^a"), max_length: 9, examples: &["ab"] };
        for (kind, expected) in [
            (Kind::Choice(&["a", "b"]), json!({ "type": "string", "enum": ["a", "b"] })),
            (Kind::Integer { min: 1, max: 100 }, json!({ "type": "integer", "minimum": 1, "maximum": 100 })),
            (Kind::IntegerChoice(&[2, 4]), json!({ "type": "integer", "enum": [2, 4] })),
            (Kind::Number { min: 0.0, max: 0.5 }, json!({ "type": "number", "minimum": 0, "maximum": 0.5 })),
            (Kind::Boolean, json!({ "type": "boolean" })),
            (Kind::Text(TEXT), json!({ "type": "string", "maxLength": 9, "pattern": "^a", "examples": ["ab"] })),
            (
                Kind::List(TEXT),
                json!({ "type": "array", "items": { "type": "string", "maxLength": 9, "pattern": "^a", "examples": ["ab"] }, "minItems": 1 }),
            ),
            (Kind::AnyOf(&[Kind::Boolean]), json!({ "anyOf": [{ "type": "boolean" }] })),
        ] {
            assert_eq!(json!(of_kind(&kind)), expected);
        }
    }

    #[test]
    fn a_default_has_the_type_of_its_field() {
        let default = |kind, text| {
            let origin = Origin::Specification;
            let field = Field { name: "a", kind, default: Some(text), required: false, origin, about: " What. " };
            let schema = json!(of_field(&field));
            assert_eq!(schema["description"], "What.");
            schema["default"].clone()
        };
        let either = Kind::AnyOf(&[Kind::Boolean, Kind::Integer { min: 0, max: 100 }]);
        assert_eq!(default(either, "false"), json!(false));
        assert_eq!(default(either, "100"), json!(100));
        assert_eq!(default(Kind::Number { min: 0.0, max: 1.0 }, "1.0"), json!(1));
        assert_eq!(default(Kind::Number { min: 0.0, max: 1.0 }, "0.5"), json!(0.5));
        assert_eq!(default(Kind::Choice(&["png"]), "png"), json!("png"));
    }
}
