//! How many backdrops were generated on the last day on which one was, as one packed number.

use serde::{Deserialize, Serialize};

use super::{ChangeError, Day};

/// Backdrops generated on a day, for all accounts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedCount {
    /// The last day on which one was generated.
    pub day: Day,
    /// How many were generated on it.
    pub count: u32,
}

impl GeneratedCount {
    /// Counts one more on `day`, or on the last counted day if the clock ran backwards. Refused if that day has `at_most`
    /// already.
    pub(super) fn taken(self, day: Day, at_most: u32) -> Result<Self, ChangeError> {
        let before = if day > self.day { Self { day, count: 0 } } else { self };
        if before.count >= at_most {
            return Err(ChangeError::GeneratedEnough { day: before.day });
        }
        Ok(Self { count: before.count + 1, ..before })
    }

    /// With one less, taken on `day`. One of an earlier day changes nothing.
    pub(super) const fn returned(self, day: Day) -> Self {
        if day.0 == self.day.0 { Self { count: self.count.saturating_sub(1), ..self } } else { self }
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
    fn one_more_counts_for_its_own_day_up_to_the_maximum_and_can_be_given_back() {
        let three = GeneratedCount { day: Day(5), count: 3 };
        assert_eq!(three.taken(Day(5), 4), Ok(GeneratedCount { day: Day(5), count: 4 }));
        assert_eq!(three.taken(Day(6), 1), Ok(GeneratedCount { day: Day(6), count: 1 }));
        for (day, at_most) in [(Day(5), 3), (Day(4), 3)] {
            assert_eq!(three.taken(day, at_most), Err(ChangeError::GeneratedEnough { day: Day(5) }));
        }
        assert!(three.taken(Day(6), 0).is_err(), "a maximum of 0 allows nothing");
        assert_eq!(three.taken(Day(4), 4), Ok(GeneratedCount { day: Day(5), count: 4 }), "the clock ran backwards");
        assert_eq!(three.returned(Day(5)).count, 2);
        assert_eq!([three.returned(Day(4)), three.returned(Day(6))], [three; 2]);
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
