//! Reads a JSON object in which a picture may stand as base64, and decodes the picture while it arrives.
//!
//! The text of the top-level member `image_base64` is cut out between its quotes; what is left is a small object with an
//! empty string in that place, and is parsed like any other. So a picture takes the memory of its bytes, as in a form, and
//! never that of its text. White space in it is skipped (RFC 2045 wraps lines), JSON escapes are resolved (some
//! serialisers write `/` as `\/` and `+` as `\u002B`), both alphabets of RFC 4648 are read, with or without padding, and the
//! head of a data URL (RFC 2397) before it is dropped.

use super::body::{Chunks, RequestBody};
use super::error::ApiError;
use super::form::{self, MAX_OVERHEAD};
use super::json::{self, Object};
use super::upload_memory::{AccountMemory, Share};
use crate::recipe::FieldError;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;

/// The member that holds a picture.
pub(super) const IMAGE_BASE64: &str = "image_base64";

/// The padding is taken off before, and what encoders leave in the last bits says nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Characters that are decoded at once; a multiple of four.
const PIECE: usize = 16 * 1024;

/// The longest head of a data URL.
const MAX_HEAD: usize = 256;

/// A body that was read to its end.
#[derive(Debug)]
pub(super) struct PictureJson {
    /// Its members; `image_base64` has an empty string where a picture was read.
    pub(super) object: Object,
    /// The picture, when there is one. What is wrong with it is for the caller to report when the fields are in order.
    pub(super) picture: Option<Result<Bytes, FieldError>>,
    /// The picture's share of the memory for uploads; to be dropped after it.
    pub(super) share: Share,
}

/// The largest body that can hold a picture: as much again as its text may be white space and escapes.
fn max_body(max_file: usize) -> u64 {
    (max_file.div_ceil(3) * 8 + MAX_OVERHEAD) as u64
}

/// Reads the body whole.
pub(super) async fn read(body: &mut RequestBody, memory: &AccountMemory) -> Result<PictureJson, ApiError> {
    let max_body = max_body(memory.max_file());
    let too_large = || form::file_too_large(memory.max_file()).param(IMAGE_BASE64);
    if body.announced().is_some_and(|length| length > max_body) {
        return Err(too_large());
    }
    let mut splitter = Splitter::new(memory.share());
    let mut left = max_body;
    while let Some(chunk) = body.next_chunk().await? {
        left = left.checked_sub(chunk.len() as u64).ok_or_else(too_large)?;
        splitter.feed(&chunk)?;
    }
    splitter.end()
}

/// Separates the text of the picture from the rest of the body.
#[derive(Debug)]
struct Splitter {
    place: Place,
    depth: usize,
    /// Whether a colon came since the last comma or brace.
    is_value: bool,
    /// The last string that stood for a name, as far as it can be that of the picture.
    name: Vec<u8>,
    rest: Vec<u8>,
    has_picture: bool,
    picture: Decoder,
}

/// Where in the body the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BetweenStrings,
    InString {
        is_name: bool,
        is_escaped: bool,
    },
    InPicture,
    /// Behind a backslash in the picture.
    InEscape,
    /// In the digits of `\uXXXX`: how many there were, and their value.
    InDigits(u8, u32),
}

impl Splitter {
    fn new(share: Share) -> Self {
        Self {
            place: Place::BetweenStrings,
            depth: 0,
            is_value: false,
            name: Vec::new(),
            rest: Vec::new(),
            has_picture: false,
            picture: Decoder::new(share),
        }
    }

