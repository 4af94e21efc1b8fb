//! The fetcher against an HTTPS origin: accepted and refused answers, addresses, limits and deadlines.

use crate::source::origin::{Answer, Origin};
use crate::support::child_process::{child_command, child_input, spawn};
use crate::support::command::{http_client, stderr, stdout};
use backdrop::codec::{DecodeError, Limits};
use backdrop::image::{SourceUrl, UrlError};
use backdrop::source::{FetchConfig, FetchConfigError, FetchError, Fetcher, Resolve};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Stops a test that hangs.
const LONG: Duration = Duration::from_secs(60);

/// A deadline that passes in the tests of it.
const SHORT: Duration = Duration::from_millis(400);

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A resolver whose answer depends on the number of earlier lookups and on the name.
struct FakeResolver<F>(F, AtomicUsize);

impl<F: Fn(usize, &str) -> Vec<IpAddr> + Send + Sync> FakeResolver<F> {
    fn new(answers: F) -> Arc<Self> {
        Arc::new(Self(answers, AtomicUsize::new(0)))
    }

    fn lookups(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }
}

impl<F: Fn(usize, &str) -> Vec<IpAddr> + Send + Sync> Resolve for FakeResolver<F> {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Ok((self.0)(self.1.fetch_add(1, Ordering::SeqCst), host)) })
    }
}

/// A fetcher for which every name is one of the loopback.
fn local_names(config: &FetchConfig) -> Fetcher {
    Fetcher::with_resolver(config, FakeResolver::new(|_, _| vec![LOOPBACK])).expect("plain settings")
}

/// `size` bytes that begin like a PNG file.
fn png(size: usize) -> Bytes {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.resize(size, 7);
    bytes.into()
}

fn url(text: &str) -> SourceUrl {
    SourceUrl::parse(text).expect("a URL")
}

/// Fetches `path` with the origin's settings.
async fn fetch(origin: &Origin, path: &str) -> Result<Bytes, FetchError> {
    Fetcher::new(&origin.config()).expect("its settings").fetch(&url(&origin.url(path))).await
}

/// Fetches this answer from a new origin.
async fn fetch_one(answer: Answer) -> Result<Bytes, FetchError> {
    let origin = Origin::start([("/a", answer)]);
    let fetched = fetch(&origin, "/a").await;
    origin.wait_until_idle().await;
    fetched
}

