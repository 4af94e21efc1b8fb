//! The auxiliary networks on a GPU: convolutions there, pre- and postprocessing on the CPU.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backdrop_kernels::conv::Tile;
use backdrop_kernels::device::download;
use backdrop_kernels::parity;
use backdrop_kernels::watchdog::{CallError, Watchdog};
use burn::tensor::{Tensor, TensorData};

use super::{CpuRetoucher, FACE_SIDE, FaceCrop, Retoucher};
use crate::image::{DeviceSession, Face, Frame};
use crate::model::burn_net::{BurnFace, BurnRestore, BurnUpscale};
use crate::model::device::Adapter;
use crate::model::face::{self, FaceDetector, FaceSearch};
use crate::model::restore_cpu::CpuRestorer;
use crate::model::upscale::{self, Source, Upscaler};
use crate::model::weights::architecture::face::CELL;
use crate::model::weights::architecture::upscale::{RECEPTIVE_RADIUS, tail_channels};
use crate::model::weights::{BuiltIn, Weights};
use crate::model::{Enlargement, Factor, SegmentError};

/// Largest difference to the CPU that counts as rounding: of pixels, and of cells, which are about ten times as large.
const PIXEL_TOLERANCE: f32 = 2e-3;
const CELL_TOLERANCE: f32 = 2e-2;

const TILE: usize = 256;
/// Tiles of a picture in flight: one is uploaded and one downloaded while another is computed.
const IN_FLIGHT: usize = 3;

/// The embedded auxiliary networks on one adapter. Each is loaded, and compared with the CPU, on first use. After a
/// failed self-test every call of the network fails with [`SegmentError::Unusable`].
pub struct GpuRetoucher {
    adapter: Adapter,
    /// Time limit of loading and testing a network, which compile all shaders.
    load_limit: Duration,
    cpu: Arc<CpuRetoucher>,
    face: OnceLock<Result<GpuFaceDetector, String>>,
    restore: OnceLock<Result<GpuRestorer, String>>,
    upscale: [OnceLock<Result<GpuUpscaler, String>>; 2],
}

impl GpuRetoucher {
    /// Uses `adapter` from the first call on. `load_limit`: time limit of loading and testing a network.
    #[must_use]
    pub fn new(adapter: &Adapter, load_limit: Duration) -> Self {
        Self {
            adapter: adapter.clone(),
            load_limit,
            cpu: Arc::default(),
            face: OnceLock::new(),
            restore: OnceLock::new(),
            upscale: [OnceLock::new(), OnceLock::new()],
        }
    }

    /// A network that passed its self-test, loaded and tested within the time limit.
    fn tested<'a, N: Send + 'static>(
        &self,
        slot: &'a OnceLock<Result<N, String>>,
        which: BuiltIn,
        build: impl FnOnce(&Weights, DeviceSession) -> N + Send + 'static,
        test: impl FnOnce(&CpuRetoucher, &N) -> Result<(), String> + Send + 'static,
    ) -> Result<&'a N, SegmentError> {
        let loaded = slot.get_or_init(|| {
            let (adapter, cpu) = (self.adapter.clone(), Arc::clone(&self.cpu));
            let load = move || {
                let net = build(&Weights::built_in(which), adapter.session()?);
                test(&cpu, &net).map(|()| net)
            };
            // On the watchdog's thread, parallel parts run in rayon's global pool. In the caller's pool, a worker that
            // waits for them could begin another job of the pool that enters this lock: a deadlock.
            let loaded = Watchdog::new(self.load_limit).call(load);
            loaded
                .unwrap_or_else(|error| Err(error.to_string()))
                .map_err(|error| format!("{} failed its self-test of {}: {error}", self.adapter, which.file()))
        });
        loaded.as_ref().map_err(|error| SegmentError::Unusable(error.clone()))
    }

    fn face(&self) -> Result<&GpuFaceDetector, SegmentError> {
        self.tested(&self.face, BuiltIn::Face, GpuFaceDetector::new, |cpu, net| same_cells(cpu.face(), net))
    }

    fn restore(&self) -> Result<&GpuRestorer, SegmentError> {
        self.tested(&self.restore, BuiltIn::Restore, GpuRestorer::new, |cpu, net| same_restoration(cpu.restore(), net))
    }

    fn upscale(&self, by: Factor) -> Result<&GpuUpscaler, SegmentError> {
        let [two, four] = &self.upscale;
        let slot = match by {
            Factor::Two => two,
            Factor::Four => four,
        };
        let test = move |cpu: &CpuRetoucher, net: &GpuUpscaler| same_residual(cpu.upscale(by), net);
        self.tested(slot, BuiltIn::Upscale(by), GpuUpscaler::new, test)
    }
}

