//! Bilinear and Catmull-Rom interpolation on a plane, with border replication.
//!
//! Inlined into loops compiled for several instruction sets. On the oldest set, rounding is a call for each value.

/// The upper left of the four cells around a point, and the fractional offsets from it.
#[derive(Clone, Copy, Debug)]
struct Corner {
    column: isize,
    row: isize,
    along: f32,
    down: f32,
}

impl Corner {
    #[inline(always)]
    fn of(x: f32, y: f32) -> Self {
        let (left, top) = (x.floor(), y.floor());
        Self { column: left as isize, row: top as isize, along: x - left, down: y - top }
    }
}

/// A row-major plane with its columns and rows.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a, T> {
    /// Row after row.
    pub values: &'a [T],
    /// Columns and rows.
    pub size: [usize; 2],
}

impl<T: Copy + Into<f32>> Plane<'_, T> {
    #[inline(always)]
    fn at(&self, column: isize, row: isize) -> f32 {
        let [width, height] = self.size;
        let column = column.clamp(0, width as isize - 1) as usize;
        let row = row.clamp(0, height as isize - 1) as usize;
        self.values[row * width + column].into()
    }

    /// Bilinear interpolation at (`x`, `y`), in cells from the centre of the first cell.
    #[must_use]
    #[inline(always)]
    pub fn linear(&self, x: f32, y: f32) -> f32 {
        let Corner { column, row, along, down } = Corner::of(x, y);
        let [width, height] = self.size;
        let corners = if column >= 0 && row >= 0 && (column as usize) + 1 < width && (row as usize) + 1 < height {
            let first = row as usize * width + column as usize;
            let (above, below) = (&self.values[first..first + 2], &self.values[first + width..first + width + 2]);
            [above[0], above[1], below[0], below[1]].map(Into::into)
        } else {
            [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(right, below)| self.at(column + right, row + below))
        };
        let above = corners[0] + along * (corners[1] - corners[0]);
        let below = corners[2] + along * (corners[3] - corners[2]);
        above + down * (below - above)
    }

    /// Catmull-Rom interpolation of sixteen cells: does not blur a plane that is warped repeatedly, but may overshoot.
    #[must_use]
    #[inline(always)]
    pub fn cubic(&self, x: f32, y: f32) -> f32 {
        let Corner { column, row, along, down } = Corner::of(x, y);
        let across = catmull_rom(along);
        let [width, height] = self.size;
        if column >= 1 && row >= 1 && (column as usize) + 2 < width && (row as usize) + 2 < height {
            let first = (row as usize - 1) * width + column as usize - 1;
            let mut sum = 0.0;
            for (line, weight) in catmull_rom(down).into_iter().enumerate() {
                let values = &self.values[first + line * width..][..4];
                let mixed: f32 = values.iter().zip(across).map(|(&value, weight)| value.into() * weight).sum();
                sum += weight * mixed;
            }
            return sum;
        }
        let mix = |row| {
            let values = [-1, 0, 1, 2].map(|step| self.at(column + step, row));
            values.iter().zip(across).map(|(value, weight)| value * weight).sum::<f32>()
        };
        [-1, 0, 1, 2].into_iter().zip(catmull_rom(down)).map(|(step, weight)| weight * mix(row + step)).sum()
    }
}

/// Catmull-Rom weights of the cells at -1, 0, 1 and 2.
#[inline(always)]
fn catmull_rom(t: f32) -> [f32; 4] {
    let (square, cube) = (t * t, t * t * t);
    [
        0.5 * (-cube + 2.0 * square - t),
        0.5 * (3.0 * cube - 5.0 * square + 2.0),
        0.5 * (-3.0 * cube + 4.0 * square + t),
        0.5 * (cube - square),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_interpolate_the_cells_and_replicate_the_border() {
        for size in [[1, 1], [1, 4], [7, 5]] {
            let values: Vec<f32> = (0..size[0] * size[1]).map(|at| ((at * 5) % 7) as f32).collect();
            let plane = Plane { values: &values, size };
            for (at, &value) in values.iter().enumerate() {
                let (x, y) = ((at % size[0]) as f32, (at / size[0]) as f32);
                assert!((plane.linear(x, y) - value).abs() < 1e-5);
                assert!((plane.cubic(x, y) - value).abs() < 1e-5);
            }
            assert_eq!(plane.linear(-9.5, -3.0), values[0]);
            assert!((plane.cubic(1e6, 1e6) - values[values.len() - 1]).abs() < 1e-5);
        }
    }

    #[test]
    fn a_ramp_stays_a_ramp() {
        let values: Vec<f32> = (0..64).map(|at| (at % 8) as f32 + 2.0 * (at / 8) as f32).collect();
        let plane = Plane { values: &values, size: [8, 8] };
        for (x, y) in [(2.3, 3.9), (4.0, 1.5), (3.75, 2.25)] {
            assert!((plane.linear(x, y) - (x + 2.0 * y)).abs() < 1e-4);
            assert!((plane.cubic(x, y) - (x + 2.0 * y)).abs() < 1e-4);
        }
    }
}