/// Fetches with a short deadline and expects it to pass.
async fn times_out(config: FetchConfig, resolver: Option<Arc<dyn Resolve>>, at: &str) {
    let config = FetchConfig { timeout: SHORT, ..config };
    let fetcher = match resolver {
        Some(resolver) => Fetcher::with_resolver(&config, resolver),
        None => Fetcher::new(&config),
    };
    let began = Instant::now();
    let (fetcher, target) = (fetcher.expect("plain settings"), url(at));
    let fetched = tokio::time::timeout(LONG, fetcher.fetch(&target)).await.expect("the deadline passes");
    assert!(matches!(fetched, Err(FetchError::TimedOut(SHORT))), "{at}: {fetched:?}");
    assert!(began.elapsed() >= SHORT, "{at}: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_picture_arrives_unchanged_in_every_transfer_coding() {
    for size in [1, 8, 511, 512, 513, 100_000] {
        let picture = png(size.max(16)).slice(..size);
        for answer in [Answer::Bytes, Answer::Chunked, Answer::UntilClose, Answer::Abrupt] {
            assert_eq!(fetch_one(answer(picture.clone())).await.expect("a picture"), picture);
        }
    }
}

#[tokio::test]
async fn the_request_has_no_headers_but_the_documented_ones() {
    let origin = Origin::start([("/a%20b/c.png?d=%7B&e", Answer::Bytes(png(64)))]);
    fetch(&origin, "/a b/./c.png?d=%7B&e#f").await.expect("a picture");
    let [received] = &origin.requests()[..] else { panic!("{:?}", origin.requests()) };
    let mut lines: Vec<_> = received.head.trim_end().split("\r\n").collect();
    lines[1..].sort_unstable();
    let (host, agent) = (format!("host: {}", origin.authority()), "user-agent: backdrop/0.1.0");
    let request = "GET /a%20b/c.png?d=%7B&e HTTP/1.1";
    let accept = "accept: image/jpeg, image/png, image/webp, image/heic, */*;q=0.1";
    assert_eq!(lines, [request, "accept-encoding: identity", accept, &host, agent]);
}

#[tokio::test]
async fn a_name_is_sent_as_host_and_verified_in_the_certificate() {
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let elsewhere = format!("other.test:{}", origin.port());
    let mut config = origin.config();
    config.private_origins.push(elsewhere.clone());
    let fetcher = local_names(&config);
    fetcher.fetch(&url(&origin.url_by_name("origin.test", ""))).await.expect("a picture");
    assert!(origin.requests()[0].head.contains(&format!("host: origin.test:{}\r\n", origin.port())));
    let fetched = fetcher.fetch(&url(&format!("https://{elsewhere}/"))).await;
    assert!(matches!(fetched, Err(FetchError::Tls(_))), "the name is not in its certificate: {fetched:?}");
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn the_systems_resolver_finds_localhost() {
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let fetcher = Fetcher::new(&origin.config()).expect("its settings");
    fetcher.fetch(&url(&origin.url_by_name("localhost", "/"))).await.expect("a picture");
}

#[tokio::test]
async fn a_loopback_origin_is_reached_only_if_listed() {
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let other = format!("127.0.0.1:{}", origin.port() ^ 1);
    let by_name = format!("origin.test:{}", origin.port());
    for listed in [vec![], vec![other], vec![by_name], vec!["127.0.0.2:443".to_owned()]] {
        let config = FetchConfig { private_origins: listed, ..origin.config() };
        let fetched = Fetcher::new(&config).expect("plain settings").fetch(&url(&origin.url("/"))).await;
        assert!(matches!(fetched, Err(FetchError::PrivateAddress(LOOPBACK))), "{config:?}: {fetched:?}");
    }
    assert_eq!(origin.connections(), 0);
    fetch(&origin, "/").await.expect("listed");
}

#[tokio::test]
async fn a_denied_address_is_not_connected_to_even_if_listed() {
    let origin = Origin::start([("/", Answer::Bytes(png(64))), ("/there", Answer::Redirect(302, "/".into()))]);
    for (deny, refused) in [("127.0.0.0/8", true), ("127.0.0.1", true), ("127.0.0.2", false), ("::1", false)] {
        let config = FetchConfig { deny: vec![deny.parse().expect("a range")], ..origin.config() };
        let fetcher = local_names(&config);
        for target in [origin.url("/there"), origin.url_by_name("origin.test", "/")] {
            let before = origin.connections();
            let fetched = fetcher.fetch(&url(&target)).await;
            let is_denied = matches!(fetched, Err(FetchError::DeniedAddress(LOOPBACK)));
            assert_eq!((is_denied, fetched.is_ok()), (refused, !refused), "{deny} {target}: {fetched:?}");
            assert_eq!(origin.connections() == before, refused, "{deny} {target}");
        }
        assert_eq!(fetcher.refuses(&url(&origin.url("/"))), refused);
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_only_if_configured() {
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let config = FetchConfig { extra_ca: None, ..origin.config() };
    let fetched = Fetcher::new(&config).expect("plain settings").fetch(&url(&origin.url("/"))).await;
    assert!(matches!(fetched, Err(FetchError::Tls(_))), "{fetched:?}");
    assert!(origin.requests().is_empty());
    fetch(&origin, "/").await.expect("configured");
}

#[test]
fn a_file_without_valid_authorities_is_refused_at_start_up() {
    let folder = tempfile::tempdir().expect("a writable temporary folder");
    let error_of = |name: &str, text: Option<&str>| {
        let path = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).expect("a writable temporary folder");
        }
        Fetcher::new(&FetchConfig { extra_ca: Some(path), ..FetchConfig::default() }).expect_err(name)
    };
    assert!(matches!(error_of("missing", None), FetchConfigError::Unreadable(..)));
    assert!(matches!(error_of("empty", Some("")), FetchConfigError::NoCertificate(_)));
    let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    assert!(matches!(error_of("cut", Some(cut)), FetchConfigError::NotPem(..)));
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(error_of("nonsense", Some(nonsense)), FetchConfigError::Tls(_)));
    let config = FetchConfig { timeout: Duration::ZERO, ..FetchConfig::default() };
    assert!(matches!(Fetcher::new(&config), Err(FetchConfigError::Invalid(_))));
}

#[tokio::test]
async fn a_name_is_resolved_once_so_that_dns_rebinding_has_no_effect() {
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let rebound = Ipv4Addr::new(127, 0, 0, 2);
    let rebound_listener = TcpListener::bind((rebound, origin.port())).expect("the other loopback address");
    rebound_listener.set_nonblocking(true).expect("a socket");
    let names = FakeResolver::new(move |nth, _| if nth == 0 { vec![LOOPBACK] } else { vec![rebound.into()] });
    let fetcher = Fetcher::with_resolver(&origin.config(), names.clone()).expect("its settings");
    let at = url(&origin.url_by_name("origin.test", "/"));
    fetcher.fetch(&at).await.expect("the address of the first answer");
    assert_eq!((names.lookups(), origin.connections()), (1, 1));
    assert!(rebound_listener.accept().is_err(), "the second answer was connected to");
    // With the second answer it is connected to.
    let config = FetchConfig { timeout: SHORT, ..origin.config() };
    let fetched = Fetcher::with_resolver(&config, names).expect("plain settings").fetch(&at).await;
    assert!(fetched.is_err() && rebound_listener.accept().is_ok(), "{fetched:?}");
}

#[tokio::test]
async fn a_name_with_one_private_address_is_refused() {
    let origin = Origin::start([]);
    let public: IpAddr = "8.8.8.8".parse().expect("an address");
    for answer in [vec![LOOPBACK], vec![public, LOOPBACK], vec![LOOPBACK, public], vec![public, public, LOOPBACK]] {
        let names = FakeResolver::new(move |_, _| answer.clone());
        let fetcher = Fetcher::with_resolver(&FetchConfig::default(), names).expect("plain settings");
        let fetched = fetcher.fetch(&url(&origin.url_by_name("rebind.test", "/"))).await;
        assert!(matches!(fetched, Err(FetchError::PrivateAddress(LOOPBACK))), "{fetched:?}");
    }
    assert_eq!(origin.connections(), 0);
}

#[tokio::test]
async fn names_without_addresses_and_invalid_names_are_refused() {
    let names = FakeResolver::new(|_, _| Vec::new());
    let fetcher = Fetcher::with_resolver(&FetchConfig::default(), names.clone()).expect("plain settings");
    assert!(matches!(fetcher.fetch(&url("https://nowhere.test/")).await, Err(FetchError::NoAddress)));
    let endless = format!("https://{}.test/", "a".repeat(64));
    for text in ["https://a!b.test/", "https://-.test/", &endless] {
        let fetched = fetcher.fetch(&url(text)).await;
        assert!(matches!(fetched, Err(FetchError::HostName)), "{text}: {fetched:?}");
    }
    assert_eq!(names.lookups(), 1);
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let names =
        FakeResolver::new(|_, _| ["::1", "127.0.0.3", "127.0.0.1"].map(|ip| ip.parse().expect("an address")).into());
    let fetcher = Fetcher::with_resolver(&origin.config(), names).expect("its settings");
    fetcher.fetch(&url(&origin.url_by_name("origin.test", "/"))).await.expect("the third accepts");

    let names = FakeResolver::new(|_, _| vec!["127.0.0.3".parse().expect("an address")]);
    let fetcher = Fetcher::with_resolver(&origin.config(), names).expect("its settings");
    let fetched = fetcher.fetch(&url(&origin.url_by_name("origin.test", "/"))).await;
    assert!(matches!(fetched, Err(FetchError::Connect(_))), "{fetched:?}");
}

#[tokio::test]
async fn one_redirect_is_followed() {
    let origin = Origin::start([("/dir/b", Answer::Bytes(png(64)))]);
    for (status, location) in [
        (301, "/dir/b".to_owned()),
        (302, "b".to_owned()),
        (303, origin.url("/dir/b")),
        (307, format!("//{}/dir/b#part", origin.authority())),
        (308, "./x/../b".to_owned()),
    ] {
        origin.set("/dir/a", Answer::Redirect(status, location));
        assert_eq!(fetch(&origin, "/dir/a").await.expect("a picture"), png(64), "{status}");
    }
    origin.wait_until_idle().await;
    assert_eq!(origin.connections(), 10);
}

#[tokio::test]
async fn a_second_redirect_is_refused() {
    let origin = Origin::start([
        ("/a", Answer::Redirect(302, "/b".to_owned())),
        ("/b", Answer::Redirect(302, "/c".to_owned())),
        ("/c", Answer::Bytes(png(64))),
        ("/loop", Answer::Redirect(301, "/loop".to_owned())),
    ]);
    for path in ["/a", "/loop"] {
        let fetched = fetch(&origin, path).await;
        assert!(matches!(fetched, Err(FetchError::RedirectedTwice)), "{fetched:?}");
    }
    assert!(origin.requests().iter().all(|request| request.path != "/c"));
}

#[tokio::test]
async fn a_redirect_to_a_forbidden_address_is_refused() {
    let origin = Origin::start([]);
    let private = Origin::start([("/", Answer::Bytes(png(64)))]);
    let cases = [
        (private.url("/"), "127.0.0.1"),
        (private.url_by_name("rebind.test", "/"), "127.0.0.1"),
        (private.url_by_name("0x7f.1", "/"), "127.0.0.1"),
        (private.url_by_name("[::ffff:7f00:1]", "/"), "::ffff:127.0.0.1"),
        ("https://169.254.169.254/latest/meta-data/".to_owned(), "169.254.169.254"),
        ("//10.0.0.1/".to_owned(), "10.0.0.1"),
        // The same host, another port than the one that is listed.
        (private.url_by_name("origin.test", "/"), "127.0.0.1"),
    ];
    let fetcher = local_names(&origin.config());
    let at = url(&origin.url_by_name("origin.test", "/a"));
    for (location, ip) in cases {
        origin.set("/a", Answer::Redirect(302, location.clone()));
        let fetched = fetcher.fetch(&at).await;
        let ip: IpAddr = ip.parse().expect("an address");
        assert!(matches!(fetched, Err(FetchError::PrivateAddress(found)) if found == ip), "{location}: {fetched:?}");
    }
    for (location, error) in [
        (private.url("/").replace("https:", "http:"), UrlError::NotHttps),
        ("file:///etc/passwd".to_owned(), UrlError::NotHttps),
        ("data:image/png;base64,iVBORw0KGgo=".to_owned(), UrlError::NotHttps),
        (private.url("/").replace("//", "//user:pass@"), UrlError::Credentials),
        ("https://[::1".to_owned(), UrlError::Malformed),
        ("/caf\u{fffd}".repeat(400), UrlError::TooLong),
    ] {
        origin.set("/a", Answer::Redirect(302, location.clone()));
        let fetched = fetcher.fetch(&at).await;
        assert!(matches!(fetched, Err(FetchError::Redirect(found)) if found == error), "{location}: {fetched:?}");
    }
    assert_eq!(private.connections(), 0);
}

#[tokio::test]
async fn statuses_other_than_200_are_refused() {
    for status in [201, 204, 206, 300, 304, 400, 401, 403, 404, 407, 418, 429, 500, 503] {
        let fetched = fetch_one(Answer::Status(status)).await;
        assert!(matches!(fetched, Err(FetchError::Status(found)) if found == status), "{status}: {fetched:?}");
    }
    let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let fetched = fetch_one(Answer::Raw(Bytes::from_static(upgrade))).await;
    assert!(matches!(fetched, Err(FetchError::Status(found)) if found == 101), "{fetched:?}");
    let aimless = Bytes::from_static(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n");
    let fetched = fetch_one(Answer::Raw(aimless)).await;
    assert!(matches!(fetched, Err(FetchError::Status(found)) if found == 302), "{fetched:?}");
}

#[tokio::test]
async fn encoded_bodies_are_refused() {
    for encoding in ["gzip", "br", "deflate", "zstd", "identity, gzip", "gzip\r\ncontent-encoding: identity"] {
        let fetched = fetch_one(Answer::Encoded(encoding, png(64))).await;
        assert!(matches!(fetched, Err(FetchError::Encoded(_))), "{encoding}: {fetched:?}");
    }
    for none in ["Identity", "", "aws-chunked", "aws-chunked, identity", "none", "utf-8", "binary"] {
        assert_eq!(fetch_one(Answer::Encoded(none, png(64))).await.expect(none), png(64));
    }
}

#[tokio::test]
async fn ten_mebibytes_are_accepted_and_one_byte_more_is_refused() {
    let limit = Limits::default().max_bytes;
    assert_eq!(limit, 10 << 20);
    for answer in [Answer::Bytes, Answer::Chunked, Answer::UntilClose] {
        assert_eq!(fetch_one(answer(png(limit))).await.expect("just small enough").len(), limit);
        let fetched = fetch_one(answer(png(limit + 1))).await;
        assert!(matches!(fetched, Err(FetchError::TooLarge { limit: stated }) if stated == limit), "{fetched:?}");
    }
}

#[tokio::test]
async fn an_announced_length_over_the_limit_is_refused_before_the_body() {
    for says in [Limits::default().max_bytes + 1, usize::MAX >> 1] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {says}\r\n\r\n");
        // Reading the body would fail with a broken connection.
        let fetched = fetch_one(Answer::Raw(head.into())).await;
        assert!(matches!(fetched, Err(FetchError::TooLarge { .. })), "{fetched:?}");
    }
}

#[tokio::test]
async fn an_endless_body_is_refused_at_the_limit() {
    let fetched = fetch_one(Answer::Endless(png(1000))).await;
    assert!(matches!(fetched, Err(FetchError::TooLarge { .. })), "{fetched:?}");
}

#[tokio::test]
async fn content_that_is_no_picture_is_refused_at_its_first_bytes() {
    let page = [b"<!doctype html>".as_slice(), &[b' '; 600]].concat();
    for (body, named) in [
        (page.clone(), Some("a web page")),
        (b"GIF89a".repeat(100), Some("GIF")),
        (b"%PDF-1.7".repeat(100), Some("PDF")),
        (b"{\"AccessKeyId\":".repeat(100), None),
    ] {
        // Read further, it would be too large instead.
        let fetched = fetch_one(Answer::Endless(body.into())).await;
        assert!(
            matches!(fetched, Err(FetchError::NotAPicture(DecodeError::Unsupported { found })) if found == named),
            "{fetched:?}"
        );
    }
    let fetched = fetch_one(Answer::WrongLength { announces: 5 << 20, sends: page.into() }).await;
    assert!(matches!(fetched, Err(FetchError::NotAPicture(_))), "{fetched:?}");
}

#[tokio::test]
async fn a_short_body_is_classified_at_its_end() {
    let fetched = fetch_one(Answer::Bytes(Bytes::new())).await;
    assert!(matches!(fetched, Err(FetchError::NotAPicture(DecodeError::Empty))), "{fetched:?}");
    let fetched = fetch_one(Answer::Chunked(Bytes::from_static(b"not found"))).await;
    assert!(matches!(fetched, Err(FetchError::NotAPicture(_))), "{fetched:?}");
}

#[tokio::test]
async fn folded_fields_spaces_before_colons_and_wrong_media_types_are_accepted() {
    for fields in ["content-length : 64\r\nx-note: one\r\n two", "content-type: text/html\r\ncontent-length: 64"] {
        let answer = [format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes(), &png(64)].concat();
        assert_eq!(fetch_one(Answer::Raw(answer.into())).await.expect(fields), png(64));
    }
}

#[tokio::test]
async fn malformed_responses_are_refused() {
    let two_lengths = "HTTP/1.1 200 OK\r\ncontent-length: 64\r\ncontent-length: 65\r\n\r\n";
    let cut_chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffff\r\n\u{1}";
    for (name, answer) in [
        ("a body shorter than its length", Answer::WrongLength { announces: 1000, sends: png(999) }),
        ("no answer", Answer::Hangup),
        ("another protocol", Answer::Raw("SSH-2.0-OpenSSH_9.6\r\n".into())),
        ("HTTP/0.9", Answer::Raw(png(64))),
        ("half a head", Answer::Raw("HTTP/1.1 200 OK\r\ncontent-le".into())),
        ("two lengths", Answer::Raw([two_lengths.as_bytes(), &png(64)].concat().into())),
        ("a cut chunk", Answer::Raw(cut_chunk.into())),
    ] {
        let fetched = fetch_one(answer).await;
        assert!(matches!(fetched, Err(FetchError::Http(_))), "{name}: {fetched:?}");
    }
    let longer = fetch_one(Answer::WrongLength { announces: 64, sends: png(100) }).await;
    assert_eq!(longer.expect("as long as announced"), png(64));
}

#[tokio::test]
async fn the_size_of_the_head_is_limited() {
    for (answer, taken) in [
        (Answer::LongField(20 << 10), true),
        (Answer::LongField(40 << 10), false),
        (Answer::LongField(20 << 20), false),
        (Answer::ManyFields(90), true),
        (Answer::ManyFields(110), false),
        (Answer::ManyFields(1_000_000), false),
    ] {
        let name = format!("{answer:?}");
        let fetched = fetch_one(answer).await;
        let as_expected = match &fetched {
            Err(FetchError::NotAPicture(DecodeError::Empty)) => taken,
            Err(FetchError::Http(error)) => !taken && error.is_parse_too_large(),
            Ok(_) | Err(_) => false,
        };
        assert!(as_expected, "{name}: {fetched:?}");
    }
}

#[tokio::test]
async fn one_deadline_covers_head_and_body() {
    let origin = Origin::start([
        ("/silence", Answer::Silence),
        ("/drip", Answer::Drip(png(100_000), Duration::from_millis(10))),
        ("/slow", Answer::After(LONG * 2, Box::new(Answer::Bytes(png(64))))),
    ]);
    for path in ["/silence", "/drip", "/slow"] {
        times_out(origin.config(), None, &origin.url(path)).await;
    }
    origin.wait_until_idle().await;
}

#[tokio::test]
async fn the_deadline_covers_the_redirect_too() {
    let (delay, after) = (SHORT * 3 / 4, |answer| Answer::After(SHORT * 3 / 4, Box::new(answer)));
    let origin =
        Origin::start([("/a", after(Answer::Redirect(302, "/b".to_owned()))), ("/b", after(Answer::Bytes(png(64))))]);
    times_out(origin.config(), None, &origin.url("/a")).await;
    let config = FetchConfig { timeout: LONG, ..origin.config() };
    let began = Instant::now();
    Fetcher::new(&config).expect("plain settings").fetch(&url(&origin.url("/a"))).await.expect("with more time");
    assert!(began.elapsed() >= delay * 2);
}

/// A resolver that never answers.
struct SilentResolver;

impl Resolve for SilentResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn the_deadline_covers_resolution_and_handshake() {
    times_out(FetchConfig::default(), Some(Arc::new(SilentResolver)), "https://silent.test/").await;

    // The kernel accepts the connection, and no server answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let authority = silent.local_addr().expect("it is bound").to_string();
    let config = FetchConfig { private_origins: vec![authority.clone()], ..FetchConfig::default() };
    times_out(config, None, &format!("https://{authority}/")).await;
}

#[tokio::test]
async fn dropping_a_fetch_closes_its_connection() {
    let origin = Origin::start([
        ("/silence", Answer::Silence),
        ("/drip", Answer::Drip(png(100_000), Duration::from_millis(1))),
        ("/endless", Answer::Endless(png(1000))),
    ]);
    for path in ["/silence", "/drip", "/endless"] {
        tokio::select! {
            fetched = fetch(&origin, path) => assert!(path == "/endless", "{fetched:?}"),
            () = origin.wait_for(path) => {}
        }
        origin.wait_until_idle().await;
    }
}

#[tokio::test]
async fn a_fetch_leaves_no_task_and_no_connection() {
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let fetcher = Fetcher::new(&origin.config()).expect("its settings");
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for nth in 1..=3 {
        fetcher.fetch(&url(&origin.url("/"))).await.expect("a picture");
        assert_eq!(tasks(), before);
        origin.wait_until_idle().await;
        assert_eq!(origin.connections(), nth);
    }
}

/// Environment variables that name a proxy.
const PROXY_VARIABLES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

#[test]
fn proxies_of_the_environment_are_ignored() {
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = proxy.local_addr().expect("it is bound").to_string();
    let served = std::thread::spawn(move || {
        // One connection, of the client that uses the proxy; a second would fail.
        let (mut stream, _) = proxy.accept().expect("a connection");
        let mut head = [0; 1024];
        let read = stream.read(&mut head).expect("a request");
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 7\r\n\r\nproxied").expect("open");
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let mut child = child_command(concat!(module_path!(), "::fetch_with_proxy_variables"));
    child
        .envs(PROXY_VARIABLES.map(|name| (name, format!("http://{address}"))))
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    let output = spawn(&mut child, "go").wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let seen = served.join().expect("no panic");
    assert!(seen.starts_with("GET http://origin.test/ "), "only the client that uses the proxy: {seen}");
}

#[tokio::test]
#[ignore = "run by proxies_of_the_environment_are_ignored"]
async fn fetch_with_proxy_variables() {
    child_input();
    let origin = Origin::start([("/", Answer::Bytes(png(64)))]);
    let fetcher = local_names(&origin.config());
    fetcher.fetch(&url(&origin.url_by_name("origin.test", "/"))).await.expect("a picture, straight from the origin");
    fetcher.fetch(&url(&origin.url("/"))).await.expect("by address too");
    // A client that uses the proxy reaches it: the environment is set as intended.
    let proxied =
        http_client().build().expect("a client").get("http://origin.test/").send().await.expect("the proxy answers");
    assert_eq!(proxied.text().await.expect("a body"), "proxied");
}

/// Fetches `path` as a clip of at most `limit` bytes; the outcome and the received bytes.
async fn fetch_clip(origin: &Origin, path: &str, limit: usize) -> (Result<(), FetchError>, Vec<u8>) {
    let fetcher = Fetcher::new(&origin.config()).expect("its settings");
    let (pieces, mut coming) = mpsc::channel::<Bytes>(2);
    let taken = async {
        let mut taken = Vec::new();
        while let Some(piece) = coming.recv().await {
            taken.extend_from_slice(&piece);
        }
        taken
    };
    let url = url(&origin.url(path));
    let fetched = async {
        let pieces = pieces;
        fetcher.fetch_clip(&url, limit, &pieces).await
    };
    tokio::join!(fetched, taken)
}

#[tokio::test]
async fn a_clip_arrives_in_pieces_within_its_limit() {
    const SIZE: usize = 300_000;
    let clip: Bytes = (0..SIZE).map(|at| (at % 251) as u8).collect::<Vec<_>>().into();
    let origin = Origin::start([
        ("/clip", Answer::Bytes(clip.clone())),
        ("/chunked", Answer::Chunked(clip.clone())),
        ("/close", Answer::UntilClose(clip.clone())),
        ("/endless", Answer::Endless(clip.clone())),
        ("/short", Answer::WrongLength { announces: SIZE + 1, sends: clip.clone() }),
        ("/encoded", Answer::Encoded("gzip", clip.clone())),
        ("/missing", Answer::Status(404)),
        ("/there", Answer::Redirect(302, "/clip".into())),
        ("/twice", Answer::Redirect(302, "/there".into())),
    ]);
    for path in ["/clip", "/chunked", "/close", "/there"] {
        let (fetched, came) = fetch_clip(&origin, path, SIZE).await;
        assert!(fetched.is_ok() && came == clip, "{path}: {fetched:?}");
    }
    for path in ["/clip", "/chunked", "/close", "/endless"] {
        let (fetched, came) = fetch_clip(&origin, path, SIZE - 1).await;
        assert!(matches!(fetched, Err(FetchError::TooLarge { limit }) if limit == SIZE - 1), "{path}: {fetched:?}");
        assert!(came.len() < SIZE, "{path}");
    }
    assert_eq!(fetch_clip(&origin, "/clip", SIZE - 1).await.1.len(), 0, "its announced length is refused");
    assert!(matches!(fetch_clip(&origin, "/short", SIZE + 9).await.0, Err(FetchError::Http(_))));
    assert!(matches!(fetch_clip(&origin, "/encoded", SIZE).await.0, Err(FetchError::Encoded(_))));
    assert!(matches!(fetch_clip(&origin, "/missing", SIZE).await.0, Err(FetchError::Status(_))));
    assert!(matches!(fetch_clip(&origin, "/twice", SIZE).await.0, Err(FetchError::RedirectedTwice)));
}

#[tokio::test]
async fn a_closed_receiver_ends_the_fetch_of_a_clip() {
    let origin = Origin::start([("/endless", Answer::Endless(Bytes::from_static(b"clip")))]);
    let fetcher = Fetcher::new(&origin.config()).expect("its settings");
    let (pieces, coming) = mpsc::channel(1);
    drop(coming);
    let fetched = fetcher.fetch_clip(&url(&origin.url("/endless")), usize::MAX, &pieces).await;
    assert!(matches!(fetched, Err(FetchError::ReceiverClosed)), "{fetched:?}");
    origin.wait_until_idle().await;
}

#[tokio::test]
async fn a_message_is_posted_unchanged_and_only_the_status_is_read() {
    let origin = Origin::start([
        ("/hook?a=b", Answer::Status(204)),
        ("/moved", Answer::Redirect(307, "/hook?a=b".into())),
        ("/broken", Answer::Status(500)),
        ("/silent", Answer::Silence),
    ]);
    let fetcher = Fetcher::new(&origin.config()).expect("its settings");
    let post = async |path: &str, limit| {
        let headers = hyper::HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let posted = fetcher.post(&url(&origin.url(path)), headers, Bytes::from_static(b"{}"), limit).await;
        posted.map(|status| status.as_u16())
    };
    assert_eq!(post("/hook?a=b", LONG).await.expect("an answer"), 204);
    let requests = origin.requests();
    assert!(requests[0].head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{}", requests[0].head);
    assert!(requests[0].head.contains("content-type: application/json\r\n") && requests[0].body == b"{}");
    assert_eq!(post("/moved", LONG).await.expect("an answer"), 307);
    assert_eq!(post("/broken", LONG).await.expect("an answer"), 500);
    assert_eq!(origin.requests().len(), 3, "a redirect was followed");
    assert!(matches!(post("/silent", SHORT).await, Err(FetchError::TimedOut(_))));
}

#[tokio::test]
async fn clips_and_messages_to_private_addresses_are_refused() {
    let origin = Origin::start([("/", Answer::Bytes(png(9)))]);
    let config = FetchConfig { private_origins: Vec::new(), ..origin.config() };
    let fetcher = local_names(&config);
    for target in [origin.url("/"), origin.url_by_name("origin.test", "/")] {
        let (pieces, _coming) = mpsc::channel(1);
        let fetched = fetcher.fetch_clip(&url(&target), 9, &pieces).await;
        assert!(matches!(fetched, Err(FetchError::PrivateAddress(LOOPBACK))), "{fetched:?}");
        let posted = fetcher.post(&url(&target), hyper::HeaderMap::new(), Bytes::new(), LONG).await;
        assert!(matches!(posted, Err(FetchError::PrivateAddress(LOOPBACK))), "{posted:?}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn private_addresses_are_refused_without_resolution_and_names_are_not() {
    let listed = FetchConfig { private_origins: vec!["10.0.0.1:8443".into()], ..FetchConfig::default() };
    let fetcher = Fetcher::new(&listed).expect("good settings");
    let private = ["https://10.0.0.1/", "https://127.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://0/"];
    for text in private {
        assert!(fetcher.refuses(&url(text)), "{text}");
    }
    for text in ["https://10.0.0.1:8443/", "https://1.1.1.1/", "https://localhost/", "https://[2606:4700::1]/"] {
        assert!(!fetcher.refuses(&url(text)), "{text}");
    }
}
