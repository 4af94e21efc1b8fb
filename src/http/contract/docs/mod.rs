//! `/docs`: the reference, one HTML page rendered from the contract that the code runs on, with a section for each operation.
//!
//! Its script (search, languages of the examples) is an enhancement: without it everything is shown. `/openapi.yaml` and
//! `/openapi.json` are answered here too, from [`crate::http::contract`].

mod example;
mod html;
mod schema;
mod section;

use crate::http::contract::node::Object;
use crate::http::contract::{self, CONTRACT};
use crate::http::page;
use crate::http::reply::{self, ErrorCode, Reply};
use crate::http::router::Page;
use crate::http::state::ApiState;
use crate::recipe::ModelId;
use bytes::Bytes;
use html::{line, paragraphs};
use hyper::StatusCode;

/// Parts of the reference, in its order, each with the starts of its paths; a path is in the last part that fits.
const PARTS: [(&str, &[&str]); 4] = [
    ("Pictures", &["/"]),
    ("Clips and jobs", &["/video/", "/jobs", "/results/"]),
    ("Account", &["/account", "/usage", "/estimate", "/presets"]),
    ("Contract", &["/openapi", "/docs"]),
];

/// The reply of a fixed page.
pub(in crate::http) fn page_reply(page: Page, state: &ApiState) -> Reply {
    match page {
        Page::OpenApi => reply::page(StatusCode::OK, "application/yaml", contract::yaml()),
        Page::OpenApiJson => reply::page(StatusCode::OK, "application/json", contract::json()),
        Page::Docs => {
            let absent = || ModelId::all().filter(|model| !state.app.providers.is_configured(*model));
            let body = state.docs.get_or_init(|| without_models(&render(state.config.page), absent()).into());
            let mut reply = reply::page(StatusCode::OK, "text/html; charset=utf-8", Bytes::clone(body));
            page::protect(reply.headers_mut());
            reply
        }
    }
}

/// The page without the ids of image APIs that are not configured, which requests are refused for.
fn without_models(page: &str, absent: impl Iterator<Item = ModelId>) -> String {
    absent.fold(page.to_owned(), |page, model| page.replace(&format!(" <code>{model}</code>"), ""))
}

/// An operation of the contract.
struct Entry {
    method: String,
    path: &'static str,
    operation: &'static Object,
}

impl Entry {
    /// Its anchor.
    fn id(&self) -> &'static str {
        self.operation.text("operationId")
    }

    fn part(&self) -> &'static str {
        let fits = |starts: &[&str]| starts.iter().any(|start| self.path.starts_with(start));
        PARTS.iter().rfind(|(_, starts)| fits(starts)).map_or("Pictures", |(part, _)| part)
    }
}

fn entries() -> Vec<Entry> {
    let paths = CONTRACT.members_of("paths");
    let items = paths.iter().filter_map(|(path, item)| Some((path, item.as_object()?)));
    items
        .flat_map(|(path, item)| {
            item.members().iter().filter_map(move |(method, operation)| {
                Some(Entry { method: method.to_uppercase(), path, operation: operation.as_object()? })
            })
        })
        .collect()
}

/// The page; `has_page` says whether there is the page at `/`.
fn render(has_page: bool) -> String {
    let entries = entries();
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>Backdrop API {version}</title>\
         <link rel=\"icon\" href=\"assets/icon.svg\"><link rel=\"stylesheet\" href=\"assets/theme.css\">\
         <link rel=\"stylesheet\" href=\"assets/docs.css\"><script type=\"module\" src=\"assets/docs.js\"></script></head>\
         <body><a class=\"skip\" href=\"#content\">Skip to the content</a><header class=\"bar\">\
         <a class=\"name\" href=\"{home}\"><img src=\"assets/icon.svg\" alt=\"\">Backdrop</a>\
         <nav aria-label=\"Site\">{try_it}<a href=\"docs\" aria-current=\"page\">Reference</a></nav></header>\
         <div class=\"docs\" data-server=\"{server}\">",
        version = env!("CARGO_PKG_VERSION"),
        server = example::SERVER,
        home = if has_page { "./" } else { "docs" },
        try_it = if has_page { "<a href=\"./\">Try it</a>" } else { "" },
    );
    add_contents(&mut page, &entries);
    add_introduction(&mut page);
    for (part, _) in PARTS {
        page += &format!("<h2 class=\"part\">{part}</h2>");
        for entry in entries.iter().filter(|entry| entry.part() == part) {
            section::add_section(&mut page, &entry.method, entry.path, entry.operation, has_page);
        }
    }
    add_errors(&mut page);
    page.push_str("</main></div></body></html>\n");
    page
}

