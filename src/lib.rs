//! Backdrop cuts subjects out of photos and puts them on new backgrounds.
//!
//! ```text
//! upload · URL · object            bytes as they came, one buffer, never copied again
//!   codec::probe                   Header           limits are judged here, before any allocation
//!   codec::decode                  Frame            packed RGBA8, sRGB, upright, straight alpha
//!   engine: batch of N             ModelInput       [N, S, S, 3]
//!   model::segment                 Mask             [N, S, S] 0..1, the network's guess
//!   matting::trimap                Trimap           known background / unknown band / known foreground
//!   matting::closed_form           AlphaMatte       coverage 0..1; only the band is solved
//!   matting::foreground            Cutout           unmixed colour in the band; source pixels elsewhere
//!   compose                        Composite        resized; packed RGBA8
//!   codec::encode                  EncodedImage     PNG / WebP / JPEG
//! reply · object · file
//! ```
//!
//! Modules, lowest layer first; imports point down, never sideways (`tests/layering.rs`).

pub mod image;
pub mod telemetry;

pub mod codec;
pub mod compose;
pub mod matting;
pub mod model;

pub mod face;
pub mod recipe;

pub mod engine;
pub mod source;
pub mod store;

pub mod generate;

pub mod account;
pub mod pipeline;

pub mod bulk;
pub mod video;

pub mod jobs;

pub mod http;

pub mod cli;
pub mod config;
