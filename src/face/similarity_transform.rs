//! 2-D similarity transforms (rotation, uniform scale, translation) and their least-squares fit to point pairs.

/// Rotation, uniform scale and translation, without reflection. Maps `(x, y)` to `(c·x - s·y + dx, s·x + c·y + dy)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similarity {
    cosine: f64,
    sine: f64,
    shift: [f64; 2],
}

impl Similarity {
    /// The least-squares fit of `from` to `to` (Umeyama, "Least-Squares Estimation of Transformation Parameters Between
    /// Two Point Patterns", PAMI 1991), in the plane a linear regression over complex numbers, which excludes
    /// reflections.
    ///
    /// `None` for degenerate points: coincident on either side, or not finite.
    #[must_use]
    pub fn between<const N: usize>(from: &[[f32; 2]; N], to: &[[f32; 2]; N]) -> Option<Self> {
        let centre = |points: &[[f32; 2]; N]| {
            let sum = points.iter().fold([0.0; 2], |[x, y], point| [x + f64::from(point[0]), y + f64::from(point[1])]);
            sum.map(|sum: f64| sum / N as f64)
        };
        let (before, after) = (centre(from), centre(to));
        let (mut real, mut imaginary, mut spread) = (0.0, 0.0, 0.0);
        for (from, to) in from.iter().zip(to) {
            let [x, y] = [f64::from(from[0]) - before[0], f64::from(from[1]) - before[1]];
            let [u, v] = [f64::from(to[0]) - after[0], f64::from(to[1]) - after[1]];
            real += x * u + y * v;
            imaginary += x * v - y * u;
            spread += x * x + y * y;
        }
        let (cosine, sine) = (real / spread, imaginary / spread);
        let linear = Self { cosine, sine, shift: [0.0; 2] };
        let [x, y] = linear.apply(before);
        let found = Self { shift: [after[0] - x, after[1] - y], ..linear };
        let is_usable = found.scale().is_normal() && found.shift.iter().all(|shift| shift.is_finite());
        is_usable.then_some(found)
    }

    /// Transforms a point.
    #[must_use]
    pub fn apply(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [self.cosine * x - self.sine * y + self.shift[0], self.sine * x + self.cosine * y + self.shift[1]]
    }

    /// The scale factor.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.cosine.hypot(self.sine)
    }

    /// The inverse transform; the scale of [`Similarity::between`] is never 0.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let square = self.cosine * self.cosine + self.sine * self.sine;
        let linear = Self { cosine: self.cosine / square, sine: -self.sine / square, shift: [0.0; 2] };
        let [x, y] = linear.apply(self.shift);
        Self { shift: [-x, -y], ..linear }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POINTS: [[f32; 2]; 5] = [[10.0, 20.0], [70.0, 25.0], [38.0, 60.0], [15.0, 90.0], [66.0, 88.0]];

    fn close(a: [f64; 2], b: [f64; 2]) -> bool {
        (a[0] - b[0]).hypot(a[1] - b[1]) < 1e-3
    }

    proptest! {
        #[test]
        fn a_known_transform_is_recovered(degrees in -180.0..180.0_f64, scale in 0.01..50.0_f64, x in -2e3..2e3_f64, y in -2e3..2e3_f64) {
            let (sine, cosine) = degrees.to_radians().sin_cos();
            let made = Similarity { cosine: cosine * scale, sine: sine * scale, shift: [x, y] };
            let moved = POINTS.map(|[x, y]| made.apply([f64::from(x), f64::from(y)]).map(|value| value as f32));
            let found = Similarity::between(&POINTS, &moved).expect("five different points");
            prop_assert!((found.scale() - scale).abs() < 1e-3 * scale);
            for (point, moved) in POINTS.iter().zip(moved) {
                let back = found.inverse().apply(moved.map(f64::from));
                prop_assert!(close(back, point.map(f64::from)) || scale < 0.1, "{back:?} {point:?}");
            }
        }
    }

    #[test]
    fn the_fit_is_a_least_squares_minimum() {
        let mut to = POINTS.map(|[x, y]| [x * 2.0 + 5.0, y * 2.0 - 3.0]);
        to[2] = [200.0, 10.0];
        let error = |with: &Similarity| -> f64 {
            let off = |(from, to): (&[f32; 2], &[f32; 2])| {
                let [x, y] = with.apply(from.map(f64::from));
                (x - f64::from(to[0])).powi(2) + (y - f64::from(to[1])).powi(2)
            };
            POINTS.iter().zip(&to).map(off).sum()
        };
        let best = Similarity::between(&POINTS, &to).expect("different points");
        for step in [-1e-3, 1e-3] {
            let others = [
                Similarity { cosine: best.cosine + step, ..best },
                Similarity { sine: best.sine + step, ..best },
                Similarity { shift: [best.shift[0] + step, best.shift[1]], ..best },
                Similarity { shift: [best.shift[0], best.shift[1] + step], ..best },
            ];
            for other in others {
                assert!(error(&other) > error(&best), "{other:?}");
            }
        }
    }

    #[test]
    fn degenerate_points_have_no_transform() {
        assert_eq!(Similarity::between(&[[7.0, 7.0]; 5], &POINTS), None);
        assert_eq!(Similarity::between(&POINTS, &[[7.0, 7.0]; 5]), None);
        for bad in [f32::NAN, f32::INFINITY] {
            let mut points = POINTS;
            points[3][1] = bad;
            assert_eq!(Similarity::between(&points, &POINTS), None);
            assert_eq!(Similarity::between(&POINTS, &points), None);
        }
    }
}
