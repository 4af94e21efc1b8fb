//! Error, flicker and time of the temporal filter at `smoothing` 0, 50 and 100, on synthetic clips with exact mattes.
//!
//! `cargo bench --bench temporal -- DATA [SHEETS [CLIP…]]` renders the clips from the photos and mattes of `DATA/eval`
//! and the backgrounds of `DATA/train`: a cutout moves, rotates and scales by fractions of pixels over a panning photo,
//! with a camera's noise and flickering exposure. In one clip only the subject moves, in one it crosses the picture in
//! a second, and one has three scenes. Every frame is segmented by the embedded network.
//!
//! The error of a pixel is its coverage (0 to 1) minus the true coverage. Reported are its mean absolute value (MAE), its
//! mean absolute change from frame to frame at a pixel (flicker) and along the true motion (without disoccluded pixels),
//! and for the clip of three scenes the MAE of the first frames after each cut. Frames on magenta are written to the
//! folder `SHEETS`. The time is measured last; without `DATA` nothing else is.

mod support;

use backdrop::codec::{self, Channels, EncodeOptions, PngEffort};
use backdrop::image::{AlphaMatte, Buffer, Composite, Frame, OutputFormat, Quality, RawMask, Size};
use backdrop::matting::foreground;
use backdrop::video::temporal::TemporalFilter;
use rayon::prelude::*;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{mask, picture, sorted};

const SIZE: Size = Size::new(960, 540);
const FRAMES: usize = 24;
const SMOOTHINGS: [u8; 3] = [0, 50, 100];
/// Supersampling along each axis of a rendered pixel.
const SAMPLES: usize = 2;
/// Frames measured after a cut.
const AFTER_CUT: usize = 3;
/// Frames of each clip on a sheet.
const SHOWN: [usize; 6] = [1, 6, 9, 13, 17, 22];

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let mut folders = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).map(PathBuf::from);
    let Some(data) = folders.next() else {
        println!("temporal: no folder of data given, so only the time is measured");
        cost();
        return Ok(());
    };
    let sheets = folders.next();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let engine = support::engine();
    runtime.block_on(engine.ready())?;
    println!(
        "{}, {SIZE}; MAE, flicker and flicker along the motion in thousandths, at smoothing {SMOOTHINGS:?}",
        engine.model()
    );
    let mut rows = Vec::new();
    let names: Vec<PathBuf> = folders.collect();
    for script in scripts(&data)? {
        if !names.is_empty() && !names.iter().any(|name| name == Path::new(script.name)) {
            continue;
        }
        let mut clip = Clip { name: script.name, ..Clip::default() };
        script.scenes.iter().for_each(|(scene, seed)| clip.render(scene, script.frames, *seed));
        let masks: Vec<RawMask> =
            clip.frames.iter().map(|frame| runtime.block_on(mask(&engine, frame.clone()))).collect::<Result<_, _>>()?;
        let mattes = SMOOTHINGS.map(|smoothing| {
            let mut filter = TemporalFilter::new(smoothing);
            let matte = |(frame, mask): (&Frame, &RawMask)| filter.next(frame, mask.clone()).downloaded();
            clip.frames.iter().zip(&masks).map(matte).collect::<Result<Vec<_>, _>>()
        });
        let [independent, middle, strongest] = mattes;
        let mattes = [independent?, middle?, strongest?];
        let row: Vec<Measured> = mattes.iter().map(|mattes| clip.measure(mattes)).collect();
        println!("{}", line(clip.name, &row));
        if !clip.cuts.is_empty() {
            let shown: Vec<String> = row.iter().map(|measured| format!("{:.2}", 1e3 * measured.after_cuts)).collect();
            println!("{:12} MAE of the first {AFTER_CUT} frames after a cut: {}", "", shown.join(" → "));
        }
        if let Some(sheets) = &sheets {
            fs::create_dir_all(sheets)?;
            fs::write(sheets.join(format!("{}.png", clip.name)), clip.sheet(&mattes)?)?;
        }
        rows.push(row);
    }
    let mean = |index: usize| {
        let of =
            |value: fn(&Measured) -> f64| rows.iter().map(|row| value(&row[index])).sum::<f64>() / rows.len() as f64;
        Measured { mae: of(|one| one.mae), flicker: of(|one| one.flicker), along: of(|one| one.along), after_cuts: 0.0 }
    };
    println!("{}", line("mean", &[mean(0), mean(1), mean(2)]));
    cost();
    Ok(())
}