impl Retoucher for GpuRetoucher {
    fn faces(&self, frame: &Frame, search: FaceSearch) -> Result<Vec<Face>, SegmentError> {
        face::detect(frame, self.face()?, search)
    }

    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        face.check()?;
        self.restore()?.run(&face.0).map(FaceCrop)
    }

    fn enlarge_band(&self, picture: &mut Enlargement) -> Result<(), SegmentError> {
        upscale::enlarge_band(picture, self.upscale(picture.factor())?)
    }
}

impl fmt::Debug for GpuRetoucher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuRetoucher({})", self.adapter)
    }
}

/// Device memory in bytes a pixel of a network's input: three planes of 48 channels, input and output.
const PIXEL_BYTES: u64 = 1024;

/// A network on its device. Several runs are in flight together, as far as the device's memory allows.
struct OnDevice<N> {
    net: Arc<N>,
    session: DeviceSession,
}

impl<N: Send + Sync + 'static> OnDevice<N> {
    fn new(net: N, session: DeviceSession) -> Self {
        Self { net: Arc::new(net), session }
    }

    /// Runs the network on rows of `width` pixels of red, green and blue.
    fn run(
        &self,
        input: Vec<f32>,
        width: usize,
        forward: impl FnOnce(&N, Tensor<4>) -> Vec<Tensor<4>> + Send + 'static,
    ) -> Result<Vec<Vec<f32>>, SegmentError> {
        let pixels = input.len() / 3;
        let up = size_of_val(&*input) as u64;
        let room = self.session.reserve(PIXEL_BYTES * pixels as u64);
        let room = room.ok_or_else(|| match self.session.is_lost() {
            true => SegmentError::Unusable("the device is lost".to_owned()),
            false => SegmentError::Device("its memory is still in use".to_owned()),
        })?;
        let (net, device) = (Arc::clone(&self.net), self.session.device().clone());
        let run = move || {
            let input = Tensor::<4>::from_data(TensorData::new(input, [1, pixels / width, width, 3]), &device);
            let outputs: Result<Vec<_>, _> = forward(&net, input).into_iter().map(downloaded).collect();
            // The memory stays reserved until the call ends, also after its timeout.
            drop(room);
            outputs
        };
        let outputs = self.session.call(run).map_err(|error| match error {
            CallError::Late(_) => SegmentError::Unusable(error.to_string()),
            CallError::Panicked(_) => SegmentError::Device(error.to_string()),
        })??;
        let down = outputs.iter().map(|values| size_of_val(&**values) as u64).sum();
        self.session.report(up, down);
        Ok(outputs)
    }
}

/// The values of a tensor. A kernel that panicked on the device's thread leaves zeros, which read back as success;
/// layers with a bias, as in these networks, never give zeros alone.
fn downloaded(tensor: Tensor<4>) -> Result<Vec<f32>, SegmentError> {
    let data = download(tensor).map_err(SegmentError::Device)?;
    let values: Vec<f32> = data.try_into_vec().map_err(|error| SegmentError::Device(error.to_string()))?;
    if values.iter().all(|value| *value == 0.0) || values.iter().any(|value| !value.is_finite()) {
        return Err(SegmentError::Device("an output was never written".to_owned()));
    }
    Ok(values)
}

struct GpuFaceDetector {
    on: OnDevice<BurnFace>,
    threshold: f32,
}

impl GpuFaceDetector {
    fn new(weights: &Weights, session: DeviceSession) -> Self {
        let threshold = weights.card().threshold().expect("the embedded weights are of the network they stand for");
        Self { on: OnDevice::new(BurnFace::new(weights, session.device()), session), threshold }
    }
}

impl FaceDetector for GpuFaceDetector {
    fn threshold(&self) -> f32 {
        self.threshold
    }

    fn cells(
        &self,
        [width, height]: [usize; 2],
        fill: &dyn Fn(&mut [f32], usize),
    ) -> Result<[Vec<[f32; CELL]>; 3], SegmentError> {
        let mut input = vec![0.0; width * height * 3];
        fill(&mut input, 0);
        let levels = self.on.run(input, width, BurnFace::forward)?;
        let mut levels = levels.iter().map(|cells| cells.as_chunks::<CELL>().0.to_vec());
        Ok(std::array::from_fn(|_| levels.next().unwrap_or_default()))
    }
}

struct GpuRestorer(OnDevice<BurnRestore>);

impl GpuRestorer {
    fn new(weights: &Weights, session: DeviceSession) -> Self {
        Self(OnDevice::new(BurnRestore::new(weights, session.device()), session))
    }

    fn run(&self, face: &[[f32; 3]]) -> Result<Vec<[f32; 3]>, SegmentError> {
        let input = face.as_flattened().to_vec();
        let added = self.0.run(input, FACE_SIDE, |net, input| vec![net.forward(input)])?;
        Ok(added.concat().as_chunks::<3>().0.to_vec())
    }
}

