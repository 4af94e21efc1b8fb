//! Frame rate as a fraction: parsing, selection of a clip's constant rate, exact timestamps.
//!
//! Clips with frames at irregular times, or with less than one a second, are sampled: frames are repeated and dropped.

use std::fmt;

/// Frames per second, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Frames (the numerator).
    pub frames: u32,
    /// Seconds for that many frames (the denominator).
    pub seconds: u32,
}

/// Usual rates of cameras and editors.
const STANDARD_RATES: &[(u32, u32)] =
    &[(24_000, 1001), (24, 1), (25, 1), (30_000, 1001), (30, 1), (48, 1), (50, 1), (60_000, 1001), (60, 1)];

/// Lowest rate at which a clip is sampled, in frames per second. It shows a picture of a slide show within 50 ms of its
/// time; at the average rate the error could be half the time between two pictures.
pub(super) const MIN_SAMPLING_RATE: f64 = 10.0;

impl Rate {
    /// Parses `30000/1001`; `None` when it is not a positive rate.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (frames, seconds) = text.split_once('/').unwrap_or((text, "1"));
        let (frames, seconds) = (frames.parse::<u32>().ok()?, seconds.parse::<u32>().ok()?);
        (frames > 0 && seconds > 0).then(|| Self { frames, seconds }.reduced())
    }

    /// The rate of a clip with frames at regular times, from one a second to 60: the file's nominal rate when nearly
    /// every frame is present, else a standard rate close to its average. `None` for other clips.
    pub(super) fn regular(average: f64, nominal: Option<Self>) -> Option<Self> {
        let near = |rate: Self, by: f64| (average / rate.per_second() - 1.0).abs() < by;
        let is_present = |nominal: &Self| {
            let (frames, seconds) = (u64::from(nominal.frames), u64::from(nominal.seconds));
            (seconds..=60 * seconds).contains(&frames) && near(*nominal, 0.01)
        };
        let mut standard = STANDARD_RATES.iter().map(|&(frames, seconds)| Self { frames, seconds });
        nominal.filter(is_present).or_else(|| standard.find(|&rate| near(rate, 0.0005)))
    }

    /// The sampling rate of irregular clips: their average to a hundredth, at least [`MIN_SAMPLING_RATE`].
    pub(super) fn sampling(average: f64) -> Self {
        let hundredths = (average.clamp(MIN_SAMPLING_RATE, 60.0) * 100.0).round();
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

    pub(super) fn length(self, frames: u64) -> f64 {
        frames as f64 * f64::from(self.seconds) / f64::from(self.frames)
    }

    /// Ticks per second such that a frame lasts a whole number of ticks; players expect at least ten thousand.
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
        assert_eq!(Rate::regular(29.9902, nominal), nominal);
        assert_eq!(Rate::regular(11.988, Some(rate("12/1"))), Some(rate("12/1")));
        assert_eq!(Rate::regular(1.0, Some(rate("1/1"))), Some(rate("1/1")));
        assert_eq!(Rate::regular(29.97, Some(rate("90000/1"))), Some(rate("30000/1001")));
    }

    #[test]
    fn a_clip_with_irregular_or_few_frames_is_sampled() {
        assert_eq!(Rate::regular(17.2, Some(rate("30/1"))), None);
        assert_eq!(Rate::sampling(17.2), rate("86/5"));
        assert_eq!(Rate::sampling(60.2), rate("60/1"));
        // A picture every two seconds, two pictures in a minute, and the slowest rate of a header.
        for slow in ["1/2", "2/60", "1/100000000", "1/4294967295"] {
            let slow = rate(slow);
            assert_eq!(Rate::regular(slow.per_second(), Some(slow)), None, "{slow}");
            assert_eq!(Rate::sampling(slow.per_second()), rate("10/1"), "{slow}");
        }
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
