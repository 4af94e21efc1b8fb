//! Streaming parser of `multipart/form-data` (RFC 7578).
//!
//! Our own and not `multer` 3.1, which bounds neither the text before the first part nor the head of a part, buffers all
//! bytes that are ready before its reader has accounted for them, stops at the last part without the limit on the rest of
//! the body, and reads `NAME=file` as no name and `attachment; name=a` as a field.
//!
//! The delimiter is CRLF, two hyphens and the boundary; a CRLF is inserted before the body, so that the first delimiter is
//! like all others. Only a tail shorter than the delimiter is kept for the next chunk, so every byte is searched once and
//! memory does not grow with a part. All lengths are bounded: the whole body, the text before the first part, the head of a
//! part. The size of a part is bounded by the caller (`form.rs`).

use super::body::{BodyError, Chunks};
use crate::http::reply::ApiError;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;

/// Padding is not required.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The longest text before the first delimiter; no client is known to send any.
const MAX_PREAMBLE: usize = 1024;

/// The longest head of a part; a browser sends about 150 bytes and the file's name.
const MAX_PART_HEAD: usize = 8 * 1024;

/// The longest boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// Why a multipart body could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MultipartError {
    /// Not multipart, or cut off.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// More bytes in all than any request needs.
    #[error("too large")]
    BodyTooLarge,
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
}

use MultipartError::Malformed;

impl MultipartError {
    /// The reply to it; `too_large` if the body is too large.
    pub(crate) fn answered(self, too_large: impl FnOnce() -> ApiError) -> ApiError {
        match self {
            Self::BodyTooLarge => too_large(),
            Self::Malformed(_) | Self::Body(_) => self.into(),
        }
    }
}

/// A reader over the parts of a body.
#[derive(Debug)]
pub(crate) struct Multipart<C> {
    chunks: C,
    buffer: BytesMut,
    delimiter: memmem::Finder<'static>,
    state: State,
    /// In a part in base64: the characters of an incomplete group of four.
    base64: Option<Vec<u8>>,
    bytes_left: usize,
}

/// The names of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Name of the field.
    pub(crate) name: String,
    /// Name of the file at the caller.
    pub(crate) filename: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Preamble,
    AfterDelimiter,
    InPart,
    Ended,
}

impl<C: Chunks> Multipart<C> {
    /// A reader that takes at most `max_bytes` in all.
    pub(crate) fn new(chunks: C, boundary: &str, max_bytes: usize) -> Self {
        let delimiter = memmem::Finder::new(&format!("\r\n--{boundary}")).into_owned();
        let buffer = BytesMut::from(&b"\r\n"[..]);
        Self { chunks, buffer, delimiter, state: State::Preamble, base64: None, bytes_left: max_bytes }
    }

    /// The next part; `None` after the last, when the body has been read to its end. The unread rest of the previous part
    /// is skipped.
    pub(crate) async fn next_part(&mut self) -> Result<Option<Part>, MultipartError> {
        if self.state == State::Preamble {
            self.skip_preamble().await?;
        }
        while self.state == State::InPart {
            self.next_stored().await?;
        }
        if self.state == State::Ended || !self.enter_part().await? {
            return Ok(None);
        }
        let head = self.take_head().await?;
        let head = unfolded(&head);
        self.base64 = header(&head, "content-transfer-encoding")
            .is_some_and(|encoding| encoding.trim().eq_ignore_ascii_case("base64"))
            .then(Vec::new);
        match parse_part_head(&head) {
            Some(part) => Ok(Some(part)),
            None => Err(Malformed("a part has no name")),
        }
    }

    /// The next bytes of the part, decoded if its head declares base64 (RFC 2045), never empty; `None` at its end.
    pub(crate) async fn next_data(&mut self) -> Result<Option<Bytes>, MultipartError> {
        loop {
            let stored = self.next_stored().await?;
            let Some(text) = &mut self.base64 else { return Ok(stored) };
            let is_end = stored.is_none();
            text.extend(stored.iter().flatten().filter(|byte| !byte.is_ascii_whitespace()));
            let whole = if is_end { text.len() } else { text.len() / 4 * 4 };
            let decoded =
                BASE64.decode(&text[..whole]).map_err(|_| Malformed("a part is not base64, as its head says"))?;
            text.drain(..whole);
            if is_end || !decoded.is_empty() {
                return Ok((!decoded.is_empty()).then(|| decoded.into()));
            }
        }
    }

    /// The next bytes of the part as they were sent, never empty; `None` at its end.
    async fn next_stored(&mut self) -> Result<Option<Bytes>, MultipartError> {
        while self.state == State::InPart {
            let complete = match self.delimiter.find(&self.buffer) {
                Some(0) => {
                    self.buffer.advance(self.delimiter.needle().len());
                    self.state = State::AfterDelimiter;
                    break;
                }
                Some(start) => start,
                // The last bytes may be the beginning of a delimiter.
                None => (self.buffer.len() + 1).saturating_sub(self.delimiter.needle().len()),
            };
            if complete > 0 {
                return Ok(Some(self.buffer.split_to(complete).freeze()));
            }
            self.fill().await?;
        }
        Ok(None)
    }

