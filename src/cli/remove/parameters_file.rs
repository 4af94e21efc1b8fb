//! `.backdrop-parameters` in a folder of results: their parameters, so that a run with other parameters replaces the results.

use super::file_version::FileVersion;
use crate::cli::exit_code::Failure;
use crate::cli::local_engine::{self, models_of};
use crate::cli::picture_args::PictureArgs;
use crate::config::Config;
use crate::recipe::Recipe;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

const NAME: &str = ".backdrop-parameters";

/// Writes these options to the file unless it has them. Returns when the options last changed: older results in `folder` were made
/// with other options. In a folder without the file all results count as made with these options.
///
/// # Errors
/// When the file cannot be read or written.
pub(in crate::cli) fn results_since(
    folder: &Path,
    picture_args: &PictureArgs,
    config: &Config,
    recipe: &Recipe,
) -> Result<SystemTime, Failure> {
    let parameters = parameters(picture_args, config, recipe)?;
    made_since(folder, &parameters).map_err(|error| format!("cannot use {}: {error}", folder.display()).into())
}

/// Endpoint, fields, files and network: with the pictures they determine the results.
fn parameters(picture_args: &PictureArgs, config: &Config, recipe: &Recipe) -> Result<String, Failure> {
    let (endpoint, mut fields) = picture_args.chosen();
    fields.sort_unstable();
    let mut lines = vec![endpoint.to_owned()];
    lines.extend(models_of(recipe, &local_engine::weights(config)?, config.engine.precision));
    for (name, value) in fields {
        // With the version of a file: its content may have been replaced.
        let version = FileVersion::of(Path::new(&value)).map(|version| format!(" {version:?}"));
        lines.push(format!("{name}={value}{}", version.unwrap_or_default()));
    }
    Ok(lines.join("\n"))
}

fn made_since(folder: &Path, parameters: &str) -> io::Result<SystemTime> {
    let path = folder.join(NAME);
    match fs::read_to_string(&path) {
        Ok(before) if before == parameters => {}
        Ok(_) => fs::write(&path, parameters)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder)?;
            fs::write(&path, parameters)?;
            fs::File::options().write(true).open(&path)?.set_modified(SystemTime::UNIX_EPOCH)?;
        }
        Err(error) => return Err(error),
    }
    fs::metadata(&path)?.modified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_count_from_the_last_change_of_the_parameters() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("out");
        assert_eq!(made_since(&folder, "width=1200").unwrap(), SystemTime::UNIX_EPOCH);
        assert_eq!(made_since(&folder, "width=1200").unwrap(), SystemTime::UNIX_EPOCH);
        let changed = made_since(&folder, "width=800").unwrap();
        assert!(changed > SystemTime::UNIX_EPOCH);
        assert_eq!(made_since(&folder, "width=800").unwrap(), changed);
    }
}
