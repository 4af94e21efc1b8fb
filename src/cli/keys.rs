//! `backdrop keys`: create, list and revoke keys, with or without a running daemon.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::operate::{self, CommandError, Failed};

/// Create, list and revoke API keys.
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
                KeysCommand::Revoke { ids, json } => revoke(data_dir, ids, *json).await,
            }
        })
    }
}

async fn create(data_dir: &Path, request: Value, json: bool) -> Result<(), CommandError> {
    let link = operate::open(data_dir).await?;
    let created = operate::call(&link, Method::POST, "/keys", Some(&request)).await?;
    let (id, account) = (text(&created, "id"), text(&created, "account"));
    let shown = if json { format!("{created:#}") } else { text(&created, "key") };
    if let Err(error) = operate::print(&shown) {
        eprintln!("the key could not be shown and is lost; revoke it with: backdrop keys revoke {id}");
        return Err(error);
    }
    eprintln!("Created {id} for account {account}. The key is shown this once; keep it now.");
    Ok(())
}

async fn list(data_dir: &Path, account: Option<&str>, json: bool) -> Result<(), CommandError> {
    let link = operate::open(data_dir).await?;
    let target = match account {
        // Checked here because it goes into an address; the daemon would see another request otherwise.
        Some(name) => format!("/keys?account={}", operate::account_name(name)?),
        None => "/keys".into(),
    };
    let listed = operate::call(&link, Method::GET, &target, None).await?;
    if json {
        return operate::print(&format!("{listed:#}"));
    }
    let rows = operate::items(&listed, "keys").map(|key| {
        let mode = if key["test"] == true { "test" } else { "live" };
        let state = key["revoked_at"].as_str().map_or("active".into(), |time| format!("revoked {time}"));
        [text(key, "id"), text(key, "account"), mode.into(), text(key, "created_at"), state, text(key, "label")]
    });
    operate::print_table(["ID", "ACCOUNT", "MODE", "CREATED", "STATE", "LABEL"], rows)
}

async fn revoke(data_dir: &Path, ids: &[String], json: bool) -> Result<(), CommandError> {
    let link = operate::open(data_dir).await?;
    let (mut revoked, mut failed) = (Vec::new(), 0);
    for id in ids {
        // An id goes into an address: what cannot be one is not sent.
        let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let answer = if plain {
            operate::call(&link, Method::DELETE, &format!("/keys/{id}"), None).await
        } else {
            Err(CommandError::Refused { status: StatusCode::NOT_FOUND, message: format!("no key `{id}`") })
        };
        match answer {
            Ok(key) => revoked.push(key),
            Err(CommandError::Refused { status: StatusCode::NOT_FOUND, message }) => {
                eprintln!("backdrop: {message}");
                failed += 1;
            }
            Err(error) => return Err(error),
        }
    }
    if json {
        operate::print(&format!("{:#}", json!({"revoked": revoked, "failed": failed})))?;
    } else {
        for key in &revoked {
            operate::print(&format!("revoked {} of account {}", text(key, "id"), text(key, "account")))?;
        }
    }
    if failed == 0 { Ok(()) } else { Err(CommandError::Some(Failed { failed, of: ids.len() })) }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
