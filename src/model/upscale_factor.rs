//! The factors that pictures can be upscaled by.

/// Ratio of an upscaled picture's sides to the source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Twice as wide and high.
    Two,
    /// Four times as wide and high.
    Four,
}

impl Factor {
    /// All factors, ascending.
    pub const ALL: [Self; 2] = [Self::Two, Self::Four];

    /// 2 or 4.
    #[must_use]
    pub const fn get(self) -> u32 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}
