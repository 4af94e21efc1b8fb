//! The stages of matting on real photos: `cargo bench --bench matte_stages -- [--scale N] PHOTO...`.
//!
//! Each photo is segmented once, then every stage runs several times. The least time of each is printed, and the share of the
//! band in the picture. `--scale MP` first enlarges the photos to MP megapixels. Without a photo it does nothing: `make bench`
//! runs every bench.

mod support;

use backdrop::codec::{self, Limits};
use backdrop::engine::{Engine, Lane, Tenant};
use backdrop::image::{Buffer, BufferPool, Frame, RawMask, Size, Trimap};
use backdrop::matting::clean::{self, Seeds};
use backdrop::matting::prior::{MaskPrior, Priors};
use backdrop::matting::{self, Options, closed_form, foreground, trimap};
use backdrop::pipeline::{self, Call};
use backdrop::recipe::Recipe;
use rayon::prelude::*;
use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
    let mut scale = None;
    if arguments.peek().is_some_and(|argument| argument == "--scale") {
        arguments.next();
        scale = Some(arguments.next().ok_or("--scale needs megapixels")?.parse::<f64>()?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let mut engine = None;
    if arguments.peek().is_some() {
        println!("memory: {:.1} GB/s read and written", bandwidth() / 1e9);
    }
    println!(
        "{:30} {:>9} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "ms", "size", "band", "clean", "trimap", "solve", "fg", "all", "rest"
    );
    for path in arguments {
        let engine = engine.get_or_insert_with(support::engine);
        runtime.block_on(engine.ready())?;
        let bytes = fs::read(&path)?;
        let header = codec::probe(&bytes, &Limits::default())?;
        let frame = codec::decode(&bytes, &header, &BufferPool::new(0))?;
        let frame = scale.map_or_else(|| frame.clone(), |scale| enlarged(&frame, scale * 1e6));
        let mask = runtime.block_on(mask(engine, frame.clone()))?;
        report(&path, &frame, &mask)?;
    }
    Ok(())
}

/// Bytes per second read and written by a parallel copy: the limit of a stage that streams the picture.
fn bandwidth() -> f64 {
    const LEN: usize = 128 << 20;
    const PART: usize = 1 << 20;
    let from = vec![1u8; LEN];
    let mut to = vec![0u8; LEN];
    let copy = || to.par_chunks_mut(PART).zip(from.par_chunks(PART)).for_each(|(to, from)| to.copy_from_slice(from));
    let (took, ()) = least(copy);
    2.0 * LEN as f64 / took.as_secs_f64()
}

fn report(path: &str, frame: &Frame, mask: &RawMask) -> Result<(), Box<dyn Error>> {
    let options = Options::default();
    let size = frame.size();
    let clean = || clean::clean(frame, mask, &Seeds::default(), clean::CleanParams::default()).expect("a subject");
    let (cleaning, clean) = least(clean);
    let (labelling, labels) = least(|| trimap::from_mask(&clean, size, None));
    let prior = MaskPrior::of(frame, &clean);
    let (solving, matte) =
        least(|| closed_form::estimate_alpha(frame, &labels, &Priors { mask: Some(&prior), temporal: None }));
    let mut frames: Vec<_> = (0..2 * RUNS).map(|_| frame.clone()).collect();
    let (unmixing, _) = least(|| foreground::estimate(frames.last_mut().expect("one for each run"), &matte));
    let (all, _) = least(|| matting::cut_out(frames.pop().expect("one for each run"), mask, &options));
    let band = labels.labels().iter().filter(|&&label| label == Trimap::UNKNOWN).count();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let rest = ms(all) - ms(cleaning) - ms(labelling) - ms(solving) - ms(unmixing);
    let name = path.rsplit('/').next().unwrap_or(path);
    println!(
        "{name:30} {:>9} {:5.1}% {:7.2} {:7.2} {:7.2} {:7.2} {:7.2} {rest:7.2}",
        size.to_string(),
        100.0 * band as f64 / size.area() as f64,
        ms(cleaning),
        ms(labelling),
        ms(solving),
        ms(unmixing),
        ms(all),
    );
    Ok(())
}

fn least<T>(mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut best = Duration::MAX;
    let mut last = None;
    for _ in 0..RUNS {
        let began = Instant::now();
        last = Some(work());
        best = best.min(began.elapsed());
    }
    (best, last.expect("it ran"))
}

async fn mask(engine: &Engine, photo: Frame) -> Result<RawMask, Box<dyn Error>> {
    let cut = Recipe::default().cut().expect("it cuts").clone();
    let call = Call {
        lane: Lane::Bulk,
        tenant: Tenant::default(),
        deadline: Instant::now() + Duration::from_secs(600),
        limits: Limits::default(),
    };
    let slot = engine.admit(call.tenant, photo.size().area(), call.deadline).await?;
    Ok(pipeline::segment(engine, &slot, photo, &cut, &std::sync::Arc::default(), &call).await?.mask)
}

/// The photo, resampled bilinearly to about `pixels`.
fn enlarged(photo: &Frame, pixels: f64) -> Frame {
    let from = photo.size();
    let factor = (pixels / from.area() as f64).sqrt();
    let side = |side: u32| (f64::from(side) * factor).round() as u32;
    let size = Size::new(side(from.width), side(from.height));
    let place = |at: u32, len: u32| {
        let place = ((f64::from(at) + 0.5) / factor - 0.5).clamp(0.0, f64::from(len - 1));
        (place as u32, (place as u32 + 1).min(len - 1), place.fract() as f32)
    };
    let mut out = Vec::with_capacity(size.area() * 4);
    for y in 0..size.height {
        let (above, below, down) = place(y, from.height);
        for x in 0..size.width {
            let (left, right, along) = place(x, from.width);
            let corners = [
                photo.pixel(left, above),
                photo.pixel(right, above),
                photo.pixel(left, below),
                photo.pixel(right, below),
            ];
            out.extend((0..4).map(|channel| {
                let [a, b, c, d] = corners.map(|pixel| f32::from(pixel[channel]));
                let (above, below) = (a + along * (b - a), c + along * (d - c));
                (above + down * (below - above) + 0.5) as u8
            }));
        }
    }
    Frame::new(size, Buffer::from(out))
}
