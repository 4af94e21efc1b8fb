//! The segmentation network "fgnet" on the CPU kernels: from floats to a mask and the means of the deepest features.
//!
//! An encoder of inverted residuals down to 1/32 of the side; context by a global mean, dilated convolutions and
//! attention; then a light pyramid up: at each scale the coarser features, doubled, are added to the encoder's, and
//! refined. The last two doublings are pixel shuffles, so no wide activation is computed at full resolution.

use backdrop_kernels::conv::{
    Activation, Attention, Dense, Depthwise, Head, InvertedResidual, Isa, Plane, Residual, Separable, Shape,
    ShuffledPair, add_channels_relu, global_average,
};

use super::guide_cpu::{Guide, GuidePlanes};
use crate::image::Hints;
use crate::model::pack::Packer;
use crate::model::weights::architecture::Architecture;
use crate::model::weights::architecture::edge::FEATURES;
use crate::model::weights::architecture::fgnet::{self, CONTEXT_DILATIONS, DECODER, HEADS, STEM, TAPS};
use crate::model::weights::{Weights, WeightsError};

/// The network, packed for one instruction set. Shared by all threads; each [`Arena`] holds one picture's activations.
#[derive(Debug)]
pub(super) struct FgNet {
    side: usize,
    /// The stem is the expansion of the first block.
    encoder: Vec<InvertedResidual>,
    in5: Dense,
    global: Dense,
    context: Vec<Separable>,
    qkv: Dense,
    attention: Attention,
    project: Dense,
    top5: Dense,
    lateral4: Dense,
    refine4: [Separable; 2],
    lateral3: Dense,
    refine3: [Separable; 2],
    top3: Dense,
    lateral2: Dense,
    refine2: [Dense; 2],
    shuffle1: ShuffledPair,
    refine1: Dense,
    head: Head,
    /// Of the guided network.
    guide: Option<Guide>,
}

/// All activations of one picture; reused.
#[derive(Debug)]
pub(super) struct Arena {
    /// The network's input: side × side × 3, padded by one pixel.
    input: Plane,
    /// The expanded plane of the current block, if it is small enough to be stored.
    expanded: Plane,
    encoder: Vec<Plane>,
    features: Plane,
    mean: Plane,
    global: Plane,
    /// The context's input, and the result of each of its blocks.
    context: Vec<Plane>,
    /// Queries, keys and values of the attention, its result, and the sum with its input.
    qkv: Plane,
    attended: Plane,
    deepest: Plane,
    top5: Plane,
    /// At 1/16 and 1/8: the sum, and the result of each refinement.
    scale4: Vec<Plane>,
    scale3: Vec<Plane>,
    top3: Plane,
    /// At 1/4: the sum, and the result of each refinement.
    scale2: Vec<Plane>,
    sum1: Plane,
    refined1: Plane,
    guide: Option<GuidePlanes>,
}

/// Reads the convolutions, whose names end in `.conv` as in training.
struct Convolutions<'a>(Packer<'a>);

impl Convolutions<'_> {
    fn dense(&self, module: &str, size: usize, stride: usize, activation: Activation) -> Result<Dense, WeightsError> {
        self.0.dense(&format!("{module}.conv"), size, stride, activation)
    }

    fn depthwise(&self, module: &str, stride: usize, activation: Activation) -> Result<Depthwise, WeightsError> {
        self.0.depthwise(&format!("{module}.conv"), stride, 1, activation)
    }

    fn refinement(&self, module: &str, dilation: usize) -> Result<Separable, WeightsError> {
        let [depthwise, pointwise] = ["dw", "pw"].map(|part| format!("{module}.{part}.conv"));
        self.0.refinement([&depthwise, &pointwise], dilation)
    }
}

