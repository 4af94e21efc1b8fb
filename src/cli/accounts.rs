//! `backdrop accounts`: create accounts, list them, and put them on a plan.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::operate::{self, CommandError};
use crate::account::Plan;

/// Create and list accounts, and set their plan.
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
    /// Put an account on another plan, from its next request on.
    Set {
        /// Name of the account.
        name: String,
        /// The plan from now on.
        #[arg(long)]
        plan: PlanArg,
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

impl AccountsArgs {
    /// Runs the command on the store in `data_dir`, or at the daemon that has it.
    ///
    /// Exit codes: 0 done, 2 the command could not run.
    #[must_use]
    pub fn execute(&self, data_dir: &Path) -> ExitCode {
        operate::run(async {
            match &self.command {
                AccountsCommand::Create { name, plan, json } => {
                    let link = operate::open_or_create(data_dir).await?;
                    let request = json!({"name": name, "plan": plan.0});
                    report(&operate::call(&link, Method::POST, "/accounts", Some(&request)).await?, *json)
                }
                AccountsCommand::List { json } => {
                    let link = operate::open(data_dir).await?;
                    let listed = operate::call(&link, Method::GET, "/accounts", None).await?;
                    if *json {
                        return operate::print(&format!("{listed:#}"));
                    }
                    let rows = operate::items(&listed, "accounts").map(row);
                    operate::print_table(["NAME", "PLAN", "CREATED"], rows)
                }
                AccountsCommand::Set { name, plan, json } => {
                    let target = format!("/accounts/{}", operate::account_name(name)?);
                    let link = operate::open(data_dir).await?;
                    report(&operate::call(&link, Method::PATCH, &target, Some(&json!({"plan": plan.0}))).await?, *json)
                }
            }
        })
    }
}

fn report(account: &Value, json: bool) -> Result<(), CommandError> {
    if json {
        return operate::print(&format!("{account:#}"));
    }
    let [name, plan, _] = row(account);
    operate::print(&format!("account {name} is on plan {plan}"))
}

fn row(account: &Value) -> [String; 3] {
    ["name", "plan", "created_at"].map(|field| account[field].as_str().unwrap_or_default().to_owned())
}
