//! `backdrop accounts`: creates and lists accounts, and sets their plan and permissions.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::exit_code::{Failure, Outcome};
use super::{admin_api, local_engine, stdout, text_table};
use crate::account::admin::{AdminClient, StorePlace};
use crate::account::{AccountModel, Plan};
use crate::config::Config;
use crate::recipe::Network;

/// Create and list accounts, and set their plan and permissions.
#[derive(Args, Debug)]
pub struct AccountsArgs {
    #[command(subcommand)]
    command: AccountsCommand,
}

#[derive(Subcommand, Debug)]
enum AccountsCommand {
    /// Create an account; its keys come from `backdrop keys create --account NAME`.
    Create {
        /// Name: 1 to 64 of a-z, 0-9, '.', '_' and '-', the first a letter or digit.
        name: String,
        /// Plan of the account.
        #[arg(long, default_value = "free")]
        plan: PlanArg,
        /// Whether it may use /replace-bg-ai.
        #[arg(long, default_value = "off")]
        generates: Switch,
        /// Model of the account: standard, quality, fast, or the name of an added one; `default` is the daemon's.
        #[arg(long, default_value = "default")]
        model: AccountModel,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List accounts by name.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change the plan and permissions of an account, from its next request on.
    Set {
        /// Name of the account.
        name: String,
        /// New plan of the account.
        #[arg(long, required_unless_present_any = ["generates", "model"])]
        plan: Option<PlanArg>,
        /// Whether it may use /replace-bg-ai.
        #[arg(long)]
        generates: Option<Switch>,
        /// New model of the account, as for `create`.
        #[arg(long)]
        model: Option<AccountModel>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// [`Plan`] as a clap value.
#[derive(Clone, Copy, Debug)]
struct PlanArg(Plan);

impl ValueEnum for PlanArg {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Plan::Free), Self(Plan::Paid), Self(Plan::Plus)]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl From<Switch> for bool {
    fn from(switch: Switch) -> Self {
        switch == Switch::On
    }
}

impl AccountsArgs {
    /// Refuses an added model that is not there.
    pub(super) fn check_model(&self, config: &Config) -> Result<(), Failure> {
        let model = match &self.command {
            AccountsCommand::Create { model, .. } => Some(model),
            AccountsCommand::Set { model, .. } => model.as_ref(),
            AccountsCommand::List { .. } => None,
        };
        if let Some(AccountModel(Some(Network::Added(name)))) = model {
            local_engine::added_models(config)?.find(name)?;
        }
        Ok(())
    }

    /// Runs the command on the store in `place`, or through the daemon that has it open.
    ///
    /// Exit codes: 0 done, 2 the command could not run.
    #[must_use]
    pub fn execute(&self, place: &StorePlace) -> ExitCode {
        admin_api::run(async {
            match &self.command {
                AccountsCommand::Create { name, plan, generates, model, json } => {
                    let link = AdminClient::open_or_create(place).await?;
                    let generates = bool::from(*generates);
                    let request =
                        json!({"name": name, "plan": plan.0, "generates": generates, "model": model.to_string()});
                    report(&admin_api::call(&link, Method::POST, "/accounts", Some(&request)).await?, *json)
                }
                AccountsCommand::List { json } => {
                    let link = AdminClient::open(place).await?;
                    let listed = admin_api::call(&link, Method::GET, "/accounts", None).await?;
                    if *json {
                        stdout::print_json(&listed)?;
                    } else {
                        let rows: Vec<_> = admin_api::items(&listed, "accounts").map(row).collect();
                        stdout::print_line(&text_table::format_table(
                            ["NAME", "PLAN", "GENERATES", "MODEL", "CREATED"],
                            &rows,
                        ))?;
                    }
                    Ok(Outcome::Done)
                }
                AccountsCommand::Set { name, plan, generates, model, json } => {
                    let target = format!("/accounts/{}", admin_api::account_name(name)?);
                    let link = AdminClient::open(place).await?;
                    let request = json!({
                        "plan": plan.map(|plan| plan.0),
                        "generates": generates.map(bool::from),
                        "model": model.as_ref().map(ToString::to_string),
                    });
                    report(&admin_api::call(&link, Method::PATCH, &target, Some(&request)).await?, *json)
                }
            }
        })
    }
}

fn report(account: &Value, json: bool) -> Result<Outcome, Failure> {
    if json {
        stdout::print_json(account)?;
    } else {
        let [name, plan, generates, model, _] = row(account);
        let allowed = if generates == "on" { ", and may use /replace-bg-ai" } else { "" };
        stdout::print_line(&format!("account {name} is on plan {plan}{allowed}; its model is {model}"))?;
    }
    Ok(Outcome::Done)
}

fn row(account: &Value) -> [String; 5] {
    let generates = if account["generates"] == true { "on" } else { "off" };
    let text = |field| admin_api::text(account, field);
    [text("name"), text("plan"), generates.into(), text("model"), text("created_at")]
}
