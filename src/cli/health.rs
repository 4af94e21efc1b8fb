//! `backdrop health`: queries the readiness of the daemon that uses the data directory, for containers and scripts.

use super::admin_api;
use super::config_args::ConfigArgs;
use super::exit_code::{Failure, Outcome};
use super::stdout;
use crate::account::admin::{AdminClient, AdminEndpoint};
use clap::Args;
use http::Method;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub(super) struct Health {
    #[command(flatten)]
    config: ConfigArgs,
}

impl Health {
    /// Exits with 0 when the daemon is ready, else with 2 and the reason.
    pub(super) fn run(self) -> ExitCode {
        admin_api::run(async move {
            let data_dir = self.config.load(&[])?.data_dir;
            let endpoint = AdminEndpoint::read(&data_dir)
                .map_err(|error| -> Failure { format!("no daemon uses {}: {error}", data_dir.display()).into() })?;
            let ready = admin_api::call(&AdminClient::Http(endpoint), Method::GET, "/readyz", None).await?;
            stdout::print_line(&ready.to_string())?;
            Ok(Outcome::Done)
        })
    }
}
