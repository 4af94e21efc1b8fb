//! `/docs`: one HTML page, rendered from the tables of routes, fields and error codes that the code runs on.
//!
//! Its style is inline, and it loads nothing and has no scripts. `/openapi.yaml` and `/openapi.json` are answered here too,
//! from [`super::openapi`].

use super::clip_upload::max_clip;
use super::error::ErrorCode;
use super::reply::Reply;
use super::router::{Page, ROUTES, Route, Target};
use super::{input_names, openapi, reply};
use crate::codec::Limits;
use crate::recipe::{BG_FILE, Endpoint, Field, Input, Kind, MASK_FILE, VIDEO_FIELDS};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use std::fmt::Write;
use std::sync::LazyLock;

static PAGE: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(render()));

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{max-width:60rem;margin:2rem auto;padding:0 1rem}\
h2{margin-top:2.5rem;border-top:1px solid #8884;padding-top:1rem}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8883}\
code,pre{font:.9em ui-monospace,monospace}\
pre{background:#8881;padding:.8rem;overflow:auto}";

/// The reply of a fixed page.
pub(super) fn page_reply(page: Page) -> Reply {
    match page {
        Page::OpenApi => reply::page(StatusCode::OK, "application/yaml", openapi::yaml()),
        Page::OpenApiJson => reply::page(StatusCode::OK, "application/json", openapi::json()),
        Page::Docs => html(),
    }
}

/// The page.
fn html() -> Reply {
    let mut reply = reply::page(StatusCode::OK, "text/html; charset=utf-8", PAGE.clone());
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    reply
}

fn render() -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Backdrop API</title><style>{STYLE}</style><h1>Backdrop API {version}</h1>\
         <p>Cuts subjects out of photos. The contract for machines is <a href=\"/openapi.yaml\">/openapi.yaml</a>, \
         as JSON <a href=\"/openapi.json\">/openapi.json</a>.</p>\
         <pre>curl -H 'Authorization: Bearer API_KEY' -F file=@photo.jpg -o cutout.png http://HOST/remove</pre>",
        version = env!("CARGO_PKG_VERSION"),
    );
    for route in ROUTES.iter() {
        add_route(&mut page, route);
    }
    add_errors(&mut page);
    page.push_str("</html>\n");
    page
}

fn add_route(page: &mut String, route: &Route) {
    let Route { method, path, about, target } = route;
    add(page, format_args!("<h2 id=\"{path}\"><code>{method} {path}</code></h2><p>{}</p>", escaped(about)));
    if matches!(target, Target::Service(_)) {
        page.push_str("<p>Needs a key. Answers JSON; its parameters are in the contract.</p>");
    }
    let (in_and_out, files, fields) = match target {
        Target::Image(endpoint) => (in_and_out(endpoint.input), pictures(endpoint), endpoint.fields.as_slice()),
        Target::Clip => (CLIP_IN_AND_OUT, clip(), VIDEO_FIELDS.as_slice()),
        Target::Service(_) | Target::Result | Target::Page(_) => return,
    };
    add(page, format_args!("<p>Needs a key. {in_and_out}</p><table><tr><th>Field<th>Value<th>Default<th>{files}"));
    for Field { name, kind, default, required, about, .. } in fields {
        let value = value(kind);
        let default = match default {
            Some(text) => format!("<code>{text}</code>"),
            None if *required => "required".to_owned(),
            None => String::new(),
        };
        let about = escaped(about);
        add(page, format_args!("<tr><td><code>{name}</code><td>{value}<td>{default}<td>{about}"));
    }
    page.push_str("</table>");
}

const CLIP_IN_AND_OUT: &str =
    "Takes multipart/form-data with a file, or JSON with an address; answers the job as JSON.";

/// The table rows of a clip.
fn clip() -> String {
    let most = max_clip();
    let about = format!("MP4, MOV, WebM, MKV or GIF, at most {most} bytes, 60 seconds, 60 frames a second, 1920×1080.");
    let row = |name, value| format!("<tr><td><code>{name}</code><td>{value}<td>one of the two<td>{about}");
    row(input_names::FILE, "a file") + &row(input_names::URL, "a public https URL")
}

