//! Kinds of a subject's outline (opaque, hair, transparent, thin) with their probabilities.

/// Probabilities of the kinds of outline in a picture; their sum is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdgeKinds {
    /// A sharp outline around an opaque surface: goods, vehicles, garments.
    pub opaque: f32,
    /// Hair, fur or feathers; people.
    pub hair: f32,
    /// The background shows through: glass, water, film.
    pub transparent: f32,
    /// Parts of a few pixels with background between them: wheels with spokes, legs of chairs, branches, antennae.
    pub thin: f32,
}

impl EdgeKinds {
    /// Number of kinds.
    pub const COUNT: usize = 4;

    /// Softmax of `logits`, which are in the order of the fields.
    #[must_use]
    pub fn of_logits(logits: [f32; Self::COUNT]) -> Self {
        // Subtracting the largest keeps the exponentials finite.
        let largest = logits.into_iter().fold(f32::NEG_INFINITY, f32::max);
        let powers = logits.map(|logit| (logit - largest).exp());
        let sum: f32 = powers.iter().sum();
        let [opaque, hair, transparent, thin] = powers.map(|power| power / sum);
        Self { opaque, hair, transparent, thin }
    }

    /// The probabilities in the order of the fields.
    #[must_use]
    pub const fn values(&self) -> [f32; Self::COUNT] {
        [self.opaque, self.hair, self.transparent, self.thin]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_to_one_whatever_the_logits() {
        assert_eq!(EdgeKinds::of_logits([0.0; 4]).values(), [0.25; 4]);
        let EdgeKinds { opaque, hair, transparent, thin } = EdgeKinds::of_logits([1000.0, 999.0, -1000.0, -2000.0]);
        assert!((opaque - 0.731).abs() < 1e-3 && (opaque + hair - 1.0).abs() < 1e-6, "{opaque} {hair}");
        assert_eq!([transparent, thin], [0.0; 2]);
    }
}
