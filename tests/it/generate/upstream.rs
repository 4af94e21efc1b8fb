//! Providers against a fake image API: requests, retries, deadlines, circuit breaking, caching and malformed responses.

use crate::generate::images_api::{ImagesApi, Reply, picture};
use crate::source::origin::{Answer, Origin};
use backdrop::generate::{
    AccountScope, GenerateConfig, GeneratedImage, ProviderError, ProviderSetupError, Providers, UpstreamConfig,
    UpstreamError,
};
use backdrop::image::Size;
use backdrop::recipe::{ModelId, PromptRequest};
use backdrop::source::FetchConfig;
use backdrop::store::Plan;
use backdrop::telemetry::{metrics, with_causes};
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FLARE: &str = "famA-image-2.5-flare";
const SECOND: &str = "famB-image-2e";
const SECRET: &str = "sk-very-secret";
const ACME: AccountScope<'_> = AccountScope { account: "acme", plan: Plan::Paid };
const SQUARE: Size = Size::new(300, 300);
const RED: [u8; 3] = [200, 20, 20];

fn upstream(api: &ImagesApi) -> UpstreamConfig {
    UpstreamConfig {
        base_url: api.base.clone(),
        model: "image-1".into(),
        api_key_env: Some("IMAGES_KEY".into()),
        timeout: Duration::from_secs(10),
        ..UpstreamConfig::default()
    }
}

