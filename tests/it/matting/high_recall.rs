//! `detect=high_recall` with the real network: subjects of very low contrast are segmented.

use crate::support::command::photo;
use crate::support::pictures::decoded;
use backdrop::image::{Buffer, Frame, RawMask};
use backdrop::matting::{clahe, mask_union};
use backdrop::model::weights::Weights;
use backdrop::model::{CpuSegmenter, Segmenter};
use backdrop_kernels::conv::Isa;
use std::fs;

/// The remaining share of the contrast: 255 levels become 8.
const STRENGTH: f32 = 0.03;

/// The photo with reduced contrast.
fn faded(photo: &Frame) -> Frame {
    let fade = |value: u8| (128.0 + STRENGTH * (f32::from(value) - 128.0)).round() as u8;
    let pixels = photo.pixels().as_chunks::<4>().0.iter();
    let pixels = pixels.flat_map(|[red, green, blue, alpha]| [fade(*red), fade(*green), fade(*blue), *alpha]);
    Frame::new(photo.size(), Buffer::from(pixels.collect::<Vec<_>>()))
}

/// Recall: the share of the subject in `truth` that is in `mask`.
fn recall(mask: &RawMask, truth: &RawMask) -> f64 {
    let likely = || truth.values().iter().zip(mask.values()).filter(|(truth, _)| **truth >= 0.5);
    likely().filter(|(_, value)| **value >= 0.5).count() as f64 / likely().count() as f64
}

#[test]
fn the_equalized_copy_recovers_a_third_of_the_subjects_that_low_contrast_loses() {
    let mut network = CpuSegmenter::new(&Weights::embedded(), Isa::detect()).unwrap();
    let photos = ["astronaut.jpg", "chelsea.png", "coffee.jpg"];
    let (mut without, mut with) = (0.0, 0.0);
    for name in photos {
        let photo = decoded(&fs::read(photo(name)).unwrap());
        let faint = faded(&photo);
        let [truth, mask, second]: [RawMask; 3] = network
            .segment(&[&photo, &faint, &clahe::equalized(&faint, clahe::DEFAULT_SIDE)])
            .unwrap()
            .try_into()
            .unwrap();
        without += recall(&mask, &truth) / photos.len() as f64;
        with += recall(&mask_union::union(mask, &second), &truth) / photos.len() as f64;
    }
    let of_the_missed = (with - without) / (1.0 - without);
    assert!(of_the_missed > 1.0 / 3.0, "a recall of {without} without the equalized copy, of {with} with it");
}
