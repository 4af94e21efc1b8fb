//! Connected patches of a mask's cells.

use crate::image::Mask;

/// The neighbours that make cells one patch.
pub(super) const SIDES: [(isize, isize); 4] = [(-1, 0), (1, 0), (0, -1), (0, 1)];

/// Every connected patch of cells whose values `belong`, as indices into the mask, in the order of their first cells.
pub(super) fn patches(mask: &Mask, belong: impl Fn(f32) -> bool) -> Vec<Vec<usize>> {
    let mut seen = vec![false; mask.values.len()];
    let mut patches = Vec::new();
    for first in 0..mask.values.len() {
        if seen[first] || !belong(mask.values[first]) {
            continue;
        }
        seen[first] = true;
        let mut patch = vec![first];
        let mut next = 0;
        while let Some(&at) = patch.get(next) {
            next += 1;
            for neighbour in neighbours(mask, at, &SIDES) {
                if !seen[neighbour] && belong(mask.values[neighbour]) {
                    seen[neighbour] = true;
                    patch.push(neighbour);
                }
            }
        }
        patches.push(patch);
    }
    patches
}

/// The cells `steps` away from the cell `at`, as far as they are inside the mask.
pub(super) fn neighbours<'a>(
    mask: &Mask,
    at: usize,
    steps: &'a [(isize, isize)],
) -> impl Iterator<Item = usize> + use<'a> {
    let (width, height) = (mask.size.width as usize, mask.size.height as usize);
    let (x, y) = (at % width, at / width);
    steps.iter().filter_map(move |&(right, down)| {
        let (x, y) = (x.checked_add_signed(right)?, y.checked_add_signed(down)?);
        (x < width && y < height).then_some(y * width + x)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    #[test]
    fn patches_are_joined_by_sides_and_not_by_corners_or_across_the_border() {
        #[rustfmt::skip]
        let values = vec![
            1.0, 0.0, 0.0, 1.0,
            0.0, 1.0, 1.0, 0.0,
            1.0, 1.0, 0.0, 0.0,
        ];
        let mask = Mask { size: Size::new(4, 3), values };
        assert_eq!(patches(&mask, |value| value > 0.5), [vec![0], vec![3], vec![5, 6, 9, 8]]);
        assert_eq!(patches(&mask, |value| value > 1.0), Vec::<Vec<usize>>::new());
    }
}
