//! Matting on a GPU, or on Mesa's lavapipe without one, gives the CPU's results.
//!
//! Without an adapter the tests are skipped with a notice, or fail with `BACKDROP_TEST_DEVICE=gpu` in the environment.

use super::support::{
    LEAST_IOU, LIMITS, PICTURES, adapter, assert_alike, before_green, channel, device, iou, masks, on, picture,
    resident, session, small_picture,
};
use crate::image::{AlphaMatte, DeviceLimits, DeviceSession, Frame, RawMask, Rect, Size, Transferred, Trimap};
use crate::matting::gpu::{self, cut_out};
use crate::matting::{Edge, Guide, Hair, Method, Options};
use crate::model::weights::architecture::Network;
use crate::model::weights::architecture::edge::FEATURES;
use crate::model::weights::{Card, Weights};
use crate::model::{CpuSegmenter, GpuSegmenter, Segmenter};
use backdrop_kernels::conv::Isa;
use backdrop_kernels::device::download;
use burn::tensor::{AllocationProperty, Device};

#[test]
fn a_download_is_complete_when_it_is_returned() {
    let Some(device) = device() else { return };
    let frame = Frame::new(Size::new(3, 2), vec![9; 24].into());
    let data = download(on(&device, &frame).words()).expect("the device computes");
    assert_ne!(data.bytes().property(), AllocationProperty::Device, "it is copied at the first access");
    assert_eq!(data.as_bytes(), frame.pixels());
}

#[test]
fn a_cutout_equals_the_cpus_and_is_transferred_once_each_way() {
    let Some(device) = device() else { return };
    let frames = PICTURES.map(|name| if name.starts_with("hair") { picture(name) } else { small_picture(name) });
    for ((frame, mask), name) in frames.iter().zip(masks(&frames)).zip(PICTURES) {
        let options = Options::default();
        let expected = cut_out(frame.clone(), &mask, &options).expect("a subject").into_frame();
        let resident = resident(frame, &device);
        let copy = resident.on_device().expect("it was kept").clone();
        let actual = cut_out(resident, &mask, &options).expect("a subject").into_frame();
        let iou = iou(&channel(&expected, 3), &channel(&actual, 3));
        eprintln!("{name}: IoU {iou:.5}");
        assert!(iou >= LEAST_IOU, "{name}: {iou}");
        assert_alike(expected.pixels(), actual.pixels(), name);

        let pixels = (size_of::<u32>() * frame.size().area()) as u64;
        let grids = (2 * size_of::<f32>() * mask.values().len()) as u64;
        assert_eq!(copy.transferred(), Transferred { up: pixels + grids, down: pixels }, "{name}");
    }
}

/// Cuts `frame` out by `options`, which must have an effect, on the CPU and on `device`, and compares the
/// cutouts. Returns the transfers.
fn compared(frame: &Frame, mask: &RawMask, options: &Options, device: &Device, what: &str) -> Transferred {
    let unchanged = cut_out(frame.clone(), mask, &Options::default()).expect("a subject").into_frame();
    let expected = cut_out(frame.clone(), mask, options).expect("a subject").into_frame();
    assert!(expected.pixels() != unchanged.pixels(), "{what} changes nothing");
    let resident = resident(frame, device);
    let copy = resident.on_device().expect("it was kept").clone();
    let actual = cut_out(resident, mask, options).expect("a subject").into_frame();
    assert_alike(expected.pixels(), actual.pixels(), what);
    copy.transferred()
}

