//! Fields and recipe of `/face-restore`: face restoration, after enlargement if a scale is sent.

use super::params::{Group, fields};
use super::shared::{Common, UploadMarks, retouched};
use super::{FieldError, Fields, Fraction, Recipe, Retouch, RgbaOnly, ScaleOrNone};
use crate::image::OutputFormat;

fields! {
    struct RestoreFields {
        /// Factor of enlargement in width and height; faces are restored in the enlarged picture.
        scale: ScaleOrNone = Some("1");
        /// Weight of the restored face: 0 keeps the original, 1 is full restoration.
        strength: Fraction = Some("0.8");
        /// Format of the result; `jpg` needs a picture without transparency.
        format: OutputFormat = Some("png");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) type Restore = (RestoreFields, Common, UploadMarks);

pub(super) fn restore(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Restore::read(fields)?;
    let enlarge = own.scale.and_then(|ScaleOrNone(factor)| factor);
    let strength = own.strength.map_or(Retouch::STRENGTH, |Fraction(strength)| strength);
    retouched(Retouch::Faces { enlarge, strength }, fields, &common, &marks, own.format.unwrap_or(OutputFormat::Png))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Factor;
    use crate::recipe::Work;
    use crate::recipe::tests::fields;

    fn faces(pairs: &[(&str, &str)]) -> (Option<Factor>, f32) {
        match restore(&fields(pairs)).expect("valid").work {
            Work::Retouch(Retouch::Faces { enlarge, strength }) => (enlarge, strength),
            other @ (Work::Cut { .. } | Work::Retouch(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn scale_and_strength_reach_the_recipe() {
        assert_eq!(faces(&[]), (None, 0.8));
        assert_eq!(faces(&[("scale", "1"), ("strength", "0")]), (None, 0.0));
        assert_eq!(faces(&[("scale", "2"), ("strength", "1")]), (Some(Factor::Two), 1.0));
        assert_eq!(faces(&[("scale", "4"), ("strength", "0.25")]), (Some(Factor::Four), 0.25));
    }
}
