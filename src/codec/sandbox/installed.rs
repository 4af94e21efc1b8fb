//! The pool of decode workers of this process, and the formats that it decodes.
//!
//! There is one pool per process, so that no caller of [`decode`](crate::codec::decode()) can bypass it. Without
//! [`install`], as in programs that use this crate as a library, decoders run in this process.

use super::config::SandboxMode;
use super::pool::Workers;
use super::process::Program;
use crate::codec::Container;
use std::sync::{Arc, OnceLock};

static INSTALLED: OnceLock<Installed> = OnceLock::new();

#[derive(Debug)]
struct Installed {
    mode: SandboxMode,
    workers: Arc<Workers>,
}

/// From now on, workers of this program decode the formats of `mode`; only the first call has an effect. The program
/// must call [`run`](super::run) when it is started with the argument `decode-worker`.
pub fn install(mode: SandboxMode) {
    install_program(mode, Program::this());
}

/// As [`install`], with workers of another program.
pub fn install_program(mode: SandboxMode, program: Program) {
    INSTALLED.get_or_init(|| Installed { mode, workers: Workers::new(program) });
}

/// Starts workers before they are needed and replaces them at once: for a daemon.
pub fn start_early() {
    // Without HEIC, workers have work only if they decode all formats.
    if workers_of(Container::Heic).is_some() || workers_of(Container::Jpeg).is_some() {
        INSTALLED.get().into_iter().for_each(|installed| installed.workers.start_early());
    }
}

/// The mode and the missing protections of the system, in words; `None` before [`install`].
#[must_use]
pub fn status() -> Option<String> {
    let installed = INSTALLED.get()?;
    let mode = installed.mode.name();
    if let Some(failure) = installed.workers.failure() {
        return Some(format!("{mode}; no worker can be started: {failure}"));
    }
    let missing = installed.workers.protections().map(|protections| protections.missing()).unwrap_or_default();
    Some(if missing.is_empty() { mode.to_owned() } else { format!("{mode}, without {}", missing.join(" and ")) })
}

/// The workers that decode `container`; `None` if this process decodes it.
pub(in crate::codec) fn workers_of(container: Container) -> Option<&'static Workers> {
    let installed = INSTALLED.get()?;
    let is_read = cfg!(feature = "heic") || container != Container::Heic;
    (is_read && installed.mode.covers(container)).then_some(&*installed.workers)
}
