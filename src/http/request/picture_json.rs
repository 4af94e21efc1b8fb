//! Reads a JSON object with a picture as base64 (`image_base64`), decoding the picture while the body arrives.
//!
//! The value of the top-level member `image_base64` is separated from the rest: that is a small object with an empty string
//! instead, parsed like any other. So a picture takes the memory of its bytes, as in a form, and not the memory of its text.
//! JSON escapes are resolved (some serialisers write `/` as `\/` and `+` as `\u002B`).

use super::base64_picture::Decoder;
use super::body::{Chunks, RequestBody};
use super::form::{self, MAX_OVERHEAD};
use super::input_names::IMAGE_BASE64;
use super::json::{self, Object, Syntax};
use crate::http::admission::{AccountMemory, Share};
use crate::http::reply::Result;
use crate::recipe::FieldError;
use bytes::Bytes;

/// A body that was read to its end.
#[derive(Debug)]
pub(crate) struct PictureJson {
    /// Its members; `image_base64` is an empty string where a picture was decoded.
    pub(crate) object: Object,
    /// The picture, if one was sent. Its error is reported after errors of the fields.
    pub(crate) picture: Option<Result<Bytes, FieldError>>,
}

/// The largest body that can hold a picture: white space and escapes may double its text.
fn max_body(max_file: usize) -> u64 {
    (max_file.div_ceil(3) * 8 + MAX_OVERHEAD) as u64
}

/// Reads the whole body. A form is collected first, with memory for its text.
pub(crate) async fn read(body: &mut RequestBody, memory: &AccountMemory, syntax: Syntax) -> Result<PictureJson> {
    let max_body = max_body(memory.max_file());
    let too_large = || form::file_too_large(memory.max_file()).param(IMAGE_BASE64);
    if body.content_length().is_some_and(|length| length > max_body) {
        return Err(too_large());
    }
    let mut splitter = Splitter::new(memory.share());
    let (text_share, mut text) = (memory.share(), Vec::new());
    let mut left = max_body;
    while let Some(chunk) = body.next_chunk().await? {
        left = left.checked_sub(chunk.len() as u64).ok_or_else(too_large)?;
        match syntax {
            Syntax::Json => splitter.feed(&chunk)?,
            Syntax::Form => {
                text_share.grow(chunk.len())?;
                text.extend_from_slice(&chunk);
            }
        }
    }
    match syntax {
        Syntax::Json => splitter.finish(),
        Syntax::Form => of_form(&text, memory.share()),
    }
}

/// The members of a form, and the picture in it.
fn of_form(text: &[u8], share: Share) -> Result<PictureJson> {
    let mut object = Object::of_form(text);
    let mut picture = Decoder::new(share);
    for byte in object.take_text(IMAGE_BASE64).unwrap_or_default().bytes() {
        // A plus that was not escaped.
        picture.push(if byte == b' ' { b'+' } else { byte })?;
    }
    Ok(PictureJson { object, picture: picture.finish()? })
}

/// Separates the text of the picture from the rest of the body.
#[derive(Debug)]
pub(crate) struct Splitter {
    position: Position,
    depth: usize,
    /// Whether a colon came since the last comma or brace.
    is_value: bool,
    /// The last member name, up to one byte more than the picture's.
    name: Vec<u8>,
    rest: Vec<u8>,
    has_picture: bool,
    picture: Decoder,
}

/// Position of the next byte in the syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    BetweenStrings,
    InString {
        is_name: bool,
        is_escaped: bool,
    },
    InPicture,
    /// After a backslash in the picture.
    InEscape,
    /// In the digits of `\uXXXX`: their count so far, and their value.
    InDigits(u8, u32),
}

impl Splitter {
    pub(crate) fn new(share: Share) -> Self {
        Self {
            position: Position::BetweenStrings,
            depth: 0,
            is_value: false,
            name: Vec::new(),
            rest: Vec::new(),
            has_picture: false,
            picture: Decoder::new(share),
        }
    }

