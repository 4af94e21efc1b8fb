//! Frame rate as a fraction: parsing, the choice of a constant rate for a clip, and exact timestamps.

use std::fmt;

/// Frames per second, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Frames (the numerator).
    pub frames: u32,
    /// Seconds for that many frames (the denominator).
    pub seconds: u32,
}

/// Rates that cameras and editors use.
const STANDARD_RATES: &[(u32, u32)] =
    &[(24_000, 1001), (24, 1), (25, 1), (30_000, 1001), (30, 1), (48, 1), (50, 1), (60_000, 1001), (60, 1)];

impl Rate {
    /// Parses `30000/1001`; `None` when it is not a positive rate.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (frames, seconds) = text.split_once('/').unwrap_or((text, "1"));
        let (frames, seconds) = (frames.parse::<u32>().ok()?, seconds.parse::<u32>().ok()?);
        (frames > 0 && seconds > 0).then(|| Self { frames, seconds }.reduced())
    }

    /// The constant rate for a clip: the nominal rate of its file when nearly every frame is present, else a standard
    /// rate close to its average, else the average to a hundredth of a frame.
    pub(super) fn constant(average: f64, nominal: Option<Self>) -> Self {
        let near = |rate: Self, by: f64| (average / rate.per_second() - 1.0).abs() < by;
        if let Some(nominal) = nominal
            && nominal.frames <= 60 * nominal.seconds
            && near(nominal, 0.01)
        {
            return nominal;
        }
        let mut standard = STANDARD_RATES.iter().map(|&(frames, seconds)| Self { frames, seconds });
        if let Some(standard) = standard.find(|&rate| near(rate, 0.0005)) {
            return standard;
        }
        let hundredths = (average * 100.0).round().clamp(1.0, 6000.0);
        Self { frames: hundredths as u32, seconds: 100 }.reduced()
    }

    /// Frames per second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        f64::from(self.frames) / f64::from(self.seconds)
    }

    /// Duration of `frames` in microseconds, rounded down.
    pub(super) fn micros(self, frames: u64) -> u64 {
        let micros = u128::from(frames) * u128::from(self.seconds) * 1_000_000 / u128::from(self.frames.max(1));
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// Duration of `frames` in seconds.
    pub(super) fn length(self, frames: u64) -> f64 {
        frames as f64 * f64::from(self.seconds) / f64::from(self.frames)
    }

    /// Timescale in ticks per second in which a frame lasts a whole number of ticks; at least ten thousand, as players
    /// expect.
    pub(super) fn timescale(self) -> u32 {
        self.frames * 10_000_u32.div_ceil(self.frames.max(1))
    }

    fn reduced(self) -> Self {
        let (mut a, mut b) = (self.frames, self.seconds);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Self { frames: self.frames / a.max(1), seconds: self.seconds / a.max(1) }
    }
}

impl fmt::Display for Rate {
    /// `30000/1001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.frames, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        Rate::parse(text).unwrap()
    }

    #[test]
    fn fractions_are_parsed_and_reduced() {
        assert_eq!(rate("30000/1001"), Rate { frames: 30_000, seconds: 1001 });
        assert_eq!(rate("50/2").to_string(), "25/1");
        assert_eq!(rate("12"), Rate { frames: 12, seconds: 1 });
        for none in ["0/0", "0/1", "30/0", "", "x", "-1/1", "1/99999999999"] {
            assert_eq!(Rate::parse(none), None, "{none}");
        }
    }

    #[test]
    fn a_clip_with_nearly_every_frame_keeps_its_rate() {
        let nominal = Some(rate("30/1"));
        assert_eq!(Rate::constant(29.9902, nominal), rate("30/1"));
        assert_eq!(Rate::constant(11.988, Some(rate("12/1"))), rate("12/1"));
        assert_eq!(Rate::constant(17.2, nominal), rate("86/5"));
        assert_eq!(Rate::constant(29.97, Some(rate("90000/1"))), rate("30000/1001"));
        assert_eq!(Rate::constant(0.001, None), rate("1/100"));
        assert_eq!(Rate::constant(60.2, None), rate("60/1"));
    }

    #[test]
    fn times_are_exact() {
        let ntsc = rate("30000/1001");
        assert_eq!(ntsc.micros(60), 2_002_000);
        assert_eq!(ntsc.timescale(), 30_000);
        assert_eq!(rate("24/1").timescale() % 24, 0);
        assert!((ntsc.length(30_000) - 1001.0).abs() < 1e-9);
    }
}
