//! Matting on a GPU: the CPU's stages in the CPU's order, on planes that stay on the device.
//!
//! The picture is already on the device for the network. Two planes of the mask's grid are uploaded (the clean mask and
//! the expected alpha). The cutout is downloaded, or only its coverage if it is composed on the device. Both steps on
//! connected components run on the host: cleaning of the mask before, and removal of specks after. Work is queued
//! without waiting; a worker waits for its own picture's download alone, so the pictures of several workers are in
//! flight together.
//!
//! A picture waits until the device has memory for its planes; one that can never fit is matted on the CPU. When the
//! device fails or does not answer in time, the picture is matted on the CPU too.

pub(crate) mod clip;
pub(crate) mod device_matte;
mod finish;
pub(crate) mod stages;

use super::clean::CleanMask;
use super::cut_out::{self, cut_out_by};
use super::despill::Surroundings;
use super::error::NoSubject;
use super::guide::Guide;
use super::matte::{SolvedMatte, speck_pixels};
use super::options::{Method, Options};
use super::prior::opaque;
use crate::image::{AlphaMatte, Cutout, DeviceCopy, Frame, Rect, Size, Transferred};
use crate::telemetry::metrics;
use backdrop_kernels::coverage::gpu::{bytes, filled};
use backdrop_kernels::device::{self, Plane};
use burn::tensor::{DType, TensorData};
use stages::HostGrids;

/// Bytes a pixel on the device. The solver has 56 on the finest level (the picture, three planes of labels, the start,
/// five working planes, four of lines). Coarser levels of picture and labels add a third of theirs; the remaining
/// planes are small.
const BYTES: u64 = 72;
/// Bytes a pixel of the largest buffer: the lines.
const LARGEST_BYTES: u64 = 16;

const UNWRITTEN: &str = "the cutout was never written";

/// Cuts the subject of `guide` out of `frame`, on the GPU that has a copy of the frame; on the CPU without a copy, with
/// unsupported options, when the picture can never fit, and when the device fails. Works in the frame's own buffer.
///
/// # Errors
/// [`NoSubject`] when the matte would be empty.
pub fn cut_out<'a>(frame: Frame, guide: impl Into<Guide<'a>>, options: &Options) -> Result<Cutout, NoSubject> {
    let (guide, size) = (guide.into(), frame.size());
    let Some(picture) = usable(&frame, guide, options).cloned() else {
        return cut_out::cut_out(frame, guide, options);
    };
    let mask = guide.cleaned(&frame, options)?.ok_or(NoSubject)?;
    match solve(&frame, &picture, &mask, options, |cutout| ((), cutout)).and_then(|((), data)| written(data, size)) {
        Ok(data) => {
            let matte = finish::matte(&frame, data.as_bytes(), speck_pixels(&mask, size))?;
            let surroundings = Surroundings::for_strength(&frame, &matte, options.despill);
            Ok(finish::despilled(frame, data.as_bytes(), &matte, surroundings.as_ref(), options.despill))
        }
        Err(reason) => {
            report_failure(&reason);
            let solved = SolvedMatte::of_clean(&frame, guide, mask, options);
            cut_out_by(frame, solved, options)
        }
    }
}

pub(crate) struct DeviceCutout {
    pub(crate) pixels: Plane,
    /// On the host.
    pub(crate) coverage: AlphaMatte,
    /// The device's copy of the source.
    picture: DeviceCopy,
}

