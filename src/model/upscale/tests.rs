//! Tests of upscaling: bicubic by its definition, seams, transparency and constant regions.

use backdrop_kernels::conv::Isa;

use super::*;
use crate::image::tests::{drawn, on_any_number_of_threads};
use crate::image::{Buffer, Frame};
use crate::model::Factor;
use crate::model::weights::{BuiltIn, Weights};

struct ZeroResidual(Factor, [usize; 2]);

impl Upscaler for ZeroResidual {
    fn factor(&self) -> Factor {
        self.0
    }

    fn tile(&self, _: [usize; 2]) -> [usize; 2] {
        self.1
    }

    fn rows(&self, tile: Tile, _: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError> {
        let factor = self.0.get() as usize;
        let row = vec![0.0; tile.width * 3 * factor * factor];
        (tile.top..tile.top + tile.height).for_each(|y| sink(y, &row));
        Ok(())
    }
}

/// The network with tiles of another size.
struct WithTiles<'a>(&'a CpuUpscaler, [usize; 2]);

impl Upscaler for WithTiles<'_> {
    fn factor(&self) -> Factor {
        self.0.factor()
    }

    fn tile(&self, _: [usize; 2]) -> [usize; 2] {
        self.1
    }

    fn rows(&self, tile: Tile, source: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError> {
        self.0.rows(tile, source, sink)
    }
}

fn net(factor: Factor, isa: Isa) -> CpuUpscaler {
    CpuUpscaler::new(&Weights::built_in(BuiltIn::Upscale(factor)), isa).expect("the embedded weights")
}

fn texture(x: u32, y: u32) -> [u8; 3] {
    let noise = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)).wrapping_mul(2_246_822_519) >> 24;
    let edge = if (x / 7 + y / 5).is_multiple_of(2) { 180 } else { 30 };
    [(edge + noise % 40) as u8, ((x * 5 + y * 3) % 256) as u8, (noise / 2 + 40) as u8]
}

fn opaque(width: u32, height: u32) -> Frame {
    drawn(width, height, |x, y| {
        let [red, green, blue] = texture(x, y);
        [red, green, blue, 255]
    })
}

/// Transparent on the left, opaque on the right, a soft slope between, and a half transparent patch.
fn transparent(width: u32, height: u32) -> Frame {
    drawn(width, height, |x, y| {
        let [red, green, blue] = texture(x, y);
        let slope = (f64::from(x) - f64::from(width) / 3.0 - f64::from(y % 9)) * 40.0;
        let alpha = if x + 12 > width && y > height / 2 { 128 } else { slope.clamp(0.0, 255.0) as u8 };
        [red, green, blue, alpha]
    })
}

