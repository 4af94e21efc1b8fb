//! Produces the background's pixels in bands of rows, by kind of background.

use super::blur::{BlurredBackground, Plate};
use super::fit::FittedBackground;
use crate::compose::{Background, Layout};
use crate::image::Frame;
use crate::image::color::Color;
use backdrop_kernels::dst_over::cpu::Under;

pub(in crate::compose) enum BackgroundLayer<'a> {
    Clear,
    Color(Color),
    Picture(Box<FittedBackground<'a>>),
    Blurred(BlurredBackground),
}

impl<'a> BackgroundLayer<'a> {
    /// The background of `picture`, before it is placed on its canvas. `given` is the background picture.
    pub(in crate::compose) fn new(
        background: Background,
        given: Option<&'a Frame>,
        plate: Option<Plate>,
        picture: &Frame,
        layout: &Layout,
    ) -> Self {
        match background {
            // [`Background::EdgeColor`] extends the picture itself (`replicate_border`).
            Background::Clear | Background::EdgeColor => Self::Clear,
            Background::Color(color) => Self::of(color),
            Background::Picture { fit, behind } => match given {
                Some(given) if given.size().area() > 0 => {
                    Self::Picture(Box::new(FittedBackground::new(given, fit, behind, layout.canvas)))
                }
                Some(_) | None => Self::of(behind),
            },
            Background::Blurred { behind, .. } => {
                let (pixels, _) = picture.pixels().as_chunks::<4>();
                let blurred = plate.and_then(|plate| plate.without(|at| pixels[at][3] > 0, layout));
                blurred.map_or_else(|| Self::of(behind), Self::Blurred)
            }
        }
    }

    fn of(color: Color) -> Self {
        if color.0[3] == 0 { Self::Clear } else { Self::Color(color) }
    }

    pub(in crate::compose) const fn is_clear(&self) -> bool {
        matches!(self, Self::Clear)
    }

    /// Number of rows in a band for a canvas of this height.
    pub(in crate::compose) fn band(&self, height: u32) -> u32 {
        match self {
            Self::Picture(fitted) => fitted.band(),
            Self::Clear | Self::Color(_) | Self::Blurred(_) => height,
        }
    }

    /// The rows `first..first + rows` of a canvas of `width` pixels.
    pub(in crate::compose) fn rows(&mut self, first: u32, rows: u32, width: usize) -> BackgroundRows<'_> {
        match self {
            Self::Clear => BackgroundRows::Clear,
            Self::Color(color) => BackgroundRows::Color(*color),
            Self::Picture(fitted) => BackgroundRows::Pixels(fitted.rows(first, rows, width)),
            Self::Blurred(blurred) => BackgroundRows::Blurred(blurred),
        }
    }
}

#[derive(Clone, Copy)]
pub(in crate::compose) enum BackgroundRows<'a> {
    Clear,
    Color(Color),
    Pixels(&'a [u8]),
    Blurred(&'a BlurredBackground),
}

#[derive(Default)]
pub(in crate::compose) struct Scratch {
    line: Vec<[f32; 3]>,
    pixels: Vec<u8>,
}

impl<'a> BackgroundRows<'a> {
    /// Row `y` of the canvas, row `index` of this band.
    pub(in crate::compose) fn row<'r>(&self, index: usize, y: u32, canvas: &[u8], scratch: &'r mut Scratch) -> Under<'r>
    where
        'a: 'r,
    {
        match *self {
            Self::Clear => Under::Clear,
            Self::Color(Color(color)) => Under::Color(color),
            Self::Pixels(pixels) => Under::Pixels(&pixels[index * canvas.len()..][..canvas.len()]),
            Self::Blurred(blurred) => {
                scratch.pixels.resize(canvas.len(), 0);
                blurred.row(y, canvas, &mut scratch.line, &mut scratch.pixels);
                Under::Pixels(&scratch.pixels)
            }
        }
    }
}
