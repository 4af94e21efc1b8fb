//! Finds and loads the ONNX Runtime library, once in a process.

use ort::environment::Environment;
use ort::ep::{self, ExecutionProvider};
use std::ffi::CStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Environment variable with the path of the library, as in all programs that use `ort`.
const VARIABLE: &str = "ORT_DYLIB_PATH";

/// Why ONNX Runtime is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// The library was not found.
    #[error(
        "ONNX Runtime was not found: install it (`pip install onnxruntime`, or an archive of github.com/microsoft/onnxruntime) and set \
         `models.onnxruntime` or {VARIABLE} to the file {}", LIBRARY.0
    )]
    Missing,
    /// The library is too old, of another architecture, or not ONNX Runtime.
    #[error("ONNX Runtime cannot be used: {0}")]
    Unusable(String),
}

/// File names of the library on this system.
const LIBRARY: (&str, &[&str]) = if cfg!(windows) {
    ("onnxruntime.dll", &["onnxruntime.dll"])
} else if cfg!(target_os = "macos") {
    ("libonnxruntime.dylib", &["libonnxruntime.dylib"])
} else {
    ("libonnxruntime.so.1.…", &["libonnxruntime.so.1", "libonnxruntime.so"])
};

/// Folders that the system's loader may not search.
const FOLDERS: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/opt/homebrew/lib", "/opt/onnxruntime/lib"];

/// A loaded ONNX Runtime.
#[derive(Clone)]
pub struct Runtime {
    /// The file.
    pub path: PathBuf,
    /// Its version, such as 1.32.0.
    pub version: String,
    pub(super) environment: Environment,
}

/// The library of the process, which cannot be exchanged.
static LOADED: Mutex<Option<Runtime>> = Mutex::new(None);

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("path", &self.path).field("version", &self.version).finish_non_exhaustive()
    }
}

impl Runtime {
    /// The loaded library; else the library at `configured`, at `ORT_DYLIB_PATH`, or the first one found on the system.
    ///
    /// # Errors
    /// [`RuntimeError`]. A later call tries again.
    pub fn load(configured: Option<&Path>) -> Result<Self, RuntimeError> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*loaded {
            return Ok(runtime.clone());
        }
        let unusable = |error: &dyn std::fmt::Display| RuntimeError::Unusable(error.to_string());
        #[expect(clippy::disallowed_methods, reason = "it is no setting of this program")]
        let variable = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let named = configured.map(Path::to_owned).or(variable);
        let mut refused = RuntimeError::Missing;
        for path in named.clone().map_or_else(found, |path| vec![path]) {
            match ort::init_from(&path) {
                Ok(builder) => {
                    let environment = builder.with_telemetry(false).build().map_err(|error| unusable(&error))?;
                    let version = version_of(&path).map_err(|error| unusable(&error))?;
                    let runtime = Self { path, version, environment };
                    return Ok(loaded.insert(runtime).clone());
                }
                Err(error) if named.is_some() || path.is_absolute() => refused = unusable(&error),
                // The system's loader does not find this name.
                Err(_) => {}
            }
        }
        Err(refused)
    }

    /// Names of the library's execution providers, for [`super::Device`].
    #[must_use]
    pub fn providers(&self) -> Vec<&'static str> {
        let has = |name, available: ort::Result<bool>| available.unwrap_or(false).then_some(name);
        let all = [
            Some("cpu"),
            has("cuda", ep::CUDA::is_available()),
            has("tensorrt", ep::TensorRT::is_available()),
            has("coreml", ep::CoreML::is_available()),
            has("directml", ep::DirectML::is_available()),
            has("openvino", ep::OpenVINO::is_available()),
        ];
        all.into_iter().flatten().collect()
    }
}

/// The version that a loaded library states, which `ort` compares but does not report.
fn version_of(path: &Path) -> Result<String, libloading::Error> {
    // SAFETY: `ort` has loaded this library and called both functions, whose types are equal in every version; the text
    // is a constant of the library, which stays loaded.
    let version = unsafe {
        let library = libloading::Library::new(path)?;
        let base = library.get::<unsafe extern "C" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase")?;
        CStr::from_ptr(((*base()).GetVersionString)())
    };
    Ok(version.to_string_lossy().into_owned())
}

/// Candidates: the library of the Python environment in which this program is installed, names for the system's loader,
/// and files in folders that the loader may not search.
fn found() -> Vec<PathBuf> {
    let names = LIBRARY.1;
    let files = FOLDERS.iter().flat_map(|folder| names.iter().map(move |name| Path::new(folder).join(name)));
    of_python().into_iter().chain(names.iter().map(PathBuf::from)).chain(files.filter(|file| file.exists())).collect()
}

/// The library in the package `onnxruntime`, relative to a wheel's command: `bin/backdrop` and
/// `lib/python3.N/site-packages/onnxruntime/capi/libonnxruntime.so.1.N.N`, under Windows `Scripts` and
/// `Lib/site-packages`.
fn of_python() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let environment = program.parent()?.parent()?;
    let pattern = if cfg!(windows) { "Lib/site-packages" } else { "lib/python3*/site-packages" };
    let name = LIBRARY.0.split(['.', '-']).next().unwrap_or(LIBRARY.0);
    let pattern = format!("{}/{pattern}/onnxruntime/capi/{name}.*", glob::Pattern::escape(environment.to_str()?));
    glob::glob(&pattern).ok()?.flatten().next()
}
