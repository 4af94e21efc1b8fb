//! The admin API: the reply to each request, and 401 without the token.

use backdrop::account::Keys;
use backdrop::account::admin::{Admin, AdminEndpoint, Reply};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::store::support::{InMemory, bootstrapped};

/// The admin API on a new store, with its authorization header.
struct AdminApi {
    _folder: TempDir,
    keys: Keys,
    admin: Admin,
    authorization: String,
}

impl AdminApi {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (keys, _) = bootstrapped(folder.path()).await;
        // The token is published only in the file, where the command line reads it too.
        let endpoint = AdminEndpoint::new("127.0.0.1:9090".parse().expect("an address"));
        let admin = Admin::new(keys.clone(), endpoint.token.clone());
        let _published = endpoint.publish(folder.path()).expect("the folder is writable");
        let file = std::fs::read(AdminEndpoint::file_in(folder.path())).expect("just published");
        let discovery: Value = serde_json::from_slice(&file).expect("the file is JSON");
        let authorization = format!("Bearer {}", discovery["token"].as_str().expect("a token"));
        Self { _folder: folder, keys, admin, authorization }
    }

    async fn call(&self, method: Method, target: &str, body: &Value) -> Reply {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.admin.answer(&method, target, Some(&self.authorization), &body).await
    }
}

#[tokio::test]
async fn a_key_is_valid_from_its_creation_to_its_revocation() {
    let api = AdminApi::new().await;
    let created = api.call(Method::POST, "/keys", &json!({"label": "CI", "test": true})).await;
    assert_eq!(created.status, 201);
    let secret = created.body["key"].as_str().expect("the key is shown").to_owned();
    let id = created.body["id"].as_str().expect("its id").to_owned();
    assert_eq!(api.keys.find(&secret).expect("it works").key.label, "CI");

    let listed = api.call(Method::GET, "/keys?account=default", &Value::Null).await;
    assert_eq!(listed.status, 200);
    assert!(!listed.body.to_string().contains(&secret), "the key is shown a second time");
    let row = listed.body["keys"].as_array().expect("a list").iter().find(|key| key["id"] == *id).expect("it is there");
    assert_eq!((&row["test"], &row["revoked_at"]), (&json!(true), &Value::Null));

    let revoked = api.call(Method::DELETE, &format!("/keys/{id}"), &Value::Null).await;
    assert_eq!(revoked.status, 200);
    assert!(revoked.body["revoked_at"].is_string());
    assert_eq!(api.keys.find(&secret), None);
}

#[tokio::test]
async fn accounts_are_created_listed_and_changed() {
    let api = AdminApi::new().await;
    let (post, patch) = ((Method::POST, "/accounts", 201), (Method::PATCH, "/accounts/acme", 200));
    for ((method, target, status), change, account) in [
        (&post, json!({"name": "acme", "plan": "free"}), "acme free false default"),
        (&patch, json!({"plan": "paid"}), "acme paid false default"),
        (&patch, json!({"generates": true}), "acme paid true default"),
        (&patch, json!({"plan": "free", "generates": false}), "acme free false default"),
        (&patch, json!({"model": "quality"}), "acme free false quality"),
        (&patch, json!({"model": "standard"}), "acme free false standard"),
        (&patch, json!({"model": "default"}), "acme free false default"),
        (&post, json!({"name": "quick", "plan": "paid", "model": "quality"}), "quick paid false quality"),
        (&post, json!({"name": "allowed", "plan": "free", "generates": true}), "allowed free true default"),
    ] {
        let reply = api.call(method.clone(), target, &change).await;
        assert_eq!((reply.status.as_u16(), shown(&[reply.body])), (*status, vec![account.to_owned()]), "{change}");
    }
    let listed = api.call(Method::GET, "/accounts", &Value::Null).await.body;
    let expected = [
        "acme free false default",
        "allowed free true default",
        "default plus true default",
        "quick paid false quality",
    ];
    assert_eq!(shown(listed["accounts"].as_array().expect("a list")), expected);
}

/// Name, plan, permission to generate, and model of each account.
fn shown(accounts: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let members = |account: &Value| ["name", "plan", "generates", "model"].map(|name| text(&account[name])).join(" ");
    accounts.iter().map(members).collect()
}

