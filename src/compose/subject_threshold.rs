//! Alpha threshold from which a pixel counts as subject.

/// Coverage, of 255, from which a pixel counts as subject: 3 %; below it lie a matte's invisible remains.
pub const SUBJECT_ALPHA: u8 = 8;
