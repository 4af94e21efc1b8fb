//! Runs a call of the `keys` and `accounts` commands on the admin client, and turns error replies into exit codes.

use std::process::ExitCode;

use http::{Method, StatusCode};
use serde_json::Value;

use super::exit_code::{Failure, Outcome, exit_code};
use crate::account::AccountName;
use crate::account::admin::AdminClient;

/// An error response of the admin API.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refused {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its message.
    pub(super) message: String,
}

/// Runs a command to its exit code, on one thread: it makes one call at a time.
pub(super) fn run(command: impl Future<Output = Result<Outcome, Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    exit_code(runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(command)))
}

/// Calls the admin API; any other status than success is a [`Refused`].
pub(super) async fn call(
    link: &AdminClient,
    method: Method,
    target: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let (status, reply) = link.call(method, target, body).await?;
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
