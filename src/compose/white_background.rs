//! Flattens a translucent picture onto opaque white.

use crate::image::Frame;
use crate::image::color::Color;
use backdrop_kernels::dst_over::cpu::{self as dst_over, Row, Under};
use rayon::prelude::*;

/// Composites `frame` over white in linear light; the result is opaque. Opaque pixels stay bit for bit.
pub fn flatten_onto_white(frame: &mut Frame) {
    let white = Row { background: Under::Color(Color::WHITE.0), ..Row::default() };
    let width = frame.size().width as usize;
    frame.pixels_mut().par_chunks_exact_mut(width * 4).for_each(|row| dst_over::row(row, &white));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    #[test]
    fn hidden_colours_vanish_and_opaque_ones_stay() {
        let pixels = vec![9, 8, 7, 0, 9, 8, 7, 255, 0, 0, 0, 128, 255, 255, 255, 1];
        let mut frame = Frame::new(Size::new(2, 2), pixels.into());
        flatten_onto_white(&mut frame);
        assert_eq!(frame.pixel(0, 0), [255; 4]);
        assert_eq!(frame.pixel(1, 0), [9, 8, 7, 255]);
        // Half of white's light: 187 encoded, not 128.
        assert_eq!(frame.pixel(0, 1), [187, 187, 187, 255]);
        assert_eq!(frame.pixel(1, 1), [255; 4]);
    }
}
