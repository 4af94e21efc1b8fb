//! Checks ONNX Runtime, which runs added models, and the models.

use super::check::Check;
use crate::cli::local_engine;
use crate::config::Config;
use crate::model::onnx::Runtime;
use crate::telemetry::with_causes;

const NAME: &str = "models";
/// How to get the library.
const REMEDY: &str = "pip install onnxruntime (onnxruntime-gpu for CUDA), brew install onnxruntime, or an archive of \
    github.com/microsoft/onnxruntime/releases, also for Windows and Debian, which has no package; then set models.onnxruntime to its library";

/// Which library there is, what it can run on, and whether the files of the added models are unchanged.
pub(super) fn check(config: &Config) -> Check {
    let models = match local_engine::added_models(config) {
        Ok(models) => models,
        Err(error) => return Check::failed(NAME, with_causes(&*error), "correct models.files"),
    };
    let listed = models.list();
    let damaged = listed.iter().find_map(|model| match model {
        Ok(model) => model.verify().err(),
        Err(error) => Some(error.to_string()),
    });
    if let Some(reason) = damaged {
        return Check::failed(NAME, reason, "remove the model and add it again");
    }
    let added = match listed.len() {
        1 => "1 added".to_owned(),
        count => format!("{count} added"),
    };
    match Runtime::load(config.models.onnxruntime.as_deref()) {
        Ok(runtime) => {
            let Runtime { path, version, .. } = &runtime;
            let providers = runtime.providers().join(", ");
            Check::ok(NAME, format!("{added}; ONNX Runtime {version} ({}) on {providers}", path.display()))
        }
        Err(_) if listed.is_empty() && config.models.onnxruntime.is_none() => {
            Check::ok(NAME, "none added; ONNX Runtime, which runs them, was not found")
        }
        Err(error) => Check::failed(NAME, format!("{added}, but {error}"), REMEDY),
    }
}
