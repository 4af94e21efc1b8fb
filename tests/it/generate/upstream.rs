//! Image APIs behind the models of `/replace-bg-ai`: what is asked of them, and what becomes of every answer.

use crate::generate::images_api::{ImagesApi, Reply, picture};
use crate::source::origin::{Answer, Origin};
use backdrop::generate::{GenerateConfig, Made, NotMade, Patron, Studio, StudioError, UpstreamConfig, UpstreamError};
use backdrop::image::Size;
use backdrop::recipe::{ModelId, PromptRequest};
use backdrop::source::FetchConfig;
use backdrop::store::Plan;
use backdrop::telemetry::with_causes;
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FLARE: &str = "famA-image-2.5-flare";
const SECOND: &str = "famB-image-2e";
const SECRET: &str = "sk-very-secret";
const ACME: Patron<'_> = Patron { account: "acme", plan: Plan::Paid };
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

fn open(config: &GenerateConfig, folder: &Path) -> Studio {
    opened(config, &FetchConfig::default(), folder).expect("a good configuration")
}

fn opened(config: &GenerateConfig, fetch: &FetchConfig, folder: &Path) -> Result<Studio, StudioError> {
    Studio::open(config, fetch, folder, |name| (name == "IMAGES_KEY").then(|| SECRET.to_owned()))
}

/// A studio with one model, without a cache, and the server behind it.
async fn alone(replies: impl IntoIterator<Item = Reply>) -> (Studio, ImagesApi, TempDir) {
    let (api, folder) = (ImagesApi::start(replies).await, tempfile::tempdir().unwrap());
    let config = GenerateConfig { cache_megabytes: 0, ..config([(FLARE, upstream(&api))]) };
    (open(&config, folder.path()), api, folder)
}

fn wish(prompt: &str, model: Option<&str>) -> PromptRequest {
    let model = model.map(|id| ModelId::named(id).expect("an id"));
    PromptRequest { prompt: prompt.to_owned(), model }
}

async fn ask(studio: &Studio, wish: &PromptRequest, canvas: Size) -> Result<Option<Made>, NotMade> {
    studio.backdrop(wish, canvas, ACME, Instant::now() + Duration::from_secs(20)).await
}

/// The picture of the one model.
async fn flare(studio: &Studio, prompt: &str) -> Result<Bytes, NotMade> {
    let made = ask(studio, &wish(prompt, Some(FLARE)), SQUARE).await?;
    let Made { model, picture } = made.expect("a model was named");
    assert_eq!(model.as_str(), FLARE);
    Ok(picture)
}

#[tokio::test]
async fn an_order_is_what_the_protocol_says_and_its_picture_comes_back_as_it_is() {
    let drawn = picture(30, 20, RED);
    let (studio, api, _folder) = alone([Reply::Picture(drawn.clone())]).await;
    assert_eq!(flare(&studio, "a beach").await.expect("a picture"), drawn);
    let [asked] = api.asked().try_into().expect("one order");
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/images/generations"));
    assert_eq!(asked.authorization.as_deref(), Some("Bearer sk-very-secret"));
    assert_eq!(asked.content_type.as_deref(), Some("application/json"));
    assert_eq!(asked.order, json!({ "model": "image-1", "prompt": "a beach", "n": 1, "size": "1024x1024" }));
}

#[tokio::test]
async fn what_the_configuration_says_is_sent_and_the_nearest_aspect_is_asked_for() {
    let (api, folder) = (ImagesApi::start([Reply::Picture(picture(3, 2, RED))]).await, tempfile::tempdir().unwrap());
    let upstream = UpstreamConfig {
        base_url: format!("{}/images/", api.base),
        api_key_env: None,
        quality: Some("high".into()),
        response_format: Some("b64_json".into()),
        sizes: ["512x512", "768x512"].map(str::to_owned).to_vec(),
        ..upstream(&api)
    };
    let studio = open(&config([(FLARE, upstream)]), folder.path());
    ask(&studio, &wish("x", None), Size::new(1600, 900)).await.expect("it answers").expect("by the model");
    let [asked] = api.asked().try_into().expect("one order");
    assert_eq!((asked.path.as_str(), asked.authorization), ("/images/v1/images/generations", None));
    let expected = json!({
        "model": "image-1", "prompt": "x", "n": 1, "size": "768x512", "quality": "high", "response_format": "b64_json",
    });
    assert_eq!(asked.order, expected);
}