    pub(crate) fn feed(&mut self, mut data: &[u8]) -> Result<()> {
        while let Some((&byte, rest)) = data.split_first() {
            data = rest;
            match self.position {
                Position::BetweenStrings => {
                    self.keep(byte)?;
                    self.position = self.after(byte);
                }
                Position::InString { is_name, is_escaped } => {
                    self.keep(byte)?;
                    self.position = match byte {
                        b'"' if !is_escaped => Position::BetweenStrings,
                        _ => {
                            if is_name && self.name.len() <= IMAGE_BASE64.len() {
                                self.name.push(byte);
                            }
                            Position::InString { is_name, is_escaped: byte == b'\\' && !is_escaped }
                        }
                    };
                }
                Position::InPicture => match byte {
                    b'"' => {
                        self.keep(byte)?;
                        self.position = Position::BetweenStrings;
                    }
                    b'\\' => self.position = Position::InEscape,
                    _ => {
                        let end = memchr::memchr2(b'"', b'\\', data).unwrap_or(data.len());
                        self.picture.push(byte)?;
                        for byte in &data[..end] {
                            self.picture.push(*byte)?;
                        }
                        data = &data[end..];
                    }
                },
                Position::InEscape => {
                    self.position = if byte == b'u' { Position::InDigits(0, 0) } else { Position::InPicture };
                    match byte {
                        b'u' => {}
                        b'/' => self.picture.push(byte)?,
                        b'n' | b'r' | b't' | b'f' => self.picture.push(b'\n')?,
                        _ => self.picture.push(u8::MAX)?,
                    }
                }
                Position::InDigits(count, value) => {
                    let digit = char::from(byte).to_digit(16);
                    let value = digit.map_or(u32::MAX, |digit| value.saturating_mul(16).saturating_add(digit));
                    self.position = Position::InDigits(count + 1, value);
                    if count == 3 || digit.is_none() {
                        self.position = Position::InPicture;
                        // A character beyond ASCII is not base64.
                        self.picture.push(u8::try_from(value).unwrap_or(u8::MAX))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The position after `byte`, which is outside of strings.
    fn after(&mut self, byte: u8) -> Position {
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
                    return Position::InPicture;
                }
                return Position::InString { is_name: false, is_escaped: false };
            }
            b'"' => {
                let is_name = self.depth == 1;
                if is_name {
                    self.name.clear();
                }
                return Position::InString { is_name, is_escaped: false };
            }
            _ => {}
        }
        Position::BetweenStrings
    }

    fn keep(&mut self, byte: u8) -> Result<()> {
        if self.rest.len() == json::MAX_BODY {
            return Err(json::too_large());
        }
        self.rest.push(byte);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<PictureJson> {
        let object = json::parse(&self.rest)?;
        Ok(PictureJson { object, picture: self.picture.finish()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::admission::Memory;
    use crate::http::reply::ErrorCode;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

    const MAX_FILE: usize = 10 << 20;

    /// The members of a body, and its picture.
    type Read = (Vec<(String, serde_json::Value)>, Option<Result<Bytes, FieldError>>);

    /// Reads a body that arrives in pieces of `step` bytes, with 20 MB of memory.
    fn read(body: &[u8], step: usize) -> Result<Read> {
        let memory = Memory::new(20_000_000, MAX_FILE);
        let mut splitter = Splitter::new(memory.of("a").share());
        body.chunks(step).try_for_each(|chunk| splitter.feed(chunk))?;
        let PictureJson { object, picture, .. } = splitter.finish()?;
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
    fn all_common_spellings_of_base64_give_the_same_bytes() {
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
                format!("data:image/png;base64,{}", text.replace('+', "%2B").replace('/', "%2f").replace('=', "%3D")),
                text.replace('+', "\\u002B").replace('/', "\\u002f").replace('=', "\\u003D"),
            ] {
                assert_eq!(picture_of(&format!("\"{text}\"")).as_deref(), Some(bytes.as_slice()), "{text}");
            }
        }
    }

    #[test]
    fn a_form_holds_a_picture_whether_its_signs_are_escaped_or_not() {
        let bytes: Vec<u8> = (0..99).map(|at| (at * 89 + 251) as u8).collect();
        let text = STANDARD.encode(&bytes);
        let escaped = text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        for text in [&text, &escaped, &format!("data:image/png;base64,{escaped}")] {
            let memory = Memory::new(20_000_000, MAX_FILE);
            let form = format!("edge=hard&image_base64={text}");
            let PictureJson { object, picture, .. } = of_form(form.as_bytes(), memory.of("a").share()).expect("a form");
            assert_eq!(picture.expect("one").expect("base64"), bytes, "{text}");
            assert_eq!(object.unique().expect("each once")[0], ("edge".into(), "hard".into()));
        }
    }

    #[test]
    fn null_and_an_empty_text_are_no_picture() {
        for text in ["null", "\"\"", "\" \\n\"", "5", "[\"AAAA\"]"] {
            assert_eq!(picture_of(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_base64_is_reported_after_the_rest_is_read() {
        let invalid = r#"! AAAAAAA* A AAAAA AA=A A=== é \u00e9 \b \" data:image/png,AAAA data:image/png;base64 a:AAAA"#;
        for text in invalid.split(' ') {
            let (members, picture) = read(format!(r#"{{"image_base64":"{text}","b":1}}"#).as_bytes(), 3).expect("JSON");
            assert_eq!(members.len(), 2, "{text}");
            let error = picture.expect("a picture").expect_err(text);
            assert_eq!(error.param(), IMAGE_BASE64);
            assert!(error.to_string().len() < 200, "{error}");
        }
    }

    #[test]
    fn a_body_that_is_not_an_object_is_malformed() {
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
        let memory = Memory::new(24_000_000, MAX_FILE);
        let mut splitter = Splitter::new(memory.of("a").share());
        splitter
            .feed(format!(r#"{{"image_base64":"{}"}}"#, STANDARD.encode(vec![7; 9_000_000])).as_bytes())
            .expect("it fits");
        let read = splitter.finish().expect("JSON");
        let others = memory.of("b").share();
        assert!(others.grow(3_000_001).is_err(), "9 MB are taken");
        others.grow(3_000_000).expect("no more than 9 MB are taken");
        drop((read, others));
        memory.of("c").share().grow(10_000_000).expect("all is free again");
    }
}
