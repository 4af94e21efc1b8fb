//! Where the subject is by the caller's word: the fields `mask_file`, `mask_url`, `mask_mode`, `box`, `point` and `not_point`.
//!
//! Their form and combination with the request are validated by `guidance_rules`, their place once the size of the picture is
//! known ([`Guidance::located`]).

use super::FieldError;
use super::kind::{Kind, TextSpec};
use super::region::{Region, measure};
use super::values::{Value, choice};
use crate::compose::Length;
use crate::image::{Rect, Size, SourceUrl};

/// Why a batch takes no mask.
pub const OF_ONE_PICTURE: &str = "a mask is of one picture, and a batch is of many";
/// Names of all fields that say where the subject is.
const NAMES: [&str; 6] = [MASK_FILE, MASK_URL, "mask_mode", "box", "point", "not_point"];

/// The name of the form part with an uploaded mask.
pub const MASK_FILE: &str = "mask_file";
/// The field with the address of one.
pub const MASK_URL: &str = "mask_url";

/// How the caller's mask is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskMode {
    /// In place of the network's: matting refines its edge.
    #[default]
    Replace,
    /// As a trimap: matting solves the unknown pixels and no others.
    Trimap,
    /// As strokes on the network's mask.
    Hint,
}

choice!(MaskMode { "replace" => Self::Replace, "trimap" => Self::Trimap, "hint" => Self::Hint });

/// Where the caller's mask comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskSource {
    /// Uploaded with the request.
    Attached,
    /// Fetched from this address.
    Url(SourceUrl),
}

impl MaskSource {
    /// The field that it was sent in.
    #[must_use]
    pub const fn param(&self) -> &'static str {
        match self {
            Self::Attached => MASK_FILE,
            Self::Url(_) => MASK_URL,
        }
    }
}

/// The rectangle of `box`.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// As it was sent.
    text: String,
    region: Region,
}

impl Area {
    fn of(&self, size: Size) -> Result<Rect, FieldError> {
        let refuse = |expected: String| Err(FieldError::invalid("box", &self.text, expected));
        if self.region.exceeds(size) {
            return refuse(format!("corners inside the picture of {size}"));
        }
        if self.region.is_empty(size) {
            return refuse("left, top, right and bottom, with a pixel or more between them".to_owned());
        }
        Ok(self.region.of(size))
    }
}

impl Value for Area {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "x1,y1,x2,y2, each in pixels or percent, such as 10%,20%,60%,90%",
        pattern: Some(r"^[0-9]+(\.[0-9]+)?(px|%)?( *, *[0-9]+(\.[0-9]+)?(px|%)?){3}$"),
        max_length: 64,
        examples: &["10%,20%,60%,90%", "120,80,480,400"],
    });

    fn parse(text: &str) -> Option<Self> {
        let corners: Option<Vec<_>> = text.split(',').map(|at| measure(at, f64::round)).collect();
        Some(Self { text: text.to_owned(), region: Region::between(corners?.try_into().ok()?) })
    }
}

/// A pixel of the picture.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    /// As it was sent.
    text: String,
    at: [Length; 2],
}

impl Point {
    fn parse(text: &str) -> Option<Self> {
        let at: Option<Vec<_>> = text.split(',').map(|at| measure(at, f64::floor)).collect();
        Some(Self { text: text.trim().to_owned(), at: at?.try_into().ok()? })
    }

    /// Its column and row. A share of the whole side is the last pixel.
    fn of(&self, param: &str, size: Size) -> Result<[u32; 2], FieldError> {
        let within = |at: Length, side: u32| match at {
            Length::Pixels(pixel) => (pixel < side).then_some(pixel),
            Length::Share(share) => Some(((f64::from(share) * f64::from(side)) as u32).min(side - 1)),
        };
        match (within(self.at[0], size.width), within(self.at[1], size.height)) {
            (Some(x), Some(y)) => Ok([x, y]),
            _ => Err(FieldError::invalid(param, &self.text, format!("a pixel inside the picture of {size}"))),
        }
    }
}

