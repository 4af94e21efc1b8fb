//! Tests of the network input: the definition in double precision, and OpenCV's recorded output.

use super::cpu::model_input;

fn run(pixels: &[u8], width: usize, height: usize, side: usize) -> Vec<f32> {
    let mut output = vec![0.0; side * side * 3];
    model_input(pixels, width, height, side, 0, &mut output);
    output
}

/// The definition in double precision, with weights of every source pixel along each axis.
fn naive(pixels: &[u8], width: usize, height: usize, side: usize) -> Vec<f64> {
    let weights = |extent: usize, target: usize| -> Vec<f64> {
        let ratio = extent as f64 / side as f64;
        (0..extent)
            .map(|source| {
                if extent > side {
                    let (low, high) = (target as f64 * ratio, (target + 1) as f64 * ratio);
                    ((source as f64 + 1.0).min(high) - (source as f64).max(low)).max(0.0) / ratio
                } else {
                    let centre = ((target as f64 + 0.5) * ratio - 0.5).clamp(0.0, (extent - 1) as f64);
                    (1.0 - (centre - source as f64).abs()).max(0.0)
                }
            })
            .collect()
    };
    let mut output = Vec::new();
    for y in 0..side {
        let rows = weights(height, y);
        for x in 0..side {
            let columns = weights(width, x);
            for channel in 0..3 {
                let mut sum = 0.0;
                for (sy, row) in rows.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                    for (sx, column) in columns.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                        let pixel = &pixels[(sy * width + sx) * 4..][..4];
                        let alpha = f64::from(pixel[3]);
                        let opaque = ((f64::from(pixel[channel]) * alpha + 255.0 * (255.0 - alpha)) / 255.0).round();
                        sum += row * column * opaque;
                    }
                }
                output.push(sum / 127.5 - 1.0);
            }
        }
    }
    output
}

fn noise(width: usize, height: usize, opaque: bool) -> Vec<u8> {
    let mut state = 7_u32;
    let mut bytes: Vec<u8> = (0..width * height * 4)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    if opaque {
        for pixel in bytes.as_chunks_mut::<4>().0 {
            pixel[3] = 255;
        }
    }
    bytes
}

fn worst(actual: &[f32], expected: &[f64]) -> f64 {
    actual.iter().zip(expected).map(|(&a, e)| (f64::from(a) - e).abs()).fold(0.0, f64::max)
}

#[test]
fn every_combination_of_shrinking_and_growing_matches_the_definition() {
    for (width, height) in [(1, 1), (1, 300), (300, 1), (12, 12), (13, 12), (47, 5), (5, 47), (101, 67), (24, 36)] {
        for opaque in [true, false] {
            let pixels = noise(width, height, opaque);
            let difference = worst(&run(&pixels, width, height, 12), &naive(&pixels, width, height, 12));
            assert!(difference < 1e-5, "{width}×{height}, opaque: {opaque}: {difference:e}");
        }
    }
}

#[test]
fn a_span_of_more_rows_than_sixteen_bits_hold_still_averages() {
    let (width, height) = (2, 3000);
    let pixels = vec![255_u8; width * height * 4];
    assert!(run(&pixels, width, height, 2).iter().all(|&value| (value - 1.0).abs() < 1e-5));
}

#[test]
fn padding_is_not_written() {
    let pixels = noise(9, 9, true);
    let mut output = vec![7.0; 4 * 6 * 3];
    model_input(&pixels, 9, 9, 4, 1, &mut output);
    let packed = run(&pixels, 9, 9, 4);
    for (row, expected) in output.chunks_exact(18).zip(packed.chunks_exact(12)) {
        assert_eq!(row[..3], [7.0; 3]);
        assert_eq!(row[3..15], *expected);
        assert_eq!(row[15..], [7.0; 3]);
    }
}

/// As `picture` in `record.py`, with alpha.
fn recorded_picture(width: usize, height: usize) -> Vec<u8> {
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            pixels.extend([x * 37 + y * 11, x * x + 3 * y, x * 5 + y * y * 7].map(|value| (value % 256) as u8));
            pixels.push(255);
        }
    }
    pixels
}

/// The largest difference from OpenCV's result, in levels of 255.
fn levels_from_opencv(actual: &[f32], recorded: &[u8]) -> f64 {
    let expected: Vec<f64> = recorded.iter().map(|&value| f64::from(value) / 127.5 - 1.0).collect();
    assert_eq!(actual.len(), expected.len());
    worst(actual, &expected) * 127.5
}

#[test]
fn both_filters_agree_with_opencv_to_its_rounding() {
    let recorded: [(usize, usize, &[u8]); 4] = [
        (101, 67, include_bytes!("../../tests/reference/model_input/101x67.rgb")),
        (48, 64, include_bytes!("../../tests/reference/model_input/48x64.rgb")),
        (9, 13, include_bytes!("../../tests/reference/model_input/9x13.rgb")),
        (16, 16, include_bytes!("../../tests/reference/model_input/16x16.rgb")),
    ];
    for (width, height, recorded) in recorded {
        let actual = run(&recorded_picture(width, height), width, height, 16);
        let levels = levels_from_opencv(&actual, recorded);
        // Half a level of rounding; OpenCV's linear filter also drops bits between columns and rows.
        assert!(levels < 0.75, "{width}×{height}: {levels} levels");
        let mirrored = run(&recorded_picture(width, height), width, height, 16).into_iter().rev().collect::<Vec<_>>();
        assert!(
            levels_from_opencv(&mirrored, recorded) > 10.0,
            "{width}×{height}: the comparison accepted a wrong result"
        );
    }
}