fn line(name: &str, row: &[Measured]) -> String {
    let part = |value: fn(&Measured) -> f64| {
        let shown: Vec<String> = row.iter().map(|measured| format!("{:6.2}", 1e3 * value(measured))).collect();
        let ratio = row.iter().skip(1).map(|measured| format!("{:.2}", value(measured) / value(&row[0])));
        format!("{} ({})", shown.join(" "), ratio.collect::<Vec<_>>().join(" "))
    };
    format!(
        "{name:12} mae {} | flicker {} | along {}",
        part(|one| one.mae),
        part(|one| one.flicker),
        part(|one| one.along)
    )
}

/// Time of a 1080p frame, with and without matting.
fn cost() {
    let size = Size::new(1920, 1080);
    let grid = Size::new(384, 384);
    let frame = |at: f32| {
        let pixel = |x: u32, y: u32| {
            let (x, y) = (x as f32 + at, y as f32);
            let wave = |a: f32, b: f32| (128.0 + 60.0 * (x * a).sin() + 60.0 * (y * b).cos()) as u8;
            [wave(0.03, 0.05), wave(0.11, 0.02), wave(0.007, 0.2), 255]
        };
        let pixels: Vec<u8> = (0..size.height)
            .into_par_iter()
            .flat_map_iter(|y| (0..size.width).flat_map(move |x| pixel(x, y)))
            .collect();
        Frame::new(size, Buffer::from(pixels))
    };
    let disc = |at: f32, radius: f32| {
        let value =
            |x: u32, y: u32| ((radius - (x as f32 + at / 5.0 - 190.0).hypot(y as f32 - 190.0)) / 2.0).clamp(0.0, 1.0);
        let values = (0..384).flat_map(|y| (0..384).map(move |x| value(x, y))).collect::<Vec<f32>>();
        RawMask::new(grid, values).expect("probabilities")
    };
    let frames: Vec<Frame> = (0..6).map(|at| frame(at as f32 * 3.3)).collect();
    for (what, radius) in [("without the matte", -1.0), ("with the matte", 120.0)] {
        let times = SMOOTHINGS.map(|smoothing| {
            let mut filter = TemporalFilter::new(smoothing);
            let masks: Vec<RawMask> = (0..frames.len()).map(|at| disc(at as f32 * 3.3, radius)).collect();
            // Forwards and backwards, three times.
            let order: Vec<usize> = (0..frames.len()).chain((0..frames.len()).rev()).collect();
            let (began, cpu_began) = (Instant::now(), cpu_time());
            for &at in order.iter().cycle().take(3 * order.len()) {
                std::hint::black_box(filter.next(&frames[at], masks[at].clone()));
            }
            let each = |time: Duration| time.as_secs_f64() * 1e3 / (3 * order.len()) as f64;
            format!("{:.1} ({:.1})", each(began.elapsed()), each(cpu_time() - cpu_began))
        });
        let threads = rayon::current_num_threads();
        println!("{what}: {} ms (of all {threads} cores together) a frame of {size}", times.join(", "));
    }
}

/// CPU time of this process, to a hundredth of a second. Zero without `/proc`.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// A premultiplied RGBA layer, 0 to 1.
struct Layer {
    size: [usize; 2],
    pixels: Vec<[f32; 4]>,
}