fn add_contents(page: &mut String, entries: &[Entry]) {
    page.push_str(
        "<nav class=\"contents\" aria-label=\"Contents\"><label for=\"search\" hidden>Search</label>\
         <input type=\"search\" id=\"search\" placeholder=\"Field or endpoint\" autocomplete=\"off\" hidden>\
         <p id=\"found\" role=\"status\"></p><ul><li><a href=\"#start\">First steps</a></ul>",
    );
    for (part, _) in PARTS {
        *page += &format!("<h2>{part}</h2><ul>");
        for entry in entries.iter().filter(|entry| entry.part() == part) {
            let Entry { method, path, .. } = entry;
            // The method is shown where a path has several.
            let several = entries.iter().filter(|other| other.path == *path).count() > 1;
            let method = if several { format!("<small>{method}</small> ") } else { String::new() };
            *page += &format!("<li><a href=\"#{}\">{method}{path}</a>", entry.id());
        }
        page.push_str("</ul>");
    }
    page.push_str("<h2>Errors</h2><ul><li><a href=\"#errors\">Codes</a></ul></nav>");
}

fn add_introduction(page: &mut String) {
    let about = CONTRACT.object("info").map(|info| info.text("description")).unwrap_or_default();
    *page += &format!(
        "<main id=\"content\"><section id=\"start\"><h1>Backdrop API {}</h1>\
         <p class=\"lead\">Cuts subjects out of photos and clips.</p>\
         <p>Send your key with each request, as <code>Authorization: Bearer API_KEY</code>; the operator of the server \
         makes it with <code>backdrop keys create</code>. The contract for programs is \
         <a href=\"openapi.yaml\">/openapi.yaml</a>, as JSON <a href=\"openapi.json\">/openapi.json</a>.</p>\
         <pre tabindex=\"0\"><code>export BACKDROP_KEY=bd_live_…\n\
         curl -H \"Authorization: Bearer $BACKDROP_KEY\" -F file=@photo.jpg -o cutout.png {server}/remove\
         </code></pre><details><summary>What holds for all requests</summary>{}</details></section>",
        env!("CARGO_PKG_VERSION"),
        paragraphs(about),
        server = example::SERVER
    );
}

fn add_errors(page: &mut String) {
    page.push_str(
        "<h2 class=\"part\">Errors</h2><section id=\"errors\"><h3 class=\"unseen\">Codes</h3>\
         <p>Every error has this form; <code>param</code> names the field, where it is one field.</p>\
         <pre tabindex=\"0\"><code>{\"error\":{\"code\":\"invalid_parameter\",\"message\":\"invalid `edge`: …\",\"param\":\"edge\"},\
         \"request_id\":\"req_…\"}</code></pre>\
         <div class=\"wide\"><table><thead><tr><th>Status<th>Code<th>Meaning<tbody>",
    );
    for code in ErrorCode::ALL {
        let (status, name, about) = (code.status().as_u16(), code.name(), line(code.about()));
        *page += &format!("<tr><td>{status}<td><code>{name}</code><td>{about}");
    }
    page.push_str("</table></div></section>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::router::{ROUTES, Target};

    #[test]
    fn the_page_shows_every_route_field_and_code_and_nothing_is_inline() {
        for page in [render(true), render(false)] {
            for route in ROUTES.iter() {
                let heading = format!("<span class=\"method\">{}</span> <code>{}</code>", route.method, route.path);
                assert!(page.contains(&heading), "{}", route.path);
                if let Target::Image(endpoint) = &route.target {
                    assert!(endpoint.fields.iter().all(|field| page.contains(&format!("<code>{}</code>", field.name))));
                }
            }
            for entry in entries() {
                assert_eq!(page.matches(&format!("<section id=\"{}\"", entry.id())).count(), 1, "{}", entry.path);
                assert!(page.contains(&format!("<a href=\"#{}\">", entry.id())), "{}", entry.path);
            }
            assert!(ErrorCode::ALL.iter().all(|code| page.contains(code.name())));
            assert!(!page.contains("style=") && !page.contains("<style") && !page.contains("@import"));
            assert_eq!(page.matches("<script").count(), 1);
        }
    }

    #[test]
    fn models_that_are_not_configured_are_left_out() {
        let shown = |page: &str| ModelId::all().filter(|model| page.contains(&format!("<code>{model}</code>"))).count();
        let page = render(true);
        assert_eq!(shown(&page), ModelId::all().count());
        assert_eq!(shown(&without_models(&page, ModelId::all().skip(1))), 1);
        let alone = without_models(&page, ModelId::all());
        assert!(shown(&alone) == 0 && alone.contains("<td><code>model</code><td><code>auto</code><td>"));
    }

    #[test]
    fn links_to_the_page_are_there_only_with_it() {
        assert!(render(true).contains("href=\"./#/studio-shot\""));
        assert!(!render(false).contains("href=\"./"));
    }
}