    async fn skip_preamble(&mut self) -> Result<(), MultipartError> {
        loop {
            if let Some(start) = self.delimiter.find(&self.buffer) {
                self.buffer.advance(start + self.delimiter.needle().len());
                self.state = State::AfterDelimiter;
                return Ok(());
            }
            if self.buffer.len() > MAX_PREAMBLE {
                return Err(Malformed("it does not begin with the boundary"));
            }
            self.fill().await?;
        }
    }

    /// Reads the end of a delimiter: whether another part follows. After the last, the rest of the body is skipped.
    async fn enter_part(&mut self) -> Result<bool, MultipartError> {
        while self.buffer.len() < 2 {
            self.fill().await?;
        }
        if self.buffer.starts_with(b"--") {
            self.state = State::Ended;
            self.buffer.clear();
            while let Some(chunk) = self.chunks.next_chunk().await? {
                self.count(&chunk)?;
            }
            return Ok(false);
        }
        // RFC 2046 allows white space after the boundary.
        while self.buffer.first().is_some_and(|&byte| matches!(byte, b' ' | b'\t')) {
            self.buffer.advance(1);
            while self.buffer.len() < 2 {
                self.fill().await?;
            }
        }
        if !self.buffer.starts_with(b"\r\n") {
            return Err(Malformed("the boundary is followed by other text"));
        }
        Ok(true)
    }

    /// The lines of a part's head, each preceded by its CRLF.
    async fn take_head(&mut self) -> Result<Bytes, MultipartError> {
        loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.split_to(end).freeze();
                self.buffer.advance(4);
                // So that the delimiter of an empty part is found: its CRLF is the blank line's.
                self.state = State::InPart;
                return Ok(head);
            }
            if self.buffer.len() > MAX_PART_HEAD {
                return Err(Malformed("the head of a part is too long"));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), MultipartError> {
        match self.chunks.next_chunk().await? {
            Some(chunk) => {
                self.count(&chunk)?;
                self.buffer.extend_from_slice(&chunk);
                Ok(())
            }
            None => Err(Malformed("it ends early")),
        }
    }

    fn count(&mut self, chunk: &Bytes) -> Result<(), MultipartError> {
        self.bytes_left = self.bytes_left.checked_sub(chunk.len()).ok_or(MultipartError::BodyTooLarge)?;
        Ok(())
    }
}

/// The boundary of a `Content-Type`: an error for a missing or invalid boundary, `None` for other media types.
pub(crate) fn boundary(content_type: &str) -> Result<Option<String>, MultipartError> {
    let (media_type, rest) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !media_type.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Ok(None);
    }
    match parameter(rest, "boundary") {
        Some(boundary) if (1..=MAX_BOUNDARY).contains(&boundary.len()) => Ok(Some(boundary)),
        Some(_) | None => Err(Malformed("the content type has no usable boundary")),
    }
}

/// The head of a part, in which a line that begins with white space continues the one before (RFC 822).
fn unfolded(head: &[u8]) -> String {
    String::from_utf8_lossy(head).replace("\r\n ", " ").replace("\r\n\t", " ")
}

/// The value of a header in the `head` of a part.
fn header<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case(wanted).then_some(value)
    })
}

/// The names in a part's `Content-Disposition`.
fn parse_part_head(head: &str) -> Option<Part> {
    let disposition = header(head, "content-disposition")?;
    let (kind, parameters) = disposition.split_once(';')?;
    let name = kind.trim().eq_ignore_ascii_case("form-data").then(|| parameter(parameters, "name"))??;
    Some(Part { name, filename: parameter(parameters, "filename") })
}

/// One parameter of a header value: `a=b; c="d;\"e"`.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim_end().to_owned(), &after[end..])
            }
        };
        if name.trim_end().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after;
    }
}

