//! Finds the files of a model to add: one ONNX file, or a Hugging Face folder with its `preprocessor_config.json`.

use super::AddError;
use crate::model::onnx::{Conventions, Fit, ModelType, Range};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Subfolder that may hold the files.
const SUBFOLDER: &str = "onnx";
/// The file that is chosen among several.
pub(super) const USUAL_FILE: &str = "model.onnx";

/// An ONNX file with its folder's metadata.
pub(super) struct Found {
    pub(super) file: PathBuf,
    /// `preprocessor_config.json` and `config.json`; null where missing.
    preprocessor: Value,
    config: Value,
}

impl Found {
    /// The file at `path`, or in the folder at `path`.
    pub(super) fn at(path: &Path) -> Result<Self, AddError> {
        if !path.is_dir() {
            return Ok(Self { file: path.to_owned(), preprocessor: Value::Null, config: Value::Null });
        }
        let in_folder = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
            let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == "onnx")).collect();
            files.sort();
            files
        };
        let files = [in_folder(path), in_folder(&path.join(SUBFOLDER))].concat();
        let usual = files.iter().find(|file| file.ends_with(USUAL_FILE)).or(files.first().filter(|_| files.len() == 1));
        let named = |file: &PathBuf| file.strip_prefix(path).unwrap_or(file).display().to_string();
        let file = usual.cloned().ok_or_else(|| AddError::Folder(files.iter().map(named).collect()))?;
        let json = |name: &str| match fs::read(path.join(name)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| AddError::Json(name.to_owned(), error)),
            Err(_) => Ok(Value::Null),
        };
        Ok(Self { file, preprocessor: json("preprocessor_config.json")?, config: json("config.json")? })
    }

    /// The usual type of files with this name or this folder's metadata. `path`: as given by the operator.
    pub(super) fn kind(&self, path: &Path) -> Option<ModelType> {
        let name = |path: &Path| path.file_name().and_then(|name| ModelType::of_file(&name.to_string_lossy()));
        let texts = [&self.config["architectures"][0], &self.config["model_type"], &self.config["_name_or_path"]];
        let configured = || texts.into_iter().filter_map(Value::as_str).find_map(ModelType::of_file);
        let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        name(&self.file).or_else(|| name(&absolute)).or_else(configured)
    }

    /// `conventions` with the values of `preprocessor_config.json`.
    pub(super) fn conventions(&self, mut conventions: Conventions) -> Result<Conventions, AddError> {
        let json = &self.preprocessor;
        let unknown = |name: &str| AddError::Preprocessor(name.to_owned(), json[name].to_string());
        let number = |name: &str| serde_json::from_value::<Option<f64>>(json[name].clone()).map_err(|_| unknown(name));
        let triple =
            |name: &str| serde_json::from_value::<Option<[f32; 3]>>(json[name].clone()).map_err(|_| unknown(name));
        let side = |value: &Value| value.as_u64().and_then(|side| u32::try_from(side).ok());
        let size = &json["size"];
        match (side(size), side(&size["height"]), side(&size["width"]), side(&size["shortest_edge"])) {
            (Some(size), ..) => conventions.size = size,
            (None, Some(height), Some(width), _) if height == width => conventions.size = height,
            (.., Some(shortest)) => (conventions.size, conventions.fit) = (shortest, Fit::ShorterSide),
            _ if size.is_null() => {}
            _ => return Err(unknown("size")),
        }
        if json["do_rescale"] == Value::Bool(false) {
            conventions.range = Range::Fixed(1.0);
        } else if let Some(factor) = number("rescale_factor")?.filter(|factor| *factor > 0.0) {
            conventions.range = Range::Fixed((1.0 / factor) as f32);
        }
        if json["do_normalize"] == Value::Bool(false) {
            (conventions.mean, conventions.deviation) = ([0.0; 3], [1.0; 3]);
        } else {
            conventions.mean = triple("image_mean")?.unwrap_or(conventions.mean);
            conventions.deviation = triple("image_std")?.unwrap_or(conventions.deviation);
        }
        Ok(conventions)
    }
}
