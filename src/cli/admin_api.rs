//! What `keys` and `accounts` share: the way to the admin interface and back.

use std::process::ExitCode;

use http::{Method, StatusCode};
use serde_json::Value;

use super::exit::{self, Failure, Outcome};
use crate::account::AccountName;
use crate::account::admin::Link;

/// The interface said no.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refused {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its reason.
    pub(super) message: String,
}

/// Runs a command to its exit code. One thread will do: it waits for one call at a time.
pub(super) fn run(command: impl Future<Output = Result<Outcome, Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    exit::code(runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(command)))
}

/// Calls the interface; any status but a success is a [`Refused`].
pub(super) async fn call(link: &Link, method: Method, target: &str, body: Option<&Value>) -> Result<Value, Failure> {
    let (status, answer) = link.call(method, target, body).await?;
    if status.is_success() {
        return Ok(answer);
    }
    let message =
        answer["error"]["message"].as_str().map_or_else(|| format!("the daemon answered {status}"), Into::into);
    Err(Refused { status, message }.into())
}

/// A name that may go into an address.
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

/// A text of a row; empty when it is not there.
pub(super) fn text(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or_default().to_owned()
}
