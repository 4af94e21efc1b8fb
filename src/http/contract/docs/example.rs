//! A minimal request of an operation as programs to copy: curl, Python (requests), JavaScript (fetch).

use super::schema::{resolved, written};
use crate::http::contract::node::{Node, Object};
use serde_json::Value;

/// The address in the examples, which the page's script replaces by the server's.
pub(super) const SERVER: &str = "http://127.0.0.1:8080";

/// Values of fields for which the contract has no example.
const VALUES: [(&str, &str); 14] = [
    ("url", "https://example.org/photo.jpg"),
    ("prompt", "a marble counter in soft window light"),
    ("endpoint", "/remove"),
    ("name", "Catalogue"),
    ("id", "preset_1"),
    ("job_id", "job_1"),
    ("object", "job_1.webm"),
    ("expires", "1795950000"),
    ("signature", "SIGNATURE"),
    ("file", "photo.jpg"),
    ("files", "photo.jpg"),
    ("from", "s3://shop/photos"),
    ("to", "s3://shop/cutouts"),
    ("state", "paused"),
];

/// The body of a request.
enum Body {
    None,
    /// Fields, and the names of parts with files.
    Form(Vec<(String, String)>, Vec<(String, String)>),
    Json(Value),
}

/// An example request.
pub(super) struct Example {
    method: String,
    url: String,
    has_key: bool,
    body: Body,
    /// The file that the reply is saved as; `None` for JSON, which is printed.
    saved_as: Option<&'static str>,
}

impl Example {
    /// The smallest request of an operation: what is required, and nothing else.
    pub(super) fn new(method: &str, path: &str, operation: &'static Object) -> Self {
        let has_key = operation.get("security").is_none();
        let mut url = format!("{SERVER}{path}");
        let mut query = Vec::new();
        for parameter in operation.list("parameters").iter().filter_map(Node::as_object).map(resolved) {
            let name = parameter.text("name");
            match parameter.text("in") {
                "path" => url = url.replace(&format!("{{{name}}}"), value_of(name)),
                "query" if parameter.get("required") == Some(&Node::Boolean(true)) || method == "DELETE" => {
                    query.push(format!("{name}={}", value_of(name)));
                }
                _ => {}
            }
        }
        if !query.is_empty() {
            url = format!("{url}?{}", query.join("&"));
        }
        let body = if query.is_empty() { body_of(operation) } else { Body::None };
        Self { method: method.to_owned(), url, has_key, body, saved_as: saved_as(operation) }
    }

    /// The programs, with the name of each language.
    pub(super) fn programs(&self) -> [(&'static str, String); 3] {
        [("curl", self.curl()), ("Python", self.python()), ("JavaScript", self.javascript())]
    }

    fn curl(&self) -> String {
        let mut parts = vec!["curl --fail-with-body".to_owned()];
        if self.has_key {
            parts.push("-H \"Authorization: Bearer $BACKDROP_KEY\"".to_owned());
        }
        match (&self.body, self.method.as_str()) {
            // `--json` and `-F` send POST by themselves.
            (Body::None, "GET") | (Body::Json(_), "POST") | (Body::Form(..), _) => {}
            (Body::None | Body::Json(_), method) => parts.push(format!("-X {method}")),
        }
        match &self.body {
            Body::None => {}
            Body::Form(fields, files) => {
                parts.extend(fields.iter().map(|(name, value)| format!("-F {name}='{value}'")));
                parts.extend(files.iter().map(|(name, file)| format!("-F {name}=@{file}")));
            }
            Body::Json(value) => parts.push(format!("--json '{value}'")),
        }
        parts.extend(self.saved_as.map(|name| format!("-o {name}")));
        parts.push(if self.url.contains('?') { format!("'{}'", self.url) } else { self.url.clone() });
        parts.join(" \\\n  ")
    }

    fn python(&self) -> String {
        let (import, headers) = match self.has_key {
            true => ("import os\n", "    headers={\"Authorization\": f\"Bearer {os.environ['BACKDROP_KEY']}\"},\n"),
            false => ("", ""),
        };
        let body = match &self.body {
            Body::None => String::new(),
            Body::Form(fields, files) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name:?}: {value:?}")).collect();
                let data =
                    if fields.is_empty() { String::new() } else { format!("    data={{{}}},\n", fields.join(", ")) };
                let file = |(name, file): &(String, String)| format!("({name:?}, open({file:?}, \"rb\"))");
                let files: Vec<_> = files.iter().map(file).collect();
                format!("{data}    files=[{}],\n", files.join(", "))
            }
            Body::Json(value) => format!("    json={value},\n"),
        };
        let result = match self.saved_as {
            Some(name) => format!("with open(\"{name}\", \"wb\") as file:\n    file.write(reply.content)"),
            None => "print(reply.json())".to_owned(),
        };
        let (method, url) = (self.method.to_lowercase(), &self.url);
        format!(
            "{import}import requests\n\nreply = requests.{method}(\n    \"{url}\",\n{headers}{body}    timeout=300,\n)\n\
             reply.raise_for_status()\n{result}"
        )
    }

    fn javascript(&self) -> String {
        let (mut imports, mut form, mut headers) = (String::new(), String::new(), Vec::new());
        if self.has_key {
            headers.push("authorization: `Bearer ${process.env.BACKDROP_KEY}`");
        }
        let body = match &self.body {
            Body::None => String::new(),
            Body::Form(fields, files) => {
                imports += "import { openAsBlob } from \"node:fs\";\n";
                form += "const form = new FormData();\n";
                form.extend(fields.iter().map(|(name, value)| format!("form.append({name:?}, {value:?});\n")));
                let file = |(name, file): &(String, String)| {
                    format!("form.append({name:?}, await openAsBlob({file:?}), {file:?});\n")
                };
                form.extend(files.iter().map(file));
                "  body: form,\n".to_owned()
            }
            Body::Json(value) => {
                headers.push("\"content-type\": \"application/json\"");
                format!("  body: JSON.stringify({value}),\n")
            }
        };
        let result = match self.saved_as {
            Some(name) => {
                imports += "import { writeFile } from \"node:fs/promises\";\n";
                format!("await writeFile(\"{name}\", Buffer.from(await reply.arrayBuffer()));")
            }
            None => "console.log(await reply.json());".to_owned(),
        };
        let gap = if imports.is_empty() { "" } else { "\n" };
        let headers =
            if headers.is_empty() { String::new() } else { format!("  headers: {{ {} }},\n", headers.join(", ")) };
        let (url, method) = (&self.url, &self.method);
        format!(
            "{imports}{gap}{form}const reply = await fetch(\"{url}\", {{\n  method: \"{method}\",\n{headers}{body}}});\n\
             if (!reply.ok) throw new Error(await reply.text());\n{result}"
        )
    }
}

