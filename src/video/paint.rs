//! A frame and its matte become the picture that is encoded.
//!
//! Straight alpha, colour zeroed where alpha is zero. A colour is put behind in linear light and words on top in encoded
//! values, as for pictures.

use crate::codec::Channels;
use crate::compose::{self, Background, Flattened, Layout, Materials, Scene};
use crate::image::color::Color;
use crate::image::{AlphaMatte, Frame, Rect, Subject};
use crate::matting;
use crate::recipe::{VideoFormat, VideoRecipe};

/// How frames are painted.
#[derive(Clone, Debug)]
pub(super) struct Paint {
    scene: Scene,
    channels: Channels,
    bleeds: bool,
}

impl Paint {
    pub(super) fn of(recipe: &VideoRecipe) -> Self {
        let behind = match recipe.channels {
            Channels::Rgba => recipe.background,
            // The matte is that of the cutout, whatever it would be put on.
            Channels::Alpha => None,
        };
        let has_alpha = has_alpha(recipe);
        let background = match behind {
            // A format without alpha shows what shines through as white.
            None if !has_alpha && recipe.channels == Channels::Rgba => Background::Color(Color::WHITE),
            None => Background::Clear,
            Some(color) => Background::Color(if has_alpha { color } else { on_white(color) }),
        };
        let scene = Scene { background, stamp: recipe.stamp, ..Scene::default() };
        Self { scene, channels: recipe.channels, bleeds: has_alpha && recipe.format == VideoFormat::Webm }
    }

    /// The finished picture. Works in the frame's own buffer.
    pub(super) fn painted(&self, frame: Frame, matte: &AlphaMatte) -> Frame {
        let size = frame.size();
        let cutout = Subject::Cutout(matting::cut_out_with(frame, matte));
        let Flattened { composite, .. } =
            compose::flatten(cutout, Rect::whole(size), &Layout::unchanged(size), &self.scene, Materials::default());
        let mut frame = composite.into_frame();
        match self.channels {
            Channels::Rgba if self.bleeds => bleed(&mut frame),
            Channels::Rgba => {}
            Channels::Alpha => {
                for pixel in frame.pixels_mut().as_chunks_mut::<4>().0 {
                    *pixel = [pixel[3], pixel[3], pixel[3], 255];
                }
            }
        }
        frame
    }
}

/// Whether the result lets something through.
pub(super) fn has_alpha(recipe: &VideoRecipe) -> bool {
    recipe.channels == Channels::Rgba
        && recipe.format != VideoFormat::Mp4
        && !recipe.background.is_some_and(Color::is_opaque)
}

fn on_white(color: Color) -> Color {
    let [red, green, blue, alpha] = color.0;
    let white = crate::image::color::linear16_of_encoded8()[255];
    let light = |value: u8| {
        let (over, alpha) = (crate::image::color::linear16_of_encoded8()[usize::from(value)], u32::from(alpha));
        let mixed = (u32::from(over) * alpha + u32::from(white) * (255 - alpha) + 127) / 255;
        crate::image::color::encoded8_of_linear16()[mixed as usize]
    };
    Color([light(red), light(green), light(blue), 255])
}

