//! Matting on a GPU, or on Mesa's lavapipe without one, gives the CPU's results: stage by stage, and end to end.
//!
//! Without an adapter the tests are skipped with a notice, or fail with `BACKDROP_TEST_DEVICE=gpu` in the environment.

use super::support::{
    LEAST_IOU, LIMITS, PICTURES, adapter, assert_alike, before_green, channel, device, iou, masks, off, on, picture,
    resident, session, small_picture,
};
use crate::image::{AlphaMatte, DeviceLimits, DeviceSession, Frame, RawMask, Rect, Size, Transferred, Trimap};
use crate::matting::clean::{CleanParams, Seeds, clean};
use crate::matting::gpu::stages::{self, HostGrids};
use crate::matting::gpu::{self, cut_out};
use crate::matting::prior::{MaskPrior, Priors};
use crate::matting::{Edge, Guide, Hair, Method, Options};
use crate::matting::{closed_form, foreground, trimap};
use crate::model::weights::architecture::Network;
use crate::model::weights::architecture::edge::FEATURES;
use crate::model::weights::{Card, Weights};
use crate::model::{CpuSegmenter, GpuSegmenter, Segmenter};
use backdrop_kernels::conv::Isa;
use backdrop_kernels::device::{Plane, download};
use backdrop_kernels::{edge, linear_alpha};
use burn::tensor::{AllocationProperty, Device};

/// One byte of each word.
fn bytes(plane: Plane) -> Vec<u8> {
    let words: Vec<u32> = plane.try_into_data().expect("it is read").try_into_vec().expect("words");
    words.into_iter().map(|word| word as u8).collect()
}

#[test]
fn each_stage_agrees_with_the_cpu_from_the_same_input() {
    let Some(device) = device() else { return };
    let frames = PICTURES.map(small_picture);
    for ((frame, mask), name) in frames.iter().zip(masks(&frames)).zip(PICTURES) {
        let size = frame.size();
        let shape = [size.height as usize, size.width as usize];
        let mask = clean(frame, &mask, &Seeds::default(), CleanParams::default()).expect("a subject");
        let grids = HostGrids::of(frame, &mask, None).uploaded(&device);
        let pictures = stages::pyramid(on(&device, frame).words());

        let expected = trimap::from_mask(&mask, size, None);
        let labels = bytes(stages::labels(&pictures[0], &grids));
        assert_eq!(off(expected.labels(), &labels), 0.0, "the trimap of {name}");
        let unknown = labels.iter().filter(|&&label| label == Trimap::UNKNOWN).count();
        eprintln!("{name}: {size}, {} % unknown", unknown * 100 / labels.len());

        let prior = MaskPrior::of(frame, &mask);
        let matte = closed_form::estimate_alpha(frame, &expected, &Priors { mask: Some(&prior), temporal: None });
        let alpha = bytes(stages::alpha(&pictures, stages::words(expected.labels(), shape, &device), &grids, None));
        assert_alike(matte.coverage(), &alpha, &format!("alpha of {name}"));

        let coverage = stages::words(matte.coverage(), shape, &device);
        let matte = crate::matting::edge::without_traces(matte);
        let coverage = edge::gpu::without_traces(coverage);
        assert_eq!(bytes(coverage.clone()), matte.coverage(), "edge of {name}");

        let mut unmixed = frame.clone();
        let lit = foreground::estimate(&mut unmixed, &matte);
        let colours = stages::colours(&pictures, &coverage);
        let cutout = linear_alpha::gpu::cut_out(pictures[0].clone(), coverage, colours);
        let words: Vec<u32> = cutout.try_into_data().expect("it is read").try_into_vec().expect("words");
        for (at, what) in ["red", "green", "blue"].into_iter().enumerate() {
            let actual: Vec<u8> = words.iter().map(|word| (word >> (8 * at)) as u8).collect();
            assert_alike(&channel(&unmixed, at), &actual, &format!("{what} of {name}"));
        }
        let actual: Vec<u8> = words.iter().map(|word| (word >> 24) as u8).collect();
        assert_alike(lit.coverage(), &actual, &format!("linear alpha of {name}"));
    }
}

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
fn hard_edges_and_bands_widened_for_hair_equal_the_cpus() {
    let Some(device) = device() else { return };
    let frame = small_picture("hair-curls.jpg");
    let mask = masks(std::slice::from_ref(&frame)).remove(0);
    let Size { width, height } = frame.size();
    let region = Rect { left: width / 8, top: 0, width: width * 3 / 4, height: height / 2 };
    let hair = Some(Hair { region, reach: 0.03 * height as f32 });
    let plain = Options::default();
    for (what, options) in [("a hard edge", Options { edge: Edge::Hard, ..plain }), ("hair", Options { hair, ..plain })]
    {
        let transferred = compared(&frame, &mask, &options, &device, what);
        let grids = if options.hair.is_some() { 3 } else { 2 };
        let up = (frame.pixels().len() + grids * size_of::<f32>() * mask.values().len()) as u64;
        assert_eq!(transferred, Transferred { up, down: frame.pixels().len() as u64 }, "{what}");
    }
}

