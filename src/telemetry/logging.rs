//! Logging: text or JSON lines on stderr, so that stdout stays free for results.

use std::io::IsTerminal;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human-readable.
    #[default]
    Text,
    /// One JSON object a line, for log collectors.
    Json,
}

/// The `[log]` section.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// `text` or `json`.
    pub format: LogFormat,
    /// A level (`info`), or directives such as `info,backdrop::engine=debug`.
    pub filter: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

impl LogConfig {
    /// The mistakes in this section, each a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        match self.filter.parse::<Targets>() {
            Ok(_) => Vec::new(),
            Err(error) => vec![format!("log.filter: {error}")],
        }
    }
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not valid.
    #[error("the log filter is not valid")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// A subscriber is already installed in this process.
    #[error("the log is already set up")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends events and spans to stderr from now on.
///
/// # Errors
/// [`LogError`] when the filter is not valid, or on a second call.
pub fn init(config: &LogConfig) -> Result<(), LogError> {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // They would be reported with `eprintln!`, which panics, and fails the request, when standard error is closed.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    let filtered = tracing_subscriber::registry().with(config.filter.parse::<Targets>()?);
    match config.format {
        LogFormat::Text => filtered.with(lines).try_init(),
        LogFormat::Json => filtered.with(lines.json()).try_init(),
    }
    .map_err(LogError::AlreadySet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_filter_is_reported() {
        assert!(LogConfig::default().validate().is_empty());
        let mistakes = LogConfig { filter: "backdrop=loud".to_owned(), ..LogConfig::default() }.validate();
        assert!(mistakes.len() == 1 && mistakes[0].starts_with("log.filter: "), "{mistakes:?}");
    }
}