/// The pixels of `point` or `not_point`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points(Vec<Point>);

/// More points than a person places; each costs a look at its neighbourhood.
const MOST_POINTS: usize = 100;

impl Points {
    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Value for Points {
    const KIND: Kind = Kind::List(TextSpec {
        expected: "x,y in pixels or percent, such as 120,80 or 50%,40%, at most 100 of them",
        pattern: Some(r"^[0-9]+(\.[0-9]+)?(px|%)? *, *[0-9]+(\.[0-9]+)?(px|%)?$"),
        max_length: 32,
        examples: &["120,80", "50%,40%"],
    });

    fn parse(text: &str) -> Option<Self> {
        // One more than may be placed, so that the work does not grow with a text that is refused anyway.
        let points: Option<Vec<_>> = text.split(Kind::SEPARATOR).take(MOST_POINTS + 1).map(Point::parse).collect();
        points.filter(|points| points.len() <= MOST_POINTS).map(Self)
    }
}

/// What the caller says about where the subject is. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guidance {
    /// How the mask is used that [`RequiredInputs`](super::RequiredInputs) names; nothing without one.
    pub mask: Option<MaskMode>,
    /// The subject is inside of it, and everything else is background.
    pub area: Option<Area>,
    /// Pixels of the subject.
    pub subject: Points,
    /// Pixels of the background.
    pub background: Points,
}

/// Box and points in pixels of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The box.
    pub area: Option<Rect>,
    /// Columns and rows of pixels of the subject.
    pub subject: Vec<[u32; 2]>,
    /// Those of the background.
    pub background: Vec<[u32; 2]>,
}

impl Guidance {
    /// Whether the subject has to be found anew, in a picture whose own alpha shows one too.
    #[must_use]
    pub const fn overrides_alpha(&self) -> bool {
        self.mask.is_some() || !self.subject.0.is_empty() || !self.background.0.is_empty()
    }

    /// Box and points in an upright picture of `size`.
    ///
    /// # Errors
    /// [`FieldError`] for a box that is empty or outside, a point that is outside of the picture or the box, and a pixel that is
    /// both subject and background.
    pub fn located(&self, size: Size) -> Result<Located, FieldError> {
        let area = self.area.as_ref().map(|area| area.of(size)).transpose()?;
        let mut located = Located { area, ..Located::default() };
        for point in &self.subject.0 {
            let at = point.of("point", size)?;
            if area.is_some_and(|area| !area.contains(at)) {
                return Err(FieldError::invalid("point", &point.text, "a pixel inside of `box`"));
            }
            located.subject.push(at);
        }
        for point in &self.background.0 {
            let at = point.of("not_point", size)?;
            if located.subject.contains(&at) {
                return Err(FieldError::invalid("not_point", &point.text, "another pixel than that of a `point`"));
            }
            // What is outside of the box is background in any case.
            if area.is_none_or(|area| area.contains(at)) {
                located.background.push(at);
            }
        }
        Ok(located)
    }

    /// The refusal of an unknown field of a clip: one of these fields has a sense in pictures alone.
    #[must_use]
    pub fn unknown_of_clip(error: FieldError) -> FieldError {
        let is_unknown = matches!(error, FieldError::Unknown { .. } | FieldError::Misspelled { .. });
        if is_unknown && NAMES.contains(&error.param()) {
            return FieldError::not_taken(error.param(), "the subject of a clip moves, and this is of one picture");
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::params::parse;

    #[test]
    fn more_points_than_are_placed_are_refused_alike_however_many_they_are() {
        let refusal = |count: usize| {
            let text = vec!["1,2"; count].join(";");
            parse::<Points>("point", &text).expect_err("too many").to_string()
        };
        assert_eq!(refusal(1 << 20), refusal(MOST_POINTS + 1));
        assert_eq!(Points::parse(&vec!["1,2"; MOST_POINTS].join(";")).map(|points| points.0.len()), Some(MOST_POINTS));
    }
}
