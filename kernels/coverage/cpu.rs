//! Coverage of packed pictures on the CPU, in words: the GPU twin's reference.

/// The alpha of each pixel of `row`, four to a word; unused bytes of the last word are 0.
pub fn bytes(row: &[u32]) -> impl Iterator<Item = u32> + '_ {
    row.chunks(4).map(|pixels| pixels.iter().zip(0..).fold(0, |word, (pixel, at)| word | (pixel >> 24) << (8 * at)))
}

/// First pixel of `row` with coverage of at least `least`, and the one after the last; 0 and 0 without any.
#[must_use]
pub fn extent(row: &[u32], least: u32) -> [u32; 2] {
    let is_covered = |pixel: &u32| pixel >> 24 >= least;
    let ends = row.iter().position(is_covered).zip(row.iter().rposition(is_covered));
    ends.map_or([0, 0], |(first, last)| [first as u32, last as u32 + 1])
}

/// `pixel` with its coverage limited to `most`.
#[must_use]
pub fn clipped(pixel: u32, most: u32) -> u32 {
    pixel & 0x00ff_ffff | (pixel >> 24).min(most) << 24
}

/// Applies `fills`, words of [`Fill`](super::Fill)s, to `pixels`, with the colours of `source`.
///
/// # Panics
/// When a fill lies outside of the picture.
pub fn fill(pixels: &mut [u32], source: &[u32], fills: &[u32]) {
    for fill in fills {
        let at = (fill >> 1) as usize;
        pixels[at] = if fill & 1 == 1 { source[at] | 0xff00_0000 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Fill;

    const ROW: [u32; 6] = [0x0711_2233, 0x0811_2233, 0x0000_0001, 0xff00_0000, 0x0800_0000, 0x0700_0000];

    #[test]
    fn alpha_is_packed_in_order() {
        assert_eq!(bytes(&ROW).collect::<Vec<_>>(), [0xff00_0807, 0x0000_0708]);
    }

    #[test]
    fn an_extent_reaches_from_the_first_to_the_last_covered_pixel() {
        assert_eq!([extent(&ROW, 8), extent(&ROW, 255), extent(&ROW[4..], 9)], [[1, 5], [3, 4], [0, 0]]);
    }

    #[test]
    fn pixels_are_clipped_and_filled() {
        assert_eq!([clipped(ROW[0], 3), clipped(ROW[0], 9)], [0x0311_2233, ROW[0]]);
        let fills = [Fill { at: 1, opaque: true }, Fill { at: 3, opaque: false }].map(Fill::word);
        let mut pixels = ROW;
        fill(&mut pixels, &[5; 6], &fills);
        assert_eq!(pixels, [ROW[0], 0xff00_0005, ROW[2], 0, ROW[4], ROW[5]]);
    }
}