struct GpuUpscaler {
    on: OnDevice<BurnUpscale>,
    factor: Factor,
}

impl GpuUpscaler {
    fn new(weights: &Weights, session: DeviceSession) -> Self {
        let factor = weights.card().factor().expect("the embedded weights are of the network they stand for");
        Self { on: OnDevice::new(BurnUpscale::new(weights, session.device()), session), factor }
    }
}

impl Upscaler for GpuUpscaler {
    fn factor(&self) -> Factor {
        self.factor
    }

    fn waiting(&self) -> Option<usize> {
        Some(IN_FLIGHT)
    }

    fn tile(&self, _: [usize; 2]) -> [usize; 2] {
        [TILE; 2]
    }

    fn rows(&self, tile: Tile, source: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError> {
        const SIDE: usize = TILE + 2 * RECEPTIVE_RADIUS;
        assert!(tile.width <= TILE && tile.height <= TILE, "{tile:?} is larger than this network's tiles");
        let mut input = vec![0.0; SIDE * SIDE * 3];
        let outside = |at: usize| at as isize - RECEPTIVE_RADIUS as isize;
        for (y, row) in input.chunks_exact_mut(SIDE * 3).enumerate() {
            source(outside(tile.top + y), outside(tile.left), row);
        }
        let channels = tail_channels(self.factor);
        let tail = self.on.run(input, SIDE, move |net, input| {
            let middle = RECEPTIVE_RADIUS..RECEPTIVE_RADIUS + TILE;
            vec![net.forward(input).slice([0..1, middle.clone(), middle, 0..channels])]
        })?;
        let rows = tail[0].chunks_exact(TILE * channels).take(tile.height).enumerate();
        rows.for_each(|(offset, row)| sink(tile.top + offset, &row[..tile.width * channels]));
        Ok(())
    }
}

fn same_cells(expected: &dyn FaceDetector, found: &dyn FaceDetector) -> Result<(), String> {
    let extent = [96, 64];
    let fill = |input: &mut [f32], pad: usize| {
        for (y, row) in input.chunks_exact_mut((extent[0] + 2 * pad) * 3).enumerate() {
            for (at, value) in row[pad * 3..][..extent[0] * 3].iter_mut().enumerate() {
                *value = wave(at / 3, y, at % 3) * 2.0 - 1.0;
            }
        }
    };
    let cells = |detector: &dyn FaceDetector| detector.cells(extent, &fill).map_err(|error| error.to_string());
    let (expected, found) = (cells(expected)?, cells(found)?);
    let mut levels = expected.iter().zip(&found);
    levels.try_for_each(|(one, other)| compare(one.as_flattened(), other.as_flattened(), CELL_TOLERANCE))
}

fn same_restoration(expected: &CpuRestorer, found: &GpuRestorer) -> Result<(), String> {
    let pixel = |at: usize| [0, 1, 2].map(|channel| wave(at % FACE_SIDE, at / FACE_SIDE, channel));
    let face: Vec<[f32; 3]> = (0..FACE_SIDE * FACE_SIDE).map(pixel).collect();
    let found = found.run(&face).map_err(|error| error.to_string())?;
    compare(expected.run(&face).as_flattened(), found.as_flattened(), PIXEL_TOLERANCE)
}

fn same_residual(expected: &dyn Upscaler, found: &dyn Upscaler) -> Result<(), String> {
    let tile = Tile { left: 0, top: 2, width: 40, height: 30 };
    let rows = |upscaler: &dyn Upscaler| {
        let mut all = Vec::new();
        let source = |y: isize, x: isize, to: &mut [f32]| {
            for (at, value) in to.iter_mut().enumerate() {
                *value = wave((x + 20) as usize + at / 3, (y + 20) as usize, at % 3);
            }
        };
        let result = upscaler.rows(tile, &source, &mut |_, row| all.extend_from_slice(row));
        result.map(|()| all).map_err(|error| error.to_string())
    };
    compare(&rows(expected)?, &rows(found)?, PIXEL_TOLERANCE)
}

/// Values of a synthetic picture, 0..=1.
fn wave(x: usize, y: usize, channel: usize) -> f32 {
    let [x, y, channel] = [x, y, channel].map(|at| at as f32);
    let smooth = (x * 0.23 + channel).sin() * (y * 0.17 - channel * 0.5).cos();
    let coarse = if ((x / 9.0).floor() + (y / 11.0).floor()) % 2.0 == 0.0 { 0.15 } else { -0.15 };
    0.5 + 0.3 * smooth + coarse
}

fn compare(expected: &[f32], found: &[f32], tolerance: f32) -> Result<(), String> {
    parity::compare(expected, found, tolerance).map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Buffer, DeviceLimits, Size};
    use crate::model::device::test_adapter::adapter;
    use burn::tensor::Device;

