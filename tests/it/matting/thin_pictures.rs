//! Pictures of a few pixels across: a result or no subject, and a band that is no wider than that of any other picture.

use crate::engine::fake::{config, soon};
use crate::engine::pipeline::png;
use backdrop::codec::Limits;
use backdrop::engine::{Engine, Lane};
use backdrop::image::{Buffer, Frame, RawMask, Rect, Size, Trimap};
use backdrop::matting::clean::clean;
use backdrop::matting::{self, Hair, NoSubject, Options, trimap};
use backdrop::model::{SegmentError, Segmenter};
use backdrop::pipeline::{self, Call, PipelineError};
use backdrop::recipe::Recipe;
use std::sync::Arc;

/// The network's grid.
const GRID: Size = Size::new(384, 384);
const SHAPES: [(u32, u32); 10] =
    [(1, 1), (64, 1), (1, 64), (4096, 1), (1, 4096), (2, 4096), (1920, 2), (3, 5), (16, 16), (700, 7)];

/// Subject before the middle, along the axis on which the picture is longer.
fn half(size: Size) -> RawMask {
    let is_subject = |at: u32| if size.width >= size.height { at % GRID.width < 192 } else { at / GRID.width < 192 };
    let values = (0..GRID.area() as u32).map(|at| f32::from(u8::from(is_subject(at)))).collect();
    RawMask::new(GRID, values).expect("probabilities")
}

fn frame(size: Size) -> Frame {
    let is_subject = |x: u32, y: u32| if size.width >= size.height { 2 * x < size.width } else { 2 * y < size.height };
    let color = |x, y| if is_subject(x, y) { [220, 120, 40, 255] } else { [30, 160, 60, 255] };
    let pixels: Vec<u8> = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| color(x, y))).collect();
    Frame::new(size, Buffer::from(pixels))
}

#[test]
fn the_band_of_a_thin_picture_is_as_wide_along_it_as_that_of_any_other() {
    for (width, height) in SHAPES {
        let size = Size::new(width, height);
        let longest = size.longest() as f32;
        let trimap = trimap::from_mask(&clean(&half(size)), size, None);
        let unknown = trimap.labels().iter().filter(|&&label| label == Trimap::UNKNOWN).count();
        // Two cells to either side of the edge, at least 1.5 pixels, and what is bilinear between cells or pixels.
        let band = 2.0 * (2.0 * longest / 384.0).max(1.5) + (longest / 384.0).max(1.0) + 1.0;
        let lines = size.area() as f32 / longest;
        assert!(
            unknown as f32 <= band * lines,
            "{size}: {unknown} unknown pixels, not {band} in each of {lines} lines"
        );
    }
}

#[test]
fn thin_pictures_are_cut_out_with_all_options() {
    for (width, height) in SHAPES {
        let size = Size::new(width, height);
        let hair = Hair { region: Rect { left: 0, top: 0, width, height }, reach: 40.0 };
        let plain = Options { despill: 1.0, decontaminate: true, ..Options::default() };
        for options in [plain, Options { opaque: true, ..plain }, Options { hair: Some(hair), ..plain }] {
            match matting::cut_out(frame(size), &half(size), &options) {
                Ok(cutout) => assert_eq!(cutout.frame().size(), size),
                Err(NoSubject) => assert!(size.area() < 64, "{size}: half of it is subject"),
            }
        }
    }
}

/// Segments the first half of every picture.
struct Half;

impl Segmenter for Half {
    fn model(&self) -> &str {
        "half-1"
    }

    fn device(&self) -> String {
        "none".to_owned()
    }

    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
        Ok(frames.iter().map(|frame| half(frame.size())).collect())
    }
}

#[tokio::test]
async fn thin_pictures_go_through_every_stage() {
    let factory = || -> Result<Box<dyn Segmenter>, SegmentError> { Ok(Box::new(Half)) };
    let engine = Engine::start(&config(4, 4), Arc::new(factory));
    for (width, height) in SHAPES {
        let size = Size::new(width, height);
        let picture = frame(size);
        let bytes = png(size, |x, y| picture.pixel(x, y));
        let call = Call { lane: Lane::Interactive, deadline: soon(), limits: Limits::default() };
        match pipeline::run(&engine, bytes, &Recipe::default(), &call).await {
            Ok(output) => assert_eq!(output.image.size, size),
            Err(PipelineError::NoSubject(_)) => assert!(size.area() < 64, "{size}: half of it is subject"),
            Err(error) => panic!("{size}: {error}"),
        }
    }
}