fn value_of(name: &str) -> &'static str {
    VALUES.iter().find(|(known, _)| *known == name).map_or("1", |(_, value)| value)
}

/// The schema of the body that is sent in examples and shown as a table: the first of the contract.
pub(super) fn body_schema(operation: &'static Object) -> Option<(&'static str, &'static Object)> {
    let content = operation.object("requestBody")?.object("content")?;
    let (media_type, content) = content.members().first()?;
    Some((media_type, resolved(content.as_object()?.object("schema")?)))
}

fn body_of(operation: &'static Object) -> Body {
    let Some((media_type, schema)) = body_schema(operation) else { return Body::None };
    let required = schema.list("required").iter().filter_map(Node::as_text);
    let members = required.filter_map(|name| Some((name, resolved(schema.object("properties")?.object(name)?))));
    if media_type == "application/json" {
        let value = |(name, member): (&str, &'static Object)| {
            let value = value_of(if name == "urls" { "url" } else { name });
            let value = if member.text("type") == "array" { vec![value].into() } else { Value::from(value) };
            (name.to_owned(), value)
        };
        return Body::Json(Value::Object(members.map(value).collect()));
    }
    let (mut fields, mut files) = (Vec::new(), Vec::new());
    let is_clip = operation.object("responses").is_some_and(|replies| replies.get("202").is_some());
    for (name, member) in members {
        if member.text("type") == "array" {
            files.extend(["one.jpg", "two.jpg"].map(|file| (name.to_owned(), file.to_owned())));
        } else if member.text("format") == "binary" {
            files.push((name.to_owned(), if is_clip { "clip.mp4" } else { value_of(name) }.to_owned()));
        } else {
            let example = member.list("examples").first().map(written);
            fields.push((name.to_owned(), example.unwrap_or_else(|| value_of(name).to_owned())));
        }
    }
    Body::Form(fields, files)
}

/// A file name for replies that are no JSON.
fn saved_as(operation: &'static Object) -> Option<&'static str> {
    let reply = resolved(operation.object("responses")?.object("200")?);
    let content = reply.object("content")?;
    if content.get("application/json").is_some() && operation.text("operationId") != "openapiJson" {
        return None;
    }
    if content.get("image/png").is_none() {
        return Some(match operation.text("operationId") {
            "result" => "result.webm",
            "openapi" => "openapi.yaml",
            "openapiJson" => "openapi.json",
            _ => "docs.html",
        });
    }
    let format = body_schema(operation).and_then(|(_, schema)| schema.object("properties")?.object("format"));
    match format.map(|format| resolved(format).text("default")) {
        Some("jpg") => Some("result.jpg"),
        Some("webp") => Some("result.webp"),
        Some(_) | None => Some("result.png"),
    }
}
