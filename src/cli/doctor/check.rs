//! The result of one check.

use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) status: Status,
    /// The finding.
    pub(super) message: String,
    /// How to correct a warning or failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Nothing is missing.
    Ok,
    /// Something optional is missing.
    Warning,
    /// Pictures cannot be processed, or the daemon cannot start.
    Failed,
}

impl Check {
    pub(super) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, message: message.into(), remedy: None }
    }

    pub(super) fn warning(name: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, message: message.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn failed(name: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Failed, message: message.into(), remedy: Some(remedy.into()) }
    }

    /// As lines of text.
    pub(super) fn text(&self) -> String {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Failed => "FAILED",
        };
        let line = format!("{status:<8} {:<14} {}", self.name, self.message);
        match &self.remedy {
            Some(remedy) => format!("{line}\n{:<23} → {remedy}", ""),
            None => line,
        }
    }
}