fn in_and_out(input: Input) -> &'static str {
    match input {
        Input::File | Input::FileAndBackground => {
            "Takes multipart/form-data, also JSON with <code>url</code> or <code>image_base64</code>, or the picture itself \
             as the body with the fields in the query; answers the picture."
        }
        Input::Url => {
            "Takes JSON, with <code>image_base64</code> in place of <code>url</code> too, also multipart/form-data with a \
             file, or the picture itself as the body with the fields in the query; answers the picture."
        }
        Input::Files => "Takes multipart/form-data, answers JSON with a row for each picture.",
        Input::Urls => "Takes JSON, answers JSON with a row for each picture.",
    }
}

/// The table rows of pictures.
fn pictures(endpoint: &Endpoint) -> String {
    let row = |name, value, required, about| {
        // The page does not depend on the configuration.
        let most = Limits::default().max_bytes;
        format!("<tr><td><code>{name}</code><td>{value}<td>{required}<td>{about}, by default at most {most} bytes.")
    };
    let kinds = "JPEG, PNG, WebP or HEIC";
    let file = row(input_names::FILE, "a file", "required", kinds);
    let pictures = match endpoint.input {
        Input::File => file,
        Input::FileAndBackground => {
            file + &row(
                BG_FILE,
                "a file",
                "",
                "The new background; overrides <code>bg_url</code> and <code>bg_color</code>",
            )
        }
        Input::Files => row(input_names::FILES, "files", "1 to 10", kinds),
        Input::Url => row(input_names::URL, "a public https URL", "required", kinds),
        Input::Urls => row(input_names::URLS, "public https URLs", "1 to 10", kinds),
    };
    if !endpoint.takes_mask() {
        return pictures;
    }
    let about = "A mask of the upright picture's size, in a form; <code>mask_mode</code> says how it is used";
    pictures + &row(MASK_FILE, "a file", "", about)
}

/// The values that a field accepts, as HTML.
fn value(kind: &Kind) -> String {
    let joined = |words: Vec<String>, with: &str| words.join(with);
    match kind {
        Kind::Choice(words) => joined(words.iter().map(|word| format!("<code>{word}</code>")).collect(), " "),
        Kind::Integer { min, max } => format!("{min}–{max}"),
        Kind::IntegerChoice(numbers) => {
            joined(numbers.iter().map(|number| format!("<code>{number}</code>")).collect(), " ")
        }
        Kind::Number { min, max } => format!("{min}–{max}, decimal"),
        Kind::Boolean => "<code>true</code> <code>false</code>".to_owned(),
        Kind::Text(form) | Kind::List(form) => escaped(form.expected),
        Kind::AnyOf(kinds) => joined(kinds.iter().map(value).collect(), " or "),
    }
}

fn add_errors(page: &mut String) {
    page.push_str(
        "<h2>Errors</h2><pre>{\"error\":{\"code\":\"…\",\"message\":\"…\",\"param\":\"…\"},\"request_id\":\"…\"}</pre>\
         <table><tr><th>Status<th>Code",
    );
    for code in ErrorCode::ALL {
        add(page, format_args!("<tr><td>{}<td><code>{}</code>", code.status().as_u16(), code.name()));
    }
    page.push_str("</table>");
}

fn add(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a string cannot fail");
}

/// Text as HTML, with `code` between backticks.
fn escaped(text: &str) -> String {
    let text = text.trim().replace('&', "&amp;").replace('<', "&lt;");
    let pieces = text.split('`').enumerate();
    pieces.map(|(at, piece)| if at % 2 == 1 { format!("<code>{piece}</code>") } else { piece.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_every_route_field_and_code_and_loads_nothing() {
        let page = render();
        for route in ROUTES.iter() {
            assert!(page.contains(&format!("{} {}", route.method, route.path)), "{}", route.path);
            if let Target::Image(endpoint) = &route.target {
                assert!(endpoint.fields.iter().all(|field| page.contains(&format!("<code>{}</code>", field.name))));
            }
        }
        assert!(ErrorCode::ALL.iter().all(|code| page.contains(code.name())));
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped(" a < b & `c` "), "a &lt; b &amp; <code>c</code>");
    }
}
