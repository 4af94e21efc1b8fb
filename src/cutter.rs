//! [`Cutter`]: cuts out pictures in a program, without a daemon.

use crate::codec::Limits;
use crate::engine::{Engine, EngineConfig, EngineError, Lane, Tenant};
use crate::model::device::{ActiveDevice, DeviceChoice, DeviceError};
use crate::model::weights::Weights;
use crate::pipeline::{self, Call, Output, PipelineError};
use crate::recipe::{ENDPOINTS, FieldError, Fields, Recipe};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A picture that takes longer is given up.
const DEADLINE: Duration = Duration::from_secs(600);

/// The built-in network on this machine's processor, and what is made of each picture.
///
/// ```no_run
/// let cutter = backdrop::Cutter::new()?;
/// let cutout = cutter.cut_out(std::fs::read("photo.jpg")?)?;
/// std::fs::write("cutout.png", &cutout.image.bytes)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cutter {
    engine: Engine,
    recipe: Recipe,
    /// Taken when it is dropped: a runtime that is dropped in an asynchronous context panics.
    runtime: Option<Runtime>,
}

impl Drop for Cutter {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Why a picture was not cut out, or the network did not start.
#[derive(Debug, thiserror::Error)]
pub enum CutterError {
    /// No endpoint has this name.
    #[error("there is no endpoint `{0}`")]
    Endpoint(String),
    /// A field is not one of the endpoint's, or has an invalid value.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// No thread could be started.
    #[error(transparent)]
    Threads(#[from] std::io::Error),
    /// The processor cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The network did not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The picture cannot be read, or has no subject.
    #[error(transparent)]
    Picture(#[from] PipelineError),
}

impl Cutter {
    /// Loads the network; cutouts are PNG files, as of `POST /remove` without fields.
    ///
    /// # Errors
    /// [`CutterError`] when the network does not start.
    ///
    /// # Panics
    /// In an asynchronous context, which must not wait.
    pub fn new() -> Result<Self, CutterError> {
        Self::of("remove", &[])
    }

    /// Loads the network, for results of an endpoint of the API with these fields, such as `studio-shot` and `bg_color`.
    ///
    /// # Errors
    /// [`CutterError`] for an unknown endpoint, an invalid field, and when the network does not start.
    ///
    /// # Panics
    /// In an asynchronous context, which must not wait.
    pub fn of(endpoint: &str, fields: &[(&str, &str)]) -> Result<Self, CutterError> {
        let known = ENDPOINTS.iter().find(|known| known.name == endpoint);
        let known = known.ok_or_else(|| CutterError::Endpoint(endpoint.to_owned()))?;
        let mut given = Fields::default();
        fields.iter().try_for_each(|(name, value)| given.push(name, value))?;
        let recipe = known.recipe(&given)?;
        let (runtime, weights, config) = (Runtime::new()?, Weights::embedded(), EngineConfig::default());
        let device = ActiveDevice::select(&DeviceChoice::Cpu)?;
        let engine = Engine::start(&config, Arc::new(move || device.segmenter(&weights, config.max_batch)));
        runtime.block_on(engine.ready())?;
        Ok(Self { engine, recipe, runtime: Some(runtime) })
    }

    /// Makes the result of a picture: the bytes of a JPEG, PNG, WebP or HEIC file of at most 150 megapixels.
    ///
    /// # Errors
    /// [`CutterError::Picture`].
    ///
    /// # Panics
    /// In an asynchronous context, which must not wait: [`Self::cut_out_async`] is for that.
    pub fn cut_out(&self, picture: impl Into<Bytes>) -> Result<Output, CutterError> {
        self.runtime.as_ref().expect("it is there until the drop").block_on(self.cut_out_async(picture))
    }

    /// As [`Self::cut_out`], without blocking; pictures that are awaited together share batches of the network.
    ///
    /// # Errors
    /// [`CutterError::Picture`].
    pub async fn cut_out_async(&self, picture: impl Into<Bytes>) -> Result<Output, CutterError> {
        let deadline = Instant::now() + DEADLINE;
        let call = Call { lane: Lane::Interactive, tenant: Tenant::default(), deadline, limits: Limits::LOCAL };
        Ok(pipeline::run(&self.engine, picture.into(), &self.recipe, &call).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_cut_out_and_what_cannot_be_made_is_an_error() {
        let cutter = Cutter::of("remove", &[("max_dim", "64"), ("format", "webp")]).expect("the built-in network");
        let cutout = cutter.cut_out(include_bytes!("../tests/photos/coffee.jpg").as_slice()).expect("a subject");
        assert!(cutout.image.bytes.starts_with(b"RIFF") && cutout.subject.is_some());
        assert!(matches!(
            cutter.cut_out(b"no picture".as_slice()),
            Err(CutterError::Picture(PipelineError::Decode(_)))
        ));
        Runtime::new().expect("threads").block_on(async move {
            let picture = include_bytes!("../tests/photos/coffee.jpg").as_slice();
            assert_eq!(cutter.cut_out_async(picture).await.expect("a subject").image.bytes, cutout.image.bytes);
            drop(cutter);
        });
        assert!(matches!(Cutter::of("retouch", &[]), Err(CutterError::Endpoint(_))));
        assert!(matches!(Cutter::of("remove", &[("edge", "wavy")]), Err(CutterError::Field(_))));
    }
}