impl Layer {
    /// Bilinear interpolation. Outside, the border is replicated, or the layer is transparent.
    fn at(&self, x: f32, y: f32, replicates: bool) -> [f32; 4] {
        let (left, top) = (x.floor(), y.floor());
        let read = |x: f32, y: f32| {
            let [width, height] = self.size.map(|side| side as f32 - 1.0);
            if !replicates && (x < 0.0 || y < 0.0 || x > width || y > height) {
                return [0.0; 4];
            }
            self.pixels[y.clamp(0.0, height) as usize * self.size[0] + x.clamp(0.0, width) as usize]
        };
        let (along, down) = (x - left, y - top);
        let [a, b, c, d] =
            [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)].map(|(right, below)| read(left + right, top + below));
        std::array::from_fn(|i| {
            (a[i] * (1.0 - along) + b[i] * along) * (1.0 - down) + (c[i] * (1.0 - along) + d[i] * along) * down
        })
    }

    fn photo(path: &Path) -> Result<Self, Box<dyn Error>> {
        let frame = picture(path)?;
        let pixels = frame.pixels().as_chunks::<4>().0.iter().map(|pixel| {
            let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(|value| f32::from(value) / 255.0);
            [red, green, blue, 1.0]
        });
        Ok(Self { size: [frame.size().width as usize, frame.size().height as usize], pixels: pixels.collect() })
    }

    /// A photo under its matte. A binary mask is eroded by a pixel and softened.
    fn cutout(image: &Path, mask: &Path, is_binary: bool) -> Result<Self, Box<dyn Error>> {
        let (mut frame, mask) = (picture(image)?, picture(mask)?);
        let size = frame.size();
        if mask.size() != size {
            return Err(format!("{}: a mask of another size", image.display()).into());
        }
        let [width, height] = [size.width as usize, size.height as usize];
        let mut coverage: Vec<u8> = mask.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[0]).collect();
        let window = |plane: &[u8], at: usize, mix: &dyn Fn(&mut dyn Iterator<Item = u8>) -> u8| {
            let (x, y) = (at % width, at / width);
            let rows = y.saturating_sub(1)..(y + 2).min(height);
            mix(&mut rows
                .flat_map(|row| (x.saturating_sub(1)..(x + 2).min(width)).map(move |x| row * width + x))
                .map(|at| plane[at]))
        };
        if is_binary {
            let eroded: Vec<u8> =
                (0..coverage.len()).map(|at| window(&coverage, at, &|near| near.min().unwrap_or(0))).collect();
            let mean = |near: &mut dyn Iterator<Item = u8>| {
                let (sum, count) = near.fold((0, 0), |(sum, count), value| (sum + u32::from(value), count + 1));
                (sum / count.max(1)) as u8
            };
            coverage = (0..coverage.len()).map(|at| window(&eroded, at, &mean)).collect();
        }
        foreground::estimate(&mut frame, &AlphaMatte::new(size, coverage.clone()));
        let pixels = frame.pixels().as_chunks::<4>().0.iter().zip(coverage).map(|(pixel, coverage)| {
            let alpha = f32::from(coverage) / 255.0;
            let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(|value| f32::from(value) / 255.0 * alpha);
            [red, green, blue, alpha]
        });
        Ok(Self { size: [width, height], pixels: pixels.collect() })
    }
}

/// Centre of a layer (x and y in shares of the frame), scale, and rotation in degrees.
type Pose = [f32; 4];

/// Affine transform from the frame to a layer: `[a, b, c, d, e, f]`, x' = a x + b y + c, y' = d x + e y + f.
#[derive(Clone, Copy)]
struct Affine([f32; 6]);

impl Affine {
    fn new([x, y, scale, degrees]: Pose, fit: f32, size: [usize; 2]) -> Self {
        let (sin, cos) = degrees.to_radians().sin_cos();
        let (sin, cos) = (sin / (fit * scale), cos / (fit * scale));
        let (x, y) = (x * SIZE.width as f32, y * SIZE.height as f32);
        let middle = size.map(|side| side as f32 / 2.0);
        Self([cos, sin, middle[0] - cos * x - sin * y, -sin, cos, middle[1] + sin * x - cos * y])
    }

    fn apply(&self, x: f32, y: f32) -> (f32, f32) {
        let Self([a, b, c, d, e, f]) = self;
        (a * x + b * y + c, d * x + e * y + f)
    }

    fn invert(&self, x: f32, y: f32) -> (f32, f32) {
        let Self([a, b, c, d, e, f]) = self;
        let (x, y, determinant) = (x - c, y - f, a * e - b * d);
        ((e * x - b * y) / determinant, (a * y - d * x) / determinant)
    }
}

/// A scene: subject and background, the motion of both (0 to 1 is from the first frame to the last), noise (steps of
/// 255) and the standard deviation of the exposure.
struct Scene {
    subject: Layer,
    ground: Layer,
    subject_at: fn(f32) -> Pose,
    ground_at: fn(f32) -> Pose,
    noise: f32,
    flicker: f32,
}

#[derive(Default)]
struct Clip {
    name: &'static str,
    frames: Vec<Frame>,
    truth: Vec<Vec<f32>>,
    /// Transforms of subject and background for each frame.
    transforms: Vec<[Affine; 2]>,
    /// First frames of all scenes after the first.
    cuts: Vec<usize>,
}

fn interpolated(from: Pose, to: Pose, t: f32) -> Pose {
    std::array::from_fn(|i| from[i] + (to[i] - from[i]) * t)
}

