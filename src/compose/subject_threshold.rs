//! Alpha threshold from which a pixel counts as subject.

/// Coverage, of 255, from which a pixel counts as subject: 3 %. Lower coverage is an invisible residue of the matte.
pub const SUBJECT_ALPHA: u8 = 8;
