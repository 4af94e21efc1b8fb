//! Multi-head self-attention over all positions of a plane (Vaswani et al., "Attention Is All You Need", NeurIPS 2017).

use super::dispatch::{Kernels, kernels};
use super::micro_kernel::AttentionHead;
use super::{Isa, Plane, scratch};

/// Self-attention: `y_i = Σ_j softmax_j(q_i · k_j / √d) · v_j` for each position i and each head of d channels.
pub struct Attention {
    kernels: &'static Kernels,
    heads: usize,
}

impl Attention {
    /// Attention of `heads` heads on `isa`.
    ///
    /// # Panics
    /// When the machine lacks `isa`.
    #[must_use]
    pub fn new(isa: Isa, heads: usize) -> Self {
        Self { kernels: kernels(isa), heads }
    }

    /// `qkv` holds at each position the queries, the keys and the values, each with the channels of `output`, head
    /// after head. Runs on one thread, because the planes are small (12×12).
    ///
    /// # Panics
    /// When the planes do not match or are padded, or the heads do not divide the channels.
    pub fn run(&self, qkv: &Plane, output: &mut Plane) {
        let (from, to) = (qkv.shape(), output.shape());
        assert_eq!((from.height, from.width, from.channels), (to.height, to.width, 3 * to.channels), "another shape");
        assert_eq!((from.pad, to.pad, to.channels % self.heads), (0, 0, 0), "padded, or heads of unequal width");
        let (positions, channels) = (from.height * from.width, to.channels);
        scratch::with((channels + 1) * positions, |values| {
            let (keys, weights) = values.split_at_mut(channels * positions);
            for (position, pixel) in qkv.data().chunks_exact(3 * channels).enumerate() {
                for (channel, &key) in pixel[channels..2 * channels].iter().enumerate() {
                    keys[channel * positions + position] = key;
                }
            }
            let width = channels / self.heads;
            for (head, keys) in keys.chunks_exact(width * positions).enumerate() {
                let head = AttentionHead { qkv: qkv.data(), keys, channels, first: head * width, width };
                // SAFETY: the machine has the instruction set (checked by `new`).
                unsafe { (self.kernels.attention)(&head, weights, output.data_mut()) };
            }
        });
    }
}

impl std::fmt::Debug for Attention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attention").field("heads", &self.heads).finish_non_exhaustive()
    }
}
