//! Segmentation by an added network: resamples each picture by the conventions, runs the network, and reads its mask.

use super::conventions::{Activation, Conventions, Fit, Order, Range, ResultKind};
use super::graph::Graph;
use crate::image::{Frame, RawMask, Size};
use crate::model::{SegmentError, Segmenter};
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{PixelType, ResizeAlg, ResizeOptions, Resizer};

/// Tolerance of values outside 0..=1, for the rounding of half precision.
const ROUNDING: f32 = 0.01;

/// A network on ONNX Runtime.
pub(super) struct OnnxSegmenter {
    pub(super) graph: Graph,
    pub(super) conventions: Conventions,
    pub(super) model: String,
    pub(super) device: String,
    /// Whether one run takes several pictures.
    pub(super) takes_batches: bool,
    pub(super) resizer: Resizer,
}

/// Position of a picture in the network's input: its size there, the input's size, its corner.
#[derive(Clone, Copy)]
struct Placed {
    picture: Size,
    input: Size,
    left: u32,
    top: u32,
}

impl Placed {
    /// `fixed`: the size that the graph fixes.
    fn of(size: Size, conventions: &Conventions, fixed: Option<Size>) -> Self {
        let square = fixed.unwrap_or(Size::new(conventions.size, conventions.size));
        let scaled = |by: f64, side: u32| ((f64::from(side) * by).round() as u32).max(1);
        match conventions.fit {
            Fit::Stretch => Self { picture: square, input: square, left: 0, top: 0 },
            Fit::Letterbox | Fit::LetterboxTopLeft => {
                let by = (f64::from(square.width) / f64::from(size.width))
                    .min(f64::from(square.height) / f64::from(size.height));
                let picture =
                    Size::new(scaled(by, size.width).min(square.width), scaled(by, size.height).min(square.height));
                let centred = conventions.fit == Fit::Letterbox;
                let margin = |outer: u32, inner: u32| if centred { (outer - inner) / 2 } else { 0 };
                let (left, top) = (margin(square.width, picture.width), margin(square.height, picture.height));
                Self { picture, input: square, left, top }
            }
            Fit::ShorterSide => {
                let by = f64::from(conventions.size) / f64::from(size.width.min(size.height));
                let side = |side| (scaled(by, side) / 32).max(1) * 32;
                let input = fixed.unwrap_or_else(|| Size::new(side(size.width), side(size.height)));
                Self { picture: input, input, left: 0, top: 0 }
            }
        }
    }
}

