//! `backdrop keys`: create, list, rotate and revoke keys, with or without a running daemon.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::exit::{Failure, Outcome};
use super::operate::{self, Refused, text};
use super::print;
use crate::account::admin::Link;

/// Create, list, rotate and revoke API keys.
#[derive(Args, Debug)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand, Debug)]
enum KeysCommand {
    /// Create a key and print it, this once: only its SHA-256 is stored.
    Create {
        /// Account that the key belongs to.
        #[arg(long, default_value = crate::account::DEFAULT_ACCOUNT)]
        account: String,
        /// What the key is for, in your own words.
        #[arg(long, default_value = "")]
        label: String,
        /// Create a sandbox key (`bd_test_…`): it works alike, never bills, and marks its results.
        #[arg(long)]
        test: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List keys, oldest first, revoked ones too.
    List {
        /// Only the keys of this account.
        #[arg(long)]
        account: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Replace a key by a new one of the same account and label, and print that, this once; the old one stops at once.
    Rotate {
        /// Public id (`key_…`), as `backdrop keys list` shows it.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke keys for good; a running daemon refuses them at once.
    Revoke {
        /// Public ids (`key_…`), as `backdrop keys list` shows them.
        #[arg(required = true)]
        ids: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl KeysArgs {
    /// Runs the command on the store in `data_dir`, or at the daemon that has it.
    ///
    /// Exit codes: 0 done, 1 some of the ids could not be revoked, 2 the command could not run.
    #[must_use]
    pub fn execute(&self, data_dir: &Path) -> ExitCode {
        operate::run(async {
            match &self.command {
                KeysCommand::Create { account, label, test, json } => {
                    create(data_dir, json!({"account": account, "label": label, "test": test}), *json).await
                }
                KeysCommand::List { account, json } => list(data_dir, account.as_deref(), *json).await,
                KeysCommand::Rotate { id, json } => rotate(data_dir, id, *json).await,
                KeysCommand::Revoke { ids, json } => revoke(data_dir, ids, *json).await,
            }
        })
    }
}

async fn create(data_dir: &Path, request: Value, json: bool) -> Result<Outcome, Failure> {
    let link = Link::open(data_dir).await?;
    let created = operate::call(&link, Method::POST, "/keys", Some(&request)).await?;
    show(&created, json)?;
    let (id, account) = (text(&created, "id"), text(&created, "account"));
    eprintln!("Created {id} for account {account}. The key is shown this once; keep it now.");
    Ok(Outcome::Done)
}

async fn rotate(data_dir: &Path, id: &str, json: bool) -> Result<Outcome, Failure> {
    let link = Link::open(data_dir).await?;
    let created = call_on(&link, Method::POST, id, "/rotate").await?;
    show(&created, json)?;
    let (new, account) = (text(&created, "id"), text(&created, "account"));
    eprintln!("Replaced {id} of account {account} by {new}. The key is shown this once; keep it now.");
    Ok(Outcome::Done)
}

/// Prints a new key, the only time it is there.
fn show(created: &Value, json: bool) -> Result<(), Failure> {
    let shown = if json { print::json(created) } else { print::line(&text(created, "key")) };
    shown.map_err(|error| {
        let id = text(created, "id");
        eprintln!("the key could not be shown and is lost; revoke it with: backdrop keys revoke {id}");
        error.into()
    })
}

async fn list(data_dir: &Path, account: Option<&str>, json: bool) -> Result<Outcome, Failure> {
    let link = Link::open(data_dir).await?;
    let target = match account {
        // Checked here because it goes into an address; the daemon would see another request otherwise.
        Some(name) => format!("/keys?account={}", operate::account_name(name)?),
        None => "/keys".into(),
    };
    let listed = operate::call(&link, Method::GET, &target, None).await?;
    if json {
        print::json(&listed)?;
        return Ok(Outcome::Done);
    }
    let row = |key: &Value| {
        let mode = if key["test"] == true { "test" } else { "live" };
        let used = key["last_used_at"].as_str().unwrap_or("never").to_owned();
        let state = key["revoked_at"].as_str().map_or("active".into(), |time| format!("revoked {time}"));
        let [id, account, created, label] = ["id", "account", "created_at", "label"].map(|field| text(key, field));
        [id, account, mode.into(), created, used, state, label]
    };
    let rows: Vec<_> = operate::items(&listed, "keys").map(row).collect();
    print::line(&print::table(["ID", "ACCOUNT", "MODE", "CREATED", "LAST USED", "STATE", "LABEL"], &rows))?;
    Ok(Outcome::Done)
}

async fn revoke(data_dir: &Path, ids: &[String], json: bool) -> Result<Outcome, Failure> {
    let link = Link::open(data_dir).await?;
    let (mut revoked, mut failed) = (Vec::new(), 0);
    for id in ids {
        match call_on(&link, Method::DELETE, id, "").await {
            Ok(key) => revoked.push(key),
            Err(failure) => match failure.downcast::<Refused>() {
                Ok(refused) if refused.status == StatusCode::NOT_FOUND => {
                    eprintln!("backdrop: {refused}");
                    failed += 1;
                }
                Ok(refused) => return Err(refused),
                Err(other) => return Err(other),
            },
        }
    }
    if json {
        print::json(&json!({"revoked": revoked, "failed": failed}))?;
    } else {
        for key in &revoked {
            print::line(&format!("revoked {} of account {}", text(key, "id"), text(key, "account")))?;
        }
    }
    if failed > 0 {
        eprintln!("backdrop: {failed} of {} failed", ids.len());
    }
    Ok(Outcome::of(failed))
}

/// Calls `/keys/{id}` and what follows. An id goes into an address: what cannot be one is not sent.
async fn call_on(link: &Link, method: Method, id: &str, rest: &str) -> Result<Value, Failure> {
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain {
        return Err(Refused { status: StatusCode::NOT_FOUND, message: format!("no key `{id}`") }.into());
    }
    operate::call(link, method, &format!("/keys/{id}{rest}"), None).await
}
