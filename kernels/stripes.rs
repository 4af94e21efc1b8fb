//! Splits a row-major plane into vertical stripes, for parallel passes along columns.

/// The stripes of `columns` columns (the last may be narrower) of a row-major plane: for each its part of every row.
pub(crate) fn stripes<T>(plane: &mut [T], width: usize, columns: usize) -> Vec<Vec<&mut [T]>> {
    let rows = plane.len() / width;
    let mut stripes: Vec<Vec<&mut [T]>> = (0..width.div_ceil(columns)).map(|_| Vec::with_capacity(rows)).collect();
    for row in plane.chunks_exact_mut(width) {
        for (stripe, part) in stripes.iter_mut().zip(row.chunks_mut(columns)) {
            stripe.push(part);
        }
    }
    stripes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_hold_every_value_once() {
        let mut plane: Vec<usize> = (0..7 * 3).collect();
        let stripes = stripes(&mut plane, 7, 3);
        assert_eq!(stripes.len(), 3);
        assert_eq!(stripes[0], [&[0, 1, 2], &[7, 8, 9], &[14, 15, 16]]);
        assert_eq!(stripes[2], [&[6], &[13], &[20]]);
    }
}