fn config(models: impl IntoIterator<Item = (&'static str, UpstreamConfig)>) -> GenerateConfig {
    let models: BTreeMap<_, _> = models.into_iter().map(|(id, upstream)| (id.to_owned(), upstream)).collect();
    GenerateConfig { models, ..GenerateConfig::default() }
}

fn open(config: &GenerateConfig, folder: &Path) -> Providers {
    opened(config, &FetchConfig::default(), folder).expect("a good configuration")
}

fn opened(config: &GenerateConfig, fetch: &FetchConfig, folder: &Path) -> Result<Providers, ProviderSetupError> {
    Providers::open(config, fetch, folder, |name| (name == "IMAGES_KEY").then(|| SECRET.to_owned()))
}

/// One provider without a cache, and its server.
async fn single(replies: impl IntoIterator<Item = Reply>) -> (Providers, ImagesApi, TempDir) {
    let (api, folder) = (ImagesApi::start(replies).await, tempfile::tempdir().unwrap());
    let config = GenerateConfig { cache_megabytes: 0, ..config([(FLARE, upstream(&api))]) };
    (open(&config, folder.path()), api, folder)
}

fn request(prompt: &str, model: Option<&str>) -> PromptRequest {
    let model = model.map(|id| ModelId::named(id).expect("an id"));
    PromptRequest { prompt: prompt.to_owned(), model }
}

async fn generate(
    providers: &Providers,
    request: &PromptRequest,
    canvas: Size,
) -> Result<Option<GeneratedImage>, ProviderError> {
    providers.generate(request, canvas, ACME, Instant::now() + Duration::from_secs(20)).await
}

/// Generates with model [`FLARE`].
async fn flare(providers: &Providers, prompt: &str) -> Result<Bytes, ProviderError> {
    let made = generate(providers, &request(prompt, Some(FLARE)), SQUARE).await?;
    let GeneratedImage { model, bytes } = made.expect("a model was requested");
    assert_eq!(model.as_str(), FLARE);
    Ok(bytes)
}

/// Waits until the cache holds so many pictures: they are written after the reply.
async fn written(folder: &Path, pictures: usize) {
    let count = || {
        let entries = std::fs::read_dir(folder.join("backdrops")).expect("the cache");
        let paths = entries.map(|entry| entry.expect("a file").path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "picture")).count()
    };
    let end = Instant::now() + Duration::from_secs(20);
    while count() < pictures {
        assert!(Instant::now() < end, "{} of {pictures} pictures were written", count());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_request_follows_the_protocol_and_its_picture_is_returned_unchanged() {
    let drawn = picture(30, 20, RED);
    let (providers, api, folder) = single([Reply::Picture(drawn.clone())]).await;
    assert_eq!(flare(&providers, "a beach").await.expect("a picture"), drawn);
    let [received] = api.received().try_into().expect("one request");
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/v1/images/generations"));
    assert_eq!(received.authorization.as_deref(), Some("Bearer sk-very-secret"));
    assert_eq!(received.content_type.as_deref(), Some("application/json"));
    assert_eq!(received.body, json!({ "model": "image-1", "prompt": "a beach", "n": 1, "size": "1024x1024" }));

    let configured = UpstreamConfig {
        base_url: format!("{}/images/", api.base),
        api_key_env: None,
        quality: Some("high".into()),
        response_format: Some("url".into()),
        sizes: ["512x512", "768x512"].map(str::to_owned).to_vec(),
        ..upstream(&api)
    };
    let providers = open(&config([(FLARE, configured)]), folder.path());
    generate(&providers, &request("x", Some(FLARE)), Size::new(1600, 900)).await.expect("a picture");
    let received = api.received().remove(1);
    assert_eq!((received.path.as_str(), received.authorization), ("/images/v1/images/generations", None));
    let expected = json!({
        "model": "image-1", "prompt": "x", "n": 1, "size": "768x512", "quality": "high", "response_format": "url",
    });
    assert_eq!(received.body, expected);
}

#[tokio::test]
async fn a_picture_at_an_address_is_fetched_with_the_checks_of_a_client_url() {
    let drawn = picture(40, 40, RED);
    let origin =
        Origin::start([("/drawn.png", Answer::Bytes(drawn.clone())), ("/page", Answer::Bytes("<html>".into()))]);
    let at = |path: &str| Reply::Address(format!("https://{}{path}", origin.authority()));
    let (api, folder) = (ImagesApi::start([at("/drawn.png")]).await, tempfile::tempdir().unwrap());
    let config = GenerateConfig { cache_megabytes: 0, ..config([(FLARE, upstream(&api))]) };
    let trusting = opened(&config, &origin.config(), folder.path()).expect("a good configuration");
    assert_eq!(flare(&trusting, "a").await.expect("a picture"), drawn);
    for bad in [at("/page"), at("/nothing"), Reply::Address("http://example.org/x.png".into())] {
        api.set([bad]);
        let error = flare(&trusting, "b").await.expect_err("no picture").error;
        assert!(matches!(*error, UpstreamError::Fetch(_) | UpstreamError::Address(_)), "{error:?}");
    }
    api.set([at("/drawn.png")]);
    let wary = open(&config, folder.path());
    let error = flare(&wary, "c").await.expect_err("its address is not public").error;
    assert!(with_causes(&*error).contains("is not public"), "{error:?}");
}

#[tokio::test]
async fn transient_failures_are_retried_at_most_twice() {
    let drawn = picture(4, 4, RED);
    let busy = |status| Reply::Error(status, vec![], json!({ "error": { "message": "busy" } }));
    let (providers, api, _folder) = single([busy(500), Reply::Hangup, Reply::Picture(drawn.clone())]).await;
    assert_eq!(flare(&providers, "a").await.expect("at the third attempt"), drawn);
    assert_eq!(api.count(), 3);
    api.set([busy(503)]);
    let error = flare(&providers, "b").await.expect_err("it keeps failing").error;
    assert!(matches!(*error, UpstreamError::Status { status, .. } if status == 503), "{error:?}");
    assert_eq!(api.count(), 6);
    for status in [400, 401, 404, 418] {
        let before = api.count();
        api.set([busy(status)]);
        flare(&providers, "c").await.expect_err("refused");
        assert_eq!(api.count(), before + 1, "{status} is not retried");
        api.set([Reply::Picture(drawn.clone())]);
        flare(&providers, "d").await.expect("it works again");
    }
}

#[tokio::test]
async fn retry_after_is_respected_and_one_beyond_the_deadline_fails_at_once() {
    let drawn = picture(4, 4, RED);
    let later = |seconds: &str| {
        Reply::Error(
            429,
            vec![("retry-after", seconds.to_owned())],
            json!({ "error": { "code": "rate_limit_exceeded" } }),
        )
    };
    let (providers, api, _folder) = single([later("2"), Reply::Picture(drawn.clone())]).await;
    let began = Instant::now();
    assert_eq!(flare(&providers, "a").await.expect("a picture"), drawn);
    assert!(began.elapsed() >= Duration::from_secs(2));
    api.set([later("3600")]);
    let error = flare(&providers, "b").await.expect_err("an hour exceeds the deadline").error;
    assert!(matches!(*error, UpstreamError::Status { status, .. } if status == 429), "it was waited for: {error:?}");
    assert_eq!(api.count(), 3);
}

#[tokio::test]
async fn a_malformed_response_is_an_error_and_never_a_picture() {
    let wide = picture(4097, 1, RED);
    let whole = picture(64, 64, RED);
    let body = |text: &'static str| Reply::Body(200, Bytes::from_static(text.as_bytes()));
    for (name, reply) in [
        ("no JSON", body("<html>")),
        ("nothing", body("")),
        ("no data", body("{}")),
        ("an empty list", body(r#"{"data":[]}"#)),
        ("bad base64", body(r#"{"data":[{"b64_json":"!!"}]}"#)),
        ("a page", Reply::Picture(Bytes::from_static(b"<html>not a picture</html>"))),
        ("too many pixels", Reply::Picture(wide)),
        ("half a picture", Reply::Picture(whole.slice(..whole.len() / 2))),
        ("a body without end", Reply::Endless),
        ("a redirect", Reply::Error(307, vec![("location", "/elsewhere".to_owned())], json!({}))),
    ] {
        let (providers, api, _folder) = single([reply]).await;
        let error = flare(&providers, "a").await.expect_err(name).error;
        let expected = match name {
            "a page" | "too many pixels" | "half a picture" => matches!(*error, UpstreamError::Picture(_)),
            "a body without end" => matches!(*error, UpstreamError::TooLarge { .. }),
            "a redirect" => matches!(*error, UpstreamError::Status { status, .. } if status == 307),
            _ => matches!(*error, UpstreamError::Malformed(_)),
        };
        assert!(expected, "{name}: {error:?}");
        assert_eq!(api.count(), 1, "{name} is neither retried nor followed");
    }
}

#[tokio::test]
async fn a_silent_api_times_out_at_the_earlier_of_its_timeout_and_the_deadline() {
    let (api, folder) = (ImagesApi::start([Reply::Silence]).await, tempfile::tempdir().unwrap());
    let limit = Duration::from_millis(300);
    let slow = UpstreamConfig { timeout: limit, ..upstream(&api) };
    let providers = open(&config([(FLARE, slow)]), folder.path());
    let error = flare(&providers, "a").await.expect_err("silence").error;
    // Less what was done before the call.
    assert!(matches!(*error, UpstreamError::TimedOut(after) if after <= limit && after > limit / 3), "{error:?}");
    // The deadline of the request, where it is earlier.
    let (providers, ..) = single([Reply::Silence]).await;
    let deadline = Instant::now() + limit;
    let made = providers.generate(&request("a", Some(FLARE)), SQUARE, ACME, deadline).await;
    let error = made.expect_err("silence").error;
    assert!(matches!(*error, UpstreamError::TimedOut(after) if after <= limit), "{error:?}");
}

#[tokio::test]
async fn timeouts_of_calls_that_had_little_time_suspend_no_provider() {
    let (providers, api, _folder) = single([Reply::Silence]).await;
    for _ in 0..5 {
        let deadline = Instant::now() + Duration::from_millis(300);
        let made = providers.generate(&request("a", Some(FLARE)), SQUARE, ACME, deadline).await;
        let error = made.expect_err("silence").error;
        assert!(matches!(*error, UpstreamError::TimedOut(_)), "{error:?}");
    }
    let drawn = picture(4, 4, RED);
    api.set([Reply::Picture(drawn.clone())]);
    assert_eq!(flare(&providers, "a").await.expect("a picture"), drawn);
}

#[tokio::test]
async fn repeated_failures_suspend_one_provider_and_no_other() {
    let (bad, good) = (
        ImagesApi::start([Reply::Body(404, "no".into())]).await,
        ImagesApi::start([Reply::Picture(picture(2, 2, RED))]).await,
    );
    let folder = tempfile::tempdir().unwrap();
    let providers = open(&config([(FLARE, upstream(&bad)), (SECOND, upstream(&good))]), folder.path());
    for number in 0..5 {
        flare(&providers, &format!("prompt {number}")).await.expect_err("it fails");
    }
    let error = flare(&providers, "another").await.expect_err("it is suspended").error;
    assert!(matches!(*error, UpstreamError::CircuitOpen(_)), "{error:?}");
    assert_eq!(bad.count(), 5);
    let made = generate(&providers, &request("another", None), SQUARE)
        .await
        .expect("`auto` tries the next")
        .expect("the second");
    assert_eq!((made.model.as_str(), bad.count(), good.count()), (SECOND, 5, 1));
}

#[tokio::test]
async fn auto_uses_the_first_that_delivers_in_table_order_and_an_id_uses_no_other() {
    let red = picture(2, 2, RED);
    let (first, second) =
        (ImagesApi::start([Reply::Picture(red.clone())]).await, ImagesApi::start([Reply::Picture(red)]).await);
    let folder = tempfile::tempdir().unwrap();
    let both = config([(SECOND, upstream(&second)), (FLARE, upstream(&first))]);
    let providers = open(&GenerateConfig { cache_megabytes: 0, ..both }, folder.path());
    let auto = request("a", None);
    assert_eq!(generate(&providers, &auto, SQUARE).await.expect("one").expect("made").model.as_str(), FLARE);
    first.set([Reply::Body(400, "no".into())]);
    assert_eq!(generate(&providers, &auto, SQUARE).await.expect("one").expect("made").model.as_str(), SECOND);
    flare(&providers, "a").await.expect_err("no other provider stands in");
    second.set([Reply::Body(400, "no".into())]);
    assert_eq!(generate(&providers, &auto, SQUARE).await.expect("no failure"), None, "left to the built-in generator");
    let refusal = json!({ "error": { "code": "content_policy_violation", "message": "not that" } });
    first.set([Reply::Error(400, vec![], refusal)]);
    let before = second.count();
    let refused = generate(&providers, &auto, SQUARE).await.expect_err("a refused prompt is refused");
    assert!(matches!(*refused.error, UpstreamError::PromptRefused { .. }) && refused.model.as_str() == FLARE);
    assert_eq!(second.count(), before, "no other provider is tried");
}

#[tokio::test]
async fn a_model_is_restricted_to_its_accounts_and_plans() {
    let (api, folder) = (ImagesApi::start([Reply::Picture(picture(2, 2, RED))]).await, tempfile::tempdir().unwrap());
    let closed = UpstreamConfig { accounts: vec!["acme".into()], plans: vec![Plan::Plus], ..upstream(&api) };
    let providers = open(&config([(FLARE, closed)]), folder.path());
    let flare = ModelId::named(FLARE).expect("an id");
    let other = |plan| AccountScope { account: "other", plan };
    assert!(providers.offers(flare, ACME) && providers.offers(flare, other(Plan::Plus)));
    assert!(!providers.offers(flare, other(Plan::Paid)) && !providers.has_models_for(other(Plan::Paid)));
    assert!(!providers.offers(ModelId::named(SECOND).expect("an id"), ACME), "not configured");
    let deadline = Instant::now() + Duration::from_secs(5);
    let made = providers.generate(&request("a", None), SQUARE, other(Plan::Free), deadline).await;
    assert_eq!((made.expect("no failure"), api.count()), (None, 0));
    let unknown =
        generate(&providers, &request("a", Some(SECOND)), SQUARE).await.expect_err("no other provider stands in");
    assert!(matches!(*unknown.error, UpstreamError::NotOffered));
}

#[tokio::test]
async fn the_api_key_is_in_no_error_and_never_printed() {
    let (providers, _api, _folder) = single([Reply::Echo(401)]).await;
    let error = flare(&providers, "a").await.expect_err("a wrong key");
    let printed = format!("{error} {error:?} {} {providers:?}", with_causes(&error));
    assert!(printed.contains("no such key") && !printed.contains("very-secret"), "{printed}");
}

#[tokio::test]
async fn concurrent_requests_for_the_same_picture_share_one_call() {
    let drawn = picture(8, 8, RED);
    let slow = Reply::After(Duration::from_millis(300), Box::new(Reply::Picture(drawn.clone())));
    let (providers, api, _folder) = single([slow]).await;
    let same = futures_util::future::join_all((0..8).map(|_| flare(&providers, "a beach")));
    let (same, other) = tokio::join!(same, flare(&providers, "a meadow"));
    assert!(same.into_iter().all(|made| made.expect("a picture") == drawn));
    other.expect("a picture");
    assert_eq!(api.count(), 2);
}

#[tokio::test]
async fn a_request_shares_no_timeout_of_a_call_that_had_less_time() {
    let drawn = picture(8, 8, RED);
    let (providers, api, _folder) = single([Reply::Silence, Reply::Picture(drawn.clone())]).await;
    // Long enough for the API to receive the request on a loaded machine.
    let (limit, request) = (Duration::from_secs(2), request("a", Some(FLARE)));
    let short = providers.generate(&request, SQUARE, ACME, Instant::now() + limit);
    let (short, long) = tokio::join!(short, flare(&providers, "a"));
    let error = short.expect_err("silence").error;
    assert!(matches!(*error, UpstreamError::TimedOut(_)), "{error:?}");
    assert_eq!((long.expect("a picture"), api.count()), (drawn, 2));
    // The API's whole time limit has passed for both.
    let (api, folder) = (ImagesApi::start([Reply::Silence]).await, tempfile::tempdir().unwrap());
    let slow = UpstreamConfig { timeout: limit, ..upstream(&api) };
    let providers = open(&config([(FLARE, slow)]), folder.path());
    let (one, other) = tokio::join!(flare(&providers, "a"), flare(&providers, "a"));
    for error in [one, other].map(|made| made.expect_err("silence").error) {
        assert!(matches!(*error, UpstreamError::TimedOut(_)), "{error:?}");
    }
    assert_eq!(api.count(), 1);
}

#[tokio::test]
async fn pictures_are_cached_by_prompt_model_and_aspect_also_after_a_restart() {
    let (red, blue) = (picture(8, 8, RED), picture(8, 8, [0, 0, 200]));
    let (api, other) =
        (ImagesApi::start([Reply::Picture(red.clone())]).await, ImagesApi::start([Reply::Picture(blue.clone())]).await);
    let folder = tempfile::tempdir().unwrap();
    let both = config([(FLARE, upstream(&api)), (SECOND, upstream(&other))]);
    let providers = open(&both, folder.path());
    let made = async |providers: &Providers, prompt: &str, model: &str, canvas| {
        generate(providers, &request(prompt, Some(model)), canvas)
            .await
            .expect("a picture")
            .expect("of the model")
            .bytes
    };
    assert_eq!(made(&providers, "a", FLARE, SQUARE).await, red);
    assert_eq!(made(&providers, "a", FLARE, Size::new(1000, 990)).await, red);
    assert_eq!(api.count(), 1, "the same prompt, model and aspect");
    assert_eq!(made(&providers, "a", SECOND, SQUARE).await, blue, "never another model's picture");
    made(&providers, "b", FLARE, SQUARE).await;
    made(&providers, "a", FLARE, Size::new(1600, 900)).await;
    assert_eq!((api.count(), other.count()), (3, 1));
    written(folder.path(), 4).await;
    drop(providers);
    let restarted = open(&both, folder.path());
    assert_eq!(made(&restarted, "a", FLARE, SQUARE).await, red);
    assert_eq!(made(&restarted, "a", SECOND, SQUARE).await, blue);
    assert_eq!((api.count(), other.count()), (3, 1));
    // A reconfigured id does not reuse the old pictures.
    let exchanged = UpstreamConfig { model: "image-2".into(), ..upstream(&api) };
    made(&open(&config([(FLARE, exchanged)]), folder.path()), "a", FLARE, SQUARE).await;
    assert_eq!(api.count(), 4);
}

#[tokio::test]
async fn errors_about_a_request_do_not_suspend_its_provider() {
    let (providers, api, _folder) = single([Reply::Body(400, "no".into())]).await;
    for status in [400, 413, 422] {
        api.set([Reply::Body(status, "no".into())]);
        for number in 0..6 {
            let error = flare(&providers, &format!("prompt {number}")).await.expect_err("it fails").error;
            assert!(matches!(*error, UpstreamError::Status { status: found, .. } if found == status), "{error:?}");
        }
    }
    // Each also ends a row of other failures.
    for _ in 0..2 {
        for reply in [404, 404, 404, 404, 422] {
            api.set([Reply::Body(reply, "no".into())]);
            flare(&providers, "a").await.expect_err("it fails");
        }
    }
    api.set([Reply::Picture(picture(2, 2, RED))]);
    flare(&providers, "a").await.expect("it is not suspended");
}

#[tokio::test]
async fn cancelled_calls_are_counted_and_only_calls_with_a_request_have_a_duration() {
    // No other test calls this model, so that the process's counters are those of this test.
    const MODEL: &str = "famD-famE";
    let exporter = metrics::exporter();
    let value = |name: &str| {
        let text = exporter.render();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse::<u32>().expect("a count"))
    };
    let calls =
        |outcome: &str| value(&format!("backdrop_upstream_calls_total{{model=\"{MODEL}\",outcome=\"{outcome}\"}}"));
    let durations = || value(&format!("backdrop_upstream_duration_seconds_count{{model=\"{MODEL}\"}}"));

    let (api, folder) = (ImagesApi::start([Reply::Silence]).await, tempfile::tempdir().unwrap());
    let config = GenerateConfig { cache_megabytes: 0, ..config([(MODEL, upstream(&api))]) };
    let providers = open(&config, folder.path());
    let request = request("a", Some(MODEL));
    let cancelled = tokio::time::timeout(Duration::from_millis(100), generate(&providers, &request, SQUARE)).await;
    assert!(cancelled.is_err());
    assert_eq!((calls("cancelled"), durations()), (1, 1));
    let late = providers.generate(&request, SQUARE, ACME, Instant::now()).await;
    late.expect_err("there is no time left");
    assert_eq!((calls("timeout"), durations()), (1, 1), "no request was sent");
    api.set([Reply::Body(404, "no".into())]);
    for _ in 0..6 {
        generate(&providers, &request, SQUARE).await.expect_err("it fails");
    }
    assert_eq!((calls("status"), calls("left_alone"), durations()), (5, 1, 6), "nor where it is suspended");
}