#[test]
fn opaque_subjects_and_despill_equal_the_cpus() {
    let Some(device) = device() else { return };
    let plain = Options::default();
    for (name, what, options) in [
        ("goods-camera.jpg", "opaque", Options { opaque: true, ..plain }),
        ("hair-curls.jpg", "before a green screen", Options { despill: 1.0, ..plain }),
        ("hair-curls.jpg", "opaque before a green screen", Options { opaque: true, despill: 0.7, ..plain }),
    ] {
        let mut frame = small_picture(name);
        let mask = masks(std::slice::from_ref(&frame)).remove(0);
        if options.despill > 0.0 {
            frame = before_green(&cut_out(frame, &mask, &plain).expect("a subject").into_frame());
        }
        let transferred = compared(&frame, &mask, &options, &device, what);
        // The solved coverage of an opaque subject is downloaded too: the host locates its edge.
        let Size { width, height } = frame.size();
        let coverage = if options.opaque { u64::from(width.next_multiple_of(4) * height) } else { 0 };
        assert_eq!(transferred.down, coverage + frame.pixels().len() as u64, "{what}");
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
fn a_picture_waits_for_device_memory_and_the_cpu_takes_one_that_never_fits() {
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
    let room_for_one = session(&device, DeviceLimits { memory: bytes, ..LIMITS });
    let held = room_for_one.reserve(1).expect("it is free");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cut(&room_for_one));
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!waiting.is_finished(), "it waits for the byte that is missing");
        drop(held);
        let (cutout, down) = waiting.join().expect("no panic");
        assert!(down > 0, "it is the device's");
        assert_alike(expected.pixels(), cutout.pixels(), "after waiting");
    });
    for limits in [DeviceLimits { memory: bytes - 1, ..LIMITS }, DeviceLimits { largest_buffer: 1000, ..LIMITS }] {
        let (cutout, down) = cut(&session(&device, limits));
        assert_eq!(down, 0, "it is the CPU's");
        assert!(expected.pixels() == cutout.pixels(), "not what the CPU makes of it");
    }
}

#[test]
fn the_cpu_takes_the_picture_of_a_device_that_hangs() {
    let Some(device) = device() else { return };
    let frame = picture("goods-camera.jpg");
    let mask = masks(std::slice::from_ref(&frame)).remove(0);
    let expected = cut_out(frame.clone(), &mask, &Options::default()).expect("a subject").into_frame();
    let session = session(&device, DeviceLimits { call: std::time::Duration::from_millis(20), ..LIMITS });
    assert!(session.call(|| std::thread::sleep(std::time::Duration::from_secs(3))).is_err(), "it hangs");
    assert!(session.is_lost());
    frame.keep_on_device(frame.copied_to(&session));
    let copy = frame.on_device().expect("it was kept").clone();
    let actual = cut_out(frame, &mask, &Options::default()).expect("a subject").into_frame();
    assert_eq!(copy.transferred().down, 0, "nothing is asked of it");
    assert!(expected.pixels() == actual.pixels(), "not what the CPU makes of it");
}

#[test]
fn the_cpu_handles_unsupported_options() {
    let mask = AlphaMatte::empty(Size::new(2, 2));
    let trimap = Trimap::new(Size::new(2, 2), vec![Trimap::UNKNOWN; 4]);
    let plain = Options::default();
    assert!(gpu::does(Guide::Mask(&mask), &plain));
    assert!(gpu::does(Guide::Mask(&mask), &Options { decontaminate: true, ..plain }));
    assert!(gpu::does(Guide::Mask(&mask), &Options { edge: Edge::Hard, ..plain }));
    let hair = Some(Hair { region: Rect::default(), reach: 3.0 });
    assert!(gpu::does(Guide::Mask(&mask), &Options { hair, ..plain }));
    assert!(!gpu::does(Guide::Trimap(&trimap), &plain));
    assert!(gpu::does(Guide::Mask(&mask), &Options { despill: 0.1, opaque: true, ..plain }));
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
