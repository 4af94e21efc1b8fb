//! Composites a frame and its matte into the output frame: cutout, background colour, stamp, or the matte alone.
//!
//! Straight alpha, with colour zeroed where alpha is zero. As for pictures, the background colour is composited in
//! linear light and the stamp in encoded values.

use crate::codec::Channels;
use crate::compose::{self, Background, Flattened, Layout, Materials, Scene};
use crate::image::color::Color;
use crate::image::{AlphaMatte, Cutout, Frame, Rect, Subject};
#[cfg(feature = "gpu")]
use crate::matting::gpu::{DeviceCutout, device_matte::DeviceMatte};
use crate::matting::{self, FrameMatte};
use crate::recipe::{VideoFormat, VideoRecipe};

#[derive(Clone, Debug)]
pub(super) struct FrameCompositor {
    scene: Scene,
    channels: Channels,
    fills_chroma: bool,
}

impl FrameCompositor {
    pub(super) fn of(recipe: &VideoRecipe) -> Self {
        let behind = match recipe.channels {
            Channels::Rgba => recipe.background,
            // The matte does not depend on the background.
            Channels::Alpha => None,
        };
        let has_alpha = has_alpha(recipe);
        let background = match behind {
            // Formats without alpha get a white background.
            None if !has_alpha && recipe.channels == Channels::Rgba => Background::Color(Color::WHITE),
            None => Background::Clear,
            Some(color) => Background::Color(if has_alpha { color } else { over_white(color) }),
        };
        let scene = Scene { background, stamp: recipe.stamp, ..Scene::default() };
        Self { scene, channels: recipe.channels, fills_chroma: has_alpha && recipe.format == VideoFormat::Webm }
    }

    /// The output frame, composed on the device that holds the matte.
    pub(super) fn composite(&self, frame: Frame, matte: &FrameMatte) -> Frame {
        self.in_channels(match matte {
            #[cfg(feature = "gpu")]
            FrameMatte::Device(on_device) => match self.flattened_on_device(&frame, on_device) {
                Some(finished) => finished,
                None => self.flattened(matting::cut_out_frame(frame, matte)),
            },
            FrameMatte::Host(_) => self.flattened(matting::cut_out_frame(frame, matte)),
        })
    }

    /// The output frame of a frame whose alpha is its matte.
    pub(super) fn composite_cut_out(&self, frame: Frame) -> Frame {
        let alpha: Vec<u8> = frame.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[3]).collect();
        let matte = AlphaMatte::new(frame.size(), alpha);
        self.in_channels(self.flattened(Cutout::new(frame, &matte)))
    }

    fn in_channels(&self, mut frame: Frame) -> Frame {
        match self.channels {
            Channels::Rgba if self.fills_chroma => fill_chroma_blocks(&mut frame),
            Channels::Rgba => {}
            Channels::Alpha => {
                for pixel in frame.pixels_mut().as_chunks_mut::<4>().0 {
                    *pixel = [pixel[3], pixel[3], pixel[3], 255];
                }
            }
        }
        frame
    }

    /// `cutout` with the layers of the scene, composed on the CPU in its buffer.
    fn flattened(&self, cutout: Cutout) -> Frame {
        let (size, cutout) = (cutout.frame().size(), Subject::Cutout(cutout));
        let Flattened { composite, .. } =
            compose::flatten(cutout, Rect::whole(size), &Layout::unchanged(size), &self.scene, Materials::default());
        composite.into_frame()
    }

    /// `frame` cut out by `matte` and composed on their device; `None` if the scene has no layers, no pixel of the
    /// subject is left, or the device fails.
    #[cfg(feature = "gpu")]
    fn flattened_on_device(&self, frame: &Frame, matte: &DeviceMatte) -> Option<Frame> {
        let (size, materials) = (frame.size(), Materials::default());
        let (layout, picture) = (Layout::unchanged(size), frame.on_device()?);
        let has_room = compose::gpu::has_room(picture.session(), size, &layout, &self.scene, &materials);
        if !has_room || !compose::gpu::does(&self.scene, size) {
            return None;
        }
        let composed = matting::gpu::clip::cut_out_on_device(frame, matte).and_then(|cutout| {
            let Ok(DeviceCutout { pixels, coverage, .. }) = cutout else { return Ok(None) };
            let take = |len| frame.buffer(len);
            compose::gpu::flatten(picture.session(), (pixels, &coverage), &layout, &self.scene, &materials, take)
        });
        match composed {
            Ok(composed) => composed.map(|composed| {
                picture.count(composed.transferred);
                composed.composite.into_frame()
            }),
            Err(reason) => {
                matting::gpu::report_failure(&reason);
                None
            }
        }
    }
}

