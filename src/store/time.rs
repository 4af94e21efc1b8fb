//! Calendar arithmetic in UTC: seconds, months and days, for quotas, bills and expiries.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Seconds since 1970-01-01 UTC; shown as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// The present second.
    #[must_use]
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_second())
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0) {
            Ok(time) => write!(f, "{time}"),
            // Outside the calendar's years; only a damaged record has such a time.
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

impl UnixSeconds {
    /// The timestamp, clamped to the calendar's range.
    fn timestamp(self) -> jiff::Timestamp {
        let nearest = if self.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        jiff::Timestamp::from_second(self.0).unwrap_or(nearest)
    }
}

/// A calendar month in UTC, as the number `year * 100 + month`: 202611 is November 2026.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Month(pub u32);

impl Month {
    /// The month that a time is in. Times before the year 0 count as its first month.
    #[must_use]
    pub fn of(time: UnixSeconds) -> Self {
        let date = jiff::tz::Offset::UTC.to_datetime(time.timestamp()).date();
        let (Ok(year), Ok(month)) = (u32::try_from(date.year()), u32::try_from(date.month())) else {
            return Self(1);
        };
        Self(year * 100 + month)
    }

    /// The first second of the next month; `i64::MAX` for an invalid month.
    #[must_use]
    pub fn ends(self) -> UnixSeconds {
        let (year, month) = (self.0 / 100, self.0 % 100);
        let (year, month) = if month == 12 { (year.saturating_add(1), 1) } else { (year, month + 1) };
        let date = i16::try_from(year).ok().zip(i8::try_from(month).ok()).filter(|_| self.is_valid());
        date.and_then(|(year, month)| jiff::civil::Date::new(year, month, 1).ok())
            .and_then(|date| jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok())
            .map_or(UnixSeconds(i64::MAX), |time| UnixSeconds(time.as_second()))
    }

    /// The month before this one; itself for the first.
    #[must_use]
    pub const fn previous(self) -> Self {
        match (self.0 / 100, self.0 % 100) {
            (0, 0 | 1) => self,
            (year, 0 | 1) => Self((year - 1) * 100 + 12),
            (year, month) => Self(year * 100 + month - 1),
        }
    }

    /// Whether it is a calendar month.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        matches!(self.0 % 100, 1..=12) && self.0 / 100 <= 9999
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0 / 100, self.0 % 100)
    }
}

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// A day in UTC, as the number of days since 1970-01-01. Times before it count as that day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Day(pub u32);

impl Day {
    /// The day that a time is in.
    #[must_use]
    pub fn of(time: UnixSeconds) -> Self {
        Self(u32::try_from(time.0.max(0) / SECONDS_PER_DAY).unwrap_or(u32::MAX))
    }

    /// The first second of the next day.
    #[must_use]
    pub fn ends(self) -> UnixSeconds {
        UnixSeconds((i64::from(self.0) + 1) * SECONDS_PER_DAY)
    }

    /// Its first second.
    #[must_use]
    pub fn starts(self) -> UnixSeconds {
        UnixSeconds(i64::from(self.0) * SECONDS_PER_DAY)
    }

    /// The month that it is in.
    #[must_use]
    pub fn month(self) -> Month {
        Month::of(self.starts())
    }

    /// The day `days` before this one; 1970-01-01 at the earliest.
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

    /// Parses `2026-11-23`; `None` for other texts and for days before 1970-01-01.
    #[must_use]
    pub fn parse(date: &str) -> Option<Self> {
        let date = Some(date).filter(|date| date.len() == 10)?.parse::<jiff::civil::Date>().ok()?;
        let start = jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?.as_second();
        u32::try_from(start.div_euclid(SECONDS_PER_DAY)).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_rfc_3339_and_an_invalid_time_does_not_panic() {
        assert_eq!(UnixSeconds(1_767_225_600).to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(UnixSeconds(i64::MAX).to_string(), "@9223372036854775807");
    }

    #[test]
    fn a_month_ends_where_the_next_one_begins() {
        // 2026-11-30T23:59:59Z, 2026-12-01, 2026-12-31T23:59:59Z, 2027-01-01.
        for (time, month) in [(1_796_083_199, 202_611), (1_796_083_200, 202_612), (1_798_761_599, 202_612)] {
            assert_eq!(Month::of(UnixSeconds(time)), Month(month), "{time}");
        }
        assert_eq!(Month(202_611).ends(), UnixSeconds(1_796_083_200));
        assert_eq!(Month(202_612).ends(), UnixSeconds(1_798_761_600));
        let mut month = Month::of(UnixSeconds(0));
        for _ in 0..1200 {
            let next = Month::of(month.ends());
            assert_eq!(Month::of(UnixSeconds(month.ends().0 - 1)), month);
            assert_eq!(next.previous(), month);
            month = next;
        }
        assert_eq!(month.to_string(), "2070-01");
    }

    #[test]
    fn invalid_times_and_months_do_not_panic() {
        for time in [i64::MIN, i64::MIN + 1, -1, i64::MAX] {
            assert!(Month::of(UnixSeconds(time)).is_valid(), "{time}");
        }
        for month in [0, 1, 13, 202_600, 202_613, 999_912, u32::MAX] {
            let _ = (Month(month).ends(), Month(month).previous());
        }
        assert_eq!(Month(202_613).ends(), UnixSeconds(i64::MAX));
    }

    #[test]
    fn a_day_begins_and_ends_at_midnight() {
        for (time, day) in [(-1, 0), (0, 0), (86_399, 0), (86_400, 1), (1_796_083_199, 20_787), (1_796_083_200, 20_788)]
        {
            assert_eq!(Day::of(UnixSeconds(time)), Day(day), "{time}");
        }
        assert_eq!(Day(20_787).ends(), UnixSeconds(1_796_083_200));
        assert_eq!(Day::of(UnixSeconds(i64::MAX)), Day(u32::MAX));
    }
}