impl FgNet {
    /// Packs `weights` for `isa`.
    ///
    /// # Errors
    /// When they are for another network.
    ///
    /// # Panics
    /// When this machine lacks `isa`.
    pub(super) fn new(weights: &Weights, isa: Isa) -> Result<Self, WeightsError> {
        let side = weights.card().input_side()?;
        let pack = Convolutions(Packer { isa, weights });
        let mut encoder = Vec::new();
        for (index, block) in fgnet::blocks().into_iter().enumerate() {
            let name = |part: &str| format!("enc.blocks.{index}.{part}");
            // The first block has no expansion. The stem before it has the channels of its depthwise convolution and is
            // fused as an expansion, so that the stem's 4.7 MB never reach memory.
            let expand = if block.expands() {
                pack.dense(&name("expand"), 1, 1, Activation::Relu6)?
            } else {
                assert!(index == 0 && block.hidden == STEM, "only the first block expands nothing");
                pack.dense("enc.stem", 3, 2, Activation::Relu6)?
            };
            let depthwise = pack.depthwise(&name("dw"), block.stride, Activation::Relu6)?;
            let project = pack.dense(&name("project"), 1, 1, Activation::Linear)?;
            encoder.push(InvertedResidual::new(expand, Separable::new(depthwise, project), block.is_residual()));
        }
        let context = CONTEXT_DILATIONS.into_iter().enumerate();
        let context = context.map(|(index, dilation)| pack.refinement(&format!("ctx.{index}"), dilation));
        let (coarse, [coarse_channels, _]) = pack.0.filter("up2.conv")?;
        let (fine, [fine_channels, _]) = pack.0.filter("lat1.conv")?;
        let (head, [head_channels, _]) = pack.0.filter("head")?;
        Ok(Self {
            side,
            encoder,
            in5: pack.dense("in5", 1, 1, Activation::Relu)?,
            global: pack.dense("gp", 1, 1, Activation::Linear)?,
            context: context.collect::<Result<_, _>>()?,
            qkv: pack.0.dense("attention.qkv", 1, 1, Activation::Linear)?,
            attention: Attention::new(isa, HEADS),
            project: pack.0.dense("attention.project", 1, 1, Activation::Linear)?,
            top5: pack.dense("top5", 1, 1, Activation::Linear)?,
            lateral4: pack.dense("lat4", 1, 1, Activation::Relu)?,
            refine4: [pack.refinement("d4.0", 1)?, pack.refinement("d4.1", 2)?],
            lateral3: pack.dense("lat3", 1, 1, Activation::Relu)?,
            refine3: [pack.refinement("d3.0", 1)?, pack.refinement("d3.1", 1)?],
            top3: pack.dense("top3", 1, 1, Activation::Linear)?,
            lateral2: pack.dense("lat2", 1, 1, Activation::Relu)?,
            refine2: [pack.dense("d2.0", 3, 1, Activation::Relu)?, pack.dense("d2.1", 3, 1, Activation::Relu)?],
            shuffle1: ShuffledPair::new(
                isa,
                coarse_channels,
                coarse,
                fine_channels,
                fine,
                DECODER[0],
                Activation::Relu,
            ),
            refine1: pack.dense("d1", 3, 1, Activation::Relu)?,
            head: Head::new(isa, head_channels, head),
            guide: (weights.card().network.architecture() == Architecture::Guided)
                .then(|| Guide::new(pack.0))
                .transpose()?,
        })
    }

    pub(super) const fn side(&self) -> usize {
        self.side
    }

    pub(super) fn arena(&self) -> Arena {
        let side = self.side;
        let [c1, c2, c3, c4, c5] = DECODER;
        let plane = |scale: usize, channels: usize, pad: usize| {
            Plane::new(Shape::new(side / scale, side / scale, channels, pad))
        };
        let mut encoder: Vec<Plane> = Vec::new();
        let input = plane(1, 3, 1);
        for block in &self.encoder {
            let before = encoder.last().unwrap_or(&input).shape();
            encoder.push(Plane::new(block.output_shape(before, 0)));
        }
        let single = |channels: usize| Plane::new(Shape::new(1, 1, channels, 0));
        Arena {
            input,
            expanded: Plane::new(Shape::new(0, 0, 0, 0)),
            encoder,
            features: single(FEATURES),
            mean: single(c5),
            global: single(c5),
            // Each plane is padded for the dilation of the block that reads it.
            context: CONTEXT_DILATIONS.into_iter().chain([0]).map(|pad| plane(32, c5, pad)).collect(),
            qkv: plane(32, 3 * c5, 0),
            attended: plane(32, c5, 0),
            deepest: plane(32, c5, 0),
            top5: plane(32, c4, 0),
            scale4: [1, 2, 0].into_iter().map(|pad| plane(16, c4, pad)).collect(),
            scale3: [1, 1, 0].into_iter().map(|pad| plane(8, c3, pad)).collect(),
            top3: plane(8, c2, 0),
            scale2: [1, 1, 0].into_iter().map(|pad| plane(4, c2, pad)).collect(),
            sum1: plane(2, c1, 1),
            refined1: plane(2, c1, 1),
            guide: self.guide.as_ref().map(|guide| guide.planes(side)),
        }
    }

