//! One operation of a path: its name, what it takes, and every status that it is answered with.

use super::node::{Node, Object};
use super::responses;
use super::schema::reference;
use crate::http::reply::error::ErrorCode;
use std::collections::BTreeMap;

/// An operation as it is put together; its summary is that of its route.
#[derive(Default)]
pub(super) struct Operation {
    /// `operationId`.
    pub(super) id: String,
    /// Whether it is an addition to the interface specification.
    pub(super) is_extension: bool,
    /// More than the summary, as CommonMark.
    pub(super) description: Option<&'static str>,
    /// Whether it needs no key.
    pub(super) is_open: bool,
    /// Everything but the body.
    pub(super) parameters: Vec<Object>,
    /// The body.
    pub(super) body: Option<Object>,
    /// Replies by status.
    pub(super) replies: BTreeMap<u16, Object>,
}

impl Operation {
    /// One that is answered with `reply`, or with an error of `codes`.
    pub(super) fn new(id: impl Into<String>, status: u16, reply: Object, codes: &[ErrorCode]) -> Self {
        let error = || reference("responses", "Error");
        let errors = codes.iter().map(|code| (code.status().as_u16(), error()));
        Self { id: id.into(), replies: errors.chain([(status, reply)]).collect(), ..Self::default() }
    }

    /// One that needs a key, so that it may also be refused for it and for its rate.
    pub(super) fn keyed(id: impl Into<String>, status: u16, reply: Object, codes: &[ErrorCode]) -> Self {
        let always = [ErrorCode::Unauthorized, ErrorCode::RateLimitExceeded, ErrorCode::InternalError];
        Self::new(id, status, reply, &[codes, &always].concat())
    }

    /// One of a fixed page: it needs no key.
    pub(super) fn page(id: &str, description: &'static str, media_type: &'static str, schema: Object) -> Self {
        let reply = responses::document(description, media_type, schema);
        Self { is_open: true, is_extension: true, ..Self::new(id, 200, reply, &[ErrorCode::InternalError]) }
    }

    /// As the contract has it.
    pub(super) fn written(self, summary: &'static str) -> Object {
        let parameters = (!self.parameters.is_empty()).then(|| self.parameters.into_iter().collect::<Node>());
        let replies: Object = self.replies.into_iter().map(|(status, reply)| (status.to_string(), reply)).collect();
        Object::default()
            .with("operationId", self.id)
            .extension_if(self.is_extension)
            .with("summary", summary)
            .with_some("description", self.description)
            .with_some("security", self.is_open.then(|| Node::List(Vec::new())))
            .with_some("parameters", parameters)
            .with_some("requestBody", self.body)
            .with("responses", replies)
    }
}

/// A parameter of this operation alone.
pub(super) fn parameter(place: &'static str, name: &'static str, is_required: bool, schema: Object) -> Object {
    Object::default().with("name", name).with("in", place).with("required", is_required).with("schema", schema)
}