/// Gives the invisible pixels of each block of two by two the mean colour of its visible ones.
///
/// The codec stores one chroma sample for the block: with black in it the subject's edge would lose its colour. Nothing
/// of the background comes back, the colours are the subject's.
fn bleed(frame: &mut Frame) {
    let width = frame.size().width as usize;
    let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
    for rows in pixels.chunks_mut(width * 2) {
        let (upper, lower) = rows.split_at_mut(width.min(rows.len()));
        for left in (0..width).step_by(2) {
            let columns = left..(left + 2).min(width);
            let (mut sum, mut visible, mut all) = ([0_u16; 3], 0_u16, 0_u16);
            for pixel in upper[columns.clone()].iter().chain(lower.get(columns.clone()).unwrap_or_default()) {
                all += 1;
                if pixel[3] > 0 {
                    visible += 1;
                    for (sum, &value) in sum.iter_mut().zip(pixel) {
                        *sum += u16::from(value);
                    }
                }
            }
            if visible == 0 || visible == all {
                continue;
            }
            let [red, green, blue] = sum.map(|sum| ((sum + visible / 2) / visible) as u8);
            for pixel in upper[columns.clone()].iter_mut().chain(lower.get_mut(columns).unwrap_or_default()) {
                if pixel[3] == 0 {
                    *pixel = [red, green, blue, 0];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Buffer, Size};

    fn recipe(format: VideoFormat) -> VideoRecipe {
        VideoRecipe { format, channels: Channels::Rgba, background: None, smoothing: 50, audio: true, stamp: None }
    }

    /// Left half subject, right half not, and a column between.
    fn halves() -> (Frame, AlphaMatte) {
        let size = Size::new(9, 5);
        let pixels = (0..45).flat_map(|at| if at % 9 < 5 { [200, 100, 50, 255] } else { [10, 220, 30, 255] });
        let coverage = (0..45).map(|at| [255, 255, 255, 255, 255, 128, 0, 0, 0][at % 9]).collect();
        (Frame::new(size, Buffer::from(pixels.collect::<Vec<u8>>())), AlphaMatte::new(size, coverage))
    }

    #[test]
    fn a_cutout_keeps_the_subject_and_nothing_else() {
        let (frame, matte) = halves();
        let painted = Paint::of(&recipe(VideoFormat::Mov)).painted(frame, &matte);
        assert_eq!(painted.pixel(2, 2), [200, 100, 50, 255]);
        assert_eq!(painted.pixel(8, 4), [0; 4]);
        assert!((1..=254).contains(&painted.pixel(5, 1)[3]));
    }

    #[test]
    fn what_has_no_alpha_is_put_on_its_colour_or_on_white() {
        let (frame, matte) = halves();
        let mut on = recipe(VideoFormat::Mp4);
        assert!(!has_alpha(&on));
        assert_eq!(Paint::of(&on).painted(frame.clone(), &matte).pixel(8, 0), [255; 4]);
        on.background = Some(Color([0, 0, 255, 255]));
        let painted = Paint::of(&on).painted(frame.clone(), &matte);
        assert_eq!((painted.pixel(8, 0), painted.pixel(0, 0)), ([0, 0, 255, 255], [200, 100, 50, 255]));
        // Half the light of white is 188.
        on.background = Some(Color([0, 0, 0, 128]));
        assert_eq!(Paint::of(&on).painted(frame, &matte).pixel(8, 0), [187, 187, 187, 255]);
    }

    #[test]
    fn the_matte_is_grey() {
        let (frame, matte) = halves();
        let alpha = VideoRecipe { channels: Channels::Alpha, ..recipe(VideoFormat::Mp4) };
        let painted = Paint::of(&alpha).painted(frame, &matte);
        assert_eq!((painted.pixel(0, 0), painted.pixel(8, 0)), ([255; 4], [0, 0, 0, 255]));
    }

    #[test]
    fn an_empty_matte_leaves_nothing() {
        let (frame, matte) = halves();
        let empty = AlphaMatte::empty(matte.size());
        let painted = Paint::of(&recipe(VideoFormat::Webm)).painted(frame, &empty);
        assert!(painted.pixels().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn chroma_blocks_hold_the_subjects_colour_alone() {
        // Columns 6 and 7 are a block that is hidden; 4 and 5 one that is seen; column 8 is alone.
        let (frame, matte) = halves();
        let matte = AlphaMatte::new(matte.size(), (0..45).map(|at| if at % 9 < 5 { 255 } else { 0 }).collect());
        let painted = Paint::of(&recipe(VideoFormat::Webm)).painted(frame, &matte);
        assert_eq!(painted.pixel(4, 4), [200, 100, 50, 255]);
        for y in 0..5 {
            assert_eq!(painted.pixel(5, y), [200, 100, 50, 0]);
            assert_eq!((painted.pixel(6, y), painted.pixel(8, y)), ([0; 4], [0; 4]));
        }
    }
}
