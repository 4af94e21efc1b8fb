//! Checks what processes pictures and clips: processor, network, added models, HEIC decoder, ffmpeg.

use super::check::Check;
use crate::cli::local_engine::{self, LocalEngine};
use crate::config::Config;
use crate::model::onnx::Runtime;
use crate::telemetry::with_causes;
use crate::video::{Tools, VideoConfig};
use backdrop_kernels::conv::Isa;

/// How to get ONNX Runtime.
const INSTALL_ONNXRUNTIME: &str = "pip install onnxruntime (onnxruntime-gpu for CUDA), brew install onnxruntime, or an archive of \
    github.com/microsoft/onnxruntime/releases, also for Windows and Debian, which has no package; then set models.onnxruntime to its library";

const INSTALL_FFMPEG: &str = "install ffmpeg (Debian, Ubuntu: apt install ffmpeg), or set its path in [video]";

/// The vector instructions that the network's kernels use.
pub(super) fn processor() -> Check {
    let isa = Isa::detect();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = format!("{isa}, {cores} {}", if cores == 1 { "core" } else { "cores" });
    match isa {
        Isa::Portable => Check::warning(
            "processor",
            format!("{found}: the kernels run without vector instructions, several times slower"),
            "use a processor with AVX2, or a GPU",
        ),
        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Avx2 => Check::ok("processor", found),
    }
}

/// Loads the network and runs its self-test.
pub(super) async fn network(config: &Config) -> Check {
    match LocalEngine::start(config).await {
        Ok(engine) => Check::ok("network", format!("{} runs on {}; {}", engine.model(), engine.device(), gpus())),
        Err(error) => Check::failed(
            "network",
            with_causes(error.as_ref()),
            format!("set `device` to auto or cpu, and check `weights` and `engine.precision`; {}", gpus()),
        ),
    }
}

/// The adapters of this machine as text.
#[cfg(feature = "gpu")]
fn gpus() -> String {
    let found: Vec<_> = crate::model::device::adapters().iter().map(ToString::to_string).collect();
    if found.is_empty() { "no GPU was found".to_owned() } else { format!("adapters: {}", found.join("; ")) }
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> String {
    "this build has no GPU support (feature `gpu`)".to_owned()
}

/// The library ONNX Runtime, which runs added models, its devices, and whether the files of the models are unchanged.
pub(super) fn models(config: &Config) -> Check {
    const NAME: &str = "models";
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
        Err(error) => Check::failed(NAME, format!("{added}, but {error}"), INSTALL_ONNXRUNTIME),
    }
}

/// Decodes a small HEIC file.
#[cfg(feature = "heic")]
pub(super) fn heic() -> Check {
    use crate::codec::{self, Limits};
    use crate::image::BufferPool;
    use bytes::Bytes;
    const PICTURE: &[u8] = include_bytes!("../../../tests/fixtures/codec/plain.heic");
    let bytes = Bytes::from_static(PICTURE);
    let decoded =
        codec::probe(&bytes, &Limits::default()).and_then(|header| codec::decode(&bytes, &header, &BufferPool::new(0)));
    match decoded {
        Ok(_) => Check::ok("heic", "a HEIC picture was decoded"),
        Err(error) => Check::failed(
            "heic",
            format!("a HEIC picture cannot be decoded: {}", with_causes(&error)),
            "install libde265 1.0.11 or newer",
        ),
    }
}

#[cfg(not(feature = "heic"))]
pub(super) fn heic() -> Check {
    Check::warning("heic", "this build reads no HEIC pictures", "build it with the feature `heic`")
}

/// ffmpeg and ffprobe, and the encoders that clips need.
pub(super) fn clips(config: &VideoConfig) -> Check {
    let tools = match Tools::find(config) {
        Ok(tools) => tools,
        Err(missing) => {
            return Check::warning("clips", format!("{missing}; clips cannot be processed"), INSTALL_FFMPEG);
        }
    };
    match tools.version().and_then(|version| Ok((version, tools.missing_encoders()?))) {
        Ok((version, missing)) if missing.is_empty() => Check::ok("clips", version),
        Ok((version, missing)) => {
            let missing: Vec<_> = missing.iter().map(|(encoder, of)| format!("{encoder} ({of})")).collect();
            let remedy = "install an ffmpeg with these encoders; other formats of clips work";
            Check::warning("clips", format!("{version} lacks {}", missing.join(", ")), remedy)
        }
        Err(error) => Check::warning("clips", format!("ffmpeg cannot be run: {error}"), INSTALL_FFMPEG),
    }
}
