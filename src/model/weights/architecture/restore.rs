//! The tensors of the face restoration network "restore".
//!
//! An encoder and a decoder of plain convolutions with sums between them (Ronneberger et al., "U-Net: Convolutional
//! Networks for Biomedical Image Segmentation", MICCAI 2015, with additions in place of concatenations). Input: an
//! aligned face. Output: the residual to add to it.

use super::Convolution;

/// Channels at 1/2, 1/4 and 1/8 of the face's side.
pub const CHANNELS: [usize; 3] = [32, 64, 96];

/// Residual pairs of the encoder at 1/2, 1/4 and 1/8.
pub const PAIRS: [usize; 3] = [1, 2, 3];

/// The residual pairs of the encoder at `level` (0 to 2).
#[must_use]
pub fn encoder_pairs(level: usize) -> Vec<String> {
    let scale = level + 1;
    // A single pair is not numbered.
    if PAIRS[level] == 1 {
        return vec![format!("enc{scale}")];
    }
    (0..PAIRS[level]).map(|pair| format!("enc{scale}.{pair}")).collect()
}

/// Every convolution, in the order data flows through them.
#[must_use]
pub fn convolutions() -> Vec<Convolution> {
    let mut list = Vec::new();
    let mut add = |name: &str, channels_in: usize, channels_out: usize, size: usize| {
        list.push(Convolution::new(name, channels_in, channels_out, size));
    };
    let mut channels_in = 3;
    for (level, channels) in CHANNELS.into_iter().enumerate() {
        add(&format!("down{}", level + 1), channels_in, channels, 3);
        for pair in encoder_pairs(level) {
            add(&format!("{pair}.a"), channels, channels, 3);
            add(&format!("{pair}.b"), channels, channels, 3);
        }
        channels_in = channels;
    }
    for level in [1, 0] {
        let (scale, channels) = (level + 1, CHANNELS[level]);
        add(&format!("lat{scale}"), channels, channels, 1);
        add(&format!("up{}", scale + 1), CHANNELS[level + 1], channels, 1);
        add(&format!("dec{scale}.a"), channels, channels, 3);
        add(&format!("dec{scale}.b"), channels, channels, 3);
    }
    add("out", CHANNELS[0], 3 * 4, 3);
    list
}
