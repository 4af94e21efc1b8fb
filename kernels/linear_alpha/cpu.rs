//! Linear alpha on the CPU, of one pixel.
//!
//! The table is [`linear_of_encoded8`]; the one computed in 64 bits differs in the last bit of most values.

use super::ALIKE;
use crate::srgb::linear_of_encoded8;
use std::sync::LazyLock;

static LIGHT: LazyLock<&[f32; 256]> = LazyLock::new(linear_of_encoded8);

/// The coverage of a partly covered pixel, 1 to 254. `coverage` was solved in encoded values; the colours are the
/// pixel's subject and background. Similar colours leave it unchanged.
#[must_use]
pub fn coverage(coverage: u8, [subject, background]: [[u8; 3]; 2]) -> u8 {
    let alpha = f32::from(coverage) / 255.0;
    let (mut along, mut length) = (0.0, 0.0);
    for (&subject, &background) in subject.iter().zip(&background) {
        let mixed = light_of(f32::from(subject) * alpha + f32::from(background) * (1.0 - alpha));
        let [subject, background] = [subject, background].map(|value| LIGHT[usize::from(value)]);
        along += (mixed - background) * (subject - background);
        length += (subject - background) * (subject - background);
    }
    let in_light = (along + ALIKE * alpha) / (length + ALIKE);
    (((alpha + in_light) / 2.0 * 255.0 + 0.5) as u8).clamp(1, 254)
}

/// Linear light of an encoded value between 0 and 255, by linear interpolation.
fn light_of(encoded: f32) -> f32 {
    let below = LIGHT[encoded as usize];
    let above = LIGHT[(encoded as usize + 1).min(255)];
    below + (above - below) * encoded.fract()
}

#[cfg(test)]
mod tests {
    use super::coverage;

    const BLACK: [u8; 3] = [0; 3];
    const WHITE: [u8; 3] = [255; 3];

    #[test]
    fn a_dark_subject_before_white_covers_more_than_in_encoded_values_and_a_bright_one_before_black_less() {
        // Half of each in light reads 188: a coverage of 67 of 255, or of 188, in place of 128. The result is the mean.
        assert_eq!(coverage(67, [BLACK, WHITE]), 97);
        assert_eq!(coverage(188, [WHITE, BLACK]), 158);
    }

    #[test]
    fn similar_colours_change_nothing() {
        for alpha in 1..=254 {
            assert_eq!(coverage(alpha, [[90, 120, 30]; 2]), alpha);
            assert!(coverage(alpha, [[90, 120, 30], [92, 118, 31]]).abs_diff(alpha) <= 1);
        }
    }

    #[test]
    fn the_correction_is_monotonic_and_keeps_partial_coverage_partial() {
        for colours in [[BLACK, WHITE], [WHITE, BLACK], [[200, 40, 30], [20, 90, 220]], [[255, 255, 0], [0, 0, 255]]] {
            let found: Vec<u8> = (1..=254).map(|alpha| coverage(alpha, colours)).collect();
            assert!(found.is_sorted(), "{colours:?}: {found:?}");
            assert!(found.iter().all(|value| (1..=254).contains(value)), "{colours:?}");
        }
    }
}
