//! How many backdrops were generated on the last day on which one was, as one packed number.

use serde::{Deserialize, Serialize};

use super::Day;

/// Backdrops generated on a day, for all accounts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedCount {
    /// The last day on which one was generated.
    pub day: Day,
    /// How many were generated on it.
    pub count: u32,
}

impl GeneratedCount {
    /// With one more, generated on `day`. One of an earlier day changes nothing.
    #[must_use]
    pub const fn with_one_more(self, day: Day) -> Self {
        if day.0 > self.day.0 {
            Self { day, count: 1 }
        } else if day.0 == self.day.0 {
            Self { day, count: self.count.saturating_add(1) }
        } else {
            self
        }
    }

    /// Both as one number, so that they are written together.
    pub(super) const fn packed(self) -> u64 {
        ((self.day.0 as u64) << 32) | self.count as u64
    }

    pub(super) const fn unpacked(packed: u64) -> Self {
        Self { day: Day((packed >> 32) as u32), count: (packed & 0xffff_ffff) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_counts_for_its_own_day_only() {
        let three = GeneratedCount { day: Day(5), count: 3 };
        assert_eq!(three.with_one_more(Day(5)), GeneratedCount { day: Day(5), count: 4 });
        assert_eq!(three.with_one_more(Day(6)), GeneratedCount { day: Day(6), count: 1 });
        assert_eq!(three.with_one_more(Day(4)), three);
    }

    #[test]
    fn packing_is_reversible() {
        for value in [
            GeneratedCount::default(),
            GeneratedCount { day: Day(u32::MAX), count: 1 },
            GeneratedCount { day: Day(7), count: u32::MAX },
        ] {
            assert_eq!(GeneratedCount::unpacked(value.packed()), value);
        }
    }
}
