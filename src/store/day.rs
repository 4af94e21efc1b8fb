//! Days, and what was made on the last of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Month, UnixSeconds};

const SECONDS: i64 = 24 * 60 * 60;

/// A day in UTC, as the number of days since 1970-01-01. Times before it count as that day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Day(pub u32);

impl Day {
    /// The day that a time is in.
    #[must_use]
    pub fn of(time: UnixSeconds) -> Self {
        Self(u32::try_from(time.0.max(0) / SECONDS).unwrap_or(u32::MAX))
    }

    /// The first second of the next day.
    #[must_use]
    pub fn ends(self) -> UnixSeconds {
        UnixSeconds((i64::from(self.0) + 1) * SECONDS)
    }

    /// Its first second.
    #[must_use]
    pub fn starts(self) -> UnixSeconds {
        UnixSeconds(i64::from(self.0) * SECONDS)
    }

    /// The month that it is in.
    #[must_use]
    pub fn month(self) -> Month {
        Month::of(self.starts())
    }

    /// The day that is so many days before this one; 1970-01-01 at the earliest.
    #[must_use]
    pub const fn before(self, days: u32) -> Self {
        Self(self.0.saturating_sub(days))
    }

    /// The first day of a month; 1970-01-01 for one before it.
    #[must_use]
    pub fn first_of(month: Month) -> Self {
        Self::of(month.previous().ends())
    }

    /// As `2026-11-23`.
    #[must_use]
    pub fn date(self) -> String {
        let shown = self.starts().to_string();
        shown.split_once('T').map(|(date, _)| date.to_owned()).unwrap_or(shown)
    }

    /// Reads `2026-11-23`; nothing for other texts, and for days before 1970-01-01.
    #[must_use]
    pub fn parse(date: &str) -> Option<Self> {
        let date = Some(date).filter(|date| date.len() == 10)?.parse::<jiff::civil::Date>().ok()?;
        let start = jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?.as_second();
        u32::try_from(start.div_euclid(SECONDS)).ok().map(Self)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the day before {}", self.ends())
    }
}

/// How many backdrops were made on a day, for all accounts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// The last day on which one was made.
    pub day: Day,
    /// How many were made on it.
    pub count: u32,
}

impl Generated {
    /// With one more, made on `day`. One of a day that is over changes nothing: nobody asks for it any more.
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

    /// As one number, so that both are written together.
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
    fn a_day_begins_and_ends_at_midnight() {
        for (time, day) in [(-1, 0), (0, 0), (86_399, 0), (86_400, 1), (1_796_083_199, 20_787), (1_796_083_200, 20_788)]
        {
            assert_eq!(Day::of(UnixSeconds(time)), Day(day), "{time}");
        }
        assert_eq!(Day(20_787).ends(), UnixSeconds(1_796_083_200));
        assert_eq!(Day::of(UnixSeconds(i64::MAX)), Day(u32::MAX));
    }

    #[test]
    fn one_more_counts_for_its_own_day_only() {
        let three = Generated { day: Day(5), count: 3 };
        assert_eq!(three.with_one_more(Day(5)), Generated { day: Day(5), count: 4 });
        assert_eq!(three.with_one_more(Day(6)), Generated { day: Day(6), count: 1 });
        assert_eq!(three.with_one_more(Day(4)), three);
    }

    #[test]
    fn the_number_says_both() {
        for value in [
            Generated::default(),
            Generated { day: Day(u32::MAX), count: 1 },
            Generated { day: Day(7), count: u32::MAX },
        ] {
            assert_eq!(Generated::unpacked(value.packed()), value);
        }
    }
}
