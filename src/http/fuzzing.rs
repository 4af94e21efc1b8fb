//! Fuzz targets of requests: forms and JSON bodies in any pieces, bodies and queries of drop-in routes, the recipes of their
//! fields, heads, PROXY headers.

use crate::http::admission::Memory;
use crate::http::compat::fuzzing as compat;
use crate::http::connection::{client_address, proxy_protocol};
use crate::http::reply::range::{self, RequestedRange};
use crate::http::reply::request_id;
use crate::http::request::body::{BodyError, Chunks};
use crate::http::request::form::{self, Form};
use crate::http::request::picture_json::{PictureJson, Splitter};
use crate::http::request::{head_check, multipart};
use crate::recipe::{ENDPOINTS, Endpoint, Fields};
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Uri, Version};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// Bodies up to this size are read in pieces of any size alike: longer ones may reach a bound in one piece that they do not
/// reach in two.
const ALIKE: usize = 1000;
const MEMORY: usize = 20_000_000;
const MAX_FILE: usize = 1 << 20;

/// Pieces of a body that are all there.
impl Chunks for VecDeque<Bytes> {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        Ok(self.pop_front())
    }
}

fn pieces(body: &[u8], size: usize) -> VecDeque<Bytes> {
    body.chunks(size.max(1)).map(Bytes::copy_from_slice).collect()
}

/// Reads a form for the endpoint and in pieces of the size that the first two bytes name, and the recipe of its fields.
/// The boundary is `XyZ`. Reads the same bytes as an urlencoded form of the drop-in routes, and as rembg's query.
///
/// # Panics
/// When the pieces make a difference, or what was read is written otherwise.
pub fn form(bytes: &[u8]) {
    let [endpoint, size, body @ ..] = bytes else { return };
    let endpoint = &ENDPOINTS[usize::from(*endpoint) % ENDPOINTS.len()];
    let whole = read_form(pieces(body, body.len()), endpoint);
    let parts = read_form(pieces(body, usize::from(*size)), endpoint);
    if body.len() <= ALIKE {
        assert_eq!(whole, parts, "in pieces of {size} bytes");
    }
    let query = std::str::from_utf8(body).ok().and_then(compat::query);
    for (fields, endpoint) in compat::urlencoded(body).into_iter().flatten().chain(query) {
        read_recipe(endpoint, &fields);
    }
}

/// A form's fields, files and URL.
type ReadForm = (Vec<(String, String)>, Vec<(String, Option<String>, Bytes)>, Option<String>);

/// The form, where it can be read.
fn read_form(chunks: VecDeque<Bytes>, endpoint: &Endpoint) -> Option<ReadForm> {
    let memory = Memory::new(MEMORY, MAX_FILE).of("a");
    let read = form::read(chunks, "XyZ", endpoint, &memory).now_or_never().expect("all pieces are there");
    let Form { fields, files, url } = read.ok()?;
    read_recipe(endpoint, &fields);
    let fields = fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some((fields, files.into_iter().map(|file| (file.name, file.filename, file.bytes)).collect(), url))
}

/// The recipe of fields, and of the same fields again: it depends on nothing else.
fn read_recipe(endpoint: &Endpoint, fields: &Fields) {
    let text = |fields: &Fields| format!("{:?}", endpoint.recipe(fields));
    assert_eq!(text(fields), text(fields));
}

/// Reads a JSON body for the endpoint and in pieces of the size that the first two bytes name, and the recipe of its fields; and
/// as a body of the drop-in routes.
///
/// # Panics
/// When the pieces make a difference, or what was read is written otherwise.
pub fn json(bytes: &[u8]) {
    let [endpoint, size, body @ ..] = bytes else { return };
    let endpoint = &ENDPOINTS[usize::from(*endpoint) % ENDPOINTS.len()];
    let whole = read_json(&pieces(body, body.len()), endpoint);
    let parts = read_json(&pieces(body, usize::from(*size)), endpoint);
    assert_eq!(whole, parts, "in pieces of {size} bytes");
    for (fields, endpoint) in compat::json(body).into_iter().flatten() {
        read_recipe(endpoint, &fields);
    }
}

fn read_json(chunks: &VecDeque<Bytes>, endpoint: &Endpoint) -> Option<String> {
    let memory = Memory::new(MEMORY, MAX_FILE).of("a");
    let mut splitter = Splitter::new(memory.share());
    chunks.iter().try_for_each(|chunk| splitter.feed(chunk)).ok()?;
    let PictureJson { object, picture } = splitter.finish().ok()?;
    let text = format!("{object:?} {picture:?}");
    if let Ok((fields, _)) = object.split(&endpoint.fields, ["url", "image_base64"]) {
        read_recipe(endpoint, &fields);
    }
    Some(text)
}

/// Reads the lines of `bytes` as header fields, and all of it as a PROXY header: a range lies within its file, the client is
/// the peer or one that the headers name, and a PROXY header takes no byte beyond its end.
///
/// # Panics
/// When that is not so.
pub fn head(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(line[colon + 1..].trim_ascii()));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
        let _ = head_check::check(version, &Uri::from_static("/remove"), &headers);
    }
    for length in [0, 1, 100, u64::MAX] {
        if let RequestedRange::Part { first, last } = range::requested(&headers, length, "\"tag\"") {
            assert!(first <= last && last < length, "{first} to {last} of {length}");
        }
    }
    let trusted = ["10.0.0.0/8", "::1"].map(|range| range.parse().expect("a range"));
    let peer: IpAddr = Ipv4Addr::new(10, 0, 0, 1).into();
    let stranger: IpAddr = Ipv4Addr::new(192, 0, 2, 7).into();
    let _ = client_address::resolve(peer, &headers, &trusted);
    assert_eq!(client_address::resolve(stranger, &headers, &trusted), stranger, "headers of a stranger count");
    let id = request_id::from_headers(&headers);
    assert!(HeaderValue::from_str(&id).is_ok() && !id.is_empty(), "{id:?}");
    if let Some(content_type) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) {
        let _ = multipart::boundary(content_type);
    }
    let mut rest = bytes;
    let read = proxy_protocol::read(&mut rest).now_or_never().expect("all bytes are there");
    if read.is_ok() {
        let header = &bytes[..bytes.len() - rest.len()];
        let mut exact = header;
        assert!(proxy_protocol::read(&mut exact).now_or_never().is_some_and(|read| read.is_ok()) && exact.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::replay;

    #[test]
    fn seeds_pass() {
        replay("form", form);
        replay("json", json);
        replay("head", head);
    }
}
