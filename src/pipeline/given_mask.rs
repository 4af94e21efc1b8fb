//! Reads the caller's mask from its decoded picture: as a grey mask, a trimap or strokes; refuses contradictions.
//!
//! Labels are read as PyMatting reads a trimap: below a tenth of white is black, above nine tenths is white, and values
//! between are unknown, so that antialiased borders and JPEG noise do no harm.

use crate::image::{AlphaMatte, Frame, Size, Trimap};
use crate::matting::Seeds;
use crate::recipe::{FieldError, Located, MaskMode};
use rayon::prelude::*;

/// The least value that is not black, and the least that is white.
const GREY: u8 = 26;
const WHITE: u8 = 230;
/// Least alpha of a pixel that has a label.
const VISIBLE: u8 = 128;

/// Source of the coverage, as far as it is known before the network runs.
pub(super) enum Given {
    OwnAlpha,
    Mask(AlphaMatte),
    Trimap(Trimap),
    /// The network, with the caller's marks.
    Marks(Seeds),
}

impl Given {
    /// Reads the caller's mask, sent in `param`, if given, and adds the caller's points.
    pub(super) fn of(mask: Option<(&Frame, MaskMode)>, located: &Located, param: &str) -> Result<Self, FieldError> {
        let refuse = |sent: &str, expected: &str| Err(FieldError::invalid(param, sent, expected));
        let (subject, background) = (located.subject.clone(), located.background.clone());
        let strokes = match mask {
            None => None,
            Some((frame, MaskMode::Replace)) => return Ok(Self::Mask(grey(frame))),
            Some((frame, MaskMode::Trimap)) => {
                let trimap = labels(frame);
                if !trimap.labels().contains(&Trimap::FOREGROUND) {
                    return refuse("a trimap without foreground", "white pixels, which are certainly subject");
                }
                return Ok(Self::Trimap(trimap));
            }
            Some((frame, MaskMode::Hint)) => {
                let strokes = labels(frame);
                if strokes.labels().iter().all(|&label| label == Trimap::UNKNOWN) {
                    return refuse("a hint without strokes", "white or black pixels, which keep or remove");
                }
                contradiction("point", &subject, &strokes, Trimap::BACKGROUND, "black")?;
                contradiction("not_point", &background, &strokes, Trimap::FOREGROUND, "white")?;
                Some(strokes)
            }
        };
        Ok(Self::Marks(Seeds { strokes, subject, background }))
    }
}

/// Refuses a mask of another size than the picture's.
pub(super) fn check_size(mask: Size, picture: Size, param: &str) -> Result<(), FieldError> {
    if mask == picture {
        return Ok(());
    }
    let expected = format!("one of {picture}, the size of the upright picture");
    Err(FieldError::invalid(param, &format!("a mask of {mask}"), expected))
}

/// Refuses a point on a stroke with `label`, the opposite of the point's label.
fn contradiction(
    param: &str,
    points: &[[u32; 2]],
    strokes: &Trimap,
    label: u8,
    colour: &str,
) -> Result<(), FieldError> {
    let columns = strokes.size().width as usize;
    match points.iter().find(|[x, y]| strokes.labels()[*y as usize * columns + *x as usize] == label) {
        Some([x, y]) => {
            let expected = format!("a pixel without a {colour} stroke of the mask");
            Err(FieldError::invalid(param, &format!("{x},{y}"), expected))
        }
        None => Ok(()),
    }
}

/// Grey of each pixel, or alpha if the mask is a cutout.
fn grey(frame: &Frame) -> AlphaMatte {
    let by_alpha = frame.is_cut_out();
    let value = |pixel: &[u8; 4]| if by_alpha { pixel[3] } else { luma(pixel) };
    AlphaMatte::new(frame.size(), frame.pixels().as_chunks::<4>().0.par_iter().map(value).collect::<Vec<u8>>())
}

fn labels(frame: &Frame) -> Trimap {
    let label = |pixel: &[u8; 4]| match (pixel[3], luma(pixel)) {
        (..VISIBLE, _) | (_, GREY..WHITE) => Trimap::UNKNOWN,
        (_, ..GREY) => Trimap::BACKGROUND,
        (_, WHITE..) => Trimap::FOREGROUND,
    };
    Trimap::new(frame.size(), frame.pixels().as_chunks::<4>().0.par_iter().map(label).collect())
}

/// Grey of a colour (ITU-R BT.601); of a grey pixel its value.
fn luma(&[red, green, blue, _]: &[u8; 4]) -> u8 {
    ((299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue) + 500) / 1000) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(pixels: &[[u8; 4]]) -> Frame {
        let size = Size::new(u32::try_from(pixels.len()).expect("a few"), 1);
        Frame::new(size, pixels.as_flattened().to_vec().into())
    }

    fn opaque(values: &[u8]) -> Frame {
        frame(&values.iter().map(|&value| [value, value, value, 255]).collect::<Vec<_>>())
    }

    #[test]
    fn a_mask_is_its_grey_or_its_alpha_where_it_has_transparency() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(grey(&opaque(&all)).coverage(), all);
        let cutout = frame(&[[10, 10, 10, 255], [250, 250, 250, 0], [0, 0, 0, 90]]);
        assert_eq!(grey(&cutout).coverage(), [255, 0, 90]);
    }

    #[test]
    fn labels_tolerate_noise_and_antialiased_borders() {
        let read = labels(&opaque(&[0, 25, 26, 128, 229, 230, 255]));
        assert_eq!(read.labels(), [0, 0, 128, 128, 128, 255, 255]);
        let clear = labels(&frame(&[[255, 255, 255, 127], [255, 255, 255, 128], [0, 0, 0, 0]]));
        assert_eq!(clear.labels(), [128, 255, 128]);
    }
}
