//! Implements the HTTP layer's traits for keys and the admin API, so that neither depends on the other.

use crate::account::Keys;
use crate::account::Scopes;
use crate::account::admin::Admin;
use crate::http::{Administer, Authenticate, Caller};
use crate::store::UnixSeconds;
use ::http::{HeaderValue, Request, Response, header};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;

impl Authenticate for Keys {
    fn authenticate(&self, token: &str) -> Option<Caller> {
        let key = Self::authenticate(self, token)?;
        Some(Caller {
            key_id: key.key_id,
            account: key.account,
            plan: key.plan,
            test: key.test,
            generates: key.generates,
            model: key.model,
            images_per_month: key.images_per_month,
            scopes: key.scopes,
        })
    }

    fn of_account(&self, name: &str) -> Option<Caller> {
        let account = self.account(name)?;
        Some(Caller {
            key_id: format!("without-key-{name}"),
            account: account.name,
            plan: account.plan,
            test: false,
            generates: account.generates,
            model: account.model.0.clone(),
            images_per_month: None,
            scopes: Scopes::default(),
        })
    }

    fn expired_at(&self, token: &str) -> Option<UnixSeconds> {
        Self::expired_at(self, token)
    }

    fn labels(&self, account: &str) -> Vec<(String, String)> {
        self.list(Some(account)).into_iter().map(|key| (key.id, key.label)).collect()
    }
}

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
