//! Guidance about the subject: the fields `mask_file`, `mask_url`, `mask_mode`, `box`, `point` and `not_point`.
//!
//! `guidance_rules` validates their form and combination; [`Guidance::located`] validates positions in a picture.

use super::FieldError;
use super::kind::{Kind, TextSpec};
use super::region::{Region, measure};
use super::values::{Value, choice};
use crate::compose::Length;
use crate::image::{Rect, Size, SourceUrl};

/// Reason for refusing a mask in a batch.
pub const OF_ONE_PICTURE: &str = "a mask applies to one picture, not to a batch";
const NAMES: [&str; 6] = [MASK_FILE, MASK_URL, "mask_mode", "box", "point", "not_point"];

/// The name of the form part with an uploaded mask.
pub const MASK_FILE: &str = "mask_file";
/// The field with the address of a mask.
pub const MASK_URL: &str = "mask_url";

/// Use of the caller's mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskMode {
    /// Replaces the network's mask; matting refines its edge.
    #[default]
    Replace,
    /// A trimap: matting solves only the unknown pixels.
    Trimap,
    /// Strokes on the network's mask.
    Hint,
}

choice!(MaskMode { "replace" => Self::Replace, "trimap" => Self::Trimap, "hint" => Self::Hint });

/// Source of the caller's mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskSource {
    /// Uploaded with the request.
    Attached,
    /// Fetched from this address.
    Url(SourceUrl),
}

impl MaskSource {
    /// The field in which it was sent.
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
    /// As sent.
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
    /// As sent.
    text: String,
    at: [Length; 2],
}

impl Point {
    fn parse(text: &str) -> Option<Self> {
        let at: Option<Vec<_>> = text.split(',').map(|at| measure(at, f64::floor)).collect();
        Some(Self { text: text.trim().to_owned(), at: at?.try_into().ok()? })
    }

    /// Column and row. A share of the whole side is the last pixel.
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

/// Maximum number of points, above any set that a person places. Each point costs a search of its neighbourhood.
const MOST_POINTS: usize = 100;

impl Points {
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
        // At most one above the maximum is parsed, so that the work does not grow with a text that is refused.
        let points: Option<Vec<_>> = text.split(Kind::SEPARATOR).take(MOST_POINTS + 1).map(Point::parse).collect();
        points.filter(|points| points.len() <= MOST_POINTS).map(Self)
    }
}

/// The caller's guidance; empty by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guidance {
    /// Use of the mask in [`RequiredInputs`](super::RequiredInputs); `None` without a mask.
    pub mask: Option<MaskMode>,
    /// Box around the subject; everything outside is background.
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
    /// Columns and rows of pixels of the background.
    pub background: Vec<[u32; 2]>,
}

impl Guidance {
    /// Whether the subject must be segmented even if the picture's alpha shows one.
    #[must_use]
    pub const fn overrides_alpha(&self) -> bool {
        self.mask.is_some() || !self.subject.0.is_empty() || !self.background.0.is_empty()
    }

    /// Box and points in an upright picture of `size`.
    ///
    /// # Errors
    /// [`FieldError`] for an empty box or one outside the picture, a point outside the picture or the box, and a pixel
    /// that is both subject and background.
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
            // Pixels outside the box are background anyway.
            if area.is_none_or(|area| area.contains(at)) {
                located.background.push(at);
            }
        }
        Ok(located)
    }

    /// The refusal of an unknown field of a clip; names guidance fields, which only pictures have.
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
    fn too_many_points_are_refused_with_one_message_for_any_number() {
        let refusal = |count: usize| {
            let text = vec!["1,2"; count].join(";");
            parse::<Points>("point", &text).expect_err("too many").to_string()
        };
        assert_eq!(refusal(1 << 20), refusal(MOST_POINTS + 1));
        assert_eq!(Points::parse(&vec!["1,2"; MOST_POINTS].join(";")).map(|points| points.0.len()), Some(MOST_POINTS));
    }
}