    fn feed(&mut self, mut data: &[u8]) -> Result<(), ApiError> {
        while let Some((&byte, rest)) = data.split_first() {
            data = rest;
            match self.place {
                Place::BetweenStrings => {
                    self.keep(byte)?;
                    self.place = self.between(byte);
                }
                Place::InString { is_name, is_escaped } => {
                    self.keep(byte)?;
                    self.place = match byte {
                        b'"' if !is_escaped => Place::BetweenStrings,
                        _ => {
                            if is_name && self.name.len() <= IMAGE_BASE64.len() {
                                self.name.push(byte);
                            }
                            Place::InString { is_name, is_escaped: byte == b'\\' && !is_escaped }
                        }
                    };
                }
                Place::InPicture => match byte {
                    b'"' => {
                        self.keep(byte)?;
                        self.place = Place::BetweenStrings;
                    }
                    b'\\' => self.place = Place::InEscape,
                    _ => {
                        let end = memchr::memchr2(b'"', b'\\', data).unwrap_or(data.len());
                        self.picture.push(byte)?;
                        for byte in &data[..end] {
                            self.picture.push(*byte)?;
                        }
                        data = &data[end..];
                    }
                },
                Place::InEscape => {
                    self.place = if byte == b'u' { Place::InDigits(0, 0) } else { Place::InPicture };
                    match byte {
                        b'u' => {}
                        b'/' => self.picture.push(byte)?,
                        b'n' | b'r' | b't' | b'f' => self.picture.push(b'\n')?,
                        _ => self.picture.push(u8::MAX)?,
                    }
                }
                Place::InDigits(count, value) => {
                    let digit = char::from(byte).to_digit(16);
                    let value = digit.map_or(u32::MAX, |digit| value.saturating_mul(16).saturating_add(digit));
                    self.place = Place::InDigits(count + 1, value);
                    if count == 3 || digit.is_none() {
                        self.place = Place::InPicture;
                        // What is not ASCII is no base64, whatever it is.
                        self.picture.push(u8::try_from(value).unwrap_or(u8::MAX))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The place behind `byte`, which stands outside of strings.
    fn between(&mut self, byte: u8) -> Place {
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.is_value = false;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => self.is_value = true,
            b',' if self.depth == 1 => self.is_value = false,
            b'"' if self.depth == 1 && self.is_value => {
                if !self.has_picture && self.name == IMAGE_BASE64.as_bytes() {
                    self.has_picture = true;
                    return Place::InPicture;
                }
                return Place::InString { is_name: false, is_escaped: false };
            }
            b'"' => {
                let is_name = self.depth == 1;
                if is_name {
                    self.name.clear();
                }
                return Place::InString { is_name, is_escaped: false };
            }
            _ => {}
        }
        Place::BetweenStrings
    }

    fn keep(&mut self, byte: u8) -> Result<(), ApiError> {
        if self.rest.len() == json::MAX_BODY {
            return Err(json::too_large());
        }
        self.rest.push(byte);
        Ok(())
    }

    fn end(self) -> Result<PictureJson, ApiError> {
        let object = json::parse(&self.rest)?;
        let (picture, share) = self.picture.end()?;
        Ok(PictureJson { object, picture, share })
    }
}

/// Turns base64 text into bytes, piece by piece.
#[derive(Debug)]
struct Decoder {
    state: Reading,
    /// Characters that are not decoded yet, all of the standard alphabet.
    text: Vec<u8>,
    bytes: Vec<u8>,
    share: Share,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reading {
    /// What may be the first word of a data URL, or else the picture.
    Begin,
    /// The head of a data URL.
    Head(Vec<u8>),
    Text,
    /// Behind the text: so many `=`.
    Padding(u8),
    /// It is no base64, because of this.
    Flawed(String),
}

impl Decoder {
    fn new(share: Share) -> Self {
        Self { state: Reading::Begin, text: Vec::new(), bytes: Vec::new(), share }
    }

    fn push(&mut self, byte: u8) -> Result<(), ApiError> {
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        match (&mut self.state, byte) {
            (Reading::Flawed(_), _) => {}
            (Reading::Begin, b':') if self.text.eq_ignore_ascii_case(b"data") => {
                self.text.clear();
                self.state = Reading::Head(Vec::new());
            }
            (Reading::Head(head), b',') => {
                let is_base64 = head.to_ascii_lowercase().ends_with(b";base64");
                self.state = if is_base64 { Reading::Text } else { flawed("a data URL without base64") };
            }
            (Reading::Head(head), _) if head.len() < MAX_HEAD => head.push(byte),
            (Reading::Head(_), _) => self.state = flawed("a data URL with a long head"),
            (Reading::Begin | Reading::Text, b'=') => self.state = Reading::Padding(1),
            (Reading::Padding(1), b'=') => self.state = Reading::Padding(2),
            (Reading::Begin | Reading::Text, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'-' | b'_') => {
                self.text.push(match byte {
                    b'-' => b'+',
                    b'_' => b'/',
                    other => other,
                });
                if self.text.len() == PIECE {
                    self.state = Reading::Text;
                    self.decode()?;
                }
            }
            (Reading::Begin | Reading::Text | Reading::Padding(_), other) => {
                let shown = if other.is_ascii() { char::from(other) } else { char::REPLACEMENT_CHARACTER };
                self.state = flawed(&shown.to_string());
            }
        }
        Ok(())
    }

    fn decode(&mut self) -> Result<(), ApiError> {
        let length = self.text.len() * 3 / 4;
        if self.bytes.len() + length > self.share.max_file() {
            return Err(form::file_too_large(self.share.max_file()).param(IMAGE_BASE64));
        }
        self.share.grow(length)?;
        if BASE64.decode_vec(&self.text, &mut self.bytes).is_err() {
            self.state = flawed("an incomplete group of characters");
        }
        self.text.clear();
        Ok(())
    }

    fn end(mut self) -> Result<(Option<Result<Bytes, FieldError>>, Share), ApiError> {
        if matches!(self.state, Reading::Head(_)) {
            self.state = flawed("a data URL without a picture");
        } else if !matches!(self.state, Reading::Flawed(_)) {
            self.decode()?;
        }
        let picture = match self.state {
            // The head was replaced above.
            Reading::Head(_) => None,
            Reading::Flawed(what) => {
                self.bytes = Vec::new();
                let expected = "a picture as base64, perhaps behind `data:image/…;base64,`";
                Some(Err(FieldError::invalid(IMAGE_BASE64, &what, expected)))
            }
            Reading::Begin | Reading::Text | Reading::Padding(_) if self.bytes.is_empty() => None,
            Reading::Begin | Reading::Text | Reading::Padding(_) => Some(Ok(Bytes::from(self.bytes))),
        };
        let held = picture.as_ref().map_or(0, |picture| picture.as_ref().map_or(0, Bytes::len));
        self.share.shrink_to(held);
        Ok((picture, self.share))
    }
}

fn flawed(what: &str) -> Reading {
    Reading::Flawed(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::error::ErrorCode;
    use crate::http::upload_memory::UploadMemory;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    const MAX_FILE: usize = 10 << 20;

    /// The members of a body, and its picture.
    type Read = (Vec<(String, serde_json::Value)>, Option<Result<Bytes, FieldError>>);

    /// Reads a body that arrives in pieces of `step` bytes, with 20 MB of memory.
    fn read(body: &[u8], step: usize) -> Result<Read, ApiError> {
        let memory = UploadMemory::new(20_000_000, MAX_FILE);
        let mut splitter = Splitter::new(memory.of("a").share());
        body.chunks(step).try_for_each(|chunk| splitter.feed(chunk))?;
        let PictureJson { object, picture, .. } = splitter.end()?;
        Ok((object.unique().expect("each once"), picture))
    }

    fn picture_of(text: &str) -> Option<Bytes> {
        let body =
            format!(r#"{{"a":"\"{{[","image_base64" : {text} , "b":[{{"image_base64":"!"}}],"c":{{"d":":,"}}}}"#);
        let mut pictures = [1, 2, 3, 7, 1000].map(|step| read(body.as_bytes(), step).expect("JSON"));
        for (members, picture) in &pictures {
            let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["a", IMAGE_BASE64, "b", "c"], "{text}");
            assert_eq!((&members[0].1, &members[2].1[0][IMAGE_BASE64]), (&"\"{[".into(), &"!".into()));
            assert_eq!(picture, &pictures[0].1, "{text}");
        }
        pictures[0].1.take().map(|picture| picture.expect("base64"))
    }

    #[test]
    fn every_usual_way_to_write_base64_gives_the_same_bytes() {
        for length in [1, 2, 3, 4, 5, 61, 62, 63, 500] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 89 + 251) as u8).collect();
            let text = STANDARD.encode(&bytes);
            let wrapped = text.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
            for text in [
                text.clone(),
                STANDARD_NO_PAD.encode(&bytes),
                URL_SAFE.encode(&bytes),
                URL_SAFE_NO_PAD.encode(&bytes),
                format!("data:image/png;base64,{text}"),
                format!("DATA:image/jpeg;name=a;BASE64,{text}"),
                format!("  {text}\\n"),
                wrapped.join("\\r\\n"),
                text.replace('/', "\\/"),
                text.replace('+', "\\u002B").replace('/', "\\u002f").replace('=', "\\u003D"),
            ] {
                assert_eq!(picture_of(&format!("\"{text}\"")).as_deref(), Some(bytes.as_slice()), "{text}");
            }
        }
    }

    #[test]
    fn null_and_an_empty_text_are_no_picture() {
        for text in ["null", "\"\"", "\" \\n\"", "5", "[\"AAAA\"]"] {
            assert_eq!(picture_of(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_base64_is_said_when_the_rest_is_read() {
        for text in [
            "!",
            "AAAA AAA*",
            "A",
            "AAAAA",
            "AA=A",
            "A===",
            "é",
            "\\u00e9",
            "\\b",
            "data:image/png,AAAA",
            "data:image/png;base64",
            "a:AAAA",
            "\\\"",
        ] {
            let (members, picture) = read(format!(r#"{{"image_base64":"{text}","b":1}}"#).as_bytes(), 3).expect("JSON");
            assert_eq!(members.len(), 2, "{text}");
            let error = picture.expect("a picture").expect_err(text);
            assert_eq!(error.param(), IMAGE_BASE64);
            assert!(error.to_string().len() < 200, "{error}");
        }
    }

    #[test]
    fn what_is_no_object_is_malformed() {
        for body in [
            "",
            "{",
            "[]",
            r#"{"image_base64":"AAAA"#,
            r#"{"image_base64":"AAAA""#,
            r#"{"image_base64":"AA\u00"}"#,
            r#"{"image_base64":"AAAA"}}"#,
            r#"[{"image_base64":"AAAA"}]"#,
            r#""image_base64""#,
        ] {
            let error = read(body.as_bytes(), 4).expect_err(body);
            assert_eq!(error.code, ErrorCode::InvalidParameter, "{body}");
        }
    }

    #[test]
    fn the_largest_picture_fits_and_a_byte_more_does_not() {
        for (length, code) in [(MAX_FILE, None), (MAX_FILE + 1, Some(ErrorCode::PayloadTooLarge))] {
            let body = format!(r#"{{"image_base64":"{}"}}"#, STANDARD.encode(vec![7; length]));
            let outcome = read(body.as_bytes(), 10_000);
            assert_eq!(outcome.as_ref().err().map(|error| error.code), code);
            if let Ok((_, picture)) = outcome {
                assert_eq!(picture.expect("one").expect("base64").len(), length);
            }
        }
    }

    #[test]
    fn only_the_picture_may_be_large() {
        for body in [
            format!(r#"{{"edge":"{}"}}"#, "x".repeat(json::MAX_BODY)),
            format!(r#"{{"image_base64":"AAAA","image_base64":"{}"}}"#, "A".repeat(json::MAX_BODY)),
            format!(r#"{{"a":{{"image_base64":"{}"}}}}"#, "A".repeat(json::MAX_BODY)),
            "[".repeat(json::MAX_BODY + 1),
        ] {
            assert_eq!(read(body.as_bytes(), 1000).expect_err("large").code, ErrorCode::PayloadTooLarge);
        }
    }

    #[test]
    fn a_picture_takes_the_memory_of_its_bytes() {
        let memory = UploadMemory::new(12_000_000, MAX_FILE);
        let mut splitter = Splitter::new(memory.of("a").share());
        splitter
            .feed(format!(r#"{{"image_base64":"{}"}}"#, STANDARD.encode(vec![7; 9_000_000])).as_bytes())
            .expect("it fits");
        let read = splitter.end().expect("JSON");
        let others = memory.of("b").share();
        assert!(others.grow(3_000_001).is_err(), "9 MB are taken");
        others.grow(3_000_000).expect("no more than 9 MB are taken");
        drop((read, others));
        memory.of("c").share().grow(10_000_000).expect("all is free again");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(body in proptest::collection::vec(any::<u8>(), 0..200), step in 1_usize..40) {
            let _ = read(&body, step).map(|_| ());
            let _ = read(&[br#"{"image_base64":""#.as_slice(), &body].concat(), step).map(|_| ());
        }

        #[test]
        fn without_a_picture_the_body_is_read_as_it_is(text in "[ -~]{0,60}", step in 1_usize..40) {
            let body = serde_json::json!({ "edge": text, "n": [text, { "image_base64": text }] }).to_string();
            let (members, picture) = read(body.as_bytes(), step).expect("JSON");
            prop_assert!(picture.is_none());
            prop_assert_eq!(serde_json::Value::Object(members.into_iter().collect()).to_string(), body);
        }
    }
}
