//! Types that field texts are parsed into. A text that its type refuses is answered with 400.

mod choices;
mod numbers;
mod texts;
mod value;

pub use choices::{AlphaOnly, CropFormat, CutEngine, CutoutFormat, Detect, EdgeChoice, RgbaOnly};
pub(super) use numbers::decimal;
pub use numbers::{
    Blur, DespillFlag, DespillPercent, DespillStrength, EnhanceStrength, Flag, Fraction, MaxDim, PaddingPx, Scale,
    ScaleOrNone, Side, Whole,
};
pub use texts::{ModelRef, PresetRef, WatermarkText};
pub use value::Value;
pub(super) use value::choice;
