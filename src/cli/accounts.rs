//! `backdrop accounts`: creates and lists accounts, and sets their plan and permissions.

use super::config_args::ConfigArgs;
use super::exit_code::{Failure, Outcome};
use super::{admin_api, local_engine, stdout, store, text_table};
use crate::account::admin::AdminClient;
use crate::account::{AccountModel, Plan};
use crate::recipe::Network;
use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(super) struct Accounts {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    config_args: ConfigArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
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

impl Accounts {
    /// Runs the command on the configured store, or through the daemon that has it open.
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.config_args.load(&[])?;
        if let Some(AccountModel(Some(Network::Added(name)))) = self.command.model() {
            local_engine::added_models(&config)?.find(name)?;
        }
        let place = store::place(config)?;
        local_engine::block_on(async {
            match self.command {
                Command::Create { name, plan, generates, model, json } => {
                    let client = AdminClient::open_or_create(&place).await?;
                    let generates = bool::from(generates);
                    let request =
                        json!({"name": name, "plan": plan.0, "generates": generates, "model": model.to_string()});
                    report(&admin_api::call(&client, Method::POST, "/accounts", Some(&request)).await?, json)
                }
                Command::List { json } => {
                    let client = AdminClient::open(&place).await?;
                    let listed = admin_api::call(&client, Method::GET, "/accounts", None).await?;
                    let heading = ["NAME", "PLAN", "GENERATES", "MODEL", "CREATED"];
                    let table = || text_table::format_table(heading, admin_api::items(&listed, "accounts").map(row));
                    stdout::print_result(json, &listed, table)?;
                    Ok(Outcome::Done)
                }
                Command::Set { name, plan, generates, model, json } => {
                    let target = format!("/accounts/{}", admin_api::account_name(&name)?);
                    let client = AdminClient::open(&place).await?;
                    let request = json!({
                        "plan": plan.map(|plan| plan.0),
                        "generates": generates.map(bool::from),
                        "model": model.map(|model| model.to_string()),
                    });
                    report(&admin_api::call(&client, Method::PATCH, &target, Some(&request)).await?, json)
                }
            }
        })?
    }
}

impl Command {
    /// The model of `--model`.
    const fn model(&self) -> Option<&AccountModel> {
        match self {
            Self::Create { model, .. } => Some(model),
            Self::Set { model, .. } => model.as_ref(),
            Self::List { .. } => None,
        }
    }
}

fn report(account: &Value, json: bool) -> Result<Outcome, Failure> {
    stdout::print_result(json, account, || {
        let [name, plan, generates, model, _] = row(account);
        let allowed = if generates == "on" { ", and may use /replace-bg-ai" } else { "" };
        format!("account {name} is on plan {plan}{allowed}; its model is {model}")
    })?;
    Ok(Outcome::Done)
}

fn row(account: &Value) -> [String; 5] {
    let generates = if account["generates"] == true { "on" } else { "off" };
    let text = |field| admin_api::text(account, field);
    [text("name"), text("plan"), generates.into(), text("model"), text("created_at")]
}
