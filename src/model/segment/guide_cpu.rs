//! The layers of the guided network that add its hints to the encoder's features, on the CPU kernels.

use backdrop_kernels::conv::{Activation, Dense, Plane, Residual, Shape};

use crate::image::Hints;
use crate::model::pack::Packer;
use crate::model::weights::WeightsError;

#[derive(Debug)]
pub(super) struct Guide {
    coarse: [Dense; 2],
    fine: Dense,
    join_coarse: Dense,
    join_fine: Dense,
}

/// The activations of one picture; reused.
#[derive(Debug)]
pub(super) struct GuidePlanes {
    coarse: [Plane; 3],
    fine: [Plane; 2],
    /// The features with the hints.
    joined_coarse: Plane,
    joined_fine: Plane,
}

impl Guide {
    pub(super) fn new(pack: Packer<'_>) -> Result<Self, WeightsError> {
        Ok(Self {
            coarse: [
                pack.dense("guide4.0.conv", 1, 1, Activation::Relu)?,
                pack.dense("guide4.1.conv", 3, 1, Activation::Relu)?,
            ],
            fine: pack.dense("guide2.conv", 1, 1, Activation::Relu)?,
            join_coarse: pack.dense("join4", 1, 1, Activation::Linear)?,
            join_fine: pack.dense("join2", 1, 1, Activation::Linear)?,
        })
    }

    pub(super) fn planes(&self, side: usize) -> GuidePlanes {
        let plane = |scale: usize, channels: usize, pad: usize| {
            Plane::new(Shape::new(side / scale, side / scale, channels, pad))
        };
        let [fine, coarse] = [2, 4].map(|size| Hints::PLANES * size * size);
        GuidePlanes {
            coarse: [plane(4, coarse, 0), plane(4, coarse, 1), plane(4, coarse, 0)],
            fine: [plane(2, fine, 0), plane(2, self.fine.channels_out(), 0)],
            joined_coarse: plane(4, self.join_coarse.channels_out(), 0),
            joined_fine: plane(2, self.join_fine.channels_out(), 0),
        }
    }

    /// Adds the hints to the features at 1/4 of the input's side.
    pub(super) fn join_coarse(&self, hints: &Hints, planes: &mut GuidePlanes, features: &mut Plane) {
        let [squares, first, second] = &mut planes.coarse;
        hints.write_squares(4, squares.data_mut());
        self.coarse[0].run(squares, Residual::None, first);
        self.coarse[1].run(first, Residual::None, second);
        self.join_coarse.run(second, Residual::Same(features), &mut planes.joined_coarse);
        std::mem::swap(features, &mut planes.joined_coarse);
    }

    /// The features at 1/2 of the input's side with the hints.
    pub(super) fn joined_fine<'a>(&self, hints: &Hints, planes: &'a mut GuidePlanes, features: &Plane) -> &'a Plane {
        let [squares, first] = &mut planes.fine;
        hints.write_squares(2, squares.data_mut());
        self.fine.run(squares, Residual::None, first);
        self.join_fine.run(first, Residual::Same(features), &mut planes.joined_fine);
        &planes.joined_fine
    }
}
