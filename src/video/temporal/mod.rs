//! Recursive temporal filter for masks and mattes: fuses each frame with the previous one, warped by optical flow.
//!
//! Per-frame segmentation flickers: a hand disappears for a frame, an edge jitters. Each frame's mask is cleaned by the
//! frame's colours, like a photo's. The previous mask is warped to the current frame (`optical_flow`, between
//! thumbnails on the network's grid) and averaged with the current one, so that several frames determine a label. The
//! previous mask's weight is the number of frames that it accumulates, up to a bound set by `smoothing`, times the
//! flow's confidence (`flow_confidence`, `flow_consistency`). Confidence is zero where the warped picture does not
//! match, where the flow of the other direction does not lead back, and everywhere after a scene cut. The current mask
//! weighs less at soft edges. Where labels contradict the past for several consecutive frames, the past is dropped at
//! once, so that no ghost trails behind a subject.
//!
//! The matte is propagated too: warped, it initialises closed-form matting in the unknown band and is mixed into the
//! solution.

mod filter;
mod flow_confidence;
mod flow_consistency;
mod optical_flow;
mod state;
#[cfg(test)]
mod tests;
mod thumbnail;

pub use filter::TemporalFilter;
