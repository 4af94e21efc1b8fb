//! Face restoration: adds the network's residual to a face, inside a feathered ellipse.

use super::align::{aligned, around, mean, offsets, to_template};
use super::selection::{MIN_FACE_SIDE, shorter_side};
use super::{Similarity, usable};
use crate::image::{Face, Frame};
use crate::model::{FACE_SIDE, FaceCrop, SegmentError};
use rayon::prelude::*;

/// The region of an aligned face: an ellipse around brow, cheeks and chin, by centre and half axes in the crop.
const CENTRE: [f64; 2] = [128.0, 136.0];
const HALF_AXES: [f64; 2] = [92.0, 112.0];
/// Share of the ellipse's radius within which the full residual is added.
const FULL_RADIUS: f64 = 0.7;
/// Shorter side in pixels from which a face is restored at full strength. The strength fades to zero at
/// [`MIN_FACE_SIDE`], where the network would hallucinate.
const FULL_STRENGTH_SIDE: f32 = 32.0;

/// Adds to a face of `frame` the residual that `network` computes from its aligned crop, times `strength` (0 to 1),
/// feathered towards the edge of the face's region and fading out for small faces.
///
/// Alpha, everything outside of the region, and pixels with a zero residual stay bit for bit. Returns whether the face
/// is [`usable`]. `network` is not called when the effective strength is zero.
///
/// # Errors
/// The errors of `network`, and an error when its output has the wrong number of pixels.
pub fn restored(
    frame: &mut Frame,
    face: &Face,
    strength: f32,
    network: impl FnOnce(&FaceCrop) -> Result<FaceCrop, SegmentError>,
) -> Result<bool, SegmentError> {
    if !usable(face, frame.size()) {
        return Ok(false);
    }
    let Some(to_crop) = to_template(face) else { return Ok(false) };
    let fade = (shorter_side(face) - MIN_FACE_SIDE) / (FULL_STRENGTH_SIDE - MIN_FACE_SIDE);
    let strength = strength.clamp(0.0, 1.0) * fade.clamp(0.0, 1.0);
    if strength > 0.0 {
        let residual = network(&aligned(frame, &to_crop))?;
        if residual.0.len() != FACE_SIDE * FACE_SIDE {
            return Err(SegmentError::Device(format!("{} pixels for a face", residual.0.len())));
        }
        add(frame, &residual, &to_crop, strength);
    }
    Ok(true)
}

/// Adds `residual`, in the crop's coordinates, warped back by the inverse of `to_crop`.
fn add(frame: &mut Frame, residual: &FaceCrop, to_crop: &Similarity, strength: f32) {
    let size = frame.size();
    let [columns, rows] = region(to_crop, [size.width as usize, size.height as usize]);
    let offsets = offsets(to_crop.scale());
    let stride = size.width as usize;
    let pixels = frame.pixels_mut().as_chunks_mut::<4>().0;
    let touched = &mut pixels[rows.start * stride..rows.end * stride];
    touched.par_chunks_mut(stride).enumerate().for_each(|(row, pixels)| {
        let y = (rows.start + row) as f64 + 0.5;
        for (x, pixel) in columns.clone().zip(&mut pixels[columns.clone()]) {
            let centre = [x as f64 + 0.5, y];
            let weight = strength * feather(to_crop.apply(centre));
            if weight <= 0.0 || pixel[3] == 0 {
                continue;
            }
            let added = mean(&offsets, centre, |at| bilinear_in(residual, to_crop.apply(at)));
            for (value, added) in pixel.iter_mut().zip(added) {
                // The cast turns NaN into 0.
                let step = (255.0 * weight * added).clamp(-255.0, 255.0).round() as i16;
                *value = (i16::from(*value) + step).clamp(0, 255) as u8;
            }
        }
    });
}

/// Bounding columns and rows of the face's region in a picture of `[width, height]`.
fn region(to_crop: &Similarity, sides: [usize; 2]) -> [std::ops::Range<usize>; 2] {
    let back = to_crop.inverse();
    let middle = back.apply(CENTRE);
    // At any rotation the region is inside the circle of its longer half axis.
    let reach = HALF_AXES[0].max(HALF_AXES[1]) * back.scale();
    [0, 1].map(|axis| {
        let side = sides[axis];
        let low = ((middle[axis] - reach).max(0.0) as usize).min(side);
        low..((middle[axis] + reach).max(0.0).ceil() as usize).min(side).max(low)
    })
}

