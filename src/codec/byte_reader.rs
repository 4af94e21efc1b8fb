//! Bounds-checked reads of integers and slices from untrusted bytes.

use super::error::DecodeError;

/// The file ends before its declared structure.
pub(super) fn truncated() -> DecodeError {
    DecodeError::Corrupt("it ends too early".to_owned())
}

/// The `len` bytes of `bytes` from `at`.
pub(super) fn slice(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], DecodeError> {
    at.checked_add(len).and_then(|end| bytes.get(at..end)).ok_or_else(truncated)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], DecodeError> {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<N>).copied().ok_or_else(truncated)
}

pub(super) fn u8_at(bytes: &[u8], at: usize) -> Result<u8, DecodeError> {
    bytes.get(at).copied().ok_or_else(truncated)
}

pub(super) fn u16_be(bytes: &[u8], at: usize) -> Result<u16, DecodeError> {
    array(bytes, at).map(u16::from_be_bytes)
}

pub(super) fn u32_be(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    array(bytes, at).map(u32::from_be_bytes)
}

pub(super) fn u16_le(bytes: &[u8], at: usize) -> Result<u16, DecodeError> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(super) fn u24_le(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    array(bytes, at).map(|[low, mid, high]| u32::from_le_bytes([low, mid, high, 0]))
}

pub(super) fn u32_le(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    array(bytes, at).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_past_the_end_is_an_error_and_not_a_panic() {
        assert!(matches!(u32_be(&[1, 2, 3], 0), Err(DecodeError::Corrupt(_))));
        assert!(matches!(u16_le(&[1, 2, 3], usize::MAX), Err(DecodeError::Corrupt(_))));
        assert!(matches!(slice(&[1, 2, 3], usize::MAX, 2), Err(DecodeError::Corrupt(_))));
        assert_eq!(u24_le(&[9, 1, 2, 3], 1).ok(), Some(0x03_02_01));
    }
}
