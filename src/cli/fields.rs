//! `backdrop fields`: lists the endpoints, or the fields of an endpoint with their values.

use super::endpoint_args::{endpoint_named, endpoint_names};
use super::exit_code::{Failure, Outcome};
use super::{stdout, text_table};
use crate::recipe::{ENDPOINTS, Field};
use clap::Args;

#[derive(Args, Debug)]
pub(super) struct ListFields {
    /// Endpoint of the API; without one the endpoints are listed
    #[arg(value_parser = endpoint_names())]
    endpoint: Option<String>,
}

impl ListFields {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let text = match &self.endpoint {
            Some(name) => endpoint_named(name).fields.iter().map(described).collect::<Vec<_>>().join("\n"),
            None => {
                let rows = ENDPOINTS.iter().map(|endpoint| [endpoint.name.to_owned(), endpoint.about.to_owned()]);
                text_table::format_table(["endpoint", "what it does"], rows)
            }
        };
        stdout::print_line(&text)?;
        Ok(Outcome::Done)
    }
}

/// The field, its values and its default on one line, and what it does below.
fn described(field: &Field) -> String {
    let value = match (field.required, field.default) {
        (true, _) => "; required".to_owned(),
        (false, Some(default)) => format!("; default {default}"),
        (false, None) => String::new(),
    };
    format!("{}: {}{value}\n    {}", field.name, field.kind.expected(), field.about.trim_start())
}
