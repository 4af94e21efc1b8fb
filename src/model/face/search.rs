//! Which faces of a picture are searched for: only large ones, or also small ones.

/// Which faces are searched for, which determines the cost.
///
/// The network's input is a copy of the picture with a longest side of 320 pixels. A face under about a 28th of the
/// picture's longest side is too small there and is found only in an enlarged tile: up to 36 more passes, each of which
/// may also detect something other than a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceSearch {
    /// Faces that the copy of the whole picture shows.
    Large,
    /// Searches again, for small faces, when no large face was found.
    LargeElseSmall,
    /// All faces.
    All,
}

impl FaceSearch {
    /// Maximum number of faces.
    pub const MAX_FACES: usize = 64;

    /// Maximum candidates to refine, best first. Few for a main face, so that weak ones do not affect its choice.
    pub(super) const fn most_candidates(self) -> usize {
        match self {
            Self::Large | Self::LargeElseSmall => 8,
            Self::All => Self::MAX_FACES,
        }
    }

    /// Whether tiles are searched, given whether the whole picture showed a face.
    pub(super) const fn includes_tiles(self, has_large: bool) -> bool {
        match self {
            Self::Large => false,
            Self::LargeElseSmall => !has_large,
            Self::All => true,
        }
    }
}