#[test]
fn options_of_matting_equal_the_cpus() {
    let Some(device) = device() else { return };
    let plain = Options::default();
    // The grids that are uploaded, where they are the only ones beside the picture.
    for (name, what, options, grids) in [
        ("hair-curls.jpg", "a hard edge", Options { edge: Edge::Hard, ..plain }, Some(2)),
        ("hair-curls.jpg", "hair", plain, Some(3)),
        ("goods-camera.jpg", "opaque", Options { opaque: true, ..plain }, None),
        ("hair-curls.jpg", "before a green screen", Options { despill: 1.0, ..plain }, None),
        ("hair-curls.jpg", "opaque before a green screen", Options { opaque: true, despill: 0.7, ..plain }, None),
    ] {
        let mut frame = small_picture(name);
        let mask = masks(std::slice::from_ref(&frame)).remove(0);
        let Size { width, height } = frame.size();
        let region = Rect { left: width / 8, top: 0, width: width * 3 / 4, height: height / 2 };
        let hair = (what == "hair").then_some(Hair { region, reach: 0.03 * height as f32 });
        if options.despill > 0.0 {
            frame = before_green(&cut_out(frame, &mask, &plain).expect("a subject").into_frame());
        }
        let Transferred { up, down } = compared(&frame, &mask, &Options { hair, ..options }, &device, what);
        let pixels = frame.pixels().len();
        let expected = grids.map(|grids| (pixels + grids * size_of::<f32>() * mask.values().len()) as u64);
        assert!(expected.is_none_or(|expected| up == expected), "{what}: {up} up, not {expected:?}");
        // The solved coverage of an opaque subject is downloaded too: the host locates its edge.
        let coverage = if options.opaque { u64::from(width.next_multiple_of(4) * height) } else { 0 };
        assert_eq!(down, coverage + pixels as u64, "{what}");
    }
}

