//! Quality of the mattes of filmed clips at `smoothing` 0, 50 and 100, against masks made by hand.
//!
//! `cargo bench --profile release --bench clips -- CLIPS [CLIP…]` takes frames from `CLIPS/CLIP/image`, in the order of their names, and the
//! masks of all or some of them from `CLIPS/CLIP/mask/STEM.png`. For each clip, in thousandths: IoU and boundary IoU at one half, mean over
//! the frames with a mask, and the mean change of the error at a pixel between consecutive frames with masks, where 1 is full coverage.
//! Without a folder it does nothing: `make bench` runs every bench.

mod support;

use backdrop::image::{AlphaMatte, Frame, RawMask};
use backdrop::video::temporal::TemporalFilter;
use rayon::prelude::*;
use std::error::Error;
use std::path::{Path, PathBuf};
use support::{mask, picture, sorted};

const SMOOTHINGS: [u8; 3] = [0, 50, 100];
/// Share of the diagonal that counts as boundary, as in `backdrop eval`.
const BOUNDARY_SHARE: f64 = 0.02;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        println!("clips: NOT RUN, no folder of clips given");
        return Ok(());
    };
    let names: Vec<String> = arguments.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let engine = support::engine();
    runtime.block_on(engine.ready())?;
    println!("{}, smoothing {SMOOTHINGS:?}; in thousandths", engine.model());
    let mut rows = Vec::new();
    for path in sorted(&folder)?.into_iter().filter(|path| path.join("image").is_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let clip = Clip::read(&path)?;
        let masks: Vec<RawMask> =
            clip.frames.iter().map(|frame| runtime.block_on(mask(&engine, frame.clone()))).collect::<Result<_, _>>()?;
        let row = SMOOTHINGS.map(|smoothing| {
            let mut filter = TemporalFilter::new(smoothing);
            let matte = |(frame, mask): (&Frame, &RawMask)| filter.next(frame, mask.clone()).downloaded();
            let mattes: Result<Vec<_>, _> = clip.frames.iter().zip(&masks).map(matte).collect();
            mattes.map(|mattes| clip.measure(&mattes))
        });
        let [independent, middle, strongest] = row;
        let row = [independent?, middle?, strongest?];
        println!("{}", line(&format!("{name} ({})", clip.frames.len()), &row));
        rows.push(row);
    }
    let mean = |index: usize| -> Measured {
        std::array::from_fn(|at| rows.iter().map(|row| row[index][at]).sum::<f64>() / rows.len() as f64)
    };
    println!("{}", line("mean", &[mean(0), mean(1), mean(2)]));
    Ok(())
}

/// IoU, boundary IoU, and change of the error between frames, each 0 to 1.
type Measured = [f64; 3];

fn line(name: &str, row: &[Measured; 3]) -> String {
    let measures = ["iou", "boundary iou", "flicker"].iter().enumerate().map(|(at, measure)| {
        let values = row.map(|measured| format!("{:6.1}", 1e3 * measured[at]));
        format!("{measure} {}", values.join(" "))
    });
    format!("{name:24} {}", measures.collect::<Vec<_>>().join(" | "))
}

struct Clip {
    frames: Vec<Frame>,
    /// For each frame with a mask, whether each pixel belongs to the subject.
    truth: Vec<Option<Vec<bool>>>,
}

impl Clip {
    fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let mut clip = Self { frames: Vec::new(), truth: Vec::new() };
        for path in sorted(&folder.join("image"))? {
            let frame = picture(&path)?;
            let mask = folder.join("mask").join(path.file_stem().unwrap_or_default()).with_extension("png");
            let truth = mask.exists().then(|| picture(&mask)).transpose()?;
            if truth.as_ref().is_some_and(|truth| truth.size() != frame.size()) {
                return Err(format!("{}: a mask of another size", path.display()).into());
            }
            let inside = |truth: Frame| truth.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[0] >= 128).collect();
            clip.truth.push(truth.map(inside));
            clip.frames.push(frame);
        }
        Ok(clip)
    }

    fn measure(&self, mattes: &[AlphaMatte]) -> Measured {
        let with_truth: Vec<(usize, &Vec<bool>)> =
            self.truth.iter().enumerate().filter_map(|(at, truth)| Some((at, truth.as_ref()?))).collect();
        let each: Vec<[f64; 2]> = with_truth
            .par_iter()
            .map(|&(at, truth)| {
                let size = mattes[at].size();
                let (width, height) = (size.width as usize, size.height as usize);
                let matte: Vec<bool> = mattes[at].coverage().iter().map(|&value| value >= 128).collect();
                let depth = ((BOUNDARY_SHARE * (width as f64).hypot(height as f64)).round() as usize).max(1);
                let [of_matte, of_truth] = [&matte, truth].map(|mask| inner_band(mask, [width, height], depth));
                [iou(&matte, truth), iou(&of_matte, &of_truth)]
            })
            .collect();
        // An empty sum would be -0.0.
        let mean = |values: &[f64]| values.iter().fold(0.0, |sum, value| sum + value) / values.len().max(1) as f64;
        let error = |at: usize, truth: &[bool]| -> Vec<i32> {
            mattes[at]
                .coverage()
                .iter()
                .zip(truth)
                .map(|(&value, &inside)| i32::from(value) - if inside { 255 } else { 0 })
                .collect()
        };
        let consecutive = with_truth.windows(2).filter(|pair| pair[0].0 + 1 == pair[1].0);
        let changes: Vec<f64> = consecutive
            .map(|pair| {
                let (before, after) = (error(pair[0].0, pair[0].1), error(pair[1].0, pair[1].1));
                let change = before.iter().zip(&after).map(|(before, after)| f64::from((before - after).abs()) / 255.0);
                change.sum::<f64>() / after.len() as f64
            })
            .collect();
        let of = |index: usize| mean(&each.iter().map(|scores| scores[index]).collect::<Vec<_>>());
        [of(0), of(1), mean(&changes)]
    }
}

fn iou(one: &[bool], other: &[bool]) -> f64 {
    let count = |of: fn(bool, bool) -> bool| one.iter().zip(other).filter(|&(&one, &other)| of(one, other)).count();
    let either = count(|one, other| one || other);
    if either == 0 { 1.0 } else { count(|one, other| one && other) as f64 / either as f64 }
}

/// The cells of `mask` at most `depth` rows and columns from a cell outside it or from the picture's border.
fn inner_band(mask: &[bool], [width, height]: [usize; 2], depth: usize) -> Vec<bool> {
    let inside =
        |near: &mut dyn Iterator<Item = bool>| near.take(2 * depth + 1).filter(|&near| near).count() == 2 * depth + 1;
    let shifted = |at: usize, side: usize| (at.wrapping_sub(depth)..=at + depth).filter(move |&at| at < side);
    let eroded: Vec<bool> = (0..mask.len())
        .map(|at| {
            let (x, row) = (at % width, at / width * width);
            inside(&mut shifted(x, width).map(|x| mask[row + x]))
        })
        .collect();
    (0..mask.len())
        .map(|at| {
            let (x, y) = (at % width, at / width);
            mask[at] && !inside(&mut shifted(y, height).map(|y| eroded[y * width + x]))
        })
        .collect()
}