impl DeviceCutout {
    /// The part `from` of the cutout, at the equally large `place` in a transparent picture of the size of `whole`.
    ///
    /// # Errors
    /// The device's failure.
    pub(crate) fn placed(&self, from: Rect, place: Rect, whole: &Frame) -> Result<Self, String> {
        let Self { pixels, coverage, picture } = self;
        let (size, pixels) = (whole.size(), pixels.clone());
        let shape = [size.height as usize, size.width as usize];
        let canvas = move || match from.size().area() {
            0 => Plane::zeros(shape, (&pixels.device(), DType::U32)),
            _ => device::placed(pixels.slice(from.ranges()), place.ranges(), shape),
        };
        let pixels = picture.session().call(canvas).map_err(|error| error.to_string())?;
        let mut placed = whole.buffer(size.area());
        placed.fill(0);
        let [from_rows, from_columns] = from.ranges();
        let [rows, columns] = place.ranges();
        let width = coverage.size().width as usize;
        for (from, to) in from_rows.zip(rows) {
            placed[to * size.width as usize..][columns.clone()]
                .copy_from_slice(&coverage.coverage()[from * width..][from_columns.clone()]);
        }
        Ok(Self { pixels, coverage: AlphaMatte::new(size, placed), picture: picture.clone() })
    }

    /// The cutout of `frame` on the host, after despill by the `surroundings` as `options` say. Works in the frame's
    /// own buffer. When the device fails, the CPU cuts out by `guide`.
    ///
    /// # Errors
    /// [`NoSubject`] from the CPU.
    pub(crate) fn on_host(
        &self,
        frame: Frame,
        guide: Guide<'_>,
        options: &Options,
        surroundings: Option<&Surroundings>,
    ) -> Result<Cutout, NoSubject> {
        let (size, pixels) = (frame.size(), self.pixels.clone());
        let download = move || device::download(pixels);
        let data = self.picture.session().call(download).map_err(|error| error.to_string()).flatten();
        match data.and_then(|data| written(data, size)) {
            Ok(data) => {
                self.picture.count(Transferred { up: 0, down: data.as_bytes().len() as u64 });
                Ok(finish::despilled(frame, data.as_bytes(), &self.coverage, surroundings, options.despill))
            }
            Err(reason) => {
                report_failure(&reason);
                cut_out::cut_out(frame, guide, options)
            }
        }
    }
}

/// As [`cut_out`], but leaves the cutout on the device of `picture`, which is [`usable`].
///
/// # Errors
/// The device's failure; inside, [`NoSubject`] when the matte would be empty.
pub(crate) fn cut_out_on_device(
    frame: &Frame,
    picture: &DeviceCopy,
    guide: Guide<'_>,
    options: &Options,
) -> Result<Result<DeviceCutout, NoSubject>, String> {
    let size = frame.size();
    let mask = match guide.cleaned(frame, options).and_then(|mask| mask.ok_or(NoSubject)) {
        Ok(mask) => mask,
        Err(error) => return Ok(Err(error)),
    };
    let (pixels, alpha) = solve(frame, picture, &mask, options, |cutout| (cutout.clone(), bytes(cutout)))?;
    kept(frame, picture, pixels, alpha, speck_pixels(&mask, size))
}

/// The cutout of `pixels` with the packed coverage `alpha`, without specks and pinholes smaller than `least` pixels.
fn kept(
    frame: &Frame,
    picture: &DeviceCopy,
    pixels: Plane,
    alpha: TensorData,
    least: usize,
) -> Result<Result<DeviceCutout, NoSubject>, String> {
    let (size, alpha) = (frame.size(), alpha.as_bytes());
    let (width, height) = (size.width as usize, size.height as usize);
    if alpha.len() != width.next_multiple_of(4) * height || alpha.iter().all(|&alpha| alpha == 0) {
        return Err(UNWRITTEN.to_owned());
    }
    let coverage = AlphaMatte::new(size, finish::unpacked(alpha, width, frame.buffer(size.area())));
    let (coverage, fills) = match finish::filled(coverage, least) {
        Ok(filled) => filled,
        Err(error) => return Ok(Err(error)),
    };
    picture.count(Transferred { up: (fills.len() * size_of::<u32>()) as u64, down: 0 });
    let source = picture.words();
    let fill = move || filled(pixels, source, &fills);
    let pixels = picture.session().call(fill).map_err(|error| error.to_string())?;
    Ok(Ok(DeviceCutout { pixels, coverage, picture: picture.clone() }))
}

