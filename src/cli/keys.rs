//! `backdrop keys`: creates, lists, restricts, rotates and revokes API keys, with or without a running daemon.

use super::admin_api::{self, Refused, text};
use super::config_args::ConfigArgs;
use super::exit_code::{Failure, Outcome};
use super::{local_engine, stdout, store, text_table};
use crate::account::admin::AdminClient;
use clap::{Args, Subcommand};
use http::{Method, StatusCode};
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(super) struct Keys {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    config_args: ConfigArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create a key and print it, this one time: only its SHA-256 is stored.
    Create {
        /// Account of the key.
        #[arg(long, default_value = crate::account::DEFAULT_ACCOUNT)]
        account: String,
        /// Description of the key.
        #[arg(long, default_value = "")]
        label: String,
        /// Create a sandbox key (`bd_test_…`): same results, watermarked and never billed.
        #[arg(long)]
        test: bool,
        #[command(flatten)]
        bounds: NewKeyRestrictions,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change the restrictions of a key, from its next request on.
    Set {
        /// Public id (`key_…`), as in `backdrop keys list`.
        id: String,
        #[command(flatten)]
        bounds: Bounds,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List keys, oldest first, including revoked ones.
    List {
        /// Only the keys of this account.
        #[arg(long)]
        account: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Replace the secret of a key and print the new one, this one time. Its id, jobs and settings stay.
    Rotate {
        /// Public id (`key_…`), as in `backdrop keys list`.
        id: String,
        /// How long the old secret still works, such as 24h or 7d [default: it stops at once].
        #[arg(long, value_name = "DURATION")]
        keep_old_for: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke keys permanently; a running daemon refuses them at once.
    Revoke {
        /// Public ids (`key_…`), as in `backdrop keys list`.
        #[arg(required = true)]
        ids: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Restrictions of a new key.
#[derive(Args, Debug)]
struct NewKeyRestrictions {
    /// Time until it expires, such as 30d.
    #[arg(long, value_name = "DURATION")]
    expires_in: Option<String>,
    /// When it expires, such as 2027-01-31 (at midnight UTC) or 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in")]
    expires_at: Option<String>,
    /// Maximum number of images per calendar month (UTC).
    #[arg(long, value_name = "N")]
    monthly_images: Option<u64>,
    /// Endpoints it may use, such as remove,studio-shot [default: all].
    #[arg(long, value_name = "ENDPOINTS", value_delimiter = ',')]
    scope: Vec<String>,
}

/// Restrictions to change, at least one.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct Bounds {
    /// Time from now until it expires, such as 30d.
    #[arg(long, value_name = "DURATION")]
    expires_in: Option<String>,
    /// When it expires, such as 2027-01-31 (at midnight UTC) or 2027-01-31T12:00:00Z; `never` for never.
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in")]
    expires_at: Option<String>,
    /// Maximum number of images per calendar month (UTC); `none` for no limit.
    #[arg(long, value_name = "N", value_parser = images)]
    monthly_images: Option<Images>,
    /// Endpoints it may use, such as remove,studio-shot; `all` for all.
    #[arg(long, value_name = "ENDPOINTS", value_delimiter = ',')]
    scope: Option<Vec<String>>,
}

/// Images per month; `None` without a limit.
#[derive(Clone, Copy, Debug)]
struct Images(Option<u64>);

fn images(text: &str) -> Result<Images, &'static str> {
    if text == "none" {
        return Ok(Images(None));
    }
    text.parse().map(|images| Images(Some(images))).map_err(|_| "expected a whole number or none")
}

impl Bounds {
    /// The request body: unchanged restrictions are omitted, removed ones are `null`.
    fn change(&self) -> Value {
        let mut change = json!({});
        if let Some(duration) = &self.expires_in {
            change["expires_in"] = duration.as_str().into();
        }
        if let Some(time) = &self.expires_at {
            change["expires_at"] = if time == "never" { Value::Null } else { time.as_str().into() };
        }
        if let Some(Images(images)) = self.monthly_images {
            change["images_per_month"] = images.into();
        }
        if let Some(scope) = &self.scope {
            // `all` together with other names is refused by the daemon.
            change["scopes"] = if scope == &["all"] { json!([]) } else { json!(scope) };
        }
        change
    }
}

impl Keys {
    /// Runs the command on the configured store, or through the daemon that has it open.
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let place = store::place(self.config_args.load(&[])?)?;
        local_engine::block_on(async {
            let client = AdminClient::open(&place).await?;
            match self.command {
                Command::Create { account, label, test, bounds, json } => {
                    let request = json!({
                        "account": account,
                        "label": label,
                        "test": test,
                        "expires_in": bounds.expires_in,
                        "expires_at": bounds.expires_at,
                        "images_per_month": bounds.monthly_images,
                        "scopes": bounds.scope,
                    });
                    create(&client, &request, json).await
                }
                Command::Set { id, bounds, json } => set(&client, &id, &bounds.change(), json).await,
                Command::List { account, json } => list(&client, account.as_deref(), json).await,
                Command::Rotate { id, keep_old_for, json } => rotate(&client, &id, keep_old_for, json).await,
                Command::Revoke { ids, json } => revoke(&client, &ids, json).await,
            }
        })?
    }
}

async fn create(client: &AdminClient, request: &Value, json: bool) -> Result<Outcome, Failure> {
    let created = admin_api::call(client, Method::POST, "/keys", Some(request)).await?;
    show(&created, json)?;
    let (id, account) = (text(&created, "id"), text(&created, "account"));
    print_stderr!("Created {id} for account {account}. The key is shown only once; save it now.");
    Ok(Outcome::Done)
}

async fn set(client: &AdminClient, id: &str, change: &Value, json: bool) -> Result<Outcome, Failure> {
    let key = call_key(client, Method::PATCH, id, "", Some(change)).await?;
    let line = || format!("{id} of account {}: {}", text(&key, "account"), restrictions_text(&key));
    stdout::print_result(json, &key, line)?;
    Ok(Outcome::Done)
}

async fn rotate(client: &AdminClient, id: &str, keep_old_for: Option<String>, json: bool) -> Result<Outcome, Failure> {
    let request = keep_old_for.map(|duration| json!({ "keep_old_for": duration }));
    let created = call_key(client, Method::POST, id, "/rotate", request.as_ref()).await?;
    show(&created, json)?;
    let account = text(&created, "account");
    let old = created["old_secret_until"].as_str().map_or("has stopped".into(), |time| format!("works until {time}"));
    print_stderr!("{id} of account {account} has a new secret; the old one {old}. It is shown only once; save it now.");
    Ok(Outcome::Done)
}

/// The restrictions of a key as text.
fn restrictions_text(key: &Value) -> String {
    let expiry = key["expires_at"].as_str().map(|time| format!("until {time}"));
    let images = key["images_per_month"].as_u64().map(|images| format!("{images} images per month"));
    let scopes: Vec<&str> = key["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let scopes = (!scopes.is_empty()).then(|| format!("for {}", scopes.join(" ")));
    let bounds: Vec<String> = expiry.into_iter().chain(images).chain(scopes).collect();
    if bounds.is_empty() { "-".into() } else { bounds.join(", ") }
}

/// Prints a new key, the only time it is available.
fn show(created: &Value, json: bool) -> Result<(), Failure> {
    stdout::print_result(json, created, || text(created, "key")).map_err(|error| {
        let id = text(created, "id");
        print_stderr!("the key could not be shown and is lost; revoke it with: backdrop keys revoke {id}");
        error.into()
    })
}

async fn list(client: &AdminClient, account: Option<&str>, json: bool) -> Result<Outcome, Failure> {
    let target = match account {
        // Validated here because it becomes part of the URL.
        Some(name) => format!("/keys?account={}", admin_api::account_name(name)?),
        None => "/keys".into(),
    };
    let listed = admin_api::call(client, Method::GET, &target, None).await?;
    let row = |key: &Value| {
        let mode = if key["test"] == true { "test" } else { "live" };
        let used = key["last_used_at"].as_str().unwrap_or("never").to_owned();
        let state = key["revoked_at"].as_str().map_or("active".into(), |time| format!("revoked {time}"));
        let [id, account, created, label] = ["id", "account", "created_at", "label"].map(|field| text(key, field));
        [id, account, mode.into(), created, used, state, restrictions_text(key), label]
    };
    let heading = ["ID", "ACCOUNT", "MODE", "CREATED", "LAST USED", "STATE", "BOUNDS", "LABEL"];
    let table = || text_table::format_table(heading, admin_api::items(&listed, "keys").map(row));
    stdout::print_result(json, &listed, table)?;
    Ok(Outcome::Done)
}

async fn revoke(client: &AdminClient, ids: &[String], json: bool) -> Result<Outcome, Failure> {
    let (mut revoked, mut failed) = (Vec::new(), 0);
    for id in ids {
        match call_key(client, Method::DELETE, id, "", None).await {
            Ok(key) => revoked.push(key),
            Err(failure) => match failure.downcast::<Refused>() {
                Ok(refused) if refused.status == StatusCode::NOT_FOUND => {
                    print_stderr!("backdrop: {refused}");
                    failed += 1;
                }
                Ok(refused) => return Err(refused),
                Err(other) => return Err(other),
            },
        }
    }
    if json {
        stdout::print_json(&json!({"revoked": revoked, "failed": failed}))?;
    } else {
        for key in &revoked {
            stdout::print_line(&format!("revoked {} of account {}", text(key, "id"), text(key, "account")))?;
        }
    }
    if failed > 0 {
        print_stderr!("backdrop: {failed} of {} failed", ids.len());
    }
    Ok(Outcome::of(failed > 0))
}

/// Calls `/keys/{id}{rest}`. A malformed id is not sent, because it becomes part of the URL.
async fn call_key(
    client: &AdminClient,
    method: Method,
    id: &str,
    rest: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain {
        return Err(Refused { status: StatusCode::NOT_FOUND, message: format!("no key `{id}`") }.into());
    }
    admin_api::call(client, method, &format!("/keys/{id}{rest}"), body).await
}
