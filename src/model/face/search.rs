//! Which faces of a picture are searched for: only those that a small copy shows, or also small ones.

/// What faces are searched for, and so what that costs.
///
/// The network's input is a copy of the picture with a longest side of 320 pixels. A face under about a 28th of the picture's longest
/// side is too small there, and is found only in a tile of a larger scale: up to 36 more passes, each of which may also find
/// something that is no face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceSearch {
    /// Faces that the copy of the whole picture shows.
    Large,
    /// The same; small ones only where there is none of them.
    LargeElseSmall,
    /// All faces.
    All,
}

impl FaceSearch {
    /// Faces of a picture that are found at most.
    pub const MAX_FACES: usize = 64;

    /// Candidates that are refined at most, those of the best scores. Of the searches for a main face few: which one is chosen
    /// does not depend on weak candidates then.
    pub(super) const fn most_candidates(self) -> usize {
        match self {
            Self::Large | Self::LargeElseSmall => 8,
            Self::All => Self::MAX_FACES,
        }
    }

    /// Whether small faces are searched for, in a picture where the whole has shown a face or none.
    pub(super) const fn includes_tiles(self, has_large: bool) -> bool {
        match self {
            Self::Large => false,
            Self::LargeElseSmall => !has_large,
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_faces_are_searched_for_where_they_matter() {
        let includes = |search: FaceSearch| [false, true].map(|has_large| search.includes_tiles(has_large));
        assert_eq!(includes(FaceSearch::Large), [false, false]);
        assert_eq!(includes(FaceSearch::LargeElseSmall), [true, false]);
        assert_eq!(includes(FaceSearch::All), [true, true]);
    }
}