/// A quoted string up to its closing quote, and the text after it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            // Only `\"` and `\\` are escapes; in file names of old browsers (`C:\a.jpg`) a backslash is literal.
            '\\' if text[at + 1..].starts_with(['"', '\\']) => value.extend(characters.next().map(|(_, next)| next)),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Reads a body that arrives in pieces of `step` bytes.
    fn read(body: &[u8], step: usize) -> Result<Vec<(String, Vec<u8>)>, MultipartError> {
        let chunks: VecDeque<_> = body.chunks(step).map(Bytes::copy_from_slice).collect();
        let mut multipart = Multipart::new(chunks, "XyZ", 1 << 20);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let mut parts = Vec::new();
            while let Some(Part { name, .. }) = multipart.next_part().await? {
                let mut content = Vec::new();
                while let Some(data) = multipart.next_data().await? {
                    content.extend_from_slice(&data);
                }
                parts.push((name, content));
            }
            Ok(parts)
        })
    }

    fn part(name: &str, content: &[u8]) -> Vec<u8> {
        let head = format!("--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        [head.as_bytes(), content, b"\r\n"].concat()
    }

    #[test]
    fn parts_are_complete_however_the_body_is_chunked() {
        let tricky = b"\r\n--Xy\r\n-\r\r\n--XyY--\r\n".as_slice();
        let body = [
            b"preamble\r\n".as_slice(),
            &part("a", b"one"),
            &part("empty", b""),
            &part("b", tricky),
            b"--XyZ--\r\nepilogue",
        ]
        .concat();
        let expected = [("a", b"one".as_slice()), ("empty", b""), ("b", tricky)];
        let expected: Vec<_> = expected.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        for step in 1..body.len() {
            assert_eq!(read(&body, step).expect("well formed"), expected, "in pieces of {step}");
        }
    }

    #[test]
    fn a_truncated_body_is_malformed() {
        let body = [part("a", b"one").as_slice(), b"--XyZ--"].concat();
        assert_eq!(read(&body, 7).expect("whole").len(), 1);
        for length in 0..body.len() {
            assert!(matches!(read(&body[..length], 7), Err(Malformed(_))), "{length} bytes");
        }
    }

    #[test]
    fn an_endless_head_and_an_endless_preamble_are_refused_early() {
        let endless_head = [b"--XyZ\r\nX: ".as_slice(), &vec![b'x'; MAX_PART_HEAD + 1]].concat();
        assert!(matches!(read(&endless_head, 100), Err(Malformed("the head of a part is too long"))));
        let endless_preamble = vec![b'x'; MAX_PREAMBLE + 1];
        assert!(matches!(read(&endless_preamble, 100), Err(Malformed("it does not begin with the boundary"))));
    }

    #[test]
    fn a_body_beyond_its_limit_is_refused_even_after_the_last_part() {
        let body = [b"--XyZ--".as_slice(), &vec![b'x'; 1 << 20]].concat();
        assert!(matches!(read(&body, 1000), Err(MultipartError::BodyTooLarge)));
    }

    #[test]
    fn a_part_needs_a_name() {
        for head in ["X: y", "Content-Disposition: form-data", "Content-Disposition: attachment; name=\"a\"", ""] {
            let body = format!("--XyZ\r\n{head}\r\n\r\nvalue\r\n--XyZ--");
            assert!(matches!(read(body.as_bytes(), 9), Err(Malformed(_))), "{head:?}");
        }
    }

    #[test]
    fn a_part_in_base64_is_decoded_however_the_body_is_chunked() {
        let text = b"TW FueSBo\r\nYW5kcyBt YWtlIGxpZ2h0IHdvcms=";
        let head =
            "--XyZ\r\nContent-Disposition: form-data;\r\n name=\"a\"\r\nContent-Transfer-Encoding: BASE64\r\n\r\n";
        let body = [head.as_bytes(), text, b"\r\n", &part("b", b"TQ=="), b"--XyZ--"].concat();
        let expected = [("a".to_owned(), b"Many hands make light work".to_vec()), ("b".to_owned(), b"TQ==".to_vec())];
        for step in 1..body.len() {
            assert_eq!(read(&body, step).expect("well formed"), expected, "in pieces of {step}");
        }
        let broken = [head.as_bytes(), b"!!!!", b"\r\n--XyZ--"].concat();
        assert!(matches!(read(&broken, 9), Err(Malformed(_))));
    }

    #[test]
    fn names_are_read_as_clients_write_them() {
        for (head, expected) in [
            ("Content-Disposition: form-data; name=\"file\"; filename=\"a;name=b.jpg\"", "file"),
            ("Content-Disposition: form-data; filename=\"a \\\"b\\\".jpg\"; name=\"file\"", "file"),
            ("content-disposition:form-data;filename=\"C:\\a\\b.jpg\";NAME=file", "file"),
            ("Content-Type: image/jpeg\r\nContent-Disposition: form-data; name=edge ", "edge"),
            ("Content-Disposition: form-data; name=\"a\\\"b\"", "a\"b"),
        ] {
            let part = parse_part_head(&unfolded(format!("\r\n{head}").as_bytes()));
            assert_eq!(part.map(|part| part.name).as_deref(), Some(expected), "{head}");
        }
        let filename =
            |head: &str| parse_part_head(&unfolded(format!("\r\n{head}").as_bytes())).and_then(|part| part.filename);
        let named = filename("Content-Disposition: form-data; name=\"files\"; filename=\"a \\\"b\\\".jpg\"");
        assert_eq!(named.as_deref(), Some("a \"b\".jpg"));
        assert_eq!(filename("Content-Disposition: form-data; name=\"files\""), None);
    }

    #[test]
    fn the_boundary_is_read_from_the_content_type() {
        let of = |content_type| boundary(content_type);
        assert_eq!(of("multipart/form-data; boundary=abc").expect("good").as_deref(), Some("abc"));
        assert_eq!(of("Multipart/Form-Data;charset=utf-8; Boundary=\"a b\"").expect("good").as_deref(), Some("a b"));
        assert_eq!(of("application/json; boundary=abc").expect("another type"), None);
        assert_eq!(of("multipart/mixed; boundary=abc").expect("another type"), None);
        for bad in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(of(&format!("multipart/form-data; boundary={}", "x".repeat(71))).is_err());
    }
}
