//! The face restoration network "restore" on the CPU kernels: from an aligned face to the residual to add.

use std::sync::{Mutex, PoisonError};

use backdrop_kernels::conv::{Activation, Dense, Isa, Plane, Residual, Shape};

use super::FACE_SIDE;
use super::pack::Packer;
use super::weights::architecture::Architecture;
use super::weights::architecture::restore::{CHANNELS, encoder_pairs};
use super::weights::{Weights, WeightsError};

#[derive(Debug)]
pub(super) struct CpuRestorer {
    /// Down to 1/2, 1/4 and 1/8 of the face's side.
    encoder: [Stage; 3],
    /// Up to 1/4 and 1/2.
    decoder: [Fusion; 2],
    out: Dense,
    /// Unused working memory. Never more than the number of faces that were processed simultaneously.
    idle: Mutex<Vec<Arena>>,
}

/// Halves the side, then refines.
#[derive(Debug)]
struct Stage {
    down: Dense,
    pairs: Vec<Pair>,
}

/// Doubles the side of the coarser level, adds it to the encoder's output at that scale, then refines.
#[derive(Debug)]
struct Fusion {
    lateral: Dense,
    up: Dense,
    pair: Pair,
}

/// `max(x + b(max(a(x), 0)), 0)`.
#[derive(Debug)]
struct Pair {
    a: Dense,
    b: Dense,
}

#[derive(Debug)]
struct Arena {
    input: Plane,
    levels: [ScaleBuffers; 3],
    /// The coarser level with the finer level's number of channels, at 1/4 and 1/8.
    lifted: [Plane; 2],
    output: Plane,
}

/// At one scale: the current result, and memory for the next.
#[derive(Debug)]
struct ScaleBuffers {
    now: Plane,
    hidden: Plane,
    next: Plane,
}

impl ScaleBuffers {
    fn refine(&mut self, pair: &Pair) {
        pair.a.run(&self.now, Residual::None, &mut self.hidden);
        pair.b.run(&self.hidden, Residual::Same(&self.now), &mut self.next);
        self.advance();
    }

    fn advance(&mut self) {
        std::mem::swap(&mut self.now, &mut self.next);
    }
}

impl Arena {
    fn new() -> Self {
        let level = |index: usize| {
            let side = FACE_SIDE >> (index + 1);
            let plane = || Plane::new(Shape::new(side, side, CHANNELS[index], 1));
            ScaleBuffers { now: plane(), hidden: plane(), next: plane() }
        };
        let lifted = |index: usize| {
            let side = FACE_SIDE >> (index + 2);
            Plane::new(Shape::new(side, side, CHANNELS[index], 0))
        };
        let half = FACE_SIDE / 2;
        Self {
            input: Plane::new(Shape::new(FACE_SIDE, FACE_SIDE, 3, 1)),
            levels: std::array::from_fn(level),
            lifted: std::array::from_fn(lifted),
            output: Plane::new(Shape::new(half, half, 12, 0)),
        }
    }
}

impl CpuRestorer {
    /// Packs `weights` for `isa`.
    ///
    /// # Errors
    /// When they are for another network.
    ///
    /// # Panics
    /// When this machine lacks `isa`.
    pub(super) fn new(weights: &Weights, isa: Isa) -> Result<Self, WeightsError> {
        weights.card().require(Architecture::Restore)?;
        let pack = Packer { isa, weights };
        let pair = |name: &str| {
            let half = |part: &str| pack.dense(&format!("{name}.{part}"), 3, 1, Activation::Relu);
            Ok::<_, WeightsError>(Pair { a: half("a")?, b: half("b")? })
        };
        let stage = |level: usize| {
            let pairs = encoder_pairs(level);
            Ok::<_, WeightsError>(Stage {
                down: pack.dense(&format!("down{}", level + 1), 3, 2, Activation::Relu)?,
                pairs: pairs.iter().map(|name| pair(name)).collect::<Result<_, _>>()?,
            })
        };
        let fusion = |scale: usize| {
            Ok::<_, WeightsError>(Fusion {
                // The sum of both is activated together with this output.
                lateral: pack.dense(&format!("lat{scale}"), 1, 1, Activation::Relu)?,
                up: pack.dense(&format!("up{}", scale + 1), 1, 1, Activation::Linear)?,
                pair: pair(&format!("dec{scale}"))?,
            })
        };
        Ok(Self {
            encoder: [stage(0)?, stage(1)?, stage(2)?],
            decoder: [fusion(2)?, fusion(1)?],
            out: pack.dense("out", 3, 1, Activation::Linear)?,
            idle: Mutex::default(),
        })
    }

    /// The residual to add to `face`, `FACE_SIDE` rows of `FACE_SIDE` pixels.
    ///
    /// # Panics
    /// When `face` has another number of pixels.
    #[must_use]
    pub(super) fn run(&self, face: &[[f32; 3]]) -> Vec<[f32; 3]> {
        assert_eq!(face.len(), FACE_SIDE * FACE_SIDE, "a face of another size");
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut arena = idle.unwrap_or_else(Arena::new);
        let shape = arena.input.shape();
        let rows = arena.input.data_mut().chunks_exact_mut(shape.row()).zip(face.chunks_exact(FACE_SIDE));
        for (row, pixels) in rows {
            row[shape.margin()..][..3 * FACE_SIDE].copy_from_slice(pixels.as_flattened());
        }
        self.compute(&mut arena);
        let added = shuffled(&arena.output);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(arena);
        added
    }

    fn compute(&self, arena: &mut Arena) {
        for (index, stage) in self.encoder.iter().enumerate() {
            let (before, after) = arena.levels.split_at_mut(index);
            let input = before.last().map_or(&arena.input, |level| &level.now);
            stage.down.run(input, Residual::None, &mut after[0].now);
            stage.pairs.iter().for_each(|pair| after[0].refine(pair));
        }
        for (fusion, finer) in self.decoder.iter().zip([1, 0]) {
            let (fine, coarse) = arena.levels.split_at_mut(finer + 1);
            let (level, lifted) = (&mut fine[finer], &mut arena.lifted[finer]);
            fusion.up.run(&coarse[0].now, Residual::None, lifted);
            fusion.lateral.run(&level.now, Residual::Upsampled(lifted), &mut level.next);
            level.advance();
            level.refine(&fusion.pair);
        }
        self.out.run(&arena.levels[0].now, Residual::None, &mut arena.output);
    }
}

/// Pixel shuffle: twelve channels become two by two pixels of three (PyTorch's order: channel `4 · colour + 2 · row + column`).
fn shuffled(plane: &Plane) -> Vec<[f32; 3]> {
    let Shape { width, .. } = plane.shape();
    let mut pixels = Vec::with_capacity(4 * plane.shape().len() / 12);
    for row in plane.data().chunks_exact(width * 12) {
        for dy in 0..2 {
            let places = row.as_chunks::<12>().0.iter();
            pixels
                .extend(places.flat_map(|place| [0, 1].map(|dx| [0, 4, 8].map(|colour| place[colour + 2 * dy + dx]))));
        }
    }
    pixels
}
