//! The price of a request, from its endpoint, fields and number of images or seconds.
//!
//! `/estimate` and billing use the same function. Prices are configured in dollars and computed in whole microdollars, so
//! that every sum is exact.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::compose::MAX_SIDE;
use crate::recipe::{FieldError, Fields, MAX_BATCH, Value, Whole};

/// Microdollars in a dollar.
const DOLLAR: f64 = 1_000_000.0;

/// Above any sensible price; keeps every sum far from overflow.
const MAX_PRICE: f64 = 1000.0;

/// Images of an estimate other than a batch.
const MAX_COUNT: u32 = 1_000_000;

/// Pixels of a result that costs one picture: the default limit of a source. A larger result costs several.
const PICTURE_PIXELS: u64 = 4096 * 4096;

/// Seconds of video in one estimate. The endpoint has other limits.
const MAX_SECONDS: f64 = 3600.0;

/// Defines [`PriceConfig`] with the default of each price.
macro_rules! prices {
    ($($(#[$doc:meta])* $name:ident = $default:literal,)*) => {
        /// Section `[prices]`: dollars for each image, by endpoint. All cutouts and mattes cost as `remove`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct PriceConfig {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl Default for PriceConfig {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl PriceConfig {
            /// All prices with their names.
            fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

prices! {
    /// `/remove`, `/remove-url`, each picture of a batch, `/mask`, and `/sticker` without a stroke.
    remove = 0.005,
    /// `/replace-bg`.
    replace_bg = 0.006,
    /// `/replace-bg-ai`; free during the preview.
    replace_bg_ai = 0.0,
    /// `/studio-shot`.
    studio_shot = 0.008,
    /// `/smart-crop`.
    smart_crop = 0.004,
    /// `/shadow`.
    shadow = 0.005,
    /// `/sticker` with a stroke.
    sticker = 0.005,
    /// `/headshot`.
    headshot = 0.01,
    /// `/face-restore`.
    face_restore = 0.01,
    /// `/upscale` by 2; by 4 it costs twice as much.
    upscale = 0.008,
    /// `/video/remove`, for each second of the result.
    video_remove = 0.05,
}

/// The parameters of a call that its price may depend on; those that its endpoint does not have are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Call<'a> {
    /// Path of the endpoint.
    pub endpoint: &'a str,
    /// Factor of `/upscale`: 2 (the default) or 4.
    pub scale: Option<u32>,
    /// Stroke of `/sticker`, 0 to 100; 0 is none.
    pub stroke_width: Option<u32>,
    /// Width of the result in pixels, where the call sets it.
    pub width: Option<u32>,
    /// Height of the result in pixels, where the call sets it.
    pub height: Option<u32>,
    /// Images of a batch (1 to 10), or number of calls. Default 1.
    pub count: Option<u32>,
    /// Seconds of the video that comes back. Default 1.
    pub seconds: Option<f64>,
}

/// A unit price and a number of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Microdollars for one unit.
    pub unit_price: u64,
    /// How many units.
    pub units: Units,
}

/// The billed unit and its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Units {
    /// Images, each with its price.
    Images(u32),
    /// Seconds of video, and fractions of them.
    Seconds(f64),
}

/// Why a call has no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// No endpoint of that path processes images.
    #[error("no endpoint `{0}` that has a price")]
    UnknownEndpoint(String),
    /// A parameter that the endpoint refuses.
    #[error(transparent)]
    Field(#[from] FieldError),
}

impl<'a> Call<'a> {
    /// One call of `endpoint` with these validated fields, on `images` images.
    #[must_use]
    pub fn of(endpoint: &'a str, fields: &Fields, images: u32) -> Self {
        let whole = |name| fields.get(name).and_then(Whole::<0, { u32::MAX }>::parse).map(Whole::get);
        Self {
            endpoint,
            scale: whole("scale"),
            stroke_width: whole("stroke_width"),
            width: whole("width"),
            height: whole("height"),
            count: Some(images),
            seconds: None,
        }
    }

    /// Number of pictures that one result counts as, at least 1: its pixels, by the size that the call sets, divided by 4096×4096 and
    /// rounded up. A result with one given side counts as a square.
    #[must_use]
    pub fn pictures_of_work(&self) -> u32 {
        // These two have neither field.
        if matches!(self.endpoint, "/upscale" | "/face-restore") {
            return 1;
        }
        let (width, height) = (self.width.or(self.height), self.height.or(self.width));
        let pixels = u64::from(width.unwrap_or(1)) * u64::from(height.unwrap_or(1));
        u32::try_from(pixels.div_ceil(PICTURE_PIXELS)).unwrap_or(u32::MAX).max(1)
    }
}

impl Estimate {
    /// The total in microdollars, rounded once.
    #[must_use]
    pub fn total(&self) -> u64 {
        match self.units {
            Units::Images(images) => self.unit_price.saturating_mul(images.into()),
            Units::Seconds(seconds) => (self.unit_price as f64 * seconds).round() as u64,
        }
    }
}

/// Microdollars in dollars, exact to the microdollar up to nine billion dollars.
#[must_use]
pub fn in_dollars(microdollars: u64) -> f64 {
    microdollars as f64 / DOLLAR
}

impl PriceConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let is_whole = |dollars: f64| (dollars * DOLLAR - (dollars * DOLLAR).round()).abs() < 1e-3;
        let is_price = |dollars: f64| (0.0..=MAX_PRICE).contains(&dollars) && is_whole(dollars);
        let wrong = self.named().filter(|&(_, dollars)| !is_price(dollars));
        wrong.map(|(name, _)| format!("prices.{name}: expected dollars from 0 to 1000 with up to 6 decimals")).collect()
    }

    /// The price of a call.
    ///
    /// # Errors
    /// When there is no such endpoint, or it refuses the parameters that its price depends on.
    pub fn price(&self, call: &Call<'_>) -> Result<Estimate, PriceError> {
        for (name, side) in [("width", call.width), ("height", call.height)] {
            within(name, side.unwrap_or(1), 1..=MAX_SIDE)?;
        }
        let mut most = MAX_COUNT;
        let dollars = match call.endpoint {
            "/remove" | "/remove-url" | "/mask" => self.remove,
            "/remove-batch" | "/remove-batch-url" => {
                most = MAX_BATCH as u32;
                self.remove
            }
            "/replace-bg" => self.replace_bg,
            "/replace-bg-ai" => self.replace_bg_ai,
            "/studio-shot" => self.studio_shot,
            "/smart-crop" => self.smart_crop,
            "/shadow" => self.shadow,
            // Without a stroke a sticker is a cutout.
            "/sticker" if call.stroke_width == Some(0) => self.remove,
            "/sticker" => {
                within("stroke_width", call.stroke_width.unwrap_or(1), 0..=100)?;
                self.sticker
            }
            "/headshot" => self.headshot,
            "/face-restore" => self.face_restore,
            "/upscale" => match call.scale {
                None | Some(2) => self.upscale,
                Some(4) => 2.0 * self.upscale,
                Some(scale) => return Err(FieldError::invalid("scale", &scale.to_string(), "2 or 4").into()),
            },
            "/video/remove" => {
                let units = Units::Seconds(seconds(call.seconds)?);
                return Ok(Estimate { unit_price: in_microdollars(self.video_remove), units });
            }
            other => return Err(PriceError::UnknownEndpoint(other.to_owned())),
        };
        let unit_price = in_microdollars(dollars).saturating_mul(call.pictures_of_work().into());
        Ok(Estimate { unit_price, units: Units::Images(within("count", call.count.unwrap_or(1), 1..=most)?) })
    }
}

