//! Calls of the admin interface, whose error responses are errors, and fields of its JSON.

use super::exit_code::Failure;
use crate::account::AccountName;
use crate::account::admin::AdminClient;
use http::{Method, StatusCode};
use serde_json::Value;

/// An error response.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

/// The body of a successful response.
///
/// # Errors
/// [`Refused`] for any other status.
pub(super) async fn call(
    client: &AdminClient,
    method: Method,
    target: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let (status, reply) = client.call(method, target, body).await?;
    if status.is_success() {
        return Ok(reply);
    }
    let message =
        reply["error"]["message"].as_str().map_or_else(|| format!("the daemon answered {status}"), Into::into);
    Err(Refused { status, message }.into())
}

/// Validates an account name before it becomes part of a URL.
pub(super) fn account_name(name: &str) -> Result<AccountName, Refused> {
    AccountName::try_from(name).map_err(|error| Refused {
        status: StatusCode::BAD_REQUEST,
        message: format!("invalid account name `{name}` ({error})"),
    })
}

/// The rows of a listing.
pub(super) fn items<'a>(listing: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    listing[field].as_array().into_iter().flatten()
}

/// A string field of a row; empty when missing.
pub(super) fn text(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or_default().to_owned()
}