    fn session() -> Option<DeviceSession> {
        adapter().map(|adapter| adapter.session().expect("the adapter opens"))
    }

    #[test]
    fn perturbed_weights_fail_the_self_test() {
        let Some(session) = session() else { return };
        let cpu = CpuRetoucher::default();
        let differs = |found: Result<(), String>| found.is_err_and(|error| error.contains("instead of"));
        let mut weights = Weights::built_in(BuiltIn::Upscale(Factor::Two));
        weights.perturb("tail.bias", 0.01);
        assert!(differs(same_residual(cpu.upscale(Factor::Two), &GpuUpscaler::new(&weights, session.clone()))));
        let mut weights = Weights::built_in(BuiltIn::Restore);
        weights.perturb("out.bias", 0.01);
        assert!(differs(same_restoration(cpu.restore(), &GpuRestorer::new(&weights, session.clone()))));
        let mut weights = Weights::built_in(BuiltIn::Face);
        weights.perturb("head.16.bias", 0.1);
        assert!(differs(same_cells(cpu.face(), &GpuFaceDetector::new(&weights, session))));
    }

    #[test]
    fn a_self_test_inside_a_lock_begins_no_other_job_of_the_callers_pool() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread pool");
        let slot = OnceLock::new();
        let read = pool.scope(|scope| {
            // The only worker has this job in its queue while it loads; it would enter the lock a second time.
            scope.spawn(|_| assert_eq!(slot.get_or_init(|| 0), &3));
            let load = || {
                assert!(rayon::yield_now().is_none(), "the thread belongs to a pool");
                let (one, two) = rayon::join(|| 1, || 2);
                one + two
            };
            *slot.get_or_init(|| Watchdog::new(Duration::from_secs(60)).call(load).expect("it does not panic"))
        });
        assert_eq!(read, 3);
    }

    #[test]
    fn large_pictures_are_upscaled_in_tiles_without_a_seam() {
        let Some(session) = session() else { return };
        let size = Size::new(TILE as u32 + 30, 21);
        let pixels = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (x as usize, y as usize)));
        let rgba = pixels.flat_map(|(x, y)| [0, 1, 2, 3].map(|channel| (wave(x, y, channel) * 255.0) as u8));
        let frame = Frame::new(size, Buffer::from(rgba.collect::<Vec<u8>>()));
        let net = GpuUpscaler::new(&Weights::built_in(BuiltIn::Upscale(Factor::Two)), session);
        let expected = CpuRetoucher::default().enlarged(frame.clone(), Factor::Two).expect("the host computes");
        let mut picture = Enlargement::new(frame, Factor::Two).expect("it has pixels");
        upscale::enlarge_band(&mut picture, &net).expect("the device computes");
        let found = picture.into_frame();
        assert_eq!(found.size(), expected.size());
        for (one, other) in found.pixels().as_chunks::<4>().0.iter().zip(expected.pixels().as_chunks::<4>().0) {
            let alpha = u16::from(one[3]);
            // Weighted by alpha: faint colours are rounded coarsely.
            let alike = |channel: usize| u16::from(one[channel].abs_diff(other[channel])) * alpha <= 2 * 255;
            assert!(one[3].abs_diff(other[3]) <= 1 && (0..3).all(alike), "{one:?}, not {other:?}");
        }
    }

    #[test]
    fn a_device_that_hangs_or_stays_full_is_an_error() {
        let limits = DeviceLimits { memory: 0, largest_buffer: 0, call: Duration::from_millis(50) };
        let full = GpuRestorer::new(
            &Weights::built_in(BuiltIn::Restore),
            DeviceSession::new(Device::flex(), limits, |_, _| {}),
        );
        let face = vec![[0.5; 3]; FACE_SIDE * FACE_SIDE];
        assert!(matches!(full.run(&face), Err(SegmentError::Device(_))));
        let limits = DeviceLimits { memory: 1 << 30, ..limits };
        let session = DeviceSession::new(Device::flex(), limits, |_, _| {});
        let hanging = OnDevice::new((), session);
        let hang = |(): &(), input| {
            std::thread::sleep(Duration::from_secs(60));
            vec![input]
        };
        for _ in 0..2 {
            assert!(matches!(hanging.run(vec![0.5; 12], 2, hang), Err(SegmentError::Unusable(_))));
        }
    }

    #[test]
    fn an_unwritten_output_is_an_error() {
        let tensor =
            |values: [f32; 4]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), [1, 1, 2, 2]), &Device::flex());
        assert!(downloaded(tensor([0.0; 4])).is_err());
        assert!(downloaded(tensor([0.1, f32::NAN, 0.0, 0.0])).is_err());
        assert_eq!(downloaded(tensor([0.0, 0.0, -1.0, 0.0])).expect("it was written"), [0.0, 0.0, -1.0, 0.0]);
    }
}
