//! Layout of the output: the canvas and the subject's rectangle on it, from sizes and framing, without pixels.
//!
//! Each framing has a natural canvas in pixels of the source ([`natural_canvas`]): the picture, the subject with its
//! padding, or the picture with its shadow. [`Resize`] scales that canvas.
//!
//! A subject that its picture's border crops may be anchored at the canvas's borders instead of being centred
//! ([`Anchor`](super::Anchor)). An anchored side has no padding; the spare room of a box goes to the opposite side.
//!
//! With an explicit aspect, sides follow from the aspect and not from the natural canvas, whose sides are already
//! rounded: a width of 1000 at 4:5 is 1250 high for every subject.

mod memory_bound;
mod natural_canvas;
mod padding;
mod scene_layout;
#[cfg(test)]
mod tests;
