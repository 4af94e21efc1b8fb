//! `backdrop keys` and `backdrop accounts`, on the store itself and through a running daemon.
//!
//! Each command runs in a separate process, for its output and exit code.

use std::path::Path;
use std::process::ExitCode;

use backdrop::account::Keys;
use backdrop::account::admin::{Admin, AdminEndpoint, PublishedEndpoint};
use backdrop::cli::Cli;
use backdrop::recipe::InferenceMode;
use bytes::Bytes;
use clap::Parser;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::store::support::{InMemory, bootstrapped, open};
use crate::support::child_process::{child, child_input};

#[test]
#[ignore = "run by the other tests of this file as the process of a command"]
fn command() {
    let input = child_input();
    let (data_dir, words) = input.split_once('\n').expect("two lines");
    let words = ["backdrop"].into_iter().chain(words.split(' ')).chain(["--data-dir", data_dir]);
    let code = Cli::parse_from(words).run();
    let number = (0..=2).find(|&number| ExitCode::from(number) == code).expect("0, 1 or 2");
    std::process::exit(number.into());
}

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Outcome {
    /// The JSON on stdout, past the test harness's own first lines.
    fn json(&self) -> Value {
        let start = self.stdout.find('{').expect("JSON is printed");
        serde_json::from_str(&self.stdout[start..]).expect("all of it is JSON")
    }
}