/// Weight of the residual at a point of the crop: 1 inside, 0 from the ellipse's border on, smoothstep between.
fn feather([u, v]: [f64; 2]) -> f32 {
    let away = ((u - CENTRE[0]) / HALF_AXES[0]).hypot((v - CENTRE[1]) / HALF_AXES[1]);
    let left = ((1.0 - away) / (1.0 - FULL_RADIUS)).clamp(0.0, 1.0);
    (left * left * (3.0 - 2.0 * left)) as f32
}

fn bilinear_in(crop: &FaceCrop, at: [f64; 2]) -> [f32; 3] {
    let mut sum = [0.0; 3];
    for ([x, y], weight) in around(at, FACE_SIDE, FACE_SIDE) {
        let value = crop.0[y * FACE_SIDE + x];
        sum = std::array::from_fn(|channel| sum[channel] + weight * value[channel]);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::align::tests::face;
    use crate::face::enlarged;
    use crate::image::Size;
    use crate::image::tests::{changed, drawn, noise, on_any_number_of_threads};
    use proptest::prelude::*;

    const SIZE: Size = Size::new(320, 300);

    fn frame(size: Size, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Frame {
        drawn(size.width, size.height, pixel)
    }

    fn opaque(x: u32, y: u32) -> [u8; 4] {
        let [red, green, blue, _] = noise(x, y);
        [red, green, blue, 255]
    }

    fn flat(value: f32) -> FaceCrop {
        FaceCrop(vec![[value; 3]; FACE_SIDE * FACE_SIDE])
    }

    #[test]
    fn the_residual_is_added_inside_the_region_only() {
        let before = frame(SIZE, |x, y| opaque(x, y).map(|value| value / 2 + 40));
        let mut after = before.clone();
        // Half the size of its crop: 128 wide, with its corner at 60, 50.
        let it = face(60.0, 50.0, 2.0);
        assert!(restored(&mut after, &it, 1.0, |_| Ok(flat(0.2))).unwrap());
        let touched = changed(&before, &after);
        for &(x, y) in &touched {
            let (u, v) = ((f64::from(x) + 0.5 - 60.0) * 2.0, (f64::from(y) + 0.5 - 50.0) * 2.0);
            let away = ((u - CENTRE[0]) / HALF_AXES[0]).hypot((v - CENTRE[1]) / HALF_AXES[1]);
            assert!(away < 1.0, "{x},{y} is outside");
        }
        // The area of the ellipse, less the feathered rim with steps below one half.
        let ellipse = std::f64::consts::PI * HALF_AXES[0] * HALF_AXES[1] / 4.0;
        assert!(touched.len() as f64 > 0.8 * ellipse, "{} of {ellipse}", touched.len());
        let (x, y) = (60 + 64, 50 + 68);
        let (was, is) = (before.pixel(x, y), after.pixel(x, y));
        assert_eq!(is, [was[0] + 51, was[1] + 51, was[2] + 51, was[3]]);
    }

    #[test]
    fn strength_scales_the_residual_and_none_calls_no_network() {
        let grey = frame(SIZE, |_, _| [100, 100, 100, 255]);
        let middle = |(strength, residual)| {
            let mut after = grey.clone();
            restored(&mut after, &face(32.0, 20.0, 1.0), strength, |_| Ok(flat(residual))).unwrap();
            after.pixel(32 + 128, 20 + 136)[0]
        };
        assert_eq!([0.25, 0.5, 1.0, 7.0].map(|strength| middle((strength, 0.4))), [126, 151, 202, 202]);
        assert_eq!([(0.8, 0.0), (0.0, 0.5), (f32::NAN, 0.5), (0.8, f32::NAN)].map(middle), [100; 4]);
        let skipped = restored(&mut grey.clone(), &face(40.0, 30.0, 1.1), 0.0, |_| panic!("the network is called"));
        assert!(skipped.unwrap());
    }

    #[test]
    fn the_residual_is_warped_back_at_any_angle_and_scale() {
        // The network adds a spot at the tip of the nose.
        let spot = || {
            let mut crop = flat(0.0);
            for v in 136..148 {
                (122..134).for_each(|u| crop.0[v * FACE_SIDE + u] = [0.5; 3]);
            }
            crop
        };
        let dark = frame(Size::new(600, 600), |_, _| [0, 0, 0, 255]);
        for degrees in [-150.0_f32, -30.0, 0.0, 25.0, 90.0] {
            for scale in [0.6, 1.0, 2.5] {
                let mut it = face(300.0 - 128.0 / scale, 300.0 - 128.0 / scale, scale);
                let (sine, cosine) = degrees.to_radians().sin_cos();
                let turned = |[x, y]: [f32; 2]| {
                    let (x, y) = (x - 300.0, y - 300.0);
                    [300.0 + cosine * x - sine * y, 300.0 + sine * x + cosine * y]
                };
                it.landmarks = it.landmarks.map(turned);
                let nose = it.landmarks[2];
                let mut after = dark.clone();
                restored(&mut after, &it, 1.0, |_| Ok(spot())).unwrap();
                let touched = changed(&dark, &after);
                let mean = |axis: fn(&(u32, u32)) -> u32| {
                    touched.iter().map(|at| axis(at) as f32 + 0.5).sum::<f32>() / touched.len() as f32
                };
                let off = (mean(|at| at.0) - nose[0]).hypot(mean(|at| at.1) - nose[1]);
                assert!(off < 0.75, "{degrees}° at {scale}: {off} pixels off");
            }
        }
    }

    #[test]
    fn alpha_and_transparent_pixels_stay() {
        let before = frame(SIZE, |x, y| [90, 80, 70, if x < 150 { 0 } else { (y % 255) as u8 + 1 }]);
        let mut after = before.clone();
        restored(&mut after, &face(40.0, 20.0, 1.0), 1.0, |_| Ok(flat(0.3))).unwrap();
        let touched = changed(&before, &after);
        assert!(!touched.is_empty() && touched.iter().all(|&(x, _)| x >= 150));
        assert!(touched.iter().all(|&(x, y)| after.pixel(x, y)[3] == before.pixel(x, y)[3]));
    }

    #[test]
    fn restoration_fades_out_for_small_faces() {
        let grey = frame(SIZE, |_, _| [100, 100, 100, 255]);
        // The shorter side of these boxes is 140 pixels of the crop.
        let most = |side: f32| {
            let mut after = grey.clone();
            let done = restored(&mut after, &face(100.0, 100.0, 140.0 / side), 1.0, |_| Ok(flat(0.4))).unwrap();
            assert_eq!(done, side >= MIN_FACE_SIDE);
            after.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[0]).max().unwrap()
        };
        assert_eq!([most(15.0), most(33.0)], [100, 202]);
        assert!((140..165).contains(&most(24.0)), "{}", most(24.0));
    }

    #[test]
    fn an_output_of_the_wrong_size_is_an_error() {
        let mut picture = frame(SIZE, opaque);
        let short = restored(&mut picture, &face(40.0, 30.0, 1.0), 1.0, |_| Ok(FaceCrop(vec![[0.0; 3]; 7])));
        assert!(matches!(short, Err(SegmentError::Device(_))));
        let failed = restored(&mut picture, &face(40.0, 30.0, 1.0), 1.0, |_| Err(SegmentError::Device("lost".into())));
        assert!(failed.is_err());
    }

    #[test]
    fn the_same_bytes_on_any_number_of_threads() {
        on_any_number_of_threads("restoration", || {
            let mut picture = frame(SIZE, opaque);
            let inverted =
                |crop: &FaceCrop| FaceCrop(crop.0.iter().map(|pixel| pixel.map(|value| 0.5 - value)).collect());
            restored(&mut picture, &face(30.3, 20.7, 0.93), 0.8, |crop| Ok(inverted(crop))).unwrap();
            picture.pixels().to_vec()
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_face_panics(
            numbers in proptest::collection::vec(prop_oneof![-400.0..900.0_f32, -1e9..1e9_f32, Just(f32::NAN), Just(f32::INFINITY), Just(0.0)], 14),
            width in 1..60_u32, height in 1..60_u32, factor in prop_oneof![Just(1_u32), Just(4)],
        ) {
            let mut picture = drawn(width, height, opaque);
            let landmarks = std::array::from_fn(|at| [numbers[4 + 2 * at], numbers[5 + 2 * at]]);
            let face = Face { left: numbers[0], top: numbers[1], right: numbers[2], bottom: numbers[3], landmarks, score: 0.5 };
            let _ = restored(&mut picture, &enlarged(&face, factor), 1.0, |_| Ok(flat(0.1)));
        }
    }
}
