//! Converts rows of 16-bit samples to sRGB before rounding to 8 bits, whose linear light has few levels in shadows.

use super::high_range::HighRange;
use super::{Colors, Samples, catch_panic, changes_colours, transform_to_srgb};
use moxcms::{ColorProfile, DataColorSpace, Layout, Transform16BitExecutor, TransformOptions};
use std::sync::Arc;

pub(in crate::codec) enum SixteenBitTransform {
    /// A transform of RGB.
    Rgb(Arc<Transform16BitExecutor>),
    /// The sRGB colour of each grey level.
    Grey(Vec<[u16; 3]>),
    HighRange(HighRange),
}

impl SixteenBitTransform {
    /// The conversion of `samples` by `colors`; `None` if 8-bit samples would not be converted either.
    pub(in crate::codec) fn of(samples: Samples, colors: &Colors<'_>) -> Option<Self> {
        if let Some(range) = colors.high_range() {
            return Some(Self::HighRange(range));
        }
        let profile = colors.profile()?;
        match (profile.color_space, samples) {
            (DataColorSpace::Rgb, Samples::Rgb | Samples::Grey) => {
                transform_to_srgb(&profile, Layout::Rgba, Layout::Rgba).filter(changes_colours)?;
                transform(&profile, Layout::Rgba, Layout::Rgba).map(Self::Rgb)
            }
            (DataColorSpace::Gray, Samples::Grey) => {
                let transform = transform(&profile, Layout::Gray, Layout::Rgb)?;
                let levels: Vec<u16> = (0..=u16::MAX).collect();
                let mut curve = vec![0; 3 * levels.len()];
                catch_panic(|| transform.transform(&levels, &mut curve).ok())?;
                Some(Self::Grey(curve.as_chunks::<3>().0.to_vec()))
            }
            _ => None,
        }
    }

    /// Converts the RGBA samples `from`, with grey repeated in three channels, to `to`; alpha is unchanged. A row that
    /// fails keeps its samples.
    pub(in crate::codec) fn apply(&self, from: &[u16], to: &mut [u16]) {
        match self {
            Self::Rgb(transform) => {
                if catch_panic(|| transform.transform(from, to).ok()).is_none() {
                    to.copy_from_slice(from);
                }
                let pixels = to.as_chunks_mut::<4>().0.iter_mut().zip(from.as_chunks::<4>().0);
                pixels.for_each(|(to, from)| to[3] = from[3]);
            }
            Self::HighRange(range) => range.apply(from, to),
            Self::Grey(curve) => {
                for (to, from) in to.as_chunks_mut::<4>().0.iter_mut().zip(from.as_chunks::<4>().0) {
                    let [red, green, blue] = curve[usize::from(from[0])];
                    *to = [red, green, blue, from[3]];
                }
            }
        }
    }
}

fn transform(from: &ColorProfile, source: Layout, target: Layout) -> Option<Arc<Transform16BitExecutor>> {
    let srgb = ColorProfile::new_srgb();
    catch_panic(|| from.create_transform_16bit(source, &srgb, target, TransformOptions::default()).ok())
}