fn enlarge(frame: &Frame, upscaler: &dyn Upscaler) -> Frame {
    let mut picture = Enlargement::new(frame.clone(), upscaler.factor()).expect("it has pixels");
    while !picture.is_complete() {
        enlarge_band(&mut picture, upscaler).expect("the CPU does not fail");
    }
    picture.into_frame()
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// Bicubic enlargement by its definition, in double precision; alpha is limited to the range around the pixel.
fn naive(frame: &Frame, factor: u32, x: u32, y: u32) -> [f64; 4] {
    let keys = |t: f64| match t.abs() {
        t if t <= 1.0 => 1.5 * t.powi(3) - 2.5 * t.powi(2) + 1.0,
        t if t < 2.0 => -0.5 * t.powi(3) + 2.5 * t.powi(2) - 4.0 * t + 2.0,
        _ => 0.0,
    };
    let taps = |output: u32, extent: u32| {
        let position = (f64::from(output) + 0.5) / f64::from(factor) - 0.5;
        (position.floor() as i64 - 1..=position.floor() as i64 + 2)
            .map(move |at| (at.clamp(0, i64::from(extent) - 1) as u32, keys(position - at as f64)))
    };
    let Size { width, height } = frame.size();
    let mut sum = [0.0; 4];
    for (row, down) in taps(y, height) {
        for (column, across) in taps(x, width) {
            for (sum, value) in sum.iter_mut().zip(frame.pixel(column, row)) {
                *sum += down * across * f64::from(value);
            }
        }
    }
    let [lowest, highest] = alpha_around(frame, x / factor, y / factor);
    sum[3] = sum[3].clamp(f64::from(lowest), f64::from(highest));
    sum.map(|value| value.clamp(0.0, 255.0))
}

fn alpha_around(frame: &Frame, x: u32, y: u32) -> [u8; 2] {
    let near = |at: u32, extent: u32| at.saturating_sub(2)..(at + 3).min(extent);
    let rows = near(y, frame.size().height);
    let alphas = rows.flat_map(|y| near(x, frame.size().width).map(move |x| frame.pixel(x, y)[3]));
    alphas.fold([255, 0], |[lowest, highest], alpha| [lowest.min(alpha), highest.max(alpha)])
}

#[test]
fn without_a_residual_the_result_is_bicubic() {
    for factor in Factor::ALL {
        for (width, height) in [(1, 1), (1, 9), (9, 1), (3, 5), (40, 23)] {
            for (kind, frame) in [("opaque", opaque(width, height)), ("clear", transparent(width, height))] {
                let large = enlarge(&frame, &ZeroResidual(factor, [16, 9]));
                let by = factor.get();
                assert_eq!(large.size(), Size::new(width * by, height * by));
                for (x, y) in (0..height * by).flat_map(|y| (0..width * by).map(move |x| (x, y))) {
                    let (expected, found) = (naive(&frame, by, x, y), large.pixel(x, y));
                    // Other tests cover colours at soft edges.
                    for channel in if kind == "opaque" { 0..4 } else { 3..4 } {
                        let off = (f64::from(found[channel]) - expected[channel]).abs();
                        assert!(off < 0.51, "{factor:?}, {kind} {width}×{height}, {channel} at {x}, {y}: {off}");
                    }
                }
            }
        }
    }
}

#[test]
fn tiles_leave_no_seam() {
    for isa in isas() {
        for factor in Factor::ALL {
            let net = net(factor, isa);
            for frame in [opaque(61, 47), transparent(61, 47)] {
                let whole = enlarge(&frame, &WithTiles(&net, [61, 47]));
                for tile in [[61, 1], [1, 47], [16, 16], [30, 7]] {
                    assert!(
                        enlarge(&frame, &WithTiles(&net, tile)).pixels() == whole.pixels(),
                        "{isa}, {factor:?}, {tile:?}"
                    );
                }
                let without = enlarge(&frame, &ZeroResidual(factor, [61, 47]));
                assert!(whole.pixels() != without.pixels(), "a residual of zero proves nothing");
            }
            // So high that one thread and five have tiles and bands of different heights.
            let high = transparent(12, 240);
            on_any_number_of_threads(isa, || enlarge(&high, &net).into_pixels());
        }
    }
}

#[test]
fn bands_are_at_most_eight_and_have_tiles_for_all_threads() {
    // With 16 tiles in a row of tiles, one row is enough for eight threads; with two tiles, eight rows are.
    for ([width, height], parallel, expected) in [
        ([2048, 2048], 8, 256),
        ([256, 4096], 8, 1024),
        ([40, 20], 64, 20),
        ([128, 1025], 1, 256),
        ([128, 1024], 1, 256),
    ] {
        let rows = band_rows([width, height], [128, 128], parallel);
        assert_eq!(rows, expected, "{width}×{height}");
        assert!(height.div_ceil(rows) <= BANDS, "{width}×{height}");
    }
}

#[test]
fn a_band_that_fails_is_computed_again() {
    /// Fails after it has written pixels.
    struct Failing<'a>(&'a CpuUpscaler);
    impl Upscaler for Failing<'_> {
        fn factor(&self) -> Factor {
            self.0.factor()
        }

        fn tile(&self, _: [usize; 2]) -> [usize; 2] {
            [64, 8]
        }

        fn rows(&self, tile: Tile, _: &Source<'_>, sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), SegmentError> {
            sink(tile.top, &vec![1.0; tile.width * 3 * 4]);
            Err(SegmentError::Device("out of memory".to_owned()))
        }
    }
    let net = net(Factor::Two, Isa::detect());
    let tiles = WithTiles(&net, [64, 8]);
    let picture = transparent(40, 200);
    let mut parts = Enlargement::new(picture.clone(), Factor::Two).expect("it has pixels");
    let mut bands = 0;
    while !parts.is_complete() {
        enlarge_band(&mut parts, &Failing(&net)).expect_err("it fails");
        enlarge_band(&mut parts, &tiles).expect("the CPU does not fail");
        bands += 1;
    }
    assert!(bands > 1, "one band proves little");
    assert!(parts.into_frame().pixels() == enlarge(&picture, &tiles).pixels());
}

#[test]
fn awkward_sizes_are_upscaled() {
    for factor in Factor::ALL {
        let net = net(factor, Isa::detect());
        for (width, height) in [(1, 1), (1, 300), (300, 1), (3, 5), (129, 33)] {
            for frame in [opaque(width, height), transparent(width, height)] {
                let by = factor.get();
                assert_eq!(enlarge(&frame, &net).size(), Size::new(width * by, height * by));
            }
        }
        let nothing = Frame::new(Size::new(0, 4), Buffer::from(Vec::new()));
        assert!(matches!(Enlargement::new(nothing, factor), Err(SegmentError::Device(_))));
    }
}