#[tokio::test]
async fn a_rotation_returns_the_new_secret_once_and_expires_the_old_one() {
    let api = AdminApi::new().await;
    let mut old = api.call(Method::POST, "/keys", &json!({"label": "CI"})).await.body;
    let id = old["id"].as_str().expect("its id").to_owned();
    let rotation = format!("/keys/{id}/rotate");
    for (body, kept) in [(Value::Null, false), (json!({}), false), (json!({"keep_old_for": "2h"}), true)] {
        let new = api.call(Method::POST, &rotation, &body).await;
        assert_eq!(
            (new.status.as_u16(), &new.body["id"], &new.body["label"], &new.body["account"]),
            (201, &json!(id), &json!("CI"), &json!("default"))
        );
        assert_eq!(new.body["old_secret_until"].is_string(), kept, "{}", new.body);
        let secret = new.body["key"].as_str().expect("the key is shown");
        assert!(api.keys.find(secret).is_some());
        assert_eq!(api.keys.find(old["key"].as_str().expect("a key")).is_some(), kept, "{body}");
        let listed = api.call(Method::GET, "/keys", &Value::Null).await;
        assert!(!listed.body.to_string().contains(secret));
        assert_eq!(listed.body["keys"].as_array().map(Vec::len), Some(2), "the first key and this one");
        old = new.body;
    }
    assert_eq!(api.call(Method::DELETE, &format!("/keys/{id}"), &Value::Null).await.status, 200);
    let again = api.call(Method::POST, &rotation, &Value::Null).await;
    assert_eq!((again.status.as_u16(), &again.body["error"]["code"]), (409, &json!("conflict")));
}

#[tokio::test]
async fn restrictions_of_a_key_are_set_listed_and_removed() {
    let api = AdminApi::new().await;
    let restrictions = json!({"expires_at": "2100-01-31", "images_per_month": 5, "scopes": ["/studio-shot", "remove"]});
    let created = api.call(Method::POST, "/keys", &restrictions).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let target = format!("/keys/{}", created.body["id"].as_str().expect("its id"));
    let shown = |key: &Value| ["expires_at", "images_per_month", "scopes"].map(|name| key[name].clone());
    let (midnight, both) = (json!("2100-01-31T00:00:00Z"), json!(["remove", "studio-shot"]));
    assert_eq!(shown(&created.body), [midnight.clone(), json!(5), both.clone()]);
    for (change, expected) in [
        (json!({"images_per_month": 7}), [midnight.clone(), json!(7), both.clone()]),
        (json!({"images_per_month": null}), [midnight.clone(), Value::Null, both.clone()]),
        (json!({"scopes": ["presets"]}), [midnight, Value::Null, json!(["presets"])]),
        (json!({"expires_at": null, "scopes": []}), [Value::Null, Value::Null, json!([])]),
    ] {
        let changed = api.call(Method::PATCH, &target, &change).await;
        assert_eq!((changed.status.as_u16(), shown(&changed.body)), (200, expected), "{change}");
        let listed = api.call(Method::GET, "/keys", &Value::Null).await.body;
        assert!(listed["keys"].as_array().expect("a list").contains(&changed.body), "{listed}");
    }
    let changed = api.call(Method::PATCH, &target, &json!({"expires_in": "30d"})).await.body;
    assert!(changed["expires_at"].as_str().is_some_and(|time| time > "2026-"), "{changed}");
    for (method, target, body) in [
        (Method::PATCH, target.as_str(), json!({})),
        (Method::PATCH, &target, json!({"expires_in": "soon"})),
        (Method::PATCH, &target, json!({"expires_in": "1d", "expires_at": "2100-01-31"})),
        (Method::PATCH, &target, json!({"images_per_month": -1})),
        (Method::PATCH, &target, json!({"scopes": ["fly"]})),
        (Method::PATCH, &target, json!({"label": "x"})),
        (Method::POST, "/keys", json!({"scopes": ["fly"]})),
        (Method::POST, "/keys", json!({"expires_at": "yesterday"})),
        (Method::POST, &format!("{target}/rotate"), json!({"keep_old_for": "-1h"})),
        (Method::POST, &format!("{target}/rotate"), json!({"keep": "1h"})),
    ] {
        let reply = api.call(method, target, &body).await;
        assert_eq!((reply.status.as_u16(), &reply.body["error"]["code"]), (400, &json!("invalid_parameter")), "{body}");
    }
}

