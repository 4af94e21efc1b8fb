//! `backdrop bench`: measures throughput and latency of the pipeline, in this process or through a running daemon.
//!
//! A closed loop: each worker sends its next picture when it has received the last one, for a fixed time after one
//! warm-up round. Refusals of a daemon (429) are counted and not waited for.

mod http_client;
mod summary;

use super::config_args::EngineArgs;
use super::exit_code::{Failure, Outcome};
use super::local_engine::{self, LocalEngine};
use super::stdout;
use crate::codec::{self, Limits};
use crate::pipeline::Timings;
use crate::recipe::Recipe;
use bytes::Bytes;
use clap::Args;
use futures_util::future::try_join_all;
use http_client::{Client, Target};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use summary::{Sample, Summary};

#[derive(Args, Debug)]
pub(super) struct Bench {
    /// Pictures, sent in turn
    #[arg(required = true, value_name = "PHOTO")]
    photos: Vec<PathBuf>,
    /// Pictures processed concurrently
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: u16,
    /// Duration in seconds
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: u16,
    /// Measure a running daemon, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL", requires = "key", conflicts_with_all = ["device", "weights", "model"])]
    url: Option<Target>,
    /// Key for the daemon
    #[arg(long, value_name = "KEY", requires = "url", hide_env_values = true)]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine_args: EngineArgs,
}

/// A picture in memory.
struct Photo {
    bytes: Bytes,
    pixels: usize,
}

impl Bench {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let photos = self.photos.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let jobs = usize::from(self.jobs);
        let duration = Duration::from_secs(self.seconds.into());
        let summary = match (&self.url, &self.key) {
            (Some(url), Some(key)) => {
                let bodies: Vec<_> = photos.iter().map(|photo| http_client::form(&photo.bytes)).collect();
                let worker = || async {
                    let mut client = Client::new(url, key);
                    let bodies = &bodies;
                    async move |index: usize| Ok(client.send(&bodies[index]).await)
                };
                local_engine::block_on(closed_loop(&photos, jobs, duration, worker))??
            }
            _ => {
                let config = self.engine_args.load(&[])?;
                let mut recipe = Recipe::default();
                recipe.cut_out_by(config.engine.model);
                local_engine::block_on(async {
                    let engine = LocalEngine::start(&config, jobs).await?;
                    let (engine, recipe, photos) = (&engine, &recipe, &photos);
                    let worker =
                        || async move { async move |index: usize| Ok(run_local(engine, recipe, &photos[index]).await) };
                    closed_loop(photos, jobs, duration, worker).await
                })??
            }
        };
        if self.json {
            stdout::print_json(&summary)?;
        } else {
            stdout::print_line(&summary.text())?;
        }
        Ok(Outcome::of(summary.errors()))
    }
}

fn load(path: &PathBuf) -> Result<Photo, Failure> {
    let bytes = Bytes::from(std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?);
    let header = codec::probe(&bytes, &Limits::LOCAL).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Photo { bytes, pixels: header.size.area() })
}

async fn run_local(engine: &LocalEngine, recipe: &Recipe, photo: &Photo) -> Sample {
    let started = Instant::now();
    match engine.run(photo.bytes.clone(), recipe).await {
        Ok(output) => Sample { outcome: "200".to_owned(), took: started.elapsed(), stages: stages(&output.timings) },
        Err(error) => Sample { outcome: error.to_string(), took: started.elapsed(), stages: Vec::new() },
    }
}

fn stages(timings: &Timings) -> Vec<(String, f64)> {
    timings.stages().map(|(stage, took)| (stage.name().to_owned(), took.as_secs_f64() * 1000.0)).into()
}

/// Runs `jobs` workers over the photos for `duration`, after sending each photo once.
async fn closed_loop<W>(
    photos: &[Photo],
    jobs: usize,
    duration: Duration,
    worker: impl AsyncFn() -> W,
) -> Result<Summary, Failure>
where
    W: AsyncFnMut(usize) -> Result<Sample, Failure>,
{
    let mut warm_up = worker().await;
    for index in 0..photos.len() {
        warm_up(index).await?;
    }
    let (next, started) = (AtomicUsize::new(0), Instant::now());
    let run = async || {
        let mut send = worker().await;
        let mut samples = Vec::new();
        while started.elapsed() < duration {
            let index = next.fetch_add(1, Ordering::Relaxed) % photos.len();
            samples.push((photos[index].pixels, send(index).await?));
        }
        Ok::<_, Failure>(samples)
    };
    let samples = try_join_all((0..jobs).map(|_| run())).await?.into_iter().flatten();
    Ok(Summary::new(samples.collect(), jobs, started.elapsed()))
}
