//! Recall and precision of low-contrast subjects with `detect=standard` and `detect=high_recall`.
//!
//! `cargo bench --bench recall -- DIR` takes sets in the layout of `backdrop eval` (`DIR/SET/image/NAME.*` with
//! `DIR/SET/mask/NAME.png`) and reduces the contrast of every photo: each channel is moved towards its mean and rounded to
//! eight bits. It compares both masks, at one half, with the true mask on the network's grid. Recall and precision are of
//! all pixels of a set; every photo has the weight 1. Without a folder it does nothing: `make bench` runs every bench.

mod support;

use backdrop::codec::Limits;
use backdrop::engine::{Engine, Lane, Tenant};
use backdrop::image::{Buffer, Frame, RawMask};
use backdrop::pipeline::{self, Call};
use backdrop::recipe::{Cut, Detect, Recipe};
use backdrop_kernels::model_input::cpu::model_input;
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::{picture, sorted};

/// Kept shares of the contrast.
const STRENGTHS: [f64; 4] = [1.0, 0.4, 0.2, 0.1];
const MODES: [Detect; 2] = [Detect::Standard, Detect::HighRecall];

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let Some(folder) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).map(PathBuf::from) else {
        println!("recall: NOT RUN, no folder of sets given");
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let engine = support::engine();
    runtime.block_on(engine.ready())?;
    println!("{}", engine.model());
    println!(
        "{:22} {:>8} {:>4}   recall standard → high_recall   precision standard → high_recall",
        "", "contrast", "n"
    );
    let mut together = BTreeMap::<usize, Row>::new();
    for set in sorted(&folder)? {
        let (images, masks) = (set.join("image"), set.join("mask"));
        if !images.is_dir() || !masks.is_dir() {
            continue;
        }
        let mut rows = [Row::default(); STRENGTHS.len()];
        for image in sorted(&images)? {
            let name = image.file_stem().ok_or("a photo without a name")?;
            let truth = picture(&masks.join(name).with_extension("png"))?;
            let photo = picture(&image)?;
            for (row, strength) in rows.iter_mut().zip(STRENGTHS) {
                let faint = faded(&photo, strength);
                let [standard, high_recall] =
                    MODES.map(|detect| runtime.block_on(mask(&engine, faint.clone(), detect)));
                row.pictures += 1;
                row.standard += Shares::of(&standard?, &truth);
                row.high_recall += Shares::of(&high_recall?, &truth);
            }
        }
        let name = set.file_name().unwrap_or_default().to_string_lossy();
        for (index, row) in rows.iter().enumerate() {
            println!("{name:22} {:8} {row}", STRENGTHS[index]);
            *together.entry(index).or_default() += *row;
        }
    }
    let mut faint = Row::default();
    for (index, row) in &together {
        println!("{:22} {:8} {row}", "together", STRENGTHS[*index]);
        if STRENGTHS[*index] < 1.0 {
            faint += *row;
        }
    }
    println!("{:22} {:>8} {faint}", "together", "below 1");
    Ok(())
}

async fn mask(engine: &Engine, photo: Frame, detect: Detect) -> Result<RawMask, Box<dyn Error>> {
    let cut = Cut { detect, ..Recipe::default().cut().expect("it cuts").clone() };
    let call = Call {
        lane: Lane::Bulk,
        tenant: Tenant::default(),
        deadline: Instant::now() + Duration::from_secs(600),
        limits: Limits::default(),
    };
    let slot = engine.admit(call.tenant, photo.size().area(), call.deadline).await?;
    Ok(pipeline::segment(engine, &slot, photo, &cut, &std::sync::Arc::default(), &call).await?.mask)
}

/// The photo with `strength` of its contrast left around its mean colour.
fn faded(photo: &Frame, strength: f64) -> Frame {
    let pixels = photo.pixels().as_chunks::<4>().0;
    let mut mean = [0.0; 3];
    for pixel in pixels {
        for (sum, value) in mean.iter_mut().zip(pixel) {
            *sum += f64::from(*value) / pixels.len() as f64;
        }
    }
    let fade = |value: u8, mean: f64| (mean + strength * (f64::from(value) - mean)).round() as u8;
    let faint = pixels.iter().flat_map(|[red, green, blue, alpha]| {
        [fade(*red, mean[0]), fade(*green, mean[1]), fade(*blue, mean[2]), *alpha]
    });
    Frame::new(photo.size(), Buffer::from(faint.collect::<Vec<_>>()))
}

/// Shares of a photo's area, added up over photos.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    /// True positives.
    found: f64,
    /// False negatives.
    missed: f64,
    /// False positives.
    wrong: f64,
}

impl Shares {
    fn of(mask: &RawMask, truth: &Frame) -> Self {
        let side = mask.size().width as usize;
        assert_eq!(mask.size().width, mask.size().height, "the network's grid is a square");
        let mut grid = vec![0.0; mask.values().len() * 3];
        model_input(truth.pixels(), truth.size().width as usize, truth.size().height as usize, side, 0, &mut grid);
        let mut shares = Self::default();
        for (value, truth) in mask.values().iter().zip(grid.as_chunks::<3>().0) {
            let share = match (*value >= 0.5, truth[0] >= 0.0) {
                (true, true) => &mut shares.found,
                (false, true) => &mut shares.missed,
                (true, false) => &mut shares.wrong,
                (false, false) => continue,
            };
            *share += 1.0 / mask.values().len() as f64;
        }
        shares
    }

    fn recall(&self) -> f64 {
        100.0 * self.found / (self.found + self.missed)
    }

    fn precision(&self) -> f64 {
        100.0 * self.found / (self.found + self.wrong)
    }
}

impl AddAssign for Shares {
    fn add_assign(&mut self, other: Self) {
        self.found += other.found;
        self.missed += other.missed;
        self.wrong += other.wrong;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    pictures: usize,
    standard: Shares,
    high_recall: Shares,
}

impl AddAssign for Row {
    fn add_assign(&mut self, other: Self) {
        self.pictures += other.pictures;
        self.standard += other.standard;
        self.high_recall += other.high_recall;
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pictures, standard, high_recall } = self;
        let pair = |one: f64, other: f64| format!("{one:7.2} → {other:6.2}  ({:+.2})", other - one);
        let recall = pair(standard.recall(), high_recall.recall());
        let precision = pair(standard.precision(), high_recall.precision());
        write!(f, "{pictures:4}   {recall}   {precision}")
    }
}