/// Runs a command. Blocks: in a test with a daemon, call it off the runtime's thread.
fn run(data_dir: &Path, words: &str) -> Outcome {
    let input = format!("{}\n{words}", data_dir.to_str().expect("a plain path"));
    let output = child(concat!(module_path!(), "::command"), &input).wait_with_output().expect("it ends");
    Outcome {
        code: output.status.code().expect("it was not killed"),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

fn printed_key(outcome: &Outcome) -> String {
    let keys: Vec<&str> =
        outcome.stdout.split_whitespace().filter(|word| word.starts_with("bd_") && word.len() == 40).collect();
    assert_eq!(keys.len(), 1, "the key is printed once: {}", outcome.stdout);
    assert!(!outcome.stderr.contains(keys[0]), "the key is on stderr, which is logged");
    keys[0].to_owned()
}

/// The admin listener of a daemon, as `http` mounts it.
async fn serve(keys: Keys, data_dir: &Path) -> PublishedEndpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = AdminEndpoint::new(listener.local_addr().expect("it is bound"));
    let admin = Admin::new(keys, endpoint.token.clone());
    let published = endpoint.publish(data_dir).expect("the folder is writable");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("it listens");
            let admin = admin.clone();
            let service = service_fn(move |request| answer(admin.clone(), request));
            tokio::spawn(async move {
                // A command closes the connection after its reply.
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    published
}

async fn answer(admin: Admin, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let authorization = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let reply = admin.answer(&head.method, target, authorization, &body).await;
    let mut response = Response::new(Full::new(Bytes::from(reply.body.to_string())));
    *response.status_mut() = reply.status;
    Ok(response)
}

#[tokio::test]
async fn without_a_daemon_a_command_changes_the_store_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    let account = run(path, "accounts create acme --plan paid --json");
    assert_eq!((account.code, account.json()["plan"].as_str()), (0, Some("paid")), "{}", account.stderr);
    let created = run(path, "keys create --account acme --label laptop");
    assert_eq!(created.code, 0, "{}", created.stderr);
    let secret = printed_key(&created);
    assert_eq!(run(path, "accounts set acme --plan plus").code, 0);
    let listed = run(path, "keys list");
    assert!(listed.stdout.contains("laptop") && !listed.stdout.contains(&secret), "{}", listed.stdout);
    let info = open(path).find(&secret).expect("the key works");
    assert_eq!((info.account.name.as_str(), info.account.plan.name()), ("acme", "plus"));
    let rotated = run(path, &format!("keys rotate {}", info.key.id));
    assert_eq!(rotated.code, 0, "{}", rotated.stderr);
    let new = printed_key(&rotated);
    assert_eq!(open(path).find(&secret), None, "the old secret is invalid");
    let (secret, info) = (new.clone(), open(path).find(&new).expect("the new key works"));
    assert_eq!((info.account.name.as_str(), info.key.label.as_str()), ("acme", "laptop"));
    let id = info.key.id.clone();
    let rotated = run(path, &format!("keys rotate {id} --keep-old-for 1h"));
    assert!(rotated.stderr.contains("works until"), "{}", rotated.stderr);
    assert!(open(path).find(&secret).is_some(), "the old secret is still valid");
    let set =
        run(path, &format!("keys set {id} --expires-in 30d --monthly-images 5 --scope remove,studio-shot --json"));
    assert_eq!((set.code, &set.json()["scopes"]), (0, &serde_json::json!(["remove", "studio-shot"])), "{}", set.stderr);
    let listed = run(path, "keys list").stdout;
    assert!(listed.contains("5 images per month, for remove studio-shot"), "{listed}");
    let set = run(path, &format!("keys set {id} --expires-at never --monthly-images none --scope all"));
    assert!(set.code == 0 && set.stdout.ends_with(": -\n"), "{} {}", set.stdout, set.stderr);
    for wrong in ["", "--scope fly", "--monthly-images few", "--expires-in soon", "--expires-in 1d --expires-at never"]
    {
        assert_eq!(run(path, &format!("keys set {id} {wrong}")).code, 2, "{wrong}");
    }
    let bounded =
        run(path, "keys create --account acme --expires-at 2100-01-31 --monthly-images 3 --scope remove --json");
    let bounded = bounded.json();
    assert_eq!((&bounded["expires_at"], &bounded["images_per_month"]), (&"2100-01-31T00:00:00Z".into(), &3.into()));
    assert_eq!(run(path, "accounts set acme --generates on").code, 0);
    let set = run(path, "accounts set acme --plan paid --generates off --json").json();
    assert_eq!((set["plan"].as_str(), set["generates"].as_bool()), (Some("paid"), Some(false)));
    assert_eq!(open(path).find(&secret).expect("the key works").account.model.0, None);
    assert!(run(path, "accounts set acme --model quality").stdout.contains("model is quality"));
    assert_eq!(open(path).find(&secret).expect("the key works").account.model.0, Some(InferenceMode::Quality.into()));
    assert_eq!(run(path, "accounts set acme --model default --json").json()["model"].as_str(), Some("default"));
    assert_eq!(run(path, "accounts set acme --model ../best").code, 2);
    let revoked = run(path, &format!("keys revoke {} --json", info.key.id));
    assert_eq!((revoked.code, revoked.json()["failed"].as_u64()), (0, Some(0)));
    assert_eq!(open(path).find(&secret), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_daemon_a_command_takes_effect_there_immediately() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let _published = serve(keys.clone(), folder.path()).await;
    let path = folder.path().to_owned();
    let with_daemon = keys.clone();
    tokio::task::spawn_blocking(move || {
        let created = run(&path, "keys create --test");
        assert_eq!(created.code, 0, "{}", created.stderr);
        let secret = printed_key(&created);
        let info = with_daemon.find(&secret).expect("the daemon accepts it");
        assert!(info.key.test);
        let listed = run(&path, "keys list --account default --json");
        assert_eq!(listed.json()["keys"].as_array().map(Vec::len), Some(2));
        let rotated = run(&path, &format!("keys rotate {} --json", info.key.id)).json();
        assert_eq!(with_daemon.find(&secret), None);
        let secret = rotated["key"].as_str().expect("the key is shown").to_owned();
        let info = with_daemon.find(&secret).expect("the daemon accepts it");
        assert!(info.key.test, "it stays a sandbox key");
        let listed = run(&path, "keys list");
        assert!(listed.stdout.contains("LAST USED") && listed.stdout.contains("never"), "{}", listed.stdout);
        assert_eq!(run(&path, &format!("keys revoke {}", info.key.id)).code, 0);
        assert_eq!(with_daemon.find(&secret), None);
        assert_eq!(run(&path, "accounts create acme").code, 0);
        let listed = run(&path, "accounts list");
        assert!(listed.stdout.contains("acme") && listed.stdout.contains("default"), "{}", listed.stdout);
        let unknown = run(&path, "keys create --account missing");
        assert_eq!(unknown.code, 2);
        assert!(unknown.stderr.contains("no account `missing`"), "{}", unknown.stderr);
    })
    .await
    .expect("the commands behave");
    assert!(keys.one_account("acme").is_some());
}

#[tokio::test]
async fn the_exit_code_is_0_1_or_2_for_all_some_or_none_done() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, secret) = bootstrapped(folder.path()).await;
    let id = keys.all(None)[0].id.clone();
    drop(keys);
    let some = run(folder.path(), &format!("keys revoke key_unknown {id} ../accounts"));
    assert_eq!(some.code, 1);
    assert!(some.stderr.contains("key_unknown") && some.stderr.contains("2 of 3 failed"), "{}", some.stderr);
    assert_eq!(open(folder.path()).find(secret.expose()), None, "the existing key is revoked nevertheless");
    let refused = run(folder.path(), "accounts create default");
    assert_eq!((refused.code, refused.stderr.contains("exists already")), (2, true), "{}", refused.stderr);
    assert_eq!(run(folder.path(), "accounts set ../keys --plan plus").code, 2);
    let revoked = run(folder.path(), &format!("keys rotate {id}"));
    assert_eq!((revoked.code, revoked.stderr.contains("is revoked")), (2, true), "{}", revoked.stderr);
    assert_eq!(run(folder.path(), "keys rotate ../accounts").code, 2);
}

#[test]
fn a_data_directory_without_a_store_is_an_error_and_stays_empty() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for words in [
        "keys list",
        "keys create",
        "keys revoke key_x",
        "keys rotate key_x",
        "accounts list",
        "accounts set x --plan plus",
    ] {
        let outcome = run(folder.path(), words);
        assert_eq!((outcome.code, outcome.stderr.contains("no store at")), (2, true), "{words}: {}", outcome.stderr);
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