fn sway(t: f32) -> Pose {
    [0.5 + 0.05 * (5.0 * t).sin(), 0.52 + 0.03 * (7.0 * t).cos(), 1.0 + 0.05 * (4.0 * t).sin(), 4.0 * (6.0 * t).sin()]
}

fn still(_: f32) -> Pose {
    [0.5, 0.5, 1.0, 0.0]
}

fn pan(t: f32) -> Pose {
    interpolated([0.53, 0.5, 1.0, 0.0], [0.47, 0.5, 1.04, 0.5], t)
}

/// A clip to render: its scenes, each with the seed of its noise, and the number of frames in each.
struct Script {
    name: &'static str,
    scenes: Vec<(Scene, u64)>,
    frames: usize,
}

fn scripts(data: &Path) -> Result<Vec<Script>, Box<dyn Error>> {
    let grounds: Vec<PathBuf> =
        [sorted(&data.join("train/bg_wall_cc0_unsplash"))?, sorted(&data.join("train/bg_hdri_cc0"))?].concat();
    let people = sorted(&data.join("eval/ccp/image"))?;
    let ground = |at: usize| Layer::photo(&grounds[at % grounds.len()]);
    let person = |at: usize| {
        let image = &people[at % people.len()];
        let mask = data.join("eval/ccp/mask").join(image.file_stem().unwrap_or_default()).with_extension("png");
        Layer::cutout(image, &mask, true)
    };
    let of = |set: &str, file: &str| {
        let folder = data.join("eval").join(set);
        let mask = folder.join("mask").join(file).with_extension("png");
        Layer::cutout(&folder.join("image").join(file), &mask, false)
    };
    let product = |name: &str| of("product_composite", &format!("saleor-{name}_scene.jpg"));
    let scene = |subject, ground, subject_at, ground_at, noise, flicker| Scene {
        subject,
        ground,
        subject_at,
        ground_at,
        noise,
        flicker,
    };
    let one = |name, scene: Scene, seed| Script { name, scenes: vec![(scene, seed)], frames: FRAMES };
    let mut scripts = vec![
        one(
            "lemur",
            scene(
                of("matting", "lemur.png")?,
                ground(3)?,
                |t| interpolated([0.44, 0.5, 1.0, -3.0], [0.56, 0.52, 1.12, 4.0], t),
                pan,
                3.0,
                0.01,
            ),
            1,
        ),
        one("flower", scene(of("matting", "GT01.png")?, ground(12)?, sway, pan, 3.0, 0.01), 2),
        one(
            "beanie",
            scene(
                product("beanie-1")?,
                ground(22)?,
                |t| interpolated([0.35, 0.5, 0.8, -10.0], [0.65, 0.5, 0.9, 10.0], t),
                pan,
                3.0,
                0.01,
            ),
            3,
        ),
        one("shirt", scene(product("dash-tee-front")?, ground(30)?, sway, pan, 4.0, 0.02), 4),
        one(
            "walking",
            scene(
                person(0)?,
                ground(70)?,
                |t| interpolated([0.4, 0.52, 1.0, 0.0], [0.6, 0.5, 1.05, 2.0], t),
                pan,
                3.0,
                0.01,
            ),
            5,
        ),
        one("camera still", scene(person(5)?, ground(80)?, sway, still, 3.0, 0.01), 6),
        one(
            "close",
            scene(
                person(12)?,
                ground(95)?,
                |t| interpolated([0.5, 0.6, 1.4, 0.0], [0.52, 0.6, 1.5, 0.0], t),
                pan,
                5.0,
                0.02,
            ),
            7,
        ),
        one("nothing moves", scene(person(9)?, ground(64)?, still, still, 3.0, 0.01), 12),
        one(
            "crossing",
            scene(
                person(20)?,
                ground(50)?,
                |t| interpolated([0.1, 0.5, 1.0, 0.0], [1.1, 0.5, 1.0, 0.0], t),
                still,
                3.0,
                0.01,
            ),
            8,
        ),
    ];
    let scenes = [(person(25)?, 60, 9), (of("matting", "lemur.png")?, 40, 10), (product("gift-100")?, 8, 11)];
    let scenes = scenes
        .into_iter()
        .map(|(subject, at, seed)| Ok::<_, Box<dyn Error>>((scene(subject, ground(at)?, sway, pan, 3.0, 0.01), seed)));
    scripts.push(Script { name: "cuts", scenes: scenes.collect::<Result<_, _>>()?, frames: FRAMES / 3 });
    Ok(scripts)
}

