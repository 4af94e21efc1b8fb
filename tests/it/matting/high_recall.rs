//! `detect=high_recall` with the real network: what has almost no contrast left is found again.

use crate::support::command::photo;
use backdrop::codec::{self, Limits};
use backdrop::image::{Buffer, BufferPool, Frame, Mask};
use backdrop::matting::{contrast, recall};
use backdrop::model::weights::Weights;
use backdrop::model::{CpuSegmenter, Segmenter};
use backdrop_kernels::conv::Isa;
use std::fs;

/// What is left of the contrast: 255 levels become 8.
const STRENGTH: f32 = 0.03;

fn decoded(name: &str) -> Frame {
    let bytes = fs::read(photo(name)).unwrap();
    let header = codec::probe(&bytes, &Limits::default()).unwrap();
    codec::decode(&bytes, &header, &BufferPool::new(0)).unwrap()
}

/// The photo with its values moved towards the middle.
fn faded(photo: &Frame) -> Frame {
    let fade = |value: u8| (128.0 + STRENGTH * (f32::from(value) - 128.0)).round() as u8;
    let pixels = photo.pixels().as_chunks::<4>().0.iter();
    let pixels = pixels.flat_map(|[red, green, blue, alpha]| [fade(*red), fade(*green), fade(*blue), *alpha]);
    Frame::new(photo.size(), Buffer::from(pixels.collect::<Vec<_>>()))
}

/// Share of what is likely in `truth` that is likely in `mask`.
fn share_found(mask: &Mask, truth: &Mask) -> f64 {
    let likely = || truth.values.iter().zip(&mask.values).filter(|(truth, _)| **truth >= 0.5);
    likely().filter(|(_, value)| **value >= 0.5).count() as f64 / likely().count() as f64
}

#[test]
fn subjects_that_lost_their_contrast_are_found_by_the_second_look() {
    let mut network = CpuSegmenter::new(&Weights::embedded(), Isa::detect()).unwrap();
    let photos = ["astronaut.jpg", "chelsea.png", "coffee.jpg"];
    let (mut once, mut twice) = (0.0, 0.0);
    for name in photos {
        let photo = decoded(name);
        let faint = faded(&photo);
        let [truth, mut mask, second]: [Mask; 3] = network
            .segment(&[&photo, &faint, &contrast::boosted(&faint, contrast::USUAL_SIDE)])
            .unwrap()
            .try_into()
            .unwrap();
        once += share_found(&mask, &truth) / photos.len() as f64;
        recall::add(&mut mask, &second);
        twice += share_found(&mask, &truth) / photos.len() as f64;
    }
    let of_the_missed = (twice - once) / (1.0 - once);
    assert!(of_the_missed > 1.0 / 3.0, "{once} of the subjects were found without, {twice} with a second look");
}
