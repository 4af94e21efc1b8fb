//! Fuzz target: the cost computed from the item tables covers everything that libheif decodes.

use super::cost::Cost;
use super::counting_decoder::{self, Counts, counts_of};
use super::{decode, item_graph};
use crate::codec::Limits;

/// Small limits, so that the canvases of grids and overlays take little time.
const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_side: 256, max_megapixels: 1 };
/// Padding of a coded picture in pixels: one coding block (64) along two borders of the largest picture.
const PADDING: u64 = 2 * 64 * (256 + 64);

/// Decodes a file of accepted cost with the counting decoder and compares the counts with the cost.
///
/// # Panics
/// When libheif decodes more pictures, bytes or pixels than the cost has.
pub fn cost_covers_what_libheif_decodes(bytes: &[u8]) {
    if let Some((cost, counted)) = both(bytes) {
        assert_covered(&cost, &counted, PADDING);
    }
}

fn assert_covered(cost: &Cost, counted: &Counts, padding: u64) {
    assert!(counted.pictures <= cost.visits, "{counted:?} in place of {cost:?}");
    assert!(counted.bytes <= cost.bytes, "{counted:?} in place of {cost:?}");
    assert!(counted.pixels <= cost.coded + counted.pictures as u64 * padding, "{counted:?} in place of {cost:?}");
}

/// As [`cost_covers_what_libheif_decodes`], for a generated file whose items `bytes` select. Its pictures have no
/// padding, which could hide pixels missing from the cost.
///
/// # Panics
/// When libheif decodes more than the cost has.
pub fn cost_covers_what_libheif_decodes_of_items(bytes: &[u8]) {
    if let Some((cost, counted)) = item_graph::file(bytes).and_then(|file| both(&file)) {
        assert_covered(&cost, &counted, 0);
    }
}

/// The cost of a file and the counts of its decode; `None` if it is refused.
fn both(bytes: &[u8]) -> Option<(Cost, Counts)> {
    let cost = Cost::of(bytes, &LIMITS).ok()?;
    let counted = counts_of(|| {
        let Ok(context) = decode::context(bytes, &LIMITS, &|| false) else { return };
        let Ok(handle) = decode::primary(&context) else { return };
        drop(decode::decode_with(&handle, Some(counting_decoder::NAME)));
    });
    Some((cost, counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_accepted_and_decoded_with_their_alphas_and_parts() {
        use rand::{Rng, SeedableRng};
        let mut random = rand::rngs::SmallRng::seed_from_u64(1);
        let (mut accepted, mut most) = (0, 0);
        for _ in 0..10_000 {
            let bytes: [u8; 128] = random.random();
            let file = item_graph::file(&bytes).expect("enough bytes");
            if let Some((cost, counted)) = both(&file) {
                assert_covered(&cost, &counted, 0);
                accepted += 1;
                most = most.max(counted.pictures);
            }
        }
        assert!(accepted > 1000 && most >= 4, "{accepted} of 10,000 are accepted, with up to {most} pictures");
    }

    #[test]
    fn generated_files_with_two_primary_pictures_are_refused() {
        // One coded picture, named as primary twice.
        let cost = |duplicate| Cost::of(&item_graph::file(&[0, 0, 0, duplicate]).expect("enough bytes"), &LIMITS);
        assert!(cost(0).is_ok());
        for (duplicate, reason) in [(1, "two pitm boxes"), (2, "two meta boxes")] {
            let refused = cost(duplicate).expect_err("ambiguous").to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    #[should_panic(expected = "in place of")]
    fn an_alpha_whose_pixels_do_not_count_is_found() {
        // Three coded pictures; the second is the alpha of the others. libheif refuses a repeated reference.
        let file = item_graph::file(&[2, 0, 0, 0, 0, 0, 0, 0, 2, 2]).expect("enough bytes");
        let (mut cost, counted) = both(&file).expect("accepted");
        assert_eq!(counted.pictures, 2);
        cost.coded = counted.pixels / 2;
        assert_covered(&cost, &counted, 0);
    }

    #[test]
    fn all_pictures_that_libheif_decodes_are_counted() {
        for (name, pictures) in [("plain", 1), ("grid", 4), ("alpha", 2)] {
            let path = format!("{}/tests/fixtures/codec/{name}.heic", env!("CARGO_MANIFEST_DIR"));
            let (cost, counted) = both(&std::fs::read(path).expect("a fixture")).expect("accepted");
            assert_eq!(counted.pictures, pictures, "{name}: {counted:?}, {cost:?}");
            assert!(counted.bytes > 0 && counted.bytes <= cost.bytes, "{name}: {counted:?}, {cost:?}");
            assert!(counted.pixels >= cost.coded, "{name}: {counted:?}, {cost:?}");
        }
    }
}
