//! Estimates mattes and cutouts of a clip's frames on a GPU.
//!
//! A frame's matte stays on the device, as the next frame's prior and for the cutout. Estimating it only queues work.

use super::device_matte::DeviceMatte;
use super::finish;
use super::stages::{self, HostGrids, Past};
use super::{DeviceCutout, has_room, kept, memory, report_failure, run, written};
use crate::image::{AlphaMatte, Cutout, DeviceCopy, DeviceSession, Frame, Size, Transferred};
use crate::matting::clean::CleanMask;
use crate::matting::cut_out::cut_out_with;
use crate::matting::error::NoSubject;
use crate::matting::frame_matte::{FrameMatte, PreviousFrame};
use crate::matting::matte::{SolvedMatte, speck_pixels};
use crate::matting::options::{Edge, Options};
use backdrop_kernels::coverage::gpu::bytes;
use backdrop_kernels::device::Plane;
use burn::tensor::TensorData;

/// The matte of `frame` by its clean `mask`, with the `previous` frame as prior, on the GPU that has a copy of the
/// frame. `None` without a copy, without room, and when the device fails.
pub(in crate::matting) fn frame_matte(
    frame: &Frame,
    mask: &CleanMask,
    previous: Option<&PreviousFrame<'_>>,
) -> Option<DeviceMatte> {
    let picture = frame.on_device().filter(|picture| has_room(picture, frame.size()))?;
    solved(frame, picture, mask, previous).map_err(|reason| report_failure(&reason)).ok()
}

fn solved(
    frame: &Frame,
    picture: &DeviceCopy,
    mask: &CleanMask,
    previous: Option<&PreviousFrame<'_>>,
) -> Result<DeviceMatte, String> {
    let (size, session, picture_words) = (frame.size(), picture.session(), picture.words());
    let grids = HostGrids::of(frame, mask, None);
    let (past, past_bytes) = previous.map_or(Ok((None, 0)), |previous| past(previous, size, session))?;
    let room = session.reserve(memory(size)).ok_or("the device is lost, or its memory is still in use")?;
    let up = grids.bytes() + past_bytes;
    let solve = move || {
        let alpha = stages::solved_alpha(picture_words, grids, past);
        drop(room);
        alpha
    };
    let alpha = session.call(solve).map_err(|error| error.to_string())?;
    picture.count(Transferred { up, down: 0 });
    Ok(DeviceMatte::new(alpha, session.clone(), mask.clone()))
}

/// Prepares the `previous` frame of one of `size` for the device of `session`, and counts the bytes to upload: its
/// motion, and its matte if that is on the host (after a resumed clip's first frame or a failure of the device) or on
/// another device.
fn past(previous: &PreviousFrame<'_>, size: Size, session: &DeviceSession) -> Result<(Option<Past>, u64), String> {
    let PreviousFrame { unfiltered, grid, flow, share } = *previous;
    let shape = [grid.height as usize, grid.width as usize];
    let values = |values: &[f32]| TensorData::new(values.to_vec(), shape);
    let cells = 3 * shape[0] * shape[1];
    let (matte, pixels) = match unfiltered {
        FrameMatte::Device(matte) if matte.session().device() == session.device() => (unfiltered.clone(), 0),
        FrameMatte::Device(_) | FrameMatte::Host(_) => (FrameMatte::Host(unfiltered.downloaded()?), size.area()),
    };
    let past = Past { matte, flow: flow.map(values), share: values(share) };
    Ok((Some(past), ((cells + pixels) * size_of::<u32>()) as u64))
}

/// Computes the cutout of a picture by `matte`.
fn by(matte: &DeviceMatte) -> impl FnOnce(Plane) -> Plane + Send + 'static {
    let alpha = matte.alpha();
    move |picture| stages::cutout_by(&stages::pyramid(picture), alpha, Edge::Soft)
}

/// Cuts the subject of `matte` out of `frame`, on the device of both, else on the CPU. Works in the frame's own buffer.
pub(crate) fn cut_out(frame: Frame, matte: &DeviceMatte) -> Cutout {
    let size = frame.size();
    let Some(picture) = frame.on_device().cloned() else { return cut_out_on_host(frame, matte) };
    let solved = run(&picture, size, 0, by(matte), |cutout| ((), cutout)).and_then(|((), data)| written(data, size));
    match solved {
        Ok(data) => match finish::matte(&frame, data.as_bytes(), speck_pixels(matte.mask(), size)) {
            Ok(matte) => finish::cutout(frame, data.as_bytes(), &matte),
            Err(NoSubject) => Cutout::new(frame, &AlphaMatte::empty(size)),
        },
        Err(reason) => {
            report_failure(&reason);
            cut_out_on_host(frame, matte)
        }
    }
}

/// Solves the matte again on the CPU, without the previous frame, and cuts out by it.
fn cut_out_on_host(frame: Frame, matte: &DeviceMatte) -> Cutout {
    let (size, options) = (frame.size(), Options::default());
    let solved = SolvedMatte::closed_form(&frame, matte.mask(), &options);
    match solved.finalized(&frame, &options) {
        Ok(matte) => cut_out_with(frame, &matte),
        Err(NoSubject) => Cutout::new(frame, &AlphaMatte::empty(size)),
    }
}

/// Cuts the subject of `matte` out of `frame`, and leaves the cutout on the device of both.
///
/// # Errors
/// The device's failure; inside, [`NoSubject`] when the cutout would be empty.
pub(crate) fn cut_out_on_device(frame: &Frame, matte: &DeviceMatte) -> Result<Result<DeviceCutout, NoSubject>, String> {
    let picture = frame.on_device().ok_or("the frame is not on the device any more")?;
    let size = frame.size();
    let (pixels, alpha) = run(picture, size, 0, by(matte), |cutout| (cutout.clone(), bytes(cutout)))?;
    kept(frame, picture, pixels, alpha, speck_pixels(matte.mask(), size))
}