#[tokio::test]
async fn invalid_requests_are_refused_with_their_code() {
    let api = AdminApi::new().await;
    let none = Value::Null;
    let cases = [
        (Method::POST, "/keys", json!({"account": "missing"}), 404, "not_found"),
        (Method::POST, "/keys", json!({"account": "No Body"}), 400, "invalid_parameter"),
        (Method::POST, "/keys", json!({"label": "two\nlines"}), 400, "invalid_parameter"),
        (Method::POST, "/keys", json!({"lable": "typo"}), 400, "invalid_parameter"),
        (Method::POST, "/keys", json!({"test": "yes"}), 400, "invalid_parameter"),
        (Method::POST, "/keys", json!("text"), 400, "invalid_parameter"),
        (Method::GET, "/keys?account=missing", none.clone(), 404, "not_found"),
        (Method::GET, "/keys?acount=default", none.clone(), 400, "invalid_parameter"),
        (Method::GET, "/accounts?x=1", none.clone(), 400, "invalid_parameter"),
        (Method::DELETE, "/keys/key_unknown", none.clone(), 404, "not_found"),
        (Method::PATCH, "/keys/key_unknown", json!({"scopes": []}), 404, "not_found"),
        (Method::DELETE, "/keys/", none.clone(), 404, "not_found"),
        (Method::POST, "/accounts", json!({"name": "default", "plan": "free"}), 409, "conflict"),
        (Method::POST, "/accounts", json!({"name": "../x", "plan": "free"}), 400, "invalid_parameter"),
        (Method::POST, "/accounts", json!({"name": "x", "plan": "gold"}), 400, "invalid_parameter"),
        (Method::POST, "/accounts", json!({"name": "x"}), 400, "invalid_parameter"),
        (Method::POST, "/accounts", none.clone(), 400, "invalid_parameter"),
        (Method::PATCH, "/accounts/missing", json!({"plan": "free"}), 404, "not_found"),
        (Method::PATCH, "/accounts/missing", json!({"generates": true}), 404, "not_found"),
        (Method::PATCH, "/accounts/default", json!({}), 400, "invalid_parameter"),
        (Method::PATCH, "/accounts/default", json!({"plan": "gold"}), 400, "invalid_parameter"),
        (Method::PATCH, "/accounts/default", json!({"generates": "on"}), 400, "invalid_parameter"),
        (Method::PATCH, "/accounts/default", json!({"model": "../best"}), 400, "invalid_parameter"),
        (Method::POST, "/accounts", json!({"name": "x", "plan": "free", "model": ""}), 400, "invalid_parameter"),
        (Method::POST, "/keys/key_unknown/rotate", none.clone(), 404, "not_found"),
        (Method::POST, "/keys//rotate", none.clone(), 405, "method_not_allowed"),
        (Method::GET, "/keys/key_unknown/rotate", none.clone(), 405, "method_not_allowed"),
        (Method::PUT, "/keys", none.clone(), 405, "method_not_allowed"),
        (Method::GET, "/keys/key_unknown", none.clone(), 405, "method_not_allowed"),
        (Method::DELETE, "/accounts/default", none.clone(), 405, "method_not_allowed"),
        (Method::GET, "/presets", none.clone(), 404, "not_found"),
        (Method::GET, "keys", none, 404, "not_found"),
    ];
    let before = (api.keys.all(None), api.keys.all_accounts());
    for (method, target, body, status, code) in cases {
        let reply = api.call(method.clone(), target, &body).await;
        let got = (reply.status.as_u16(), reply.body["error"]["code"].as_str());
        assert_eq!(got, (status, Some(code)), "{method} {target} {body}");
        assert_eq!(reply.allow.is_some(), status == 405, "{method} {target}");
    }
    assert_eq!((api.keys.all(None), api.keys.all_accounts()), before);
}

#[tokio::test]
async fn every_request_without_the_token_is_401() {
    let api = AdminApi::new().await;
    let token = api.authorization.strip_prefix("Bearer ").expect("a bearer header").to_owned();
    assert!(!format!("{:?}", api.admin).contains(&token));
    let lower = format!("bearer {token}");
    assert_eq!(api.admin.answer(&Method::GET, "/keys", Some(&lower), b"").await.status, 200);
    let an_api_key = "bd_live_0123456789abcdefghijABCDEFGHIJ01";
    for header in [
        None,
        Some(String::new()),
        Some("Bearer".into()),
        Some("Bearer ".into()),
        Some(token.clone()),
        Some(format!("Basic {token}")),
        Some(format!("Bearer {}", &token[1..])),
        Some(format!("Bearer {token}x")),
        Some(format!("Bearer {}", token.to_uppercase())),
        Some(format!("Bearer {an_api_key}")),
    ] {
        for (method, target) in [(Method::GET, "/keys"), (Method::POST, "/keys"), (Method::GET, "/nothing")] {
            let reply = api.admin.answer(&method, target, header.as_deref(), b"{}").await;
            assert_eq!(
                (reply.status.as_u16(), &reply.body["error"]["code"]),
                (401, &json!("unauthorized")),
                "{header:?}"
            );
        }
    }
    assert_eq!(api.keys.all(None).len(), 1);
}
