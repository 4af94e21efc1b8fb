//! Border replication: extends a picture to the canvas by its outermost pixels.

use crate::image::{Frame, Rect};
use rayon::prelude::*;

/// Sets each pixel of `canvas` outside `place` to the colour of the nearest pixel inside.
pub(in crate::compose) fn replicate_border(canvas: &mut Frame, place: Rect) {
    let row = canvas.size().width as usize * 4;
    let (first, last) = (place.left as usize, (place.left + place.width) as usize - 1);
    let shown = place.top as usize * row..(place.top + place.height) as usize * row;
    let pixels = canvas.pixels_mut();
    pixels[shown.clone()].par_chunks_mut(row).for_each(|row| {
        let row = row.as_chunks_mut::<4>().0;
        let (before, after) = (row[first], row[last]);
        row[..first].fill(before);
        row[last + 1..].fill(after);
    });
    let (above, rest) = pixels.split_at_mut(shown.start);
    let (shown, below) = rest.split_at_mut(shown.len());
    let (upper, lower) = (&shown[..row], &shown[shown.len() - row..]);
    above.par_chunks_mut(row).for_each(|to| to.copy_from_slice(upper));
    below.par_chunks_mut(row).for_each(|to| to.copy_from_slice(lower));
}