#[tokio::test]
async fn a_picture_at_an_address_is_fetched_as_a_callers_would_be() {
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
async fn what_may_be_over_in_a_moment_is_tried_again_at_most_twice() {
    let drawn = picture(4, 4, RED);
    let busy = |status| Reply::Error(status, vec![], json!({ "error": { "message": "busy" } }));
    let (studio, api, _folder) = alone([busy(500), Reply::Hangup, Reply::Picture(drawn.clone())]).await;
    assert_eq!(flare(&studio, "a").await.expect("at the third try"), drawn);
    assert_eq!(api.count(), 3);
    api.set([busy(503)]);
    let error = flare(&studio, "b").await.expect_err("it stays so").error;
    assert!(matches!(*error, UpstreamError::Status { status, .. } if status == 503), "{error:?}");
    assert_eq!(api.count(), 6);
    for status in [400, 401, 404, 418] {
        let before = api.count();
        api.set([busy(status)]);
        flare(&studio, "c").await.expect_err("refused");
        assert_eq!(api.count(), before + 1, "{status} is not tried again");
        api.set([Reply::Picture(drawn.clone())]);
        flare(&studio, "d").await.expect("it works again");
    }
}

#[tokio::test]
async fn the_wait_that_is_asked_for_is_kept_and_one_beyond_the_time_ends_it() {
    let drawn = picture(4, 4, RED);
    let later = |seconds: &str| {
        Reply::Error(
            429,
            vec![("retry-after", seconds.to_owned())],
            json!({ "error": { "code": "rate_limit_exceeded" } }),
        )
    };
    let (studio, api, _folder) = alone([later("2"), Reply::Picture(drawn.clone())]).await;
    let began = Instant::now();
    assert_eq!(flare(&studio, "a").await.expect("a picture"), drawn);
    assert!(began.elapsed() >= Duration::from_secs(2));
    api.set([later("3600")]);
    let began = Instant::now();
    flare(&studio, "b").await.expect_err("an hour is too long");
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(api.count(), 3);
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_and_never_a_picture() {
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
        let (studio, api, _folder) = alone([reply]).await;
        let error = flare(&studio, "a").await.expect_err(name).error;
        let expected = match name {
            "a page" | "too many pixels" | "half a picture" => matches!(*error, UpstreamError::Picture(_)),
            "a body without end" => matches!(*error, UpstreamError::TooLarge { .. }),
            "a redirect" => matches!(*error, UpstreamError::Status { status, .. } if status == 307),
            _ => matches!(*error, UpstreamError::Malformed(_)),
        };
        assert!(expected, "{name}: {error:?}");
        assert_eq!(api.count(), 1, "{name} is neither tried again nor followed");
    }
}

#[tokio::test]
async fn one_that_does_not_answer_is_given_up_in_time() {
    let (api, folder) = (ImagesApi::start([Reply::Silence]).await, tempfile::tempdir().unwrap());
    let slow = UpstreamConfig { timeout: Duration::from_millis(300), ..upstream(&api) };
    let studio = open(&config([(FLARE, slow)]), folder.path());
    let began = Instant::now();
    let error = flare(&studio, "a").await.expect_err("silence").error;
    assert!(matches!(*error, UpstreamError::TimedOut(_)), "{error:?}");
    let soon = began + Duration::from_secs(2);
    assert!(Instant::now() < soon);
    // The request's own deadline, where it is earlier.
    let (studio, ..) = alone([Reply::Silence]).await;
    let deadline = Instant::now() + Duration::from_millis(200);
    let made = studio.backdrop(&wish("a", Some(FLARE)), SQUARE, ACME, deadline).await;
    assert!(made.is_err() && Instant::now() < deadline + Duration::from_secs(2));
}

#[tokio::test]
async fn one_that_fails_again_and_again_is_left_alone_and_the_others_are_not() {
    let (bad, good) = (
        ImagesApi::start([Reply::Body(404, "no".into())]).await,
        ImagesApi::start([Reply::Picture(picture(2, 2, RED))]).await,
    );
    let folder = tempfile::tempdir().unwrap();
    let studio = open(&config([(FLARE, upstream(&bad)), (SECOND, upstream(&good))]), folder.path());
    for number in 0..5 {
        flare(&studio, &format!("prompt {number}")).await.expect_err("it fails");
    }
    let error = flare(&studio, "another").await.expect_err("it is left alone").error;
    assert!(matches!(*error, UpstreamError::LeftAlone(_)), "{error:?}");
    assert_eq!(bad.count(), 5);
    let made = ask(&studio, &wish("another", None), SQUARE).await.expect("auto moves on").expect("to the second");
    assert_eq!((made.model.as_str(), bad.count(), good.count()), (SECOND, 5, 1));
}

#[tokio::test]
async fn auto_takes_the_first_that_delivers_in_the_order_of_the_table_and_an_id_never_another() {
    let red = picture(2, 2, RED);
    let (first, second) =
        (ImagesApi::start([Reply::Picture(red.clone())]).await, ImagesApi::start([Reply::Picture(red)]).await);
    let folder = tempfile::tempdir().unwrap();
    let both = config([(SECOND, upstream(&second)), (FLARE, upstream(&first))]);
    let studio = open(&GenerateConfig { cache_megabytes: 0, ..both }, folder.path());
    let auto = wish("a", None);
    assert_eq!(ask(&studio, &auto, SQUARE).await.expect("one").expect("made").model.as_str(), FLARE);
    first.set([Reply::Body(400, "no".into())]);
    assert_eq!(ask(&studio, &auto, SQUARE).await.expect("one").expect("made").model.as_str(), SECOND);
    flare(&studio, "a").await.expect_err("an id is that model");
    second.set([Reply::Body(400, "no".into())]);
    assert_eq!(ask(&studio, &auto, SQUARE).await.expect("no failure"), None, "the built-in generator is left");
    let refusal = json!({ "error": { "code": "content_policy_violation", "message": "not that" } });
    first.set([Reply::Error(400, vec![], refusal)]);
    let before = second.count();
    let refused = ask(&studio, &auto, SQUARE).await.expect_err("a refused prompt is refused");
    assert!(matches!(*refused.error, UpstreamError::PromptRefused { .. }) && refused.model.as_str() == FLARE);
    assert_eq!(second.count(), before, "nobody else is asked to draw it");
}

#[tokio::test]
async fn a_model_is_open_to_its_accounts_and_plans_alone() {
    let (api, folder) = (ImagesApi::start([Reply::Picture(picture(2, 2, RED))]).await, tempfile::tempdir().unwrap());
    let closed = UpstreamConfig { accounts: vec!["acme".into()], plans: vec![Plan::Plus], ..upstream(&api) };
    let studio = open(&config([(FLARE, closed)]), folder.path());
    let flare = ModelId::named(FLARE).expect("an id");
    let other = |plan| Patron { account: "other", plan };
    assert!(studio.offers(flare, ACME) && studio.offers(flare, other(Plan::Plus)));
    assert!(!studio.offers(flare, other(Plan::Paid)) && !studio.has_models_for(other(Plan::Paid)));
    assert!(!studio.offers(ModelId::named(SECOND).expect("an id"), ACME), "it is not set up");
    let deadline = Instant::now() + Duration::from_secs(5);
    let made = studio.backdrop(&wish("a", None), SQUARE, other(Plan::Free), deadline).await;
    assert_eq!((made.expect("no failure"), api.count()), (None, 0));
    let unknown = ask(&studio, &wish("a", Some(SECOND)), SQUARE).await.expect_err("an id is never another's");
    assert!(matches!(*unknown.error, UpstreamError::NotOffered));
}

#[tokio::test]
async fn the_key_is_in_no_error_and_printed_nowhere() {
    let (studio, _api, folder) = alone([Reply::Echo(401)]).await;
    let error = flare(&studio, "a").await.expect_err("a wrong key");
    let told = format!("{error} {error:?} {} {studio:?}", with_causes(&error));
    assert!(told.contains("no such key") && !told.contains("very-secret"), "{told}");
    let api = ImagesApi::start([Reply::Silence]).await;
    let nameless = UpstreamConfig { api_key_env: Some("OTHER_KEY".into()), ..upstream(&api) };
    let error = opened(&config([(FLARE, nameless)]), &FetchConfig::default(), folder.path()).expect_err("no key");
    assert!(matches!(&error, StudioError::NoKey { variable, .. } if variable == "OTHER_KEY"), "{error}");
    let mistaken = config([("famZ", upstream(&api))]);
    assert!(opened(&mistaken, &FetchConfig::default(), folder.path()).is_err());
}

#[tokio::test]
async fn what_is_asked_for_at_once_is_drawn_once() {
    let drawn = picture(8, 8, RED);
    let slow = Reply::After(Duration::from_millis(300), Box::new(Reply::Picture(drawn.clone())));
    let (studio, api, _folder) = alone([slow]).await;
    let same = futures_util::future::join_all((0..8).map(|_| flare(&studio, "a beach")));
    let (same, other) = tokio::join!(same, flare(&studio, "a meadow"));
    assert!(same.into_iter().all(|made| made.expect("a picture") == drawn));
    other.expect("a picture");
    assert_eq!(api.count(), 2);
    // Without a cache the next one is drawn again; one who leaves takes nobody with him.
    let (first, second) = (wish("left", Some(FLARE)), wish("left", Some(FLARE)));
    let leaving = tokio::time::timeout(Duration::from_millis(50), ask(&studio, &first, SQUARE));
    let (left, stayed) = tokio::join!(leaving, ask(&studio, &second, SQUARE));
    assert!(left.is_err() && stayed.expect("a picture").is_some());
}

#[tokio::test]
async fn a_picture_is_kept_by_prompt_model_and_aspect_also_over_a_restart() {
    let (red, blue) = (picture(8, 8, RED), picture(8, 8, [0, 0, 200]));
    let (api, other) =
        (ImagesApi::start([Reply::Picture(red.clone())]).await, ImagesApi::start([Reply::Picture(blue.clone())]).await);
    let folder = tempfile::tempdir().unwrap();
    let both = config([(FLARE, upstream(&api)), (SECOND, upstream(&other))]);
    let studio = open(&both, folder.path());
    let made = async |studio: &Studio, prompt: &str, model: &str, canvas| {
        ask(studio, &wish(prompt, Some(model)), canvas).await.expect("a picture").expect("made").picture
    };
    assert_eq!(made(&studio, "a", FLARE, SQUARE).await, red);
    assert_eq!(made(&studio, "a", FLARE, Size::new(1000, 990)).await, red);
    assert_eq!(api.count(), 1, "the same prompt, model and aspect");
    assert_eq!(made(&studio, "a", SECOND, SQUARE).await, blue, "never another model's");
    made(&studio, "b", FLARE, SQUARE).await;
    made(&studio, "a", FLARE, Size::new(1600, 900)).await;
    assert_eq!((api.count(), other.count()), (3, 1));
    drop(studio);
    let restarted = open(&both, folder.path());
    assert_eq!(made(&restarted, "a", FLARE, SQUARE).await, red);
    assert_eq!(made(&restarted, "a", SECOND, SQUARE).await, blue);
    assert_eq!((api.count(), other.count()), (3, 1));
    // Another model behind the same id is another model.
    let exchanged = UpstreamConfig { model: "image-2".into(), ..upstream(&api) };
    made(&open(&config([(FLARE, exchanged)]), folder.path()), "a", FLARE, SQUARE).await;
    assert_eq!(api.count(), 4);
    for entry in std::fs::read_dir(folder.path().join("backdrops")).expect("the cache") {
        std::fs::write(entry.expect("a file").path(), b"damaged").expect("writable");
    }
    assert_eq!(made(&open(&both, folder.path()), "a", FLARE, SQUARE).await, red);
    assert_eq!(api.count(), 5, "what is damaged is drawn anew");
}
