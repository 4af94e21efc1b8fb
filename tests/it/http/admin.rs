//! The admin listener.

use crate::http::daemon::{Daemon, Exchange, refusal};
use backdrop::engine::EngineState;
use backdrop::http::config::HttpConfig;
use backdrop::video::ToolMissing;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn health_checks_follow_the_state_of_the_engine() {
    let daemon = Daemon::start().await;
    let status = async |path: &str| {
        let response = daemon.page(path).answer().await;
        let status = response.status().as_u16();
        if status == 503 {
            assert!(response.headers().contains_key("retry-after"));
            refusal(response).await.is(503, "unavailable", None);
        }
        status
    };
    for (state, ready) in [
        (EngineState::Loading, 503),
        (EngineState::Ready, 200),
        (EngineState::Unloaded, 200),
        (EngineState::Draining, 503),
        (EngineState::Failed, 503),
    ] {
        *daemon.engine.state.lock().expect("no panic inside") = state;
        assert_eq!((status("/livez").await, status("/readyz").await), (200, ready), "{state:?}");
    }
    *daemon.engine.state.lock().expect("no panic inside") = EngineState::Loading;
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200, "the engine queues requests while the network loads");
    for state in [EngineState::Ready, EngineState::Unloaded] {
        *daemon.engine.state.lock().expect("no panic inside") = state;
        for (stalled, ready) in [(true, 503), (false, 200)] {
            daemon.engine.stalled.store(stalled, Ordering::SeqCst);
            assert_eq!((status("/livez").await, status("/readyz").await), (200, ready), "{state:?}, {stalled}");
        }
    }
    daemon.engine.alive.store(false, Ordering::SeqCst);
    assert_eq!(status("/livez").await, 503, "only a restart brings the device thread back");
}

#[tokio::test]
async fn a_missing_ffmpeg_is_reported_and_leaves_the_daemon_ready() {
    let daemon = Daemon::start().await;
    let ready = || daemon.page("/readyz").value();
    assert_eq!(ready().await, serde_json::json!({ "status": "ready", "video": "ready" }));
    daemon.inspector.missing.store(true, Ordering::SeqCst);
    let missing = ToolMissing("ffmpeg".into()).to_string();
    assert_eq!(ready().await, serde_json::json!({ "status": "ready", "video": missing }));
}

#[tokio::test]
async fn readiness_names_what_the_system_lacks_to_confine_ffmpeg() {
    let daemon = Daemon::start().await;
    *daemon.inspector.missing_confinement.lock().expect("no panic inside") = vec!["landlock", "a network namespace"];
    let ready = daemon.page("/readyz").value().await;
    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["video_sandbox"], "without landlock and a network namespace");
}

#[tokio::test]
async fn readiness_names_the_device_once_it_is_known() {
    let daemon = Daemon::start().await;
    let device = async || daemon.page("/readyz").value().await.get("device").cloned();
    assert_eq!(device().await, None, "the network was not loaded yet");
    for (state, name) in [
        (EngineState::Ready, "Some GPU (discrete)"),
        // It stays known while the network is unloaded.
        (EngineState::Unloaded, "Some GPU (discrete)"),
        (EngineState::Ready, "CPU, because Some GPU (discrete) failed"),
    ] {
        *daemon.engine.state.lock().expect("no panic inside") = state;
        name.clone_into(&mut daemon.engine.device.lock().expect("no panic inside"));
        assert_eq!(device().await, Some(name.into()), "{state:?}");
    }
}

#[tokio::test]
async fn metrics_count_requests_and_errors_by_route() {
    const NAMES: [&str; 4] = [
        r#"backdrop_requests_total{endpoint="/mask",code="200"}"#,
        r#"backdrop_requests_total{endpoint="/mask",code="400"}"#,
        r#"backdrop_errors_total{code="invalid_parameter"}"#,
        r#"backdrop_request_duration_seconds_count{endpoint="/mask"}"#,
    ];
    let daemon = Daemon::start().await;
    let metrics = async || {
        let get = daemon.page("/metrics");
        get.answer().await.text().await.expect("text")
    };
    // Those of all daemons of this process.
    let counts = |text: &str| {
        NAMES.map(|name| {
            let count = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            count.unwrap_or_default()
        })
    };
    let before = counts(&metrics().await);
    daemon.send("/mask", &[]).await;
    daemon.send("/mask", &[("edge", "fuzzy")]).await;
    let text = metrics().await;
    for ((name, before), after) in NAMES.iter().zip(before).zip(counts(&text)) {
        assert!(after > before, "{name}: {before}, then {after} in\n{text}");
    }
    assert!(!text.contains("/nowhere"));
}

#[tokio::test]
async fn admin_requests_are_served_on_the_admin_listener_only() {
    let daemon = Daemon::start().await;
    let post = |path: &str| daemon.client.post(format!("http://{}{path}", daemon.admin)).body("hello");
    let created = post("/keys").answer().await;
    assert_eq!(created.status(), 201);
    assert_eq!(created.json::<serde_json::Value>().await.expect("JSON")["body"], "hello");
    let refused =
        daemon.client.put(format!("http://{}/keys", daemon.admin)).refused(405, "method_not_allowed", None).await;
    assert_eq!(refused.headers["allow"], "POST");
    post("/nowhere").refused(404, "not_found", None).await;
    daemon.post("/keys").refused(404, "not_found", None).await;
    daemon.post("/metrics").refused(404, "not_found", None).await;
    let refused = post("/livez").refused(405, "method_not_allowed", None).await;
    assert_eq!(refused.headers["allow"], "GET, HEAD");
    let large = post("/keys").body(vec![0; 100_000]);
    large.refused(413, "payload_too_large", None).await;
}

#[tokio::test]
async fn a_foreign_host_name_that_resolves_to_the_admin_listener_is_refused() {
    let admin_hosts = vec!["metrics.example.org".to_owned()];
    let daemon = Daemon::start_with(HttpConfig { admin_hosts, ..HttpConfig::default() }, 60).await;
    let get = async |host: String| {
        let get = daemon.page("/metrics").header("host", host);
        get.answer().await
    };
    let port = daemon.admin.port();
    for own in ["localhost", "127.0.0.1", "[::1]", "metrics.example.org"] {
        assert_eq!(get(own.to_owned()).await.status(), 200, "{own}");
        assert_eq!(get(format!("{own}:{port}")).await.status(), 200, "{own}");
    }
    for foreign in ["example.org", "evil.example.org:9090", "127.0.0.1.example.org", "192.0.2.1", ""] {
        refusal(get(foreign.to_owned()).await).await.is(403, "forbidden", None);
    }
}