#[test]
fn pictures_of_several_threads_together_equal_pictures_alone() {
    let Some(device) = device() else { return };
    let frames = ["goods-camera.jpg", "hair-curls.jpg", "glass-wine.jpg"].map(small_picture);
    let masks = masks(&frames);
    let cut = |(frame, mask): (&Frame, &RawMask)| {
        cut_out(resident(frame, &device), mask, &Options::default()).expect("a subject").into_frame()
    };
    let alone: Vec<Frame> = frames.iter().zip(&masks).map(cut).collect();
    let together: Vec<Frame> = std::thread::scope(|scope| {
        let started: Vec<_> = frames.iter().zip(&masks).map(|picture| scope.spawn(move || cut(picture))).collect();
        started.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for (alone, together) in alone.iter().zip(&together) {
        assert!(alone.pixels() == together.pixels(), "another result in company");
    }
}

#[test]
fn matting_takes_the_copy_that_the_network_saw() {
    const SIDE: usize = 128;
    let Some(adapter) = adapter() else { return };
    let weights = Weights::embedded();
    let card = weights.card().clone();
    let weights = weights.with_card(Card { network: Network::Fgnet { input_side: SIDE }, ..card });
    let mut network = GpuSegmenter::start(&adapter, &weights, 1).expect("the adapter passes its own test");
    let frame = small_picture("goods-camera.jpg");
    let mask = network.segment(&[&frame]).expect("the device computes").remove(0);
    let copy = frame.on_device().expect("the network keeps it").clone();
    let pixels = (size_of::<u32>() * frame.size().area()) as u64;
    let cells = (size_of::<f32>() * SIDE * SIDE) as u64;
    let of_network = cells + (size_of::<f32>() * FEATURES) as u64;
    assert_eq!(copy.transferred(), Transferred { up: pixels, down: of_network });
    // On another thread than the network's, as in the engine.
    let actual = std::thread::spawn({
        let mask = mask.clone();
        move || cut_out(frame, &mask, &Options::default()).expect("a subject").into_frame()
    });
    let actual = actual.join().expect("no panic");
    assert_eq!(copy.transferred(), Transferred { up: pixels + 2 * cells, down: pixels + of_network });
    let expected = cut_out(small_picture("goods-camera.jpg"), &mask, &Options::default()).expect("a subject");
    assert_alike(expected.frame().pixels(), actual.pixels(), "the cutout");
}

#[test]
fn a_device_that_fails_costs_no_picture() {
    let frame = picture("goods-camera.jpg");
    let mask = masks(std::slice::from_ref(&frame)).remove(0);
    let expected = cut_out(frame.clone(), &mask, &Options::default()).expect("a subject").into_frame();
    let of_another = on(&Device::flex(), &Frame::new(Size::new(3, 2), vec![9; 24].into()));
    frame.keep_on_device(of_another);
    let actual = cut_out(frame, &mask, &Options::default()).expect("a subject").into_frame();
    assert!(expected.pixels() == actual.pixels(), "not what the CPU makes of it");
}

#[test]
fn the_cpu_takes_a_picture_that_never_fits_or_whose_device_hangs() {
    let Some(device) = device() else { return };
    let frame = Frame::new(Size::new(96, 64), (0..96 * 64 * 4).map(|at| (at % 251) as u8).collect::<Vec<_>>().into());
    let values = (0..48 * 32).map(|at| if (12..36).contains(&(at % 48)) { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
    let mask = RawMask::new(Size::new(48, 32), values).expect("probabilities");
    let expected = cut_out(frame.clone(), &mask, &Options::default()).expect("a subject").into_frame();
    let bytes = 72 * 96 * 64;
    let cut = |session: &DeviceSession| {
        let frame = Frame::new(frame.size(), frame.pixels().to_vec().into());
        frame.keep_on_device(frame.copied_to(session));
        let copy = frame.on_device().expect("it was kept").clone();
        (cut_out(frame, &mask, &Options::default()).expect("a subject").into_frame(), copy.transferred().down)
    };
    let (cutout, down) = cut(&session(&device, DeviceLimits { memory: bytes, ..LIMITS }));
    assert!(down > 0, "it is the device's");
    assert_alike(expected.pixels(), cutout.pixels(), "in exactly its memory");
    let hanging = session(&device, DeviceLimits { call: std::time::Duration::from_millis(20), ..LIMITS });
    assert!(hanging.call(|| std::thread::sleep(std::time::Duration::from_secs(3))).is_err(), "it hangs");
    let too_small = [DeviceLimits { memory: bytes - 1, ..LIMITS }, DeviceLimits { largest_buffer: 1000, ..LIMITS }];
    for session in too_small.map(|limits| session(&device, limits)).into_iter().chain([hanging]) {
        let (cutout, down) = cut(&session);
        assert_eq!(down, 0, "it is the CPU's");
        assert!(expected.pixels() == cutout.pixels(), "not what the CPU makes of it");
    }
}

#[test]
fn the_cpu_handles_unsupported_options() {
    let (mask, plain) = (AlphaMatte::empty(Size::new(2, 2)), Options::default());
    let trimap = Trimap::new(Size::new(2, 2), vec![Trimap::UNKNOWN; 4]);
    assert!(gpu::does(Guide::Mask(&mask), &Options { decontaminate: true, ..plain }));
    assert!(!gpu::does(Guide::Trimap(&trimap), &plain));
    assert!(!gpu::does(Guide::Mask(&mask), &Options { method: Method::None, ..plain }));
}

#[test]
fn a_frame_loses_its_copy_when_its_pixels_change() {
    let mut frame = resident(&Frame::new(Size::new(3, 2), vec![9; 24].into()), &Device::flex());
    assert!(frame.on_device().is_some());
    frame.pixels_mut()[0] = 1;
    assert!(frame.on_device().is_none());
}

#[test]
#[ignore = "minutes on a software adapter: make gpu-parity"]
fn the_golden_set_end_to_end_is_the_cpus() {
    let Some(adapter) = adapter() else { return };
    let weights = Weights::embedded();
    let mut on_gpu = GpuSegmenter::start(&adapter, &weights, 1).expect("the adapter passes its own test");
    let mut on_cpu = CpuSegmenter::new(&weights, Isa::detect()).expect("the embedded weights are complete");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pictures");
    let names = std::fs::read_dir(folder).expect("the golden set").map(|entry| entry.expect("a file").file_name());
    let names = names.map(|name| name.into_string().expect("plain names"));
    // Decoding HEIC needs a system library; the comparison does not.
    let mut names: Vec<String> = names.filter(|name| !name.ends_with("heic")).collect();
    names.sort();
    let (mut flipped, mut compared) = (Vec::new(), 0);
    for name in &names {
        let cut = |network: &mut dyn Segmenter| {
            let frame = picture(name);
            let mask = network.segment(&[&frame]).expect("the device computes").remove(0);
            cut_out(frame, &mask, &Options::default()).map(|cutout| channel(&cutout.into_frame(), 3))
        };
        let (Ok(expected), Ok(actual)) = (cut(&mut on_cpu), cut(&mut on_gpu)) else {
            assert!(cut(&mut on_cpu).is_err() && cut(&mut on_gpu).is_err(), "{name}: a subject on one device alone");
            continue;
        };
        let iou = iou(&expected, &actual);
        eprintln!("{name}: IoU {iou:.5}");
        compared += 1;
        // A part of the trimap, or of the band, was classified differently.
        if iou < LEAST_IOU {
            flipped.push((name, iou));
        }
    }
    assert!(compared >= 40, "{compared} pictures have a subject");
    assert!(flipped.len() <= names.len().div_ceil(100), "more than one in a hundred: {flipped:?}");
}