/// The copy of `frame` on a GPU that supports `guide` and `options` and has room for the picture alone.
pub(crate) fn usable<'a>(frame: &'a Frame, guide: Guide<'_>, options: &Options) -> Option<&'a DeviceCopy> {
    frame.on_device().filter(|_| does(guide, options)).filter(|picture| has_room(picture, frame.size()))
}

/// Whether the device of `picture` has room for the planes of `size` when it holds no other picture.
fn has_room(picture: &DeviceCopy, size: Size) -> bool {
    picture.session().can_hold(memory(size), LARGEST_BYTES * size.area() as u64)
}

/// Reports that a picture is matted or composed on the CPU instead.
pub(crate) fn report_failure(reason: &str) {
    metrics::matting_failed();
    tracing::warn!(reason, "the device failed; the picture is matted and composed on the CPU");
}

/// Whether the GPU's matting supports `guide` and `options`. The caller's trimaps are matted on the CPU.
pub(crate) fn does(guide: Guide<'_>, options: &Options) -> bool {
    options.method == Method::ClosedForm && !matches!(guide, Guide::Trimap(_))
}

/// The downloaded `cutout`, of `size`, to be read where the device's driver has mapped it.
fn written(cutout: TensorData, size: Size) -> Result<TensorData, String> {
    // A kernel that panicked on the device leaves zeros, which read back as success. Every cutout has a subject.
    let bytes = cutout.as_bytes();
    let is_written = bytes.len() == 4 * size.area() && bytes.iter().any(|&byte| byte != 0);
    if is_written { Ok(cutout) } else { Err(UNWRITTEN.to_owned()) }
}

/// Cuts the subject of `mask` out of `frame`, whose copy is `picture`, without removing specks. `split` turns the
/// cutout into what stays on the device and what is downloaded.
fn solve<T: Send + 'static>(
    frame: &Frame,
    picture: &DeviceCopy,
    mask: &CleanMask,
    options: &Options,
    split: impl FnOnce(Plane) -> (T, Plane) + Send + 'static,
) -> Result<(T, TensorData), String> {
    let (size, edge) = (frame.size(), options.edge);
    let grids = HostGrids::of(frame, mask, options.hair.as_ref());
    let up = grids.bytes();
    if !options.opaque {
        return run(picture, size, up, move |words| stages::cutout(words, grids, edge), split);
    }
    // The crossing of an opaque subject's edge depends on the background next to it, which the host measures.
    let solve = move |words| stages::solved_alpha(words, grids, None);
    let (alpha, data) =
        run(picture, size, up, solve, |alpha| (alpha.clone(), bytes(alpha.bitwise_left_shift_scalar(24))))?;
    let solved =
        AlphaMatte::new(size, finish::unpacked(data.as_bytes(), size.width as usize, frame.buffer(size.area())));
    let crossing = opaque::crossing(frame, &solved);
    run(picture, size, 0, move |words| stages::opaque_cutout(words, alpha, crossing), split)
}

/// Runs `cutout` on `picture`, of `size`, with `up` bytes to upload. `split` as in [`solve`].
fn run<T: Send + 'static>(
    picture: &DeviceCopy,
    size: Size,
    up: u64,
    cutout: impl FnOnce(Plane) -> Plane + Send + 'static,
    split: impl FnOnce(Plane) -> (T, Plane) + Send + 'static,
) -> Result<(T, TensorData), String> {
    let (session, words) = (picture.session(), picture.words());
    let room = session.reserve(memory(size)).ok_or("the device is lost, or its memory is still in use")?;
    let run = move || {
        let (kept, wanted) = split(cutout(words));
        let data = device::download(wanted)?;
        // The memory stays reserved until the call ends, also after its timeout.
        drop(room);
        Ok::<_, String>((kept, data))
    };
    let (kept, data) = session.call(run).map_err(|error| error.to_string())??;
    picture.count(Transferred { up, down: data.as_bytes().len() as u64 });
    Ok((kept, data))
}

/// Bytes of the planes of a picture of `size`: the finest level of the solver, and the pyramids.
fn memory(size: Size) -> u64 {
    BYTES * size.area() as u64
}