impl OnnxSegmenter {
    /// Segments pictures with one input size in one run.
    fn segment_run(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, String> {
        let placed: Vec<_> = frames.iter().map(|frame| self.placed(frame)).collect();
        let input = [placed[0].input.height as usize, placed[0].input.width as usize];
        let mut planes = Vec::with_capacity(frames.len() * 3 * input[0] * input[1]);
        for (frame, placed) in frames.iter().zip(&placed) {
            self.append_planes(frame, placed, &mut planes)?;
        }
        let (mut values, size) = self.graph.run(planes, frames.len(), input)?;
        self.probabilities(&mut values)?;
        let masks = values.chunks_exact(size[0] * size[1]).zip(&placed);
        masks.map(|(values, placed)| self.mask(values, size, placed)).collect()
    }

    fn placed(&self, frame: &Frame) -> Placed {
        let fixed = self.graph.fixed.map(|[height, width]| Size::new(width as u32, height as u32));
        Placed::of(frame.size(), &self.conventions, fixed)
    }

    /// Converts the network's values to probabilities or coverage.
    fn probabilities(&self, values: &mut [f32]) -> Result<(), String> {
        if self.conventions.activation == Activation::Sigmoid {
            values.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp()));
        }
        if !values.iter().all(|value| value.is_finite()) {
            return Err("the network returned values that are no numbers".to_owned());
        }
        let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(low, high), &v| (low.min(v), high.max(v)));
        let is_mask = low >= -ROUNDING && high <= 1.0 + ROUNDING;
        // The mattes of withoutbg and MODNet overshoot; their authors clip them too.
        if !is_mask && self.conventions.result == ResultKind::Mask {
            return Err(format!(
                "the network returned values from {low} to {high}, which are no probabilities: its `activation` may be `sigmoid`"
            ));
        }
        values.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
        Ok(())
    }

    /// The picture's part of the network's output plane.
    fn mask(&self, values: &[f32], [height, width]: [usize; 2], placed: &Placed) -> Result<RawMask, String> {
        let Placed { picture, input, left, top } = *placed;
        let cell = |at: u32, of: u32, cells: usize| (at as usize * cells).div_ceil(of as usize);
        let (first, last) = (cell(left, input.width, width), cell(left + picture.width, input.width, width));
        let (upper, lower) = (cell(top, input.height, height), cell(top + picture.height, input.height, height));
        let rows = values.chunks_exact(width).skip(upper).take(lower - upper);
        let values: Vec<f32> = rows.flat_map(|row| &row[first..last]).copied().collect();
        let mask = RawMask::new(Size::new((last - first) as u32, (lower - upper) as u32), values);
        let mask = mask.map_err(|error| error.to_string())?;
        Ok(if self.conventions.result == ResultKind::Matte { mask.as_matte() } else { mask })
    }

    /// Appends the picture's three planes to the network's input.
    fn append_planes(&mut self, frame: &Frame, placed: &Placed, to: &mut Vec<f32>) -> Result<(), String> {
        let Size { width, height } = frame.size();
        let from = ImageRef::new(width, height, frame.pixels(), PixelType::U8x4).map_err(|error| error.to_string())?;
        let mut wide = Image::new(placed.picture.width, height, PixelType::U8x4);
        let mut resized = Image::new(placed.picture.width, placed.picture.height, PixelType::U8x4);
        // Lanczos, columns before rows, as in Pillow, with which most of these networks were published.
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(fast_image_resize::FilterType::Lanczos3))
            .use_alpha(false);
        self.resizer.resize(&from, &mut wide, &options).map_err(|error| error.to_string())?;
        self.resizer.resize(&wide, &mut resized, &options).map_err(|error| error.to_string())?;
        let pixels = resized.buffer().as_chunks::<4>().0;
        let Conventions { range, mean, deviation, order, .. } = &self.conventions;
        let range = match range {
            Range::Fixed(range) => *range,
            Range::Maximum => {
                let most = pixels.iter().map(|[red, green, blue, _]| (*red).max(*green).max(*blue)).max();
                f32::from(most.unwrap_or(255).max(1))
            }
        };
        let (columns, rows) = (placed.input.width as usize, placed.input.height as usize);
        let first = to.len();
        to.resize(first + 3 * columns * rows, 0.0);
        for (channel, plane) in to[first..].chunks_exact_mut(columns * rows).enumerate() {
            let (mean, deviation) = (mean[channel], deviation[channel]);
            let sample = if *order == Order::Rgb { channel } else { 2 - channel };
            let level = |value: u8| (f32::from(value) / range - mean) / deviation;
            // Black around the picture.
            plane.fill(level(0));
            let lines = plane.chunks_exact_mut(columns).skip(placed.top as usize);
            for (line, pixels) in lines.zip(pixels.chunks_exact(placed.picture.width as usize)) {
                let line = &mut line[placed.left as usize..][..pixels.len()];
                line.iter_mut().zip(pixels).for_each(|(value, pixel)| *value = level(pixel[sample]));
            }
        }
        Ok(())
    }
}

impl Segmenter for OnnxSegmenter {
    fn model(&self) -> &str {
        &self.model
    }

    fn device(&self) -> String {
        self.device.clone()
    }

    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
        let sizes: Vec<_> = frames.iter().map(|frame| self.placed(frame).input).collect();
        let is_one_run = self.takes_batches && sizes.windows(2).all(|pair| pair[0] == pair[1]);
        let runs = frames.chunks(if is_one_run { frames.len().max(1) } else { 1 });
        let mut masks = Vec::with_capacity(frames.len());
        for run in runs {
            masks.extend(self.segment_run(run).map_err(SegmentError::Device)?);
        }
        Ok(masks)
    }

    fn max_batch(&self) -> usize {
        if self.takes_batches { usize::MAX } else { 1 }
    }
}