const COLOURS: [[u8; 3]; 5] = [[0, 0, 0], [255, 255, 255], [128, 128, 128], [200, 60, 30], [20, 90, 220]];

#[test]
fn a_constant_picture_stays_constant() {
    for factor in Factor::ALL {
        let net = net(factor, Isa::detect());
        for [red, green, blue] in COLOURS {
            let large = enlarge(&drawn(40, 30, |_, _| [red, green, blue, 255]), &net);
            assert!(large.pixels().as_chunks::<4>().0.iter().all(|pixel| *pixel == [red, green, blue, 255]));
        }
    }
}

#[test]
fn colours_under_alpha_0_have_no_effect_and_are_zero_in_the_result() {
    for factor in Factor::ALL {
        let net = net(factor, Isa::detect());
        let picture = transparent(64, 48);
        let mut painted = picture.clone();
        for pixel in painted.pixels_mut().as_chunks_mut::<4>().0.iter_mut().filter(|pixel| pixel[3] == 0) {
            *pixel = [255, 0, 255, 0];
        }
        let large = enlarge(&picture, &net);
        assert!(large.pixels() == enlarge(&painted, &net).pixels(), "{factor:?}: a hidden colour had an effect");
        let pixels = large.pixels().as_chunks::<4>().0;
        assert!(pixels.iter().all(|pixel| pixel[3] > 0 || *pixel == [0; 4]), "{factor:?}: colour under alpha 0");
    }
}

fn disc(side: u32, pixel: impl Fn(u32, u32, u8) -> [u8; 4]) -> Frame {
    let centre = f64::from(side) / 2.0 - 0.5;
    drawn(side, side, |x, y| {
        let from_centre = (f64::from(x) - centre).hypot(f64::from(y) - centre);
        pixel(x, y, ((f64::from(side) * 0.375 - from_centre) * 80.0 + 127.5).clamp(0.0, 255.0) as u8)
    })
}

#[test]
fn a_colour_stays_the_same_behind_a_soft_edge() {
    const COLOUR: [u8; 3] = [220, 120, 40];
    let [red, green, blue] = COLOUR;
    // Pixels of alpha 0 have another colour, which would show if it were read.
    let picture = disc(64, |_, _, alpha| if alpha == 0 { [0, 0, 255, 0] } else { [red, green, blue, alpha] });
    for factor in Factor::ALL {
        let large = enlarge(&picture, &net(factor, Isa::detect()));
        let pixels = large.pixels().as_chunks::<4>().0;
        assert!(pixels.iter().filter(|pixel| (1..255).contains(&pixel[3])).count() > 100, "there is no soft edge");
        for pixel in pixels.iter().filter(|pixel| pixel[3] > 0) {
            let worst = (0..3).map(|channel| pixel[channel].abs_diff(COLOUR[channel])).max();
            assert!(worst <= Some(1), "{factor:?}: {pixel:?} is off by {worst:?}");
        }
    }
}

#[test]
fn half_transparent_pictures_are_as_sharp_as_opaque_ones() {
    let net = net(Factor::Two, Isa::detect());
    let half = drawn(50, 40, |x, y| {
        let [red, green, blue] = texture(x, y);
        [red, green, blue, 100]
    });
    let (half, whole) = (enlarge(&half, &net), enlarge(&opaque(50, 40), &net));
    for (half, whole) in half.pixels().as_chunks::<4>().0.iter().zip(whole.pixels().as_chunks::<4>().0) {
        assert_eq!((half[..3].to_vec(), half[3]), (whole[..3].to_vec(), 100));
    }
}

#[test]
fn a_shadow_next_to_its_subject_keeps_its_colour() {
    let picture = drawn(40, 40, |x, _| if x < 20 { [220, 30, 30, 255] } else { [0, 0, 0, 120] });
    let colours = OpaqueColours::new(&Picture::new(&picture), Tile { left: 0, top: 0, width: 40, height: 40 });
    assert!((20..40).all(|x| colours.colour(20, x) == [0.0; 3]));
}

#[test]
fn the_faint_end_of_an_edge_takes_surrounding_colours() {
    let picture = disc(40, |_, _, alpha| if alpha < 30 { [255, 0, 255, alpha.min(1)] } else { [30, 160, 60, alpha] });
    let colours = OpaqueColours::new(&Picture::new(&picture), Tile { left: 0, top: 0, width: 40, height: 40 });
    for (x, y) in (0..40).flat_map(|y| (0..40).map(move |x| (x, y))) {
        let far = picture.pixel(x, y)[3] == 0 && (x.min(y) < 2 || x.max(y) > 37);
        let expected = [30.0, 160.0, 60.0].map(|value: f32| value / 255.0);
        let off =
            colours.colour(y as isize, x as isize).iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 0.1 || far, "{x}, {y}: {off}");
    }
}
