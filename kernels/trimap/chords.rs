//! Decomposes an elliptical structuring element into chords, for fast minimum and maximum filters.
//!
//! Urbach and Wilkinson, "Efficient 2-D Grayscale Morphological Transformations With Arbitrary Flat Structuring
//! Elements", IEEE Trans. Image Processing 2008: a flat structuring element is a stack of chords, and the extremes over
//! a chord are those over shorter windows that cover it. Three windows with `h` cells to either side of their middles
//! cover one with `3 h + 1`, so windows of 1, 3, 9, 27, … cells are enough for any chord:
//!
//! ```text
//! extremes over x - w ..= x + w = extremes of the windows around x - s, x and x + s,   s = w - h,   h ≤ w ≤ 3 h + 1
//! ```
//!
//! Their middles are at most `2 h + 1` cells apart, so they cover the chord without gaps. A middle outside the grid is
//! clamped to the border, which moves it closer and reaches no further.

/// The largest radius in cells; larger ones are limited to it. On a grid of 384 cells over 16 pixels it is the trimap's
/// 1.5 pixels; the band over fewer pixels is thinner.
pub const MAX_RADIUS: f32 = 36.0;

/// The chords of an ellipse, for one grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chords {
    /// Whether the chords are vertical: they run along the longer axis, so that there are fewer.
    pub down: bool,
    /// Cells to either side of a window's middle, for each level of windows: 0, 1, 4, 13, …
    pub half_widths: Vec<usize>,
    /// From the outermost chord to the central one, with ascending levels of windows.
    pub chords: Vec<Chord>,
}

/// One chord, and its mirror image on the other side of the centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chord {
    /// The level of the covering windows.
    pub level: usize,
    /// Distance in lines (columns if the chords run down) from the ellipse's centre.
    pub distance: usize,
    /// Cells between the middles of the three covering windows; 0 when the windows coincide.
    pub shift: usize,
}

impl Chords {
    /// The chords of the ellipse with these `radii` (across and down, in cells; NaN and negative ones count as 0),
    /// clipped to a grid of `cells` (columns and rows).
    #[must_use]
    pub fn new(radii: [f32; 2], cells: [usize; 2]) -> Self {
        let radii = radii.map(|radius| if radius.is_nan() { 0.0 } else { f64::from(radius.clamp(0.0, MAX_RADIUS)) });
        let reach = [0, 1].map(|axis| (radii[axis] as usize).min(cells[axis].saturating_sub(1)));
        let down = reach[1] > reach[0];
        let [along, across] = if down { [1, 0] } else { [0, 1] };
        // (w / a)² + (d / b)² ≤ 1 without quotients. In f64 it is as exact as the radii: for a circle, w² + d² ≤ r².
        let [long, short] = [along, across].map(|axis| radii[axis] * radii[axis]);
        let inside = |half_width: usize, distance: usize| {
            let [half_width, distance] = [half_width, distance].map(|cells| (cells * cells) as f64);
            half_width * short + distance * long <= long * short
        };
        let (mut half_width, mut window) = (0, 0);
        let (mut half_widths, mut chords) = (vec![window], Vec::with_capacity(reach[across] + 1));
        for distance in (0..=reach[across]).rev() {
            while half_width < reach[along] && inside(half_width + 1, distance) {
                half_width += 1;
            }
            while half_width > 3 * window + 1 {
                window = 3 * window + 1;
                half_widths.push(window);
            }
            chords.push(Chord { level: half_widths.len() - 1, distance, shift: half_width - window });
        }
        Self { down, half_widths, chords }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_radii_count_as_the_least_or_the_most() {
        for radius in [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 0.9] {
            let centre = Chord { level: 0, distance: 0, shift: 0 };
            assert_eq!(
                Chords::new([radius; 2], [50, 50]),
                Chords { down: false, half_widths: vec![0], chords: vec![centre] }
            );
        }
        let widest = Chords::new([MAX_RADIUS; 2], [384, 384]);
        for radius in [36.5, 576.0, 1e30, f32::INFINITY] {
            assert_eq!(Chords::new([radius; 2], [384, 384]), widest, "{radius}");
            let on_small = Chords::new([radius; 2], [30, 20]);
            assert_eq!((on_small.down, on_small.chords.len()), (false, 20), "{radius}");
            let last = on_small.chords[19];
            assert_eq!(on_small.half_widths[last.level] + last.shift, 29, "{radius}");
        }
        assert_eq!(Chords::new([5.0, 5.0], [0, 0]).chords.len(), 1);
    }
}