/// Deterministic pseudo-random numbers with a standard deviation of one.
fn noise(seed: u64, at: u64) -> f32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut sum = 0.0;
    for _ in 0..4 {
        state ^= state >> 30;
        state = state.wrapping_mul(0x94d0_49bb_1331_11eb).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 27;
        sum += (state >> 40) as f32 / (1_u32 << 24) as f32 - 0.5;
    }
    sum * 3.0_f32.sqrt()
}

impl Clip {
    fn render(&mut self, scene: &Scene, frames: usize, seed: u64) {
        if !self.frames.is_empty() {
            self.cuts.push(self.frames.len());
        }
        let [width, height] = [SIZE.width as usize, SIZE.height as usize];
        let fits = |size: [usize; 2]| [width as f32 / size[0] as f32, height as f32 / size[1] as f32];
        let subject_fit = fits(scene.subject.size);
        let ground_fit = fits(scene.ground.size);
        for frame in 0..frames {
            let t = frame as f32 / (frames - 1) as f32;
            let subject =
                Affine::new((scene.subject_at)(t), 0.85 * subject_fit[0].min(subject_fit[1]), scene.subject.size);
            let ground = Affine::new((scene.ground_at)(t), 1.25 * ground_fit[0].max(ground_fit[1]), scene.ground.size);
            let stream = seed * 1000 + frame as u64;
            let exposure = 1.0 + scene.flicker * noise(stream, u64::MAX);
            let mut pixels = vec![0; width * height * 4];
            let mut truth = vec![0.0; width * height];
            pixels.par_chunks_mut(width * 4).zip(truth.par_chunks_mut(width)).enumerate().for_each(
                |(y, (row, truth))| {
                    for (x, (pixel, truth)) in row.as_chunks_mut::<4>().0.iter_mut().zip(truth).enumerate() {
                        let mut sum = [0.0; 4];
                        for sample in 0..SAMPLES * SAMPLES {
                            let inside = |at: usize| (at as f32 + 0.5) / SAMPLES as f32 - 0.5;
                            let (x, y) = (x as f32 + inside(sample % SAMPLES), y as f32 + inside(sample / SAMPLES));
                            let (over, under) = (subject.apply(x, y), ground.apply(x, y));
                            let (over, under) =
                                (scene.subject.at(over.0, over.1, false), scene.ground.at(under.0, under.1, true));
                            for i in 0..3 {
                                sum[i] += over[i] + under[i] * (1.0 - over[3]);
                            }
                            sum[3] += over[3];
                        }
                        let [red, green, blue, alpha] = sum.map(|sum| sum / (SAMPLES * SAMPLES) as f32);
                        *truth = alpha;
                        for (i, value) in [red, green, blue].into_iter().enumerate() {
                            let grain = scene.noise * noise(stream, ((y * width + x) * 3 + i) as u64);
                            pixel[i] = (value * 255.0 * exposure + grain + 0.5) as u8;
                        }
                        pixel[3] = 255;
                    }
                },
            );
            self.frames.push(Frame::new(SIZE, Buffer::from(pixels)));
            self.truth.push(truth);
            self.transforms.push([subject, ground]);
        }
    }

    fn measure(&self, mattes: &[AlphaMatte]) -> Measured {
        let errors: Vec<Vec<f32>> = mattes
            .iter()
            .zip(&self.truth)
            .map(|(matte, truth)| {
                matte.coverage().iter().zip(truth).map(|(&value, truth)| f32::from(value) / 255.0 - truth).collect()
            })
            .collect();
        let size_of =
            |values: &[f32]| values.iter().map(|value| f64::from(value.abs())).sum::<f64>() / values.len() as f64;
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let pairs: Vec<usize> = (1..errors.len()).filter(|at| !self.cuts.contains(at)).collect();
        let flicker = |&at: &usize| {
            let change: Vec<f32> = errors[at].iter().zip(&errors[at - 1]).map(|(now, before)| now - before).collect();
            size_of(&change)
        };
        let after_cuts =
            self.cuts.iter().flat_map(|&cut| cut..cut + AFTER_CUT).map(|at| size_of(&errors[at])).collect();
        Measured {
            mae: mean(errors.iter().map(|error| size_of(error)).collect()),
            flicker: mean(pairs.iter().map(flicker).collect()),
            along: mean(pairs.iter().map(|&at| self.along(at, &errors)).collect()),
            after_cuts: mean(after_cuts),
        }
    }

