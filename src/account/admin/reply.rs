//! Replies of the admin interface: HTTP status and JSON body, errors included.

use std::fmt::Display;

use http::StatusCode;
use serde_json::{Value, json};

use crate::store::{Account, ChangeError, Key, OpenError};
use crate::telemetry::with_causes;

/// A status and the JSON body that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// Body; an error is `{"error":{"code","message"[,"param"]}}`.
    pub body: Value,
    /// The methods that the path supports, for the `Allow` header of a 405.
    pub allow: Option<&'static str>,
}

impl Reply {
    pub(super) fn new(status: StatusCode, body: Value) -> Self {
        Self { status, body, allow: None }
    }

    pub(super) fn error(status: StatusCode, code: &str, message: &str, param: Option<&str>) -> Self {
        let mut error = json!({"code": code, "message": message});
        if let Some(param) = param {
            error["param"] = param.into();
        }
        Self::new(status, json!({ "error": error }))
    }

    pub(super) fn invalid(param: Option<&str>, message: &str) -> Self {
        Self::error(StatusCode::BAD_REQUEST, "invalid_parameter", message, param)
    }

    pub(super) fn unreadable(error: OpenError) -> Self {
        let message = with_causes(&error);
        let (status, code) = if matches!(error, OpenError::Io { .. }) {
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal_error")
        };
        Self::error(status, code, &message, None)
    }

    pub(super) fn not_found(message: &str) -> Self {
        Self::error(StatusCode::NOT_FOUND, "not_found", message, None)
    }
}

impl From<ChangeError> for Reply {
    fn from(error: ChangeError) -> Self {
        let message = error.to_string();
        let (status, code) = match error {
            ChangeError::AccountExists(_)
            | ChangeError::KeyExists
            | ChangeError::KeyRevoked(_)
            | ChangeError::KeyRotated(_)
            | ChangeError::PresetNameTaken(_)
            | ChangeError::TooManyPresets(_)
            | ChangeError::JobExists(_)
            | ChangeError::JobNameTaken(_)
            | ChangeError::TooManyJobs
            | ChangeError::JobState { .. }
            | ChangeError::JobElsewhere(_)
            | ChangeError::QuotaExceeded(_)
            | ChangeError::GeneratedEnough { .. }
            | ChangeError::RequestBilled(_) => (StatusCode::CONFLICT, "conflict"),
            ChangeError::NoSuchAccount(_)
            | ChangeError::NoSuchKey(_)
            | ChangeError::NoSuchPreset(_)
            | ChangeError::NoSuchJob(_) => (StatusCode::NOT_FOUND, "not_found"),
            ChangeError::Busy | ChangeError::Unavailable(_) | ChangeError::Interrupted(_) | ChangeError::Closed => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
            ChangeError::Storage(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        };
        Self::error(status, code, &message, None)
    }
}

pub(super) fn invalid_value(param: &str, error: &impl Display) -> Reply {
    Reply::invalid(Some(param), &format!("invalid `{param}` ({error})"))
}

pub(super) fn method_not_allowed(allow: &'static str) -> Reply {
    let message = format!("this path allows {allow}");
    let reply = Reply::error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &message, None);
    Reply { allow: Some(allow), ..reply }
}

pub(super) fn key_json(key: &Key) -> Value {
    json!({
        "id": key.id,
        "account": key.account,
        "label": key.label,
        "test": key.test,
        "created_at": key.created_at.to_string(),
        "revoked_at": key.revoked_at.map(|time| time.to_string()),
        "last_used_at": key.last_used_at.map(|time| time.to_string()),
        "expires_at": key.expires_at.map(|time| time.to_string()),
        "images_per_month": key.images_per_month,
        "scopes": key.scopes,
        "old_secret_until": key.previous.map(|previous| previous.until.to_string()),
    })
}

pub(super) fn account_json(account: &Account) -> Value {
    json!({
        "name": account.name,
        "plan": account.plan.name(),
        "generates": account.generates,
        "model": account.model.to_string(),
        "created_at": account.created_at.to_string(),
    })
}
