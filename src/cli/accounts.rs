//! `backdrop accounts`: create accounts, list them, and put them on a plan.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::exit::{Failure, Outcome};
use super::{operate, print};
use crate::account::admin::AdminClient;
use crate::account::{AccountModel, Plan};
use crate::recipe::InferenceMode;

/// Create and list accounts, and set what they may do.
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
        /// Model that cuts out for it; `default` is the daemon's.
        #[arg(long, default_value = "default")]
        model: ModelArg,
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
    /// Change what an account may do, from its next request on.
    Set {
        /// Name of the account.
        name: String,
        /// The plan from now on.
        #[arg(long, required_unless_present_any = ["generates", "model"])]
        plan: Option<PlanArg>,
        /// Whether it may use /replace-bg-ai from now on.
        #[arg(long)]
        generates: Option<Switch>,
        /// Model that cuts out for it from now on; `default` is the daemon's.
        #[arg(long)]
        model: Option<ModelArg>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// [`Plan`] as clap lists it.
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

/// [`AccountModel`] as clap lists it.
#[derive(Clone, Copy, Debug)]
struct ModelArg(AccountModel);

impl ValueEnum for ModelArg {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self(AccountModel(None)),
                Self(AccountModel(Some(InferenceMode::Standard))),
                Self(AccountModel(Some(InferenceMode::Quality))),
            ]
        }
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
    /// Runs the command on the store in `data_dir`, or at the daemon that has it.
    ///
    /// Exit codes: 0 done, 2 the command could not run.
    #[must_use]
    pub fn execute(&self, data_dir: &Path) -> ExitCode {
        operate::run(async {
            match &self.command {
                AccountsCommand::Create { name, plan, generates, model, json } => {
                    let link = AdminClient::open_or_create(data_dir).await?;
                    let generates = bool::from(*generates);
                    let request =
                        json!({"name": name, "plan": plan.0, "generates": generates, "model": model.0.name()});
                    report(&operate::call(&link, Method::POST, "/accounts", Some(&request)).await?, *json)
                }
                AccountsCommand::List { json } => {
                    let link = AdminClient::open(data_dir).await?;
                    let listed = operate::call(&link, Method::GET, "/accounts", None).await?;
                    if *json {
                        print::json(&listed)?;
                    } else {
                        let rows: Vec<_> = operate::items(&listed, "accounts").map(row).collect();
                        print::line(&print::table(["NAME", "PLAN", "GENERATES", "MODEL", "CREATED"], &rows))?;
                    }
                    Ok(Outcome::Done)
                }
                AccountsCommand::Set { name, plan, generates, model, json } => {
                    let target = format!("/accounts/{}", operate::account_name(name)?);
                    let link = AdminClient::open(data_dir).await?;
                    let request = json!({
                        "plan": plan.map(|plan| plan.0),
                        "generates": generates.map(bool::from),
                        "model": model.map(|model| model.0.name()),
                    });
                    report(&operate::call(&link, Method::PATCH, &target, Some(&request)).await?, *json)
                }
            }
        })
    }
}

fn report(account: &Value, json: bool) -> Result<Outcome, Failure> {
    if json {
        print::json(account)?;
    } else {
        let [name, plan, generates, model, _] = row(account);
        let allowed = if generates == "on" { ", and may use /replace-bg-ai" } else { "" };
        print::line(&format!("account {name} is on plan {plan}{allowed}; its model is {model}"))?;
    }
    Ok(Outcome::Done)
}

fn row(account: &Value) -> [String; 5] {
    let generates = if account["generates"] == true { "on" } else { "off" };
    let text = |field| operate::text(account, field);
    [text("name"), text("plan"), generates.into(), text("model"), text("created_at")]
}