pub(super) fn has_alpha(recipe: &VideoRecipe) -> bool {
    recipe.channels == Channels::Rgba
        && recipe.format != VideoFormat::Mp4
        && !recipe.background.is_some_and(Color::is_opaque)
}

/// `color` composited over white in linear light.
fn over_white(color: Color) -> Color {
    let [red, green, blue, alpha] = color.0;
    let white = crate::image::color::linear16_of_encoded8()[255];
    let light = |value: u8| {
        let (over, alpha) = (crate::image::color::linear16_of_encoded8()[usize::from(value)], u32::from(alpha));
        let mixed = (u32::from(over) * alpha + u32::from(white) * (255 - alpha) + 127) / 255;
        crate::image::color::encoded8_of_linear16()[mixed as usize]
    };
    Color([light(red), light(green), light(blue), 255])
}

/// Fills the transparent pixels of each 2×2 block with the mean colour of its visible pixels.
///
/// A block in 4:2:0 has one chroma sample: black pixels in it would take the colour from the subject's edge. Only the
/// subject's colours are spread, none of the background's.
fn fill_chroma_blocks(frame: &mut Frame) {
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
    use crate::image::tests::drawn;
    use crate::recipe::Fields;

    fn recipe(format: VideoFormat) -> VideoRecipe {
        VideoRecipe { format, ..VideoRecipe::of(&Fields::default()).expect("the defaults") }
    }

    /// A frame whose left half is subject, with one column of partial coverage.
    fn halves() -> (Frame, FrameMatte) {
        let frame = drawn(9, 5, |x, _| if x < 5 { [200, 100, 50, 255] } else { [10, 220, 30, 255] });
        let matte = AlphaMatte::new(frame.size(), [255, 255, 255, 255, 255, 128, 0, 0, 0].repeat(5));
        (frame, FrameMatte::Host(matte))
    }

    #[test]
    fn formats_without_alpha_have_the_given_colour_or_white() {
        let (frame, matte) = halves();
        let mut on = recipe(VideoFormat::Mp4);
        assert!(!has_alpha(&on));
        assert_eq!(FrameCompositor::of(&on).composite(frame.clone(), &matte).pixel(8, 0), [255; 4]);
        on.background = Some(Color([0, 0, 255, 255]));
        let composite = FrameCompositor::of(&on).composite(frame.clone(), &matte);
        assert_eq!((composite.pixel(8, 0), composite.pixel(0, 0)), ([0, 0, 255, 255], [200, 100, 50, 255]));
        // Half of white's light is 188.
        on.background = Some(Color([0, 0, 0, 128]));
        assert_eq!(FrameCompositor::of(&on).composite(frame, &matte).pixel(8, 0), [187, 187, 187, 255]);
    }

    #[test]
    fn chroma_blocks_contain_only_the_subjects_colour() {
        // Columns 6 and 7 are a transparent block, 4 and 5 a mixed one; column 8 is a block of one column.
        let (frame, _) = halves();
        let coverage: Vec<u8> = (0..45).map(|at| if at % 9 < 5 { 255 } else { 0 }).collect();
        let matte = FrameMatte::Host(AlphaMatte::new(frame.size(), coverage));
        let composite = FrameCompositor::of(&recipe(VideoFormat::Webm)).composite(frame, &matte);
        assert_eq!(composite.pixel(4, 4), [200, 100, 50, 255]);
        for y in 0..5 {
            assert_eq!(composite.pixel(5, y), [200, 100, 50, 0]);
            assert_eq!((composite.pixel(6, y), composite.pixel(8, y)), ([0; 4], [0; 4]));
        }
    }
}
