//! Backdrop cuts subjects out of photos and puts them on new backgrounds. [`Cutter`] does so in a program.
//!
//! ```text
//! upload · URL · object            bytes as they came, one buffer, never copied again
//!   codec::probe                   Header           limits are checked here, before any allocation
//!   codec::decode                  Frame            packed RGBA8, sRGB, upright, straight alpha
//!   engine: batch of N             ModelInput       [N, S, S, 3]
//!   model::segment                 RawMask          [N, S, S] 0..1, the network's output
//!   matting::refine                RawMask          merged with the masks of the subject's box and tiles, on a finer grid
//!   matting::clean                 CleanMask        uncertain regions labelled by colour, components filtered, holes filled
//!   matting::trimap                Trimap           known background / unknown band / known foreground
//!   matting::closed_form           AlphaMatte       coverage 0..1; only the band is solved
//!   matting::foreground            Cutout           unmixed colour in the band; source pixels elsewhere
//!   compose::flatten               Composite        of a Subject (Cutout, or the source); resized; packed RGBA8
//!   codec::encode                  EncodedImage     PNG / WebP / JPEG
//! reply · object · file
//! ```
//!
//! Modules, lowest layer first; imports point down, never sideways (`tests/layering.rs`):
//!
//! | layer | module | what it is |
//! |---|---|---|
//! | 1 | [`image`] | the value types of the pipeline's stages |
//! |   | [`telemetry`] | metrics, log, error and panic texts |
//! | 2 | [`codec`] | probes, decodes and encodes picture files |
//! |   | [`matting`] | from the network's mask to a cutout |
//! |   | [`compose`] | from a cutout to a finished picture: layout, background, shadow, outline, watermark |
//! |   | [`model`] | the networks (segmentation, faces, restoration, upscaling) and their weights |
//! | 3 | [`face`] | face selection, alignment and restoration |
//! |   | [`recipe`] | request fields to a typed recipe |
//! | 4 | [`engine`] | admission, batching, the device thread and the CPU workers |
//! |   | [`source`] | fetches callers' URLs; object storage |
//! |   | [`store`] | the durable state |
//! | 5 | [`generate`] | backdrops from a prompt |
//! | 6 | [`account`] | accounts, keys, quotas, rate limits, prices |
//! |   | [`pipeline`] | the stage order of one picture |
//! | 7 | [`bulk`] | runs over object storage and folders |
//! |   | [`cutter`] | the library's door |
//! |   | [`video`] | clips through ffmpeg |
//! | 8 | [`jobs`] | queued work that outlives its request |
//! | 9 | [`http`] | the HTTP API and the admin port |
//! | 10 | [`config`] | configuration of all sections |
//! | 11 | [`cli`] | the subcommands |

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
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
pub mod cutter;
pub mod video;

pub mod jobs;

pub mod http;

pub mod config;

pub mod cli;

pub use cutter::Cutter;