    /// Mean absolute change of the error along the true motion.
    fn along(&self, at: usize, errors: &[Vec<f32>]) -> f64 {
        let [width, height] = [SIZE.width as usize, SIZE.height as usize];
        let read = |plane: &[f32], (x, y): (f32, f32)| {
            let (left, top) = (x.floor(), y.floor());
            let value = |x: f32, y: f32| {
                plane[y.clamp(0.0, height as f32 - 1.0) as usize * width + x.clamp(0.0, width as f32 - 1.0) as usize]
            };
            let (along, down) = (x - left, y - top);
            let above = value(left, top) * (1.0 - along) + value(left + 1.0, top) * along;
            let below = value(left, top + 1.0) * (1.0 - along) + value(left + 1.0, top + 1.0) * along;
            above * (1.0 - down) + below * down
        };
        let near: Vec<bool> = near(&self.truth[at], [width, height]);
        let change = |pixel: usize| {
            let (x, y) = ((pixel % width) as f32, (pixel / width) as f32);
            let layer = usize::from(!near[pixel]);
            let (u, v) = self.transforms[at][layer].apply(x, y);
            let was = self.transforms[at - 1][layer].invert(u, v);
            if !near[pixel] && read(&self.truth[at - 1], was) > 0.02 {
                return 0.0;
            }
            f64::from((errors[at][pixel] - read(&errors[at - 1], was)).abs())
        };
        (0..width * height).into_par_iter().with_min_len(4096).map(change).sum::<f64>() / (width * height) as f64
    }

    /// A contact sheet with a row for each frame: the source, and each smoothing on magenta.
    fn sheet(&self, mattes: &[Vec<AlphaMatte>]) -> Result<Vec<u8>, Box<dyn Error>> {
        let [width, height] = [SIZE.width as usize / 2, SIZE.height as usize / 2];
        let columns = 1 + mattes.len();
        let mut pixels = vec![255; columns * width * SHOWN.len() * height * 4];
        for (row, &frame) in SHOWN.iter().enumerate() {
            for column in 0..columns {
                for y in 0..height {
                    for x in 0..width {
                        let mut sum = [0; 3];
                        for (right, down) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                            let at = (2 * y + down) * SIZE.width as usize + 2 * x + right;
                            let alpha =
                                if column == 0 { 255 } else { u32::from(mattes[column - 1][frame].coverage()[at]) };
                            for (i, sum) in sum.iter_mut().enumerate() {
                                let under = [255, 0, 255][i] * (255 - alpha);
                                *sum += (u32::from(self.frames[frame].pixels()[at * 4 + i]) * alpha + under) / 255;
                            }
                        }
                        let to = ((row * height + y) * columns * width + column * width + x) * 4;
                        (0..3).for_each(|i| pixels[to + i] = (sum[i] / 4) as u8);
                    }
                }
            }
        }
        let options = EncodeOptions {
            format: OutputFormat::Png,
            quality: Quality::DEFAULT,
            png: PngEffort::Fast,
            channels: Channels::Rgba,
        };
        let size = Size::new((columns * width) as u32, (SHOWN.len() * height) as u32);
        Ok(codec::encode(Composite::unchanged(Frame::new(size, Buffer::from(pixels))), &options)?.bytes.to_vec())
    }
}

/// The subject dilated by four pixels.
fn near(truth: &[f32], [width, height]: [usize; 2]) -> Vec<bool> {
    const REACH: usize = 4;
    let inside: Vec<bool> = truth.iter().map(|&alpha| alpha > 0.02).collect();
    let across: Vec<bool> = (0..inside.len())
        .into_par_iter()
        .map(|at| {
            let (x, row) = (at % width, at / width * width);
            inside[row + x.saturating_sub(REACH)..row + (x + REACH + 1).min(width)].contains(&true)
        })
        .collect();
    let down = |at: usize| {
        let (x, y) = (at % width, at / width);
        (y.saturating_sub(REACH)..(y + REACH + 1).min(height)).any(|row| across[row * width + x])
    };
    (0..inside.len()).into_par_iter().map(down).collect()
}

#[derive(Clone, Copy)]
struct Measured {
    mae: f64,
    flicker: f64,
    along: f64,
    after_cuts: f64,
}