    /// Runs the network on the arena's input, the guided network with its hints. `mask`: side × side values, 0..=1.
    ///
    /// # Panics
    /// When the arena is for another network, `mask` or hints have another extent, or hints are absent or superfluous.
    pub(super) fn run(&self, arena: &mut Arena, hints: Option<&Hints>, mask: &mut [f32]) {
        assert_eq!(hints.is_some(), self.guide.is_some(), "hints are for the guided network");
        let mut guide = self.guide.as_ref().zip(arena.guide.as_mut()).zip(hints);
        for (index, block) in self.encoder.iter().enumerate() {
            let (before, after) = arena.encoder.split_at_mut(index);
            block.run(before.last().unwrap_or(&arena.input), &mut arena.expanded, &mut after[0]);
            if index == TAPS[1]
                && let Some(((guide, planes), hints)) = &mut guide
            {
                guide.join_coarse(hints, planes, &mut after[0]);
            }
        }
        let features = TAPS.map(|tap| &arena.encoder[tap]);
        global_average(features[4], &mut arena.features);

        self.in5.run(features[4], Residual::None, &mut arena.context[0]);
        global_average(&arena.context[0], &mut arena.mean);
        self.global.run(&arena.mean, Residual::None, &mut arena.global);
        add_channels_relu(&mut arena.context[0], &arena.global);
        refine(&self.context, &mut arena.context);
        let context = last(&arena.context);
        self.qkv.run(context, Residual::None, &mut arena.qkv);
        self.attention.run(&arena.qkv, &mut arena.attended);
        self.project.run(&arena.attended, Residual::Same(context), &mut arena.deepest);
        self.top5.run(&arena.deepest, Residual::None, &mut arena.top5);

        self.lateral4.run(features[3], Residual::Upsampled(&arena.top5), &mut arena.scale4[0]);
        refine(&self.refine4, &mut arena.scale4);

        self.lateral3.run(features[2], Residual::Upsampled(last(&arena.scale4)), &mut arena.scale3[0]);
        refine(&self.refine3, &mut arena.scale3);
        self.top3.run(last(&arena.scale3), Residual::None, &mut arena.top3);

        self.lateral2.run(features[1], Residual::Upsampled(&arena.top3), &mut arena.scale2[0]);
        for (index, convolution) in self.refine2.iter().enumerate() {
            let (before, after) = arena.scale2.split_at_mut(index + 1);
            convolution.run(&before[index], Residual::None, &mut after[0]);
        }

        let fine = match guide {
            Some(((guide, planes), hints)) => guide.joined_fine(hints, planes, features[0]),
            None => features[0],
        };
        self.shuffle1.run(last(&arena.scale2), fine, &mut arena.sum1);
        self.refine1.run(&arena.sum1, Residual::None, &mut arena.refined1);
        self.head.run(&arena.refined1, mask);
    }
}

impl Arena {
    /// The mean of each channel of the encoder's deepest features, after [`FgNet::run`].
    pub(super) fn features(&self) -> &[f32] {
        self.features.data()
    }

    /// The padded input: side rows of side + 2 pixels of 3 values.
    pub(super) fn input_mut(&mut self) -> &mut [f32] {
        self.input.data_mut()
    }
}

/// Consecutive residual units: `planes[i + 1] = max(planes[i] + unit(planes[i]), 0)`.
fn refine(units: &[Separable], planes: &mut [Plane]) {
    for (index, unit) in units.iter().enumerate() {
        let (before, after) = planes.split_at_mut(index + 1);
        unit.run(&before[index], Residual::Same(&before[index]), &mut after[0]);
    }
}

fn last(planes: &[Plane]) -> &Plane {
    &planes[planes.len() - 1]
}
