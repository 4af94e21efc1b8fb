//! Interprets `-o`: standard output, one file, or a folder.

use super::source_and_sink::{Source, is_glob, is_stdio};
use crate::bulk::has_image_extension;
use std::path::{Path, PathBuf};

/// The destination given by `-o`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// `-`.
    Stdout,
    /// A file: there is one input, and the name has an extension.
    File(PathBuf),
    /// A folder, created when missing.
    Folder(PathBuf),
}

impl Destination {
    /// Interprets `-o` for these inputs.
    ///
    /// # Errors
    /// When several pictures would have one destination.
    pub(super) fn new(output: &Path, inputs: &[PathBuf]) -> Result<Self, String> {
        // A pipe is a picture. A missing file counts as one, so that the error names it.
        let one_picture = match inputs {
            [only] => match Source::parse(only) {
                Source::File(path) => !path.is_dir() && !is_glob(&path),
                Source::Stdin | Source::Url(_) => true,
            },
            _ => false,
        };
        if is_stdio(output) {
            return if one_picture {
                Ok(Self::Stdout)
            } else {
                Err("only one picture fits on standard output".to_owned())
            };
        }
        let names_folder = output.is_dir() || output.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
        if one_picture && !names_folder && output.extension().is_some() {
            return Ok(Self::File(output.to_owned()));
        }
        if inputs.iter().any(|input| is_stdio(input)) {
            return Err("a picture from standard input needs a file name after -o, such as cutout.png, or -".to_owned());
        }
        if output.is_file() || !names_folder && output.to_str().is_some_and(has_image_extension) {
            return Err(format!("{} names one picture, but these inputs need a folder", output.display()));
        }
        Ok(Self::Folder(output.to_owned()))
    }

    /// The `format` of the output file's extension.
    pub(super) fn format(&self) -> Option<String> {
        match self {
            Self::File(path) => {
                let extension = path.extension()?.to_str()?.to_lowercase();
                Some(if extension == "jpeg" { "jpg".to_owned() } else { extension })
            }
            Self::Stdout | Self::Folder(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn one_picture_and_a_name_with_an_extension_is_a_file() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a.jpg"), root.path().join("b.jpg"));
        fs::write(&a, b"x").unwrap();
        fs::write(&b, b"x").unwrap();
        let output = root.path().join("c.webp");
        let destination = Destination::new(&output, std::slice::from_ref(&a)).unwrap();
        assert_eq!(destination, Destination::File(output.clone()));
        assert_eq!(destination.format().as_deref(), Some("webp"));
        assert!(Destination::new(&output, &[a.clone(), b.clone()]).is_err_and(|error| error.contains("need a folder")));
        let folder = root.path().join("c.webp/");
        assert_eq!(Destination::new(&folder, &[a, b]).unwrap(), Destination::Folder(folder));
    }

    #[test]
    fn what_is_neither_a_folder_nor_a_pattern_is_one_picture() {
        let root = tempfile::tempdir().unwrap();
        let output = root.path().join("c.png");
        let destination = |input: &Path| Destination::new(&output, &[input.to_owned()]).unwrap();
        for one in [root.path().join("missing.jpg"), "/dev/null".into(), "https://example.com/a.jpg?b=c".into()] {
            assert_eq!(destination(&one), Destination::File(output.clone()), "{}", one.display());
        }
        for several in [root.path().to_owned(), root.path().join("*.jpg")] {
            assert!(Destination::new(&output, std::slice::from_ref(&several)).is_err(), "{}", several.display());
            assert_eq!(Destination::new(root.path(), &[several]), Ok(Destination::Folder(root.path().to_owned())));
        }
        let stdio = PathBuf::from("-");
        for one in [stdio.as_path(), Path::new("missing.jpg")] {
            assert_eq!(Destination::new(&stdio, &[one.to_owned()]), Ok(Destination::Stdout));
        }
        assert!(Destination::new(&stdio, &["a.jpg".into(), "b.jpg".into()]).is_err());
        assert!(Destination::new(Path::new("folder"), &[stdio]).is_err(), "standard input needs a name");
    }
}
