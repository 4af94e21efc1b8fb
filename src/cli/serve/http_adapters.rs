//! Implements the HTTP layer's trait for the admin API, so that neither depends on the other.

use crate::account::admin::Admin;
use crate::http::Administer;
use ::http::{HeaderValue, Request, Response, header};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;

/// The admin API behind the admin listener.
pub(super) struct AdminAdapter(pub(super) Admin);

impl Administer for AdminAdapter {
    fn handle<'a>(&'a self, request: &'a Request<Bytes>) -> BoxFuture<'a, Option<Response<Value>>> {
        Box::pin(async move {
            if !Admin::owns(request.uri().path()) {
                return None;
            }
            let target = request.uri().path_and_query().map_or("/", ::http::uri::PathAndQuery::as_str);
            let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let reply = self.0.answer(request.method(), target, authorization, request.body()).await;
            let mut response = Response::new(reply.body);
            *response.status_mut() = reply.status;
            if let Some(methods) = reply.allow {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
            }
            Some(response)
        })
    }
}
