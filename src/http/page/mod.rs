//! The page at `/`, on which people try the service in a browser, and its files under `/assets`: HTML, CSS, ES modules and
//! pictures, embedded in the binary.
//!
//! The page loads nothing from elsewhere and has no inline script or style, which its content policy (CSP, level 3)
//! enforces. Its controls are made in the browser from `/openapi.json`; `/assets/daemon.json` has the settings of this daemon.
//! `server.page` turns it off; the files that `/docs` needs stay.

use crate::codec::Limits;
use crate::http::reply::{self, ApiError, Reply, Result};
use bytes::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY,
};
use hyper::{Method, StatusCode};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::LazyLock;

/// Path of the page's files.
const ASSETS: &str = "/assets/";

/// The content policy: only files of this server; pictures and clips also from the page's own memory (`blob:`).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// One file.
#[derive(Debug)]
pub(super) struct File {
    name: &'static str,
    media_type: &'static str,
    bytes: Bytes,
    /// Whether `/docs` uses it.
    of_docs: bool,
    etag: HeaderValue,
}

macro_rules! files {
    ($($media_type:expr, $of_docs:expr => $($name:literal)+;)+) => {
        vec![$($(File::new($name, $media_type, $of_docs, Bytes::from_static(include_bytes!(concat!("files/", $name))))),+),+]
    };
}

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    files! {
        HTML, false => "index.html";
        CSS, true => "theme.css" "docs.css";
        CSS, false => "page.css";
        SCRIPT, true => "docs.js";
        SCRIPT, false => "account.js" "api.js" "clips.js" "contract.js" "controls.js" "dom.js" "editor.js" "help.js" "main.js"
            "marks.js" "photos.js" "presets.js" "request.js" "snippets.js" "viewer.js" "zip.js";
        "image/svg+xml", true => "icon.svg";
        "image/webp", true => "example-headshot.webp" "example-mask.webp" "example-remove.webp" "example-replaceBg.webp"
            "example-replaceBgAi.webp" "example-shadow.webp" "example-smartCrop.webp" "example-sticker.webp"
            "example-studioShot.webp";
        "image/jpeg", false => "astronaut.jpg" "cat.jpg" "cup.jpg";
    }
});

impl File {
    fn new(name: &'static str, media_type: &'static str, of_docs: bool, bytes: Bytes) -> Self {
        let mut etag = String::from("\"");
        for byte in &Sha256::digest(&bytes)[..12] {
            write!(etag, "{byte:02x}").expect("writing to a string cannot fail");
        }
        etag.push('"');
        let etag = HeaderValue::try_from(etag).expect("hexadecimal digits are visible ASCII");
        Self { name, media_type, bytes, of_docs, etag }
    }

    /// Its path in metrics and log.
    pub(super) fn endpoint(&self) -> &'static str {
        if self.media_type == HTML { "/" } else { "/assets/{name}" }
    }

    /// The reply to a request for it: 304 if the caller has this version, 405 for methods that do not read.
    pub(super) fn reply(&self, method: &Method, headers: &HeaderMap) -> Result<Reply> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let message = format!("this path takes GET, HEAD, not {method}");
            return Err(ApiError::method_not_allowed("GET, HEAD", message));
        }
        let is_known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
            let mut tags = value.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
            tags.any(|tag| tag == "*" || tag.as_bytes() == self.etag.as_bytes())
        });
        let mut reply = if is_known {
            reply::empty(StatusCode::NOT_MODIFIED)
        } else {
            reply::page(StatusCode::OK, self.media_type, self.bytes.clone())
        };
        let headers = reply.headers_mut();
        headers.insert(ETAG, self.etag.clone());
        // Browsers keep the file and validate it on each use: another version of the daemon has other files of these names.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        protect(headers);
        Ok(reply)
    }
}

/// Adds the content policy and keeps the page's address from other servers.
pub(super) fn protect(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// The file at a path, embedded or `own` of this daemon; without `with_page`, only files of `/docs`.
pub(super) fn find<'a>(own: Option<&'a File>, path: &str, with_page: bool) -> Option<&'a File> {
    let name = match path {
        "/" => "index.html",
        _ => path.strip_prefix(ASSETS).filter(|name| *name != "index.html")?,
    };
    FILES.iter().chain(own).find(|file| file.name == name && (with_page || file.of_docs))
}

/// Settings of this daemon that the contract does not have: the largest photo, the ids of the configured image APIs, and
/// whether prices are shown.
pub(super) fn daemon_file(limits: Limits, models: &[&str], show_prices: bool) -> File {
    let Limits { max_bytes, max_side, max_megapixels } = limits;
    let settings = json!({
        "max_bytes": max_bytes,
        "max_side": max_side,
        "max_megapixels": max_megapixels,
        "models": models,
        "show_prices": show_prices,
    });
    File::new("daemon.json", "application/json", false, settings.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_at_the_root_alone_and_can_be_absent() {
        assert_eq!(find(None, "/", true).map(|file| file.name), Some("index.html"));
        for (path, with_page) in [("/", false), ("/assets/index.html", true), ("/assets/main.js", false)] {
            assert!(find(None, path, with_page).is_none(), "{path}");
        }
        assert!(find(None, "/assets/docs.css", false).is_some() && find(None, "/assets/../docs.css", true).is_none());
    }

    #[test]
    fn nothing_is_inline_or_from_elsewhere() {
        let text = |name: &str| {
            let file = FILES.iter().find(|file| file.name == name).expect(name);
            std::str::from_utf8(&file.bytes).expect("UTF-8")
        };
        let page = text("index.html");
        for banned in ["style=", "onclick", "<style", "javascript:"] {
            assert!(!page.contains(banned), "{banned}");
        }
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=\"assets/").count());
        for file in FILES.iter().filter(|file| [HTML, CSS, SCRIPT].contains(&file.media_type)) {
            let there = text(file.name);
            assert!(
                !there.contains("http://") && !there.contains("https://") && !there.contains("@import"),
                "{}",
                file.name
            );
        }
    }
}
