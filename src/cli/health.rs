//! `backdrop health`: queries the readiness of the daemon that uses the data directory, for containers and scripts.

use super::config_args::ConfigArgs;
use super::exit_code::{Failure, Outcome};
use super::{admin_api, local_engine, stdout};
use crate::account::admin::{AdminClient, AdminEndpoint};
use clap::Args;
use http::Method;

#[derive(Args, Debug)]
pub(super) struct Health {
    #[command(flatten)]
    config: ConfigArgs,
}

impl Health {
    /// Prints the reply of a ready daemon.
    ///
    /// # Errors
    /// When no daemon runs, or it is not ready.
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let data_dir = self.config.load(&[])?.data_dir;
        let endpoint = AdminEndpoint::read(&data_dir)
            .map_err(|error| format!("no daemon uses {}: {error}", data_dir.display()))?;
        let client = AdminClient::Http(endpoint);
        let ready = local_engine::block_on(admin_api::call(&client, Method::GET, "/readyz", None))??;
        stdout::print_line(&ready.to_string())?;
        Ok(Outcome::Done)
    }
}
