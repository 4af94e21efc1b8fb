//! The measured service: the pipeline in this process, or a running daemon.

use super::http_client::HttpClient;
use super::query::{Outcome, Reply};
use crate::cli::exit_code::Failure;
use crate::cli::local_engine::LocalEngine;
use crate::cli::remove::AuxFiles;
use crate::pipeline::Timings;
use crate::recipe::Recipe;
use crate::telemetry::with_causes;
use bytes::Bytes;
use std::path::Path;
use std::time::Instant;

/// A picture in memory.
#[derive(Debug)]
pub(super) struct Photo {
    /// Its file name.
    pub(super) name: String,
    pub(super) bytes: Bytes,
    pub(super) pixels: usize,
}

impl Photo {
    /// Reads a file and the header of the picture.
    pub(super) fn load(path: &Path) -> Result<Self, Failure> {
        use crate::codec::{Limits, probe};
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let header = probe(&bytes, &Limits::LOCAL).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, bytes: bytes.into(), pixels: header.size.area() })
    }
}

/// The pipeline in this process.
pub(super) struct InProcess {
    pub(super) engine: LocalEngine,
    pub(super) recipe: Recipe,
    pub(super) aux_files: AuxFiles,
}

/// The measured service and the pictures that it gets.
pub(super) struct Target {
    pub(super) photos: Vec<Photo>,
    pub(super) service: Service,
}

/// The measured service.
pub(super) enum Service {
    InProcess(Box<InProcess>),
    Daemon(HttpClient),
}

impl Target {
    /// Has one photo processed. It is not sent if no connection is free until `give_up`.
    pub(super) async fn send(&self, photo: usize, give_up: Option<Instant>) -> Reply {
        match &self.service {
            Service::InProcess(service) => service.send(self.photos[photo].bytes.clone()).await,
            Service::Daemon(client) => client.send(photo, give_up).await,
        }
    }

    /// Most connections in use at once; `None` in this process.
    pub(super) fn peak_connections(&self) -> Option<usize> {
        match &self.service {
            Service::InProcess(_) => None,
            Service::Daemon(client) => Some(client.peak_connections()),
        }
    }
}

impl InProcess {
    async fn send(&self, source: Bytes) -> Reply {
        let started = Instant::now();
        let result = self.engine.run(self.aux_files.with(source), &self.recipe).await;
        let took = started.elapsed();
        match result {
            Ok(output) => Reply {
                stages: stages(&output.timings),
                model: Some(output.model),
                ..Reply::without_result(Outcome::Done, took)
            },
            Err(error) => Reply::without_result(Outcome::Failed(with_causes(&error)), took),
        }
    }
}

fn stages(timings: &Timings) -> Vec<(String, f64)> {
    timings.stages().map(|(stage, took)| (stage.name().to_owned(), took.as_secs_f64() * 1000.0)).into()
}
