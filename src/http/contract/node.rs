//! The contract as an ordered tree of plain data, read from JSON and written as JSON.

use crate::http::request::json::members;
use serde::{Deserialize, Serialize, Serializer};

/// A value of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(in crate::http) enum Node {
    /// `true` or `false`.
    Boolean(bool),
    /// A number; one without fraction is written as an integer.
    Number(#[serde(serialize_with = "write_number")] f64),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Self>),
    /// A mapping.
    Object(Object),
}

/// A mapping that keeps the order of its members.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(in crate::http) struct Object(#[serde(deserialize_with = "members")] Vec<(String, Node)>);

impl Object {
    /// Appends a member; each key is added once.
    pub(super) fn with(mut self, key: impl Into<String>, value: impl Into<Node>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// Appends a member if there is a value.
    pub(super) fn with_some(self, key: &str, value: Option<impl Into<Node>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Marks it as an addition to the interface specification if `is_extension`.
    pub(super) fn extension_if(self, is_extension: bool) -> Self {
        self.with_some("x-origin", is_extension.then_some("extension"))
    }

    /// The member of this name.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of this name; by default empty.
    pub(super) fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Node::as_text).unwrap_or_default()
    }

    /// The mapping of this name.
    pub(super) fn object(&self, key: &str) -> Option<&Self> {
        self.get(key).and_then(Node::as_object)
    }

    /// The sequence of this name; by default empty.
    pub(super) fn list(&self, key: &str) -> &[Node] {
        if let Some(Node::List(values)) = self.get(key) { values } else { &[] }
    }

    /// The members of the mapping of this name, in order; by default none.
    pub(super) fn members_of(&self, key: &str) -> &[(String, Node)] {
        self.object(key).map(Self::members).unwrap_or_default()
    }

    /// The members, in order.
    pub(super) fn members(&self) -> &[(String, Node)] {
        &self.0
    }

    /// Replaces each text `$Name` by the value of that name, and each member with such a key by the members of the value.
    pub(super) fn filled(self, values: &Self) -> Self {
        let members = self.0.into_iter().flat_map(|(key, node)| match key.strip_prefix('$') {
            Some("ref") | None => vec![(key, node.filled(values))],
            Some(_) => values.object(&key).expect("a test fills in the contract").0.clone(),
        });
        Self(members.collect())
    }
}

impl Node {
    fn filled(self, values: &Object) -> Self {
        match self {
            Self::Text(name) if name.starts_with('$') => {
                values.get(&name).expect("a test fills in the contract").clone()
            }
            Self::List(nodes) => Self::List(nodes.into_iter().map(|node| node.filled(values)).collect()),
            Self::Object(object) => Self::Object(object.filled(values)),
            plain @ (Self::Boolean(_) | Self::Number(_) | Self::Text(_)) => plain,
        }
    }

    /// Its text, if it is text.
    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Its mapping, if it is one.
    pub(super) fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }
}

impl<K: Into<String>, V: Into<Node>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self(members.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl<V: Into<Self>> FromIterator<V> for Node {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

macro_rules! node_from {
    ($($from:ty, $value:ident => $node:expr;)+) => {
        $(impl From<$from> for Node {
            fn from($value: $from) -> Self {
                $node
            }
        })+
    };
}

node_from! {
    Object, object => Self::Object(object);
    bool, value => Self::Boolean(value);
    f64, value => Self::Number(value);
    u32, value => Self::Number(value.into());
    &str, text => Self::Text(text.to_owned());
    String, text => Self::Text(text);
}

fn write_number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    // Exact: the numbers of the contract are within 32 bits.
    if value.fract() == 0.0 { serializer.serialize_i64(*value as i64) } else { serializer.serialize_f64(*value) }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}
