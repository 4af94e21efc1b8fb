//! Matting on a GPU: the same stages as on the CPU, in the same order, on planes that stay on the device.
//!
//! The picture is there since the network saw it. Up go two planes of the mask's grid (the clean mask, and the expected alpha), down
//! comes the finished cutout, or, where it is composed on the device, its coverage alone. Two steps are of connected components, and
//! the host's: the clean-up of the mask before, and the removal of specks after. Work is queued without waiting; a worker waits for
//! its own picture's download alone, so the pictures of several workers are in flight together.
//!
//! A picture waits until the device has memory for its planes; one that can never fit is the CPU's. A device that fails, or does not
//! answer in time, costs nothing but the time: the picture is matted on the CPU.

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

/// Bytes a pixel on the device. The solver has 56 on the finest level (its picture, three planes of labels, the start, five of
/// its own, and four of lines); the levels of picture and labels add up to a third more of theirs, the coarser solution and the
/// grids are small.
const BYTES: u64 = 72;
/// Bytes a pixel of the largest buffer: the lines.
const LARGEST_BYTES: u64 = 16;

const UNWRITTEN: &str = "the cutout was never written";

/// Cuts the subject out of `frame`, where `guide` says it is, on the GPU that has a copy of the frame. Without a copy, with
/// options beyond the GPU's, when the picture can never fit there and when the device fails it is done on the CPU. Works in
/// the frame's own buffer.
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

/// A cutout that stays on the device.
pub(crate) struct DeviceCutout {
    /// Its pixels.
    pub(crate) pixels: Plane,
    /// Its coverage, on the host.
    pub(crate) coverage: AlphaMatte,
    /// What it was cut out of.
    picture: DeviceCopy,
}

impl DeviceCutout {
    /// Its part `from`, at `place` of a transparent picture of the size of `whole`. `from` and `place` are of one size.
    ///
    /// # Errors
    /// Why the device failed.
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

    /// The cutout of `frame` on the host, where the spill of its `surroundings` is removed as `options` say. Works in the frame's own
    /// buffer; `guide` is for the CPU, which cuts out of the frame when the device fails.
    ///
    /// # Errors
    /// [`NoSubject`] when the CPU finds none.
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

/// Cuts the subject out of `frame` as [`cut_out`] does, but leaves the cutout on the device that has `picture`, which is
/// [`usable`].
///
/// # Errors
/// Why the device failed; inside, [`NoSubject`] when the matte would be empty.
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

/// The cutout of `pixels`, whose packed coverage is `alpha`, without specks and pinholes of fewer than `least` pixels, on the device
/// that has `picture`.
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

/// The copy of `frame` on a GPU that supports `guide` and `options`, and has room for the picture when no other is there.
pub(crate) fn usable<'a>(frame: &'a Frame, guide: Guide<'_>, options: &Options) -> Option<&'a DeviceCopy> {
    frame.on_device().filter(|_| does(guide, options)).filter(|picture| has_room(picture, frame.size()))
}

/// Whether the device of `picture`, of `size`, has room for its planes when no other picture is there.
fn has_room(picture: &DeviceCopy, size: Size) -> bool {
    picture.session().can_hold(memory(size), LARGEST_BYTES * size.area() as u64)
}

/// Reports that a picture is matted or composed on the CPU instead.
pub(crate) fn report_failure(reason: &str) {
    metrics::matting_failed();
    tracing::warn!(reason, "the device failed; the picture is matted and composed on the CPU");
}

/// Whether the GPU's matting supports `guide` and `options`. Trimaps of the caller's are the CPU's.
pub(crate) fn does(guide: Guide<'_>, options: &Options) -> bool {
    options.method == Method::ClosedForm && !matches!(guide, Guide::Trimap(_))
}

/// `cutout`, of `size`, which was downloaded. Its pixels are read where the device's driver has mapped them, and copied once.
fn written(cutout: TensorData, size: Size) -> Result<TensorData, String> {
    // A kernel that panicked on the device's thread leaves zeros, which read back as success; a clean mask has a subject.
    let bytes = cutout.as_bytes();
    let is_written = bytes.len() == 4 * size.area() && bytes.iter().any(|&byte| byte != 0);
    if is_written { Ok(cutout) } else { Err(UNWRITTEN.to_owned()) }
}

/// Cuts the subject of `mask` out of `frame`, whose copy is `picture`, before specks are removed: what `split` keeps of the cutout, and
/// what it downloads.
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
    // Where the edge of an opaque subject lies depends on the background beside it, which the host measures.
    let solve = move |words| stages::solved_alpha(words, grids, None);
    let (alpha, data) =
        run(picture, size, up, solve, |alpha| (alpha.clone(), bytes(alpha.bitwise_left_shift_scalar(24))))?;
    let solved =
        AlphaMatte::new(size, finish::unpacked(data.as_bytes(), size.width as usize, frame.buffer(size.area())));
    let crossing = opaque::crossing(frame, &solved);
    run(picture, size, 0, move |words| stages::opaque_cutout(words, alpha, crossing), split)
}

/// The `cutout` of `picture`, of `size`, for which `up` bytes are uploaded: what `split` keeps of it, and what it downloads.
fn run<T: Send + 'static>(
    picture: &DeviceCopy,
    size: Size,
    up: u64,
    cutout: impl FnOnce(Plane) -> Plane + Send + 'static,
    split: impl FnOnce(Plane) -> (T, Plane) + Send + 'static,
) -> Result<(T, TensorData), String> {
    let (session, words) = (picture.session(), picture.words());
    let room = session.reserve(memory(size)).ok_or("the device is lost, or its memory stays taken")?;
    let run = move || {
        let (kept, wanted) = split(cutout(words));
        let data = device::download(wanted)?;
        // Late calls keep their memory.
        drop(room);
        Ok::<_, String>((kept, data))
    };
    let (kept, data) = session.call(run).map_err(|error| error.to_string())??;
    picture.count(Transferred { up, down: data.as_bytes().len() as u64 });
    Ok((kept, data))
}

/// Bytes that the planes of a picture of `size` take: those of the finest level of the solver, and the pyramids.
fn memory(size: Size) -> u64 {
    BYTES * size.area() as u64
}
