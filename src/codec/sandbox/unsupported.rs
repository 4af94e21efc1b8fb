//! The pool on systems without a sandbox: decoders run in this process.

use super::config::SandboxMode;
use crate::codec::decoders::Probed;
use crate::codec::error::DecodeError;
use crate::codec::{Container, Header, Limits};
use crate::image::{BufferPool, Frame};
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Once;

/// Never constructed.
#[derive(Debug)]
pub(in crate::codec) struct Workers(Infallible);

impl Workers {
    pub(in crate::codec) fn probe(&self, _: Container, _: &[u8], _: &Limits) -> Result<Probed, DecodeError> {
        match self.0 {}
    }

    pub(in crate::codec) fn decode(&self, _: &[u8], _: &Header, _: &BufferPool) -> Result<Frame, DecodeError> {
        match self.0 {}
    }
}

/// Warns, once, that decoders run in this process.
pub fn install(mode: SandboxMode) {
    static WARNED: Once = Once::new();
    if mode != SandboxMode::Off {
        WARNED.call_once(|| tracing::warn!("this system has no sandbox for decoders; decode.sandbox is off"));
    }
}

/// Starts nothing.
pub fn start_early() {}

/// `off`.
#[must_use]
pub fn status() -> Option<String> {
    Some("off, this system has none".to_owned())
}

/// Always `None`: this process decodes.
pub(in crate::codec) fn workers_of(_: Container) -> Option<&'static Workers> {
    None
}

/// Fails: there are no workers on this system.
#[must_use]
pub fn run() -> ExitCode {
    ExitCode::from(2)
}