fn in_microdollars(dollars: f64) -> u64 {
    // Not negative and within the type: `validate`.
    (dollars * DOLLAR).round() as u64
}

fn within(name: &str, number: u32, range: RangeInclusive<u32>) -> Result<u32, FieldError> {
    let expected = || format!("an integer from {} to {}", range.start(), range.end());
    if range.contains(&number) { Ok(number) } else { Err(FieldError::invalid(name, &number.to_string(), expected())) }
}

fn seconds(seconds: Option<f64>) -> Result<f64, FieldError> {
    let seconds = seconds.unwrap_or(1.0);
    let holds = seconds > 0.0 && seconds <= MAX_SECONDS;
    let expected = "a number above 0, at most 3600";
    if holds { Ok(seconds) } else { Err(FieldError::invalid("seconds", &seconds.to_string(), expected)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::ENDPOINTS;

    fn call(endpoint: &str) -> Call<'_> {
        Call { endpoint, ..Call::default() }
    }

    fn total(call: Call<'_>) -> u64 {
        PriceConfig::default().price(&call).expect("a good call").total()
    }

    #[test]
    fn a_result_costs_by_its_pixels() {
        let price = |width, height| total(Call { width, height, ..call("/remove") });
        assert_eq!(price(None, None), 5000);
        assert_eq!(price(Some(4096), Some(4096)), 5000);
        assert_eq!(price(Some(4097), Some(4096)), 10_000);
        assert_eq!(price(Some(8192), Some(8192)), 20_000);
        assert_eq!(price(Some(8192), Some(100)), 5000);
        assert_eq!((price(Some(8192), None), price(None, Some(4096))), (20_000, 5000), "as a square");
        assert_eq!(total(Call { count: Some(3), width: Some(8192), ..call("/remove-batch") }), 60_000);
        assert_eq!(total(Call { width: Some(8192), ..call("/upscale") }), total(call("/upscale")));
        for (width, height) in [(Some(0), None), (None, Some(8193))] {
            let refused = PriceConfig::default().price(&Call { width, height, ..call("/remove") });
            assert!(matches!(refused, Err(PriceError::Field(_))), "{refused:?}");
        }
    }

    #[test]
    fn every_endpoint_of_the_interface_has_its_price() {
        for (endpoint, microdollars) in [
            ("/remove", 5000),
            ("/remove-url", 5000),
            ("/remove-batch", 5000),
            ("/remove-batch-url", 5000),
            ("/mask", 5000),
            ("/replace-bg", 6000),
            ("/replace-bg-ai", 0),
            ("/studio-shot", 8000),
            ("/smart-crop", 4000),
            ("/shadow", 5000),
            ("/sticker", 5000),
            ("/headshot", 10_000),
            ("/face-restore", 10_000),
            ("/upscale", 8000),
            ("/video/remove", 50_000),
        ] {
            assert_eq!(total(call(endpoint)), microdollars, "{endpoint}");
        }
        for endpoint in ENDPOINTS.iter() {
            assert!(PriceConfig::default().price(&call(endpoint.path)).is_ok(), "{}", endpoint.path);
        }
    }

    #[test]
    fn a_path_without_images_has_no_price() {
        for endpoint in ["", "/", "remove", "/remove/", "/Remove", "/estimate", "/presets", "/jobs/x", "/account"] {
            let refused = PriceConfig::default().price(&call(endpoint));
            assert_eq!(refused, Err(PriceError::UnknownEndpoint(endpoint.into())), "{endpoint}");
        }
    }

    #[test]
    fn a_sticker_without_a_stroke_costs_the_same_as_a_cutout() {
        let prices = PriceConfig { sticker: 0.009, ..PriceConfig::default() };
        let price = |stroke_width| prices.price(&Call { stroke_width, ..call("/sticker") }).map(|it| it.total());
        assert_eq!([price(None), price(Some(1)), price(Some(100))], [Ok(9000), Ok(9000), Ok(9000)]);
        assert_eq!(price(Some(0)), Ok(5000));
        assert!(price(Some(101)).is_err());
    }

    #[test]
    fn twice_the_scale_is_twice_the_price_and_other_scales_are_refused() {
        let price = |scale| PriceConfig::default().price(&Call { scale, ..call("/upscale") }).map(|it| it.total());
        assert_eq!([price(None), price(Some(2)), price(Some(4))], [Ok(8000), Ok(8000), Ok(16_000)]);
        for scale in [0, 1, 3, 8] {
            let refused = price(Some(scale)).expect_err("no such factor").to_string();
            assert_eq!(refused, format!("invalid `scale`: \"{scale}\" (expected 2 or 4)"));
        }
        assert_eq!(total(Call { scale: Some(4), ..call("/face-restore") }), 10_000, "only /upscale's price depends");
    }

    #[test]
    fn images_and_seconds_multiply() {
        assert_eq!(total(Call { count: Some(10), ..call("/remove-batch") }), 50_000);
        assert_eq!(total(Call { count: Some(1_000_000), ..call("/studio-shot") }), 8_000_000_000);
        assert_eq!(total(Call { seconds: Some(59.94), ..call("/video/remove") }), 2_997_000);
        assert_eq!(total(Call { seconds: Some(0.000_01), ..call("/video/remove") }), 1, "rounded once, at the end");
        for refused in [
            Call { count: Some(0), ..call("/remove") },
            Call { count: Some(11), ..call("/remove-batch-url") },
            Call { seconds: Some(0.0), ..call("/video/remove") },
            Call { seconds: Some(-1.0), ..call("/video/remove") },
            Call { seconds: Some(f64::NAN), ..call("/video/remove") },
            Call { seconds: Some(f64::INFINITY), ..call("/video/remove") },
        ] {
            let error = PriceConfig::default().price(&refused).expect_err("out of range");
            assert!(matches!(error, PriceError::Field(_)), "{refused:?}");
        }
    }

    #[test]
    fn a_request_is_priced_by_its_fields() {
        let mut fields = Fields::default();
        for (name, value) in [("stroke_width", "0"), ("scale", "4"), ("edge", "soft")] {
            fields.push(name, value).expect("each once");
        }
        let expected =
            Call { endpoint: "/sticker", scale: Some(4), stroke_width: Some(0), count: Some(3), ..Call::default() };
        assert_eq!(Call::of("/sticker", &fields, 3), expected);
        assert_eq!(Call::of("/remove", &Fields::default(), 1), Call { count: Some(1), ..call("/remove") });
    }

    #[test]
    fn dollars_are_shown_without_noise() {
        for (microdollars, shown) in [(0, "0.0"), (5000, "0.005"), (16_000, "0.016"), (1, "1e-6"), (2_997_000, "2.997")]
        {
            assert_eq!(serde_json::json!(in_dollars(microdollars)).to_string(), shown);
        }
    }

    #[test]
    fn all_invalid_prices_are_reported_at_once() {
        assert_eq!(PriceConfig::default().validate(), Vec::<String>::new());
        let wrong = PriceConfig {
            remove: -0.005,
            shadow: f64::NAN,
            sticker: 0.000_000_5,
            headshot: 1001.0,
            upscale: 0.0,
            ..PriceConfig::default()
        };
        let problems = wrong.validate();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert_eq!(problems[0], "prices.remove: expected dollars from 0 to 1000 with up to 6 decimals");
    }

    #[test]
    fn the_section_reads_back_and_refuses_unknown_names() {
        let text = toml::to_string(&PriceConfig::default()).expect("plain data");
        assert!(text.contains("remove = 0.005\n") && text.contains("video_remove = 0.05\n"), "{text}");
        assert_eq!(toml::from_str::<PriceConfig>(&text).expect("its own text"), PriceConfig::default());
        assert!(toml::from_str::<PriceConfig>("remov = 1").is_err());
    }
}
