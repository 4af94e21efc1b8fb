//! The contract as an ordered tree of plain data, with JSON by serde.

use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// A value of the tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// `true` or `false`.
    Boolean(bool),
    /// A number; one without fraction is written as an integer.
    Number(f64),
    /// Text.
    Text(Cow<'static, str>),
    /// A sequence.
    List(Vec<Self>),
    /// A mapping.
    Object(Object),
}

/// A mapping that keeps the order of its members.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object(Vec<(Cow<'static, str>, Node)>);

impl Object {
    /// With a member more; each key is added once.
    pub(super) fn with(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Node>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// With a member more where there is a value.
    pub(super) fn with_some(self, key: &'static str, value: Option<impl Into<Node>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// With the text as its `description`.
    pub(super) fn described(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.with("description", text.into())
    }

    /// Marked as an addition to the interface specification.
    pub(super) fn extension(self) -> Self {
        self.with("x-origin", "extension")
    }

    /// Marked as an addition where `is_extension` says so.
    pub(super) fn extension_if(self, is_extension: bool) -> Self {
        if is_extension { self.extension() } else { self }
    }

    /// The member of this name.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of this name; empty where there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Node::as_text).unwrap_or_default()
    }

    /// The mapping of this name.
    pub(crate) fn object(&self, key: &str) -> Option<&Self> {
        self.get(key).and_then(Node::as_object)
    }

    /// The sequence of this name; empty where there is none.
    pub(crate) fn list(&self, key: &str) -> &[Node] {
        match self.get(key) {
            Some(Node::List(values)) => values,
            Some(Node::Boolean(_) | Node::Number(_) | Node::Text(_) | Node::Object(_)) | None => &[],
        }
    }

    /// The members, in order.
    pub(crate) fn members(&self) -> &[(Cow<'static, str>, Node)] {
        &self.0
    }
}

impl Node {
    /// Its text, where it is text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Boolean(_) | Self::Number(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// Its mapping, where it is one.
    pub(crate) fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Boolean(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }
}

impl<K: Into<Cow<'static, str>>, V: Into<Node>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self(members.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl<V: Into<Self>> FromIterator<V> for Node {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl From<Object> for Node {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl From<bool> for Node {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<f64> for Node {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u32> for Node {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}

impl From<&'static str> for Node {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Cow<'static, str>> for Node {
    fn from(text: Cow<'static, str>) -> Self {
        Self::Text(text)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Boolean(value) => serializer.serialize_bool(*value),
            // Exact: what the tables hold is within 32 bits.
            Self::Number(value) if value.fract() == 0.0 => serializer.serialize_i64(*value as i64),
            Self::Number(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(values) => serializer.collect_seq(values),
            Self::Object(object) => object.serialize(serializer),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}
