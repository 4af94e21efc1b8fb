//! Configuration section `[limits]`: rates, quotas and the largest pictures of one caller.

use super::server::HttpConfig;
use crate::codec::Limits;
use crate::store::Plan;
use serde::{Deserialize, Serialize};

/// The most bytes of a file that can be configured: 1 GiB.
const MOST_BYTES: usize = 1 << 30;
/// The longest side that can be configured, and the megapixels of its square.
const MOST_SIDE: u32 = 16_384;
const MOST_MEGAPIXELS: u32 = 268;
/// Bytes of a pixel in the largest result: a PNG of noise.
const REPLY_BYTES_PER_PIXEL: usize = 4;

/// Requests a minute of an account on `plus` on a loopback address.
const RATE_ON_LOOPBACK: u32 = 6000;

/// Section `[limits]`: what one caller may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Requests a key may make in any 60 seconds; beyond, it is answered 429.
    pub rate_per_minute: u32,
    /// Requests a minute of accounts on the plan `free`; overrides `rate_per_minute`.
    pub rate_per_minute_free: Option<u32>,
    /// Requests a minute of accounts on the plan `paid`.
    pub rate_per_minute_paid: Option<u32>,
    /// Requests a minute of accounts on the plan `plus`: by default 6000 on a loopback address where no rate is configured.
    pub rate_per_minute_plus: Option<u32>,
    /// Images that an account on the plan `free` may have made in a calendar month (UTC); beyond, it is answered 402.
    pub free_images_per_month: u64,
    /// Backdrops that `/replace-bg-ai` makes in a day (UTC), for all accounts together; beyond, it is answered 429.
    pub backdrop_ai_per_day: u32,
    /// Bytes of a picture, uploaded or fetched; beyond, it is answered 413. The commands that work without a daemon take at
    /// least 200 MB, 16384 pixels and 150 megapixels.
    pub max_bytes: usize,
    /// Pixels of a picture's longer side; beyond, it is answered 413. A result may have sides of this length, or of 8192 pixels if that is
    /// more.
    pub max_side: u32,
    /// Megapixels of a picture; beyond, it is answered 413.
    pub max_megapixels: u32,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let Limits { max_bytes, max_side, max_megapixels } = Limits::default();
        Self {
            rate_per_minute: 60,
            rate_per_minute_free: None,
            rate_per_minute_paid: None,
            rate_per_minute_plus: None,
            free_images_per_month: 50,
            backdrop_ai_per_day: 500,
            max_bytes,
            max_side,
            max_megapixels,
        }
    }
}

