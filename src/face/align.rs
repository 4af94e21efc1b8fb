//! Face alignment: warps a face upright into the 256×256 crop of the restoration network.

use super::Similarity;
use crate::image::{Face, Frame};
use crate::model::{FACE_SIDE, FaceCrop};
use rayon::prelude::*;

/// Landmarks of an aligned face: eyes, nose, corners of the mouth, left before right.
const TEMPLATE: [[f32; 2]; 5] = [[100.0, 112.0], [156.0, 112.0], [128.0, 142.0], [106.0, 170.0], [150.0, 170.0]];

/// Maximum samples along each axis of a crop's pixel: a face as large as the largest picture shrinks sixteenfold.
const MAX_SAMPLES: usize = 16;

/// Grey behind translucent pixels, as in the face detector.
const BACKGROUND: f32 = 0.5;

/// The transform from a picture to the aligned crop of a face in it; `None` for degenerate landmarks.
#[must_use]
pub fn to_template(face: &Face) -> Option<Similarity> {
    Similarity::between(&face.landmarks, &TEMPLATE)
}

/// The aligned face, warped by `to_crop`. Where the crop is coarser than the picture, each pixel is a mean over its
/// area. Outside the picture the border is repeated.
#[must_use]
pub fn aligned(frame: &Frame, to_crop: &Similarity) -> FaceCrop {
    let back = to_crop.inverse();
    let offsets = offsets(back.scale());
    let mut crop = vec![[0.0; 3]; FACE_SIDE * FACE_SIDE];
    crop.par_chunks_mut(FACE_SIDE).enumerate().for_each(|(v, row)| {
        for (u, pixel) in row.iter_mut().enumerate() {
            *pixel = mean(&offsets, [u as f64 + 0.5, v as f64 + 0.5], |at| bilinear_in(frame, back.apply(at)));
        }
    });
    FaceCrop(crop)
}

/// Sample positions within a pixel, relative to its centre, on a grid that is `finer` times finer.
pub(super) fn offsets(finer: f64) -> Vec<f64> {
    let samples = (finer.ceil() as usize).clamp(1, MAX_SAMPLES);
    (0..samples).map(|sample| (sample as f64 + 0.5) / samples as f64 - 0.5).collect()
}

pub(super) fn mean(offsets: &[f64], centre: [f64; 2], read: impl Fn([f64; 2]) -> [f32; 3]) -> [f32; 3] {
    let mut sum = [0.0; 3];
    for down in offsets {
        for across in offsets {
            let value = read([centre[0] + across, centre[1] + down]);
            sum = std::array::from_fn(|channel| sum[channel] + value[channel]);
        }
    }
    let count = (offsets.len() * offsets.len()) as f32;
    sum.map(|sum| sum / count)
}

/// The four pixels around a point, with bilinear weights. The first pixel's centre is at one half.
pub(super) fn around([x, y]: [f64; 2], columns: usize, rows: usize) -> [([usize; 2], f32); 4] {
    let axis = |at: f64, side: usize| {
        let last = side.saturating_sub(1);
        // NaN becomes the border.
        let at = (at - 0.5).max(0.0).min(last as f64);
        let before = at as usize;
        (before, (before + 1).min(last), (at - before as f64) as f32)
    };
    let ((left, right, across), (above, below, down)) = (axis(x, columns), axis(y, rows));
    [
        ([left, above], (1.0 - across) * (1.0 - down)),
        ([right, above], across * (1.0 - down)),
        ([left, below], (1.0 - across) * down),
        ([right, below], across * down),
    ]
}

fn bilinear_in(frame: &Frame, at: [f64; 2]) -> [f32; 3] {
    let (columns, rows) = (frame.size().width as usize, frame.size().height as usize);
    let pixels = frame.pixels().as_chunks::<4>().0;
    let mut sum = [0.0; 3];
    for ([x, y], weight) in around(at, columns, rows) {
        let [red, green, blue, alpha] = pixels[y * columns + x].map(|value| f32::from(value) / 255.0);
        let seen = [red, green, blue].map(|value| value * alpha + BACKGROUND * (1.0 - alpha));
        sum = std::array::from_fn(|channel| sum[channel] + weight * seen[channel]);
    }
    sum
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::image::tests::drawn;

    /// An upright face whose aligned crop has `scale` times the size of its region, which begins at `left`, `top`.
    pub(in super::super) fn face(left: f32, top: f32, scale: f32) -> Face {
        let at = |x: f32, y: f32| [left + x / scale, top + y / scale];
        Face {
            left: at(58.0, 0.0)[0],
            top: at(0.0, 60.0)[1],
            right: at(198.0, 0.0)[0],
            bottom: at(0.0, 210.0)[1],
            landmarks: TEMPLATE.map(|[x, y]| at(x, y)),
            score: 0.9,
        }
    }

    #[test]
    fn a_face_already_on_the_template_is_its_own_crop() {
        let picture = drawn(256, 256, |x, y| [x as u8, y as u8, (x ^ y) as u8, 255]);
        let crop = aligned(&picture, &to_template(&face(0.0, 0.0, 1.0)).unwrap());
        for (at, pixel) in crop.0.iter().enumerate() {
            let [red, green, blue, _] = picture.pixel((at % 256) as u32, (at / 256) as u32);
            let expected = [red, green, blue].map(|value| f32::from(value) / 255.0);
            assert!(pixel.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-3), "{at}: {pixel:?} {expected:?}");
        }
    }

    #[test]
    fn an_upside_down_face_is_turned_upright() {
        let picture = drawn(300, 300, |_, y| if y < 150 { [255, 0, 0, 255] } else { [0, 0, 255, 255] });
        let mut face = face(22.0, 22.0, 1.0);
        face.landmarks = face.landmarks.map(|[x, y]| [300.0 - x, 300.0 - y]);
        let crop = aligned(&picture, &to_template(&face).unwrap());
        assert!(
            crop.0[20 * 256 + 128][2] > 0.99 && crop.0[236 * 256 + 128][0] > 0.99,
            "chin and forehead changed places"
        );
    }

    #[test]
    fn fine_stripes_are_averaged_without_aliasing() {
        let picture = drawn(1280, 1280, |x, _| if x % 2 == 0 { [0, 0, 0, 255] } else { [255; 4] });
        let crop = aligned(&picture, &to_template(&face(0.0, 0.0, 0.2)).unwrap());
        let inner = (8..248).flat_map(|v| (8..248).map(move |u| (u, v)));
        let values: Vec<f32> = inner.map(|(u, v)| crop.0[v * 256 + u][0]).collect();
        let (low, high) =
            values.iter().fold((1.0_f32, 0.0_f32), |(low, high), value| (low.min(*value), high.max(*value)));
        assert!(low > 0.38 && high < 0.62, "{low} to {high}");
    }

    #[test]
    fn the_border_is_replicated_and_transparent_pixels_are_grey() {
        let picture = drawn(40, 40, |_, _| [200, 100, 50, 255]);
        let crop = aligned(&picture, &to_template(&face(-100.0, -100.0, 1.0)).unwrap());
        assert!(crop.0.iter().all(|pixel| (pixel[0] - 200.0 / 255.0).abs() < 1e-4));
        let clear = drawn(40, 40, |_, _| [200, 100, 50, 0]);
        let crop = aligned(&clear, &to_template(&face(0.0, 0.0, 8.0)).unwrap());
        assert!(crop.0.iter().all(|pixel| pixel.iter().all(|value| (value - 0.5).abs() < 1e-4)));
    }
}
