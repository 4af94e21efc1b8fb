//! Where a picture is read and where its result is written: standard streams, files, or a URL.

use super::file_io::{read_file, read_stdin, write_atomically, write_stdout};
use crate::image::SourceUrl;
use crate::source::Fetcher;
use crate::telemetry::with_causes;
use bytes::Bytes;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Where a picture is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
    /// A URL.
    Url(SourceUrl),
}

/// Where a result is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Sink {
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// The source of a command line argument.
    pub(super) fn parse(argument: &Path) -> Self {
        match argument.to_str().and_then(|text| SourceUrl::parse(text).ok()) {
            Some(url) => Self::Url(url),
            None if is_stdio(argument) => Self::Stdin,
            None => Self::File(argument.to_owned()),
        }
    }

    /// The path of a file.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stdin | Self::Url(_) => None,
        }
    }

    /// Reads at most one byte more than the fetcher's `max_bytes`.
    pub(super) async fn read(&self, fetcher: &Fetcher) -> Result<Bytes, String> {
        match self {
            Self::Stdin => read_stdin(fetcher.max_bytes()).await.map_err(|error| with_causes(&error)),
            Self::File(path) => read_file(path.clone(), fetcher.max_bytes()).await.map_err(|error| with_causes(&error)),
            Self::Url(url) => fetcher.fetch(url).await.map_err(|error| with_causes(&error)),
        }
    }
}

impl Sink {
    /// The path of a file.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stdout => None,
        }
    }

    pub(super) async fn write(&self, bytes: Bytes) -> io::Result<()> {
        match self {
            Self::Stdout => write_stdout(bytes).await,
            Self::File(path) => write_atomically(path.clone(), bytes).await,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("-"),
            Self::File(path) => path.display().fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Whether an argument means standard input or output.
pub(super) fn is_stdio(argument: &Path) -> bool {
    argument.as_os_str() == "-"
}

/// Whether an argument that names no file is a pattern of names.
pub(super) fn is_glob(argument: &Path) -> bool {
    !argument.exists() && argument.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}
