//! The library of ONNX Runtime, which `make test` installs from PyPI, and the small networks of `tests/models`.

use super::skipped;
use backdrop::model::added::{AddedModels, ModelsConfig};
use std::path::{Path, PathBuf};

/// A path, or `skip`.
const VARIABLE: &str = "BACKDROP_TEST_ONNXRUNTIME";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The library; `None`, with a notice, when the variable is `skip`.
///
/// # Panics
/// When it is missing.
#[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
pub(crate) fn library() -> Option<PathBuf> {
    if let Ok(given) = std::env::var(VARIABLE) {
        if given == "skip" {
            skipped::notice("ONNX Runtime cannot be had from PyPI; added models were NOT tested");
            return None;
        }
        return Some(given.into());
    }
    let pattern = format!("{ROOT}/target/onnxruntime/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*");
    let found = glob::glob(&pattern).expect("a pattern").flatten().next();
    Some(found.unwrap_or_else(|| {
        panic!("ONNX Runtime is missing: `make test-onnxruntime` installs it, {VARIABLE}=skip skips")
    }))
}

/// The configuration with the library.
pub(crate) fn config() -> Option<ModelsConfig> {
    Some(ModelsConfig { onnxruntime: Some(library()?), ..ModelsConfig::default() })
}

/// A network of `tests/models`.
pub(crate) fn network(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/models").join(format!("{name}.onnx"))
}

/// Models in `folder`.
pub(crate) fn models_in(folder: &Path) -> Option<AddedModels> {
    Some(AddedModels::open(folder, &config()?).expect("nothing is configured"))
}
