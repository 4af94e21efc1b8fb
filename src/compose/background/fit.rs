//! A background picture fitted to the canvas: cover, contain or stretch.
//!
//! It is resampled in bands of rows, so that memory never holds the whole resampled picture.

use crate::compose::Fit;
use crate::compose::resample::{Strips, part, strip_rows, unpremultiply_row};
use crate::image::color::Color;
use crate::image::{Frame, Rect, Size};
use backdrop_kernels::dst_over::cpu::{self as dst_over, Row, Under};
use backdrop_kernels::resample::Part;
use rayon::prelude::*;

pub(in crate::compose) struct FittedBackground<'a> {
    picture: &'a Frame,
    part: Part,
    place: Rect,
    behind: Color,
    strips: Strips<'a>,
    band: Vec<u8>,
}

impl<'a> FittedBackground<'a> {
    pub(super) fn new(picture: &'a Frame, fit: Fit, behind: Color, canvas: Size) -> Self {
        let size = picture.size();
        let (part, place) = fitted(size, fit, canvas);
        let strips = Strips::new(picture.pixels(), size, part, place.size());
        Self { picture, part, place, behind, strips, band: Vec::new() }
    }

    pub(super) fn band(&self) -> u32 {
        strip_rows(self.part, self.place.size())
    }

    /// The rows `first..first + rows` of a canvas of `width` pixels, packed RGBA8.
    pub(super) fn rows(&mut self, first: u32, rows: u32, width: usize) -> &[u8] {
        let Self { place, part, behind: Color(behind), .. } = *self;
        self.band.clear();
        self.band.resize(rows as usize * width * 4, 0);
        let (top, bottom) = (first.max(place.top), (first + rows).min(place.top + place.height));
        if top < bottom {
            let band = self.band[(top - first) as usize * width * 4..].par_chunks_mut(width * 4);
            let columns = place.left as usize * 4..(place.left + place.width) as usize * 4;
            // At scale 1 rows are copied: a filter would blur them.
            if part.width == f64::from(place.width) && part.height == f64::from(place.height) {
                let row = self.picture.size().width as usize * 4;
                let source = &self.picture.pixels()[(part.top as usize + (top - place.top) as usize) * row..];
                let start = part.left as usize * 4;
                band.zip(source.par_chunks(row))
                    .take((bottom - top) as usize)
                    .for_each(|(to, from)| to[columns.clone()].copy_from_slice(&from[start..start + columns.len()]));
            } else {
                let resampled = self.strips.rows(top - place.top, bottom - top).par_chunks(place.width as usize);
                band.zip(resampled).for_each(|(to, from)| unpremultiply_row(from, &mut to[columns.clone()]));
            }
        }
        let layers = Row { background: Under::Color(behind), ..Row::default() };
        self.band.par_chunks_mut(width * 4).for_each(|row| dst_over::row(row, &layers));
        &self.band
    }
}

/// The visible part of a picture and its rectangle on the canvas.
pub(in crate::compose) fn fitted(picture: Size, fit: Fit, canvas: Size) -> (Part, Rect) {
    let whole = part(Rect::whole(picture));
    match fit {
        Fit::Stretch => (whole, Rect::whole(canvas)),
        Fit::Contain => {
            let Size { width, height } = picture.fitted(canvas);
            let (left, top) = ((canvas.width - width) / 2, (canvas.height - height) / 2);
            (whole, Rect { left, top, width, height })
        }
        Fit::Cover => {
            let across = whole.width / f64::from(canvas.width);
            let down = whole.height / f64::from(canvas.height);
            let scale = across.min(down);
            // The limiting side is exactly the picture's side, without rounding.
            let width = if across <= down { whole.width } else { scale * f64::from(canvas.width) };
            let height = if across <= down { scale * f64::from(canvas.height) } else { whole.height };
            let (mut left, mut top) = ((whole.width - width) / 2.0, (whole.height - height) / 2.0);
            if scale == 1.0 {
                // A whole-pixel offset needs no resampling, hence no blur.
                (left, top) = (left.floor(), top.floor());
            }
            (Part { left, top, width, height }, Rect::whole(canvas))
        }
    }
}
