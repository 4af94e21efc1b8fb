//! The section of one operation: what it takes, a request in three languages, its replies and errors.

use super::example::{Example, body_schema};
use super::html::{line, paragraphs, plain};
use super::schema::{parameter_table, reply_table, request_table, resolved};
use crate::http::contract::node::{Node, Object};
use crate::http::page;

/// Appends the section.
pub(super) fn add_section(
    page: &mut String,
    method: &str,
    path: &'static str,
    operation: &'static Object,
    has_page: bool,
) {
    let id = operation.text("operationId");
    let summary = line(operation.text("summary"));
    *page += &format!(
        "<section id=\"{id}\" class=\"operation\"><h3><span class=\"method\">{method}</span> <code>{path}</code></h3>\
         <p class=\"lead\">{summary}</p>"
    );
    let body = body_schema(operation);
    let takes_file =
        body.is_some_and(|(_, schema)| schema.object("properties").is_some_and(|all| all.get("file").is_some()));
    if has_page && takes_file {
        *page += &format!("<p><a class=\"button small\" href=\"./#{path}\">Try it</a></p>");
    }
    let picture = format!("/assets/example-{id}.webp");
    if page::find(None, &picture, false).is_some() {
        *page += &format!(
            "<img class=\"example\" src=\"assets/example-{id}.webp\" alt=\"A result of {path}\" width=\"320\" \
             height=\"320\" loading=\"lazy\">"
        );
    }
    if operation.get("description").is_some() {
        page.push_str(&paragraphs(operation.text("description")));
    }
    if operation.get("security").is_some() {
        page.push_str("<p>Needs no key.</p>");
    }
    add_request(page, operation, body);
    add_example(page, method, path, operation);
    add_replies(page, operation);
    page.push_str("</section>");
}

fn add_request(page: &mut String, operation: &'static Object, body: Option<(&'static str, &'static Object)>) {
    if let Some((_, schema)) = body {
        page.push_str("<h4>Fields</h4>");
        let content = operation.object("requestBody").and_then(|body| body.object("content"));
        let kinds = content.map(Object::members).unwrap_or_default();
        for (at, (media_type, kind)) in kinds.iter().enumerate() {
            let about = kind.as_object().and_then(|kind| kind.object("schema")).map(resolved);
            let about = about.filter(|_| at > 0).map(|schema| schema.text("description")).unwrap_or_default();
            let intro = if at == 0 { "Sent as" } else { "Or as" };
            *page += &format!(
                "<p>{intro} <code>{media_type}</code>{}</p>",
                match about {
                    "" => ".".to_owned(),
                    about => format!(": {}", line(about)),
                }
            );
        }
        if schema.get("description").is_some() {
            *page += &format!("<p>{}</p>", line(schema.text("description")));
        }
        request_table(page, schema);
    }
    let parameters = operation.list("parameters");
    if !parameters.is_empty() {
        page.push_str("<h4>Parameters</h4>");
        parameter_table(page, parameters);
    }
}

fn add_example(page: &mut String, method: &str, path: &str, operation: &'static Object) {
    page.push_str("<h4>Example</h4><div class=\"languages\">");
    for (language, program) in Example::new(method, path, operation).programs() {
        let program = plain(&program);
        *page += &format!(
            "<div data-language=\"{language}\"><p>{language}</p><pre tabindex=\"0\"><code>{program}</code></pre></div>"
        );
    }
    page.push_str("</div>");
}

fn add_replies(page: &mut String, operation: &'static Object) {
    page.push_str("<h4>Replies</h4><ul class=\"replies\">");
    let mut schemas = Vec::new();
    for (status, reply) in statuses(operation).filter(|(status, _)| *status < "400") {
        let Some(reply) = reply.as_object().map(resolved) else { continue };
        let content = reply.members_of("content");
        let kinds = content.iter().map(|(media_type, _)| format!("<code>{media_type}</code>"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let about = line(reply.text("description"));
        *page += &format!("<li><b>{status}</b> {about} {kinds}");
        let headers = reply.members_of("headers");
        if !headers.is_empty() {
            page.push_str("<details><summary>Headers</summary><div class=\"wide\"><table><tbody>");
            for (name, header) in headers {
                let about = header.as_object().map(resolved).map(|header| line(header.text("description")));
                *page += &format!("<tr><td><code>{name}</code><td>{}", about.unwrap_or_default());
            }
            page.push_str("</table></div></details>");
        }
        let json = content.iter().find(|(media_type, _)| media_type == "application/json");
        schemas.extend(json.and_then(|(_, content)| content.as_object()?.object("schema")));
    }
    let errors = statuses(operation).map(|(status, _)| status).filter(|status| *status >= "400");
    let errors = errors.collect::<Vec<_>>().join(", ");
    *page += &format!("<li>Errors: {errors}; see <a href=\"#errors\">the codes</a>.</ul>");
    for schema in schemas {
        reply_table(page, schema);
    }
}

/// The numbers of the statuses that an operation is answered with.
fn statuses(operation: &'static Object) -> impl Iterator<Item = (&'static str, &'static Node)> {
    let replies = operation.members_of("responses");
    replies.iter().map(|(status, reply)| (&**status, reply))
}
