//! The two messages between daemon and decode worker: fixed length, little-endian.

use crate::codec::decoders::Probed;
use crate::codec::{Container, DecodeError, Flaw, Header, Limits};
use crate::image::Size;

pub(super) const REQUEST_BYTES: usize = 34;
pub(super) const ANSWER_BYTES: usize = 12;

/// The first code of an answer with a flaw.
const FLAWS: u32 = 16;

/// A request; the file's descriptor is sent with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) container: Container,
    pub(super) limits: Limits,
    /// Bytes of the file.
    pub(super) len: usize,
    /// The probed size, to decode; `None` to probe.
    pub(super) decode: Option<Size>,
    pub(super) applies_profile: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Probed),
    Refused(Refusal),
}

/// Why a file was refused. The worker's message text is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Damaged,
    Unsupported,
    TooManyBytes,
    /// With its size.
    TooManyPixels(Size),
    /// With its size.
    TooManyMegapixels(Size),
}

impl Request {
    pub(super) fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let size = self.decode.unwrap_or(Size::new(0, 0));
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0] = self.container as u8;
        bytes[1] = u8::from(self.decode.is_some()) | u8::from(!self.applies_profile) << 1;
        bytes[2..10].copy_from_slice(&(self.len as u64).to_le_bytes());
        bytes[10..18].copy_from_slice(&(self.limits.max_bytes as u64).to_le_bytes());
        let words = [self.limits.max_side, self.limits.max_megapixels, size.width, size.height];
        for (word, place) in words.iter().zip(bytes[18..].as_chunks_mut::<4>().0) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Parses a request; `None` for bytes that [`Request::to_bytes`] never writes.
    pub(super) fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let containers = [Container::Jpeg, Container::Png, Container::WebP, Container::Heic];
        let container = containers.into_iter().find(|&container| bytes[0] == container as u8)?;
        let long = |at: usize| usize::try_from(u64::from_le_bytes(*bytes[at..].first_chunk()?)).ok();
        let word = |at: usize| bytes[at..].first_chunk().map(|word| u32::from_le_bytes(*word));
        let limits = Limits { max_bytes: long(10)?, max_side: word(18)?, max_megapixels: word(22)? };
        let size = Size::new(word(26)?, word(30)?);
        let (decode, applies_profile) = ((bytes[1] & 1 != 0).then_some(size), bytes[1] & 2 == 0);
        Some(Self { container, limits, len: long(2)?, decode, applies_profile })
    }
}

impl Answer {
    /// The answer for a decoder's result.
    pub(super) fn of(result: Result<Probed, &DecodeError>) -> Self {
        Self::Refused(match result {
            Ok(probed) => return Self::Done(probed),
            Err(DecodeError::Empty | DecodeError::Corrupt(_) | DecodeError::Worker(_)) => Refusal::Damaged,
            Err(DecodeError::Unsupported { .. }) => Refusal::Unsupported,
            Err(DecodeError::TooManyBytes { .. }) => Refusal::TooManyBytes,
            Err(&DecodeError::TooManyPixels { size, .. }) => Refusal::TooManyPixels(size),
            Err(&DecodeError::TooManyMegapixels { size, .. }) => Refusal::TooManyMegapixels(size),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let nothing = Size::new(0, 0);
        let (code, size) = match self {
            Self::Done((size, flaw)) => (flaw.map_or(0, |flaw| FLAWS + flaw as u32), size),
            Self::Refused(Refusal::Damaged) => (1, nothing),
            Self::Refused(Refusal::Unsupported) => (2, nothing),
            Self::Refused(Refusal::TooManyBytes) => (3, nothing),
            Self::Refused(Refusal::TooManyPixels(size)) => (4, size),
            Self::Refused(Refusal::TooManyMegapixels(size)) => (5, size),
        };
        let mut bytes = [0; ANSWER_BYTES];
        for (word, place) in [code, size.width, size.height].iter().zip(bytes.as_chunks_mut::<4>().0) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Parses an answer; `None` for bytes that a worker never writes.
    pub(super) fn from_bytes(bytes: &[u8; ANSWER_BYTES]) -> Option<Self> {
        let [code, width, height] = *bytes.as_chunks::<4>().0 else { return None };
        let [code, width, height] = [code, width, height].map(u32::from_le_bytes);
        let size = Size::new(width, height);
        Some(match code {
            0 => Self::Done((size, None)),
            1 => Self::Refused(Refusal::Damaged),
            2 => Self::Refused(Refusal::Unsupported),
            3 => Self::Refused(Refusal::TooManyBytes),
            4 => Self::Refused(Refusal::TooManyPixels(size)),
            5 => Self::Refused(Refusal::TooManyMegapixels(size)),
            code => {
                let flaws = [Flaw::NoEndMarker, Flaw::LostRestartMarkers, Flaw::WrongChecksum];
                let flaw = flaws.into_iter().find(|flaw| code == FLAWS + *flaw as u32)?;
                Self::Done((size, Some(flaw)))
            }
        })
    }
}

impl Refusal {
    /// The error for a file of this container under these limits.
    pub(super) fn error(self, container: Container, limits: &Limits) -> DecodeError {
        match self {
            Self::Damaged => DecodeError::Corrupt(format!("its {} data cannot be decoded", container.name())),
            Self::Unsupported => DecodeError::Unsupported { found: None },
            Self::TooManyBytes => DecodeError::TooManyBytes { limit: limits.max_bytes },
            Self::TooManyPixels(size) => DecodeError::TooManyPixels { size, limit: limits.max_side },
            Self::TooManyMegapixels(size) => DecodeError::TooManyMegapixels { size, limit: limits.max_megapixels },
        }
    }
}

impl From<&Header> for Request {
    /// A decode request for a probed file; the caller sets its length.
    fn from(header: &Header) -> Self {
        let &Header { container, size, limits, applies_profile, .. } = header;
        Self { container, limits, len: 0, decode: Some(size), applies_profile }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_way_back_and_unknown_ones_are_none() {
        let size = Size::new(640, 480);
        let refusals = [
            Refusal::Damaged,
            Refusal::Unsupported,
            Refusal::TooManyBytes,
            Refusal::TooManyPixels(size),
            Refusal::TooManyMegapixels(size),
        ];
        for answer in refusals
            .map(Answer::Refused)
            .into_iter()
            .chain([Answer::Done((size, None)), Answer::Done((size, Some(Flaw::WrongChecksum)))])
        {
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some(answer));
        }
        assert_eq!(Answer::from_bytes(&[6, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]), None);
        assert_eq!(Answer::from_bytes(&[255; ANSWER_BYTES]), None);
    }

    #[test]
    fn errors_of_limits_survive_both_ways() {
        let (size, limits) = (Size::new(5000, 10), Limits::default());
        let error = DecodeError::TooManyPixels { size, limit: limits.max_side };
        let Answer::Refused(refusal) = Answer::of(Err(&error)) else { panic!("an error is no size") };
        assert_eq!(refusal.error(Container::Heic, &limits).to_string(), error.to_string());
    }
}