impl LimitsConfig {
    /// Every error in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let rates = [
            ("rate_per_minute", Some(self.rate_per_minute)),
            ("rate_per_minute_free", self.rate_per_minute_free),
            ("rate_per_minute_paid", self.rate_per_minute_paid),
            ("rate_per_minute_plus", self.rate_per_minute_plus),
        ];
        let wrong = rates.into_iter().filter(|(_, rate)| *rate == Some(0));
        let mut mistakes: Vec<_> = wrong.map(|(name, _)| format!("limits.{name}: expected at least 1")).collect();
        let mut check = |holds: bool, mistake: String| {
            if !holds {
                mistakes.push(format!("limits.{mistake}"));
            }
        };
        check((1024..=MOST_BYTES).contains(&self.max_bytes), format!("max_bytes: expected 1024 to {MOST_BYTES}"));
        check((16..=MOST_SIDE).contains(&self.max_side), format!("max_side: expected 16 to {MOST_SIDE}"));
        let megapixels = 1..=MOST_MEGAPIXELS;
        check(megapixels.contains(&self.max_megapixels), format!("max_megapixels: expected 1 to {MOST_MEGAPIXELS}"));
        mistakes
    }

    /// Every limit that exceeds the memory of `server` or the megapixels of the engine, each as a sentence. The default `max_megapixels`
    /// is always valid: a picture that needs more than the reserved megapixels takes all of them.
    #[must_use]
    pub fn validate_memory(&self, server: &HttpConfig, megapixels_in_flight: u32) -> Vec<String> {
        let mut mistakes = Vec::new();
        let bodies = server.max_body_megabytes_in_flight;
        if self.max_bytes > server.max_body_bytes() {
            mistakes
                .push(format!("limits.max_bytes: expected at most `server.max_body_megabytes_in_flight`, {bodies} MB"));
        }
        if self.max_megapixels > Limits::default().max_megapixels {
            if self.max_megapixels > megapixels_in_flight {
                mistakes.push(format!(
                    "limits.max_megapixels: expected at most `engine.max_megapixels_in_flight`, {megapixels_in_flight}"
                ));
            }
            if self.max_megapixels as usize * REPLY_BYTES_PER_PIXEL > bodies {
                mistakes.push(format!(
                    "limits.max_megapixels: expected at most a quarter of `server.max_body_megabytes_in_flight`, {}",
                    bodies / REPLY_BYTES_PER_PIXEL
                ));
            }
        }
        mistakes
    }

    /// The limits of pictures over HTTP.
    #[must_use]
    pub const fn of_pictures(&self) -> Limits {
        Limits { max_bytes: self.max_bytes, max_side: self.max_side, max_megapixels: self.max_megapixels }
    }

    /// The limits of pictures of the command line, whose user owns the machine.
    #[must_use]
    pub fn of_local_pictures(&self) -> Limits {
        self.of_pictures().or_larger(Limits::LOCAL)
    }

    /// These limits on a loopback address without proxies: accounts on `plus` have 6000 requests a minute unless a rate is configured.
    #[must_use]
    pub fn on_loopback(mut self) -> Self {
        if self.rate_per_minute == Self::default().rate_per_minute {
            self.rate_per_minute_plus.get_or_insert(RATE_ON_LOOPBACK);
        }
        self
    }

    /// Requests a key of an account on `plan` may make in any 60 seconds.
    #[must_use]
    pub fn rate_of(&self, plan: Plan) -> u32 {
        let of_plan = match plan {
            Plan::Free => self.rate_per_minute_free,
            Plan::Paid => self.rate_per_minute_paid,
            Plan::Plus => self.rate_per_minute_plus,
        };
        of_plan.unwrap_or(self.rate_per_minute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_pictures_are_bounded() {
        let of = |max_bytes, max_side, max_megapixels| LimitsConfig {
            max_bytes,
            max_side,
            max_megapixels,
            ..LimitsConfig::default()
        };
        assert!([of(1024, 16, 1), of(1 << 30, 16_384, 268)].iter().all(|good| good.validate().is_empty()));
        let expected = [
            "limits.max_bytes: expected 1024 to 1073741824",
            "limits.max_side: expected 16 to 16384",
            "limits.max_megapixels: expected 1 to 268",
        ];
        assert_eq!(of(1023, 15, 0).validate(), expected);
        assert_eq!(of((1 << 30) + 1, 16_385, 269).validate(), expected);
    }

    #[test]
    fn limits_of_pictures_fit_the_reserved_memory() {
        let server = |bodies| HttpConfig { max_body_megabytes_in_flight: bodies, ..HttpConfig::default() };
        let of = |max_bytes, max_megapixels| LimitsConfig { max_bytes, max_megapixels, ..LimitsConfig::default() };
        let default = LimitsConfig::default();
        assert_eq!(default.validate_memory(&HttpConfig::default(), 64), [""; 0]);
        assert_eq!(default.validate_memory(&server(16), 1), [""; 0], "a picture takes all of a smaller reservation");
        assert_eq!(of(512_000_000, 64).validate_memory(&HttpConfig::default(), 64), [""; 0]);
        for (limits, bodies, in_flight, expected) in [
            (of(256_000_001, 17), 256, 64, "max_bytes: expected at most `server.max_body_megabytes_in_flight`, 256 MB"),
            (of(1024, 65), 512, 64, "max_megapixels: expected at most `engine.max_megapixels_in_flight`, 64"),
            (
                of(1024, 65),
                256,
                100,
                "max_megapixels: expected at most a quarter of `server.max_body_megabytes_in_flight`, 64",
            ),
        ] {
            assert_eq!(limits.validate_memory(&server(bodies), in_flight), [format!("limits.{expected}")]);
        }
    }

    #[test]
    fn the_command_line_has_the_larger_limits() {
        assert_eq!(LimitsConfig::default().of_pictures(), Limits::default());
        assert_eq!(LimitsConfig::default().of_local_pictures(), Limits::LOCAL);
        let larger = LimitsConfig { max_megapixels: 200, ..LimitsConfig::default() };
        assert_eq!(larger.of_local_pictures(), Limits { max_megapixels: 200, ..Limits::LOCAL });
    }

    #[test]
    fn a_plan_has_its_own_rate_where_one_is_set() {
        let limits: LimitsConfig =
            toml::from_str("rate_per_minute = 10\nrate_per_minute_paid = 120").expect("two numbers");
        let rates = Plan::ALL.map(|plan| limits.rate_of(plan));
        assert_eq!(rates, [10, 120, 10]);
        let wrong = LimitsConfig { rate_per_minute: 0, rate_per_minute_plus: Some(0), ..limits };
        let expected =
            ["limits.rate_per_minute: expected at least 1", "limits.rate_per_minute_plus: expected at least 1"];
        assert_eq!(wrong.validate(), expected);
    }
}
