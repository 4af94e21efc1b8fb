//! The frames of a clip on a GPU, or on Mesa's lavapipe without one, equal the CPU's.
//!
//! Without an adapter the tests are skipped with a notice, or fail with `BACKDROP_TEST_DEVICE=gpu` in the environment.

use super::composite::FrameCompositor;
use super::temporal::TemporalFilter;
use crate::codec::Channels;
use crate::image::color::Color;
use crate::image::{Frame, RawMask, Rect, Size, Transferred};
use crate::matting::FrameMatte;
use crate::pipeline::tests::support::{assert_alike, device, masks, off, on, picture, resident};
use crate::recipe::{Fields, VideoFormat, VideoRecipe};
use burn::tensor::Device;

/// Smoothing that uses previous frames, in percent.
const SMOOTHING: u8 = 60;

/// Windows that move over a picture by three pixels a frame, and their masks.
fn clip() -> Vec<(Frame, RawMask)> {
    let whole = picture("goods-camera.jpg");
    let Size { width, height } = whole.size();
    let window = |at: u32| Rect { left: 3 * at, top: at, width: width - 32, height: height - 32 };
    let frames: Vec<Frame> = (0..4).map(|at| whole.cropped(window(at), 2, |len| vec![0; len].into())).collect();
    let masks = masks(&frames);
    frames.into_iter().zip(masks).collect()
}

fn recipe(format: VideoFormat, channels: Channels, background: Option<Color>) -> VideoRecipe {
    VideoRecipe {
        format,
        channels,
        background,
        smoothing: SMOOTHING,
        ..VideoRecipe::of(&Fields::default()).expect("the defaults")
    }
}

/// The frames that the compositor of `recipe` makes of `clip`; `place` moves each to where it is processed.
fn composited(
    clip: &[(Frame, RawMask)],
    smoothing: u8,
    recipe: &VideoRecipe,
    place: impl Fn(&Frame) -> Frame,
) -> Vec<Frame> {
    let (mut filter, compositor) = (TemporalFilter::new(smoothing), FrameCompositor::of(recipe));
    let frames = clip.iter().map(|(frame, mask)| {
        let frame = place(frame);
        let matte = filter.next(&frame, mask.clone());
        compositor.composite(frame, &matte)
    });
    frames.collect()
}

#[test]
fn frames_agree_with_the_cpus_independent_and_smoothed_in_every_kind_of_output() {
    let Some(device) = device() else { return };
    let clip = clip();
    let green = Some(Color([20, 160, 40, 255]));
    let recipes = [
        ("a cutout, independent", 0, recipe(VideoFormat::Webm, Channels::Rgba, None)),
        ("a cutout", SMOOTHING, recipe(VideoFormat::Webm, Channels::Rgba, None)),
        ("on a colour", 100, recipe(VideoFormat::Mp4, Channels::Rgba, green)),
        ("the matte", SMOOTHING, recipe(VideoFormat::Mp4, Channels::Alpha, None)),
    ];
    for (what, smoothing, recipe) in recipes {
        let expected = composited(&clip, smoothing, &recipe, Frame::clone);
        let actual = composited(&clip, smoothing, &recipe, |frame| resident(frame, &device));
        for (at, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
            assert_alike(expected.pixels(), actual.pixels(), &format!("{what}, frame {at}"));
        }
    }
}

#[test]
fn a_frame_is_transferred_once_each_way_and_its_matte_stays() {
    let Some(device) = device() else { return };
    let clip = clip();
    let recipe = recipe(VideoFormat::Mp4, Channels::Rgba, None);
    let (mut filter, compositor) = (TemporalFilter::new(SMOOTHING), FrameCompositor::of(&recipe));
    for (at, (frame, mask)) in clip.iter().enumerate() {
        let frame = resident(frame, &device);
        let copy = frame.on_device().expect("a copy").clone();
        let matte = filter.next(&frame, mask.clone());
        assert!(matches!(matte, FrameMatte::Device(_)));
        let finished = compositor.composite(frame, &matte);
        // Up: the picture, two grids, the grids of the motion and of the past's weight, and the few pixels of specks.
        let Size { width, height } = finished.size();
        let grids = if at == 0 { 2 } else { 5 };
        let certain = (finished.pixels().len() + grids * size_of::<f32>() * mask.values().len()) as u64;
        let Transferred { up, down } = copy.transferred();
        assert!((certain..certain + 4 * 1000).contains(&up), "{up} up, of which {certain} are certain");
        // Down: coverage, the extents of rows, the result.
        let coverage = u64::from(width.next_multiple_of(4) * height);
        assert_eq!(down, coverage + 8 * u64::from(height) + finished.pixels().len() as u64, "frame {at}");
    }
}

#[test]
fn a_clip_resumed_from_its_saved_state_has_identical_frames() {
    let Some(device) = device() else { return };
    let clip = clip();
    let recipe = recipe(VideoFormat::Mp4, Channels::Rgba, None);
    let expected = composited(&clip, SMOOTHING, &recipe, |frame| resident(frame, &device));
    let (mut filter, compositor) = (TemporalFilter::new(SMOOTHING), FrameCompositor::of(&recipe));
    for ((frame, mask), expected) in clip.iter().zip(&expected) {
        filter = TemporalFilter::restore(SMOOTHING, &filter.save()).expect("its own bytes");
        let frame = resident(frame, &device);
        let matte = filter.next(&frame, mask.clone());
        assert!(compositor.composite(frame, &matte).pixels() == expected.pixels());
    }
}

#[test]
fn a_device_that_fails_costs_no_frame() {
    let clip = clip();
    let recipe = recipe(VideoFormat::Mp4, Channels::Rgba, None);
    // A copy of another picture: its cutout has another size.
    let broken = |frame: &Frame| {
        let frame = Frame::new(frame.size(), frame.pixels().to_vec().into());
        frame.keep_on_device(on(&Device::flex(), &Frame::new(Size::new(3, 2), vec![9; 24].into())));
        frame
    };
    for smoothing in [0, SMOOTHING] {
        let expected = composited(&clip, smoothing, &recipe, Frame::clone);
        for (expected, actual) in expected.iter().zip(composited(&clip, smoothing, &recipe, broken)) {
            // A frame that is matted again is matted without the previous matte.
            let share = off(expected.pixels(), actual.pixels());
            assert!(share <= if smoothing == 0 { 0.0 } else { 0.02 }, "{share} differ at {smoothing}");
        }
    }
}
