//! Decodes a picture from base64 text as it arrives.
//!
//! White space is skipped (RFC 2045 wraps lines), both alphabets of RFC 4648 are read, with or without padding, and the head
//! of a data URL (RFC 2397) before the text is dropped; its signs may be escaped (`%2B`).

use super::form;
use super::input_names::IMAGE_BASE64;
use crate::http::admission::Share;
use crate::http::reply::Result;
use crate::recipe::FieldError;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;

/// Padding is removed before decoding; trailing bits that encoders leave set are ignored.
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

/// Decodes base64 text piece by piece.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    /// The digits after a `%`.
    escape: Option<String>,
    /// Characters that are not decoded yet, all of the standard alphabet.
    text: Vec<u8>,
    bytes: Vec<u8>,
    share: Share,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// In what may be the scheme of a data URL, or else the picture.
    Start,
    /// The head of a data URL.
    Head(Vec<u8>),
    Text,
    /// After the text: the number of `=`.
    Padding(u8),
    /// Not base64, for this reason.
    Invalid(String),
}

impl Decoder {
    pub(crate) fn new(share: Share) -> Self {
        Self { state: State::Start, escape: None, text: Vec::new(), bytes: Vec::new(), share }
    }

    pub(crate) fn push(&mut self, byte: u8) -> Result<()> {
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        if let Some(digits) = &mut self.escape {
            digits.push(char::from(byte));
            if digits.len() < 2 {
                return Ok(());
            }
            let escaped = u8::from_str_radix(digits, 16).ok().filter(|escaped| *escaped != b'%').unwrap_or(u8::MAX);
            self.escape = None;
            return self.push(escaped);
        }
        match (&mut self.state, byte) {
            (State::Invalid(_), _) => {}
            (State::Start, b':') if self.text.eq_ignore_ascii_case(b"data") => {
                self.text.clear();
                self.state = State::Head(Vec::new());
            }
            (State::Head(head), b',') => {
                let is_base64 = head.to_ascii_lowercase().ends_with(b";base64");
                self.state = if is_base64 { State::Text } else { invalid("a data URL without base64") };
            }
            (State::Head(head), _) if head.len() < MAX_HEAD => head.push(byte),
            (State::Head(_), _) => self.state = invalid("a data URL with a long head"),
            (State::Text | State::Padding(_), b'%') => self.escape = Some(String::new()),
            (State::Start | State::Text, b'=') => self.state = State::Padding(1),
            (State::Padding(1), b'=') => self.state = State::Padding(2),
            (State::Start | State::Text, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'-' | b'_') => {
                self.text.push(match byte {
                    b'-' => b'+',
                    b'_' => b'/',
                    other => other,
                });
                if self.text.len() == PIECE {
                    self.state = State::Text;
                    self.decode()?;
                }
            }
            (State::Start | State::Text | State::Padding(_), other) => {
                let shown = if other.is_ascii() { char::from(other) } else { char::REPLACEMENT_CHARACTER };
                self.state = invalid(&shown.to_string());
            }
        }
        Ok(())
    }

    fn decode(&mut self) -> Result<()> {
        let length = self.text.len() * 3 / 4;
        if self.bytes.len() + length > self.share.max_file() {
            return Err(form::file_too_large(self.share.max_file()).param(IMAGE_BASE64));
        }
        self.share.grow(length)?;
        if BASE64.decode_vec(&self.text, &mut self.bytes).is_err() {
            self.state = invalid("an incomplete group of characters");
        }
        self.text.clear();
        Ok(())
    }

    /// The picture with its memory; `None` for an empty text.
    pub(crate) fn finish(mut self) -> Result<Option<Result<Bytes, FieldError>>> {
        if matches!(self.state, State::Head(_)) || self.escape.is_some() {
            self.state = invalid("a data URL without a picture");
        } else if !matches!(self.state, State::Invalid(_)) {
            self.decode()?;
        }
        if let State::Invalid(what) = self.state {
            let expected = "a picture as base64, perhaps behind `data:image/…;base64,`";
            return Ok(Some(Err(FieldError::invalid(IMAGE_BASE64, &what, expected))));
        }
        Ok((!self.bytes.is_empty()).then(|| Ok(self.share.hold(self.bytes))))
    }
}

fn invalid(what: &str) -> State {
    State::Invalid(what.to_owned())
}
