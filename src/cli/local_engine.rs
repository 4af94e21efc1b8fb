//! Starts an inference engine in this process, for the commands that run without a server.

use super::exit_code::Failure;
use crate::codec::{self, Limits, sandbox};
use crate::config::Config;
use crate::engine::{Engine, EngineError, Lane, Tenant, WeightsInfo};
use crate::matting::Seeds;
use crate::model::added::AddedModels;
use crate::model::device::ActiveDevice;
use crate::model::weights::architecture::Architecture;
use crate::model::weights::{self, BuiltIn, Weights, WeightsError, manifest};
use crate::model::{Precision, SegmentError};
use crate::pipeline::{self, Call, Files, Output, PipelineError, Segmentation};
use crate::recipe::{Cut, InferenceMode, ModelRef, Network, Recipe};
use crate::source::{FetchConfigError, Fetcher};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Deadline of a picture: no caller waits, so only a hung device is detected.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Runs an asynchronous command to completion.
pub(super) fn block_on<T>(command: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(tokio::runtime::Runtime::new()?.block_on(command))
}

/// Memory of this machine, or the limit of its container, in MiB.
pub(super) fn total_megabytes() -> u64 {
    let ram = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(ram);
    system.cgroup_limits().map_or(system.total_memory(), |limits| limits.total_memory) >> 20
}

/// The fetcher of local pictures, with their size limit.
pub(super) fn fetcher(config: &Config) -> Result<Fetcher, FetchConfigError> {
    Ok(Fetcher::new(&config.fetch)?.with_max_bytes(config.limits.of_local_pictures().max_bytes))
}

/// The configured weights.
pub(super) fn weights(config: &Config) -> Result<Weights, Failure> {
    Ok(parsed(&weights_file(config)?)?)
}

/// The configured weights file.
fn weights_file(config: &Config) -> Result<Cow<'static, [u8]>, WeightsError> {
    Ok(match &config.weights {
        Some(path) => weights::read(path)?.into(),
        None => BuiltIn::Fgnet.bytes().into(),
    })
}

fn parsed(file: &[u8]) -> Result<Weights, WeightsError> {
    Weights::from_bytes(file)?.require(Architecture::Fgnet)
}

/// The added models of the configuration and its data folder.
pub(super) fn added_models(config: &Config) -> Result<AddedModels, Failure> {
    Ok(AddedModels::open(&config.data_dir, &config.models)?)
}

/// Selects the network of `recipe` by the model that its fields name, else by the configuration.
pub(super) fn select_network(config: &Config, recipe: &mut Recipe) -> Result<(), Failure> {
    if let Some(cut) = recipe.cut_mut() {
        let models = added_models(config)?;
        cut.network = match &cut.named_model {
            Some(name) => named(name, &config.engine.precision.of(&weights(config)?.model()), &models)?,
            None => configured(config, &models)?,
        };
    }
    Ok(())
}

/// The network of the configured model.
fn configured(config: &Config, models: &AddedModels) -> Result<Network, Failure> {
    match &config.engine.model {
        Network::BuiltIn(mode) => Ok(Network::BuiltIn(*mode)),
        Network::Added(name) => Ok(Network::Added(models.find(name)?.name)),
    }
}

/// The network of the model `built_in` or of an added model, by its name with or without a version.
fn named(ModelRef(name): &ModelRef, built_in: &str, models: &AddedModels) -> Result<Network, Failure> {
    if let Some(mode) = InferenceMode::named(name, built_in) {
        return Ok(Network::BuiltIn(mode));
    }
    let name = name.parse().map_err(|_| format!("there is no model {name:?}"))?;
    Ok(Network::Added(models.find(&name)?.name))
}

/// The models that a result depends on: the digest of the segmentation weights and the inference mode; name and version
/// of the built-in models.
pub(super) fn models_of(recipe: &Recipe, weights: &Weights, precision: Precision) -> Vec<String> {
    let segmentation = recipe.cut().map(|cut| cut.network.of(&precision.of(weights.sha256())));
    segmentation.into_iter().chain(recipe.built_in().into_iter().map(manifest::model)).collect()
}

/// Bound of the memory of added models, in bytes.
fn memory_of_models(config: &Config) -> u64 {
    let megabytes = if config.models.memory == 0 { total_megabytes() / 4 } else { config.models.memory };
    megabytes << 20
}

/// Starts the configured engine; also returns its device. A thread of the engine loads the network.
pub(super) fn start_engine(config: &Config) -> Result<(Engine, ActiveDevice), Failure> {
    sandbox::install(config.decode.sandbox);
    // Early, so that a wrong file or device is reported before anything else happens.
    let file = weights_file(config)?;
    let weights = parsed(&file)?;
    let models = added_models(config)?;
    let at_start = config.models.at_start.iter().map(|name| Ok(Network::Added(models.find(name)?.name)));
    let at_start: Vec<_> = at_start.chain([configured(config, &models)]).collect::<Result<_, Failure>>()?;
    let device = ActiveDevice::select_in(&config.device, config.engine.precision)?;
    let on = device.clone();
    let side = u32::try_from(weights.card().input_side()?).expect("weights files state a side of at most 2048");
    let model = config.engine.precision.of(&weights.model());
    let info = WeightsInfo { parameters: weights.parameters(), licence: weights.card().licence.clone() };
    let max_batch = config.engine.max_batch;
    let retoucher = device.retoucher();
    // Parsed weights are dropped once they are packed: another load, which is rare, parses the file again.
    let weights = Mutex::new(Some(weights));
    let factory = move || {
        let first = weights.lock().unwrap_or_else(PoisonError::into_inner).take();
        let weights = first.map_or_else(|| parsed(&file), Ok);
        device.segmenter(&weights.map_err(|error| SegmentError::Unusable(error.to_string()))?, max_batch)
    };
    let memory = memory_of_models(config);
    let engine = Engine::start_with_models(&config.engine, Arc::new(factory), retoucher, models, memory);
    engine.announce(&model, side, info);
    at_start.iter().try_for_each(|network| engine.load(network))?;
    Ok((engine, on))
}

/// A ready engine.
pub(super) struct LocalEngine {
    engine: Engine,
    /// The tenant whose turns its work takes.
    tenant: Tenant,
    /// The network of the configured model.
    network: Network,
    device: ActiveDevice,
    limits: Limits,
}

impl LocalEngine {
    /// Loads the network and waits until it is ready.
    pub(super) async fn start(config: &Config) -> Result<Self, Failure> {
        let (engine, device) = start_engine(config)?;
        Self::on(engine, device, config).await
    }

    /// An engine that a daemon shares with its requests, once it is ready.
    pub(super) async fn on(engine: Engine, device: ActiveDevice, config: &Config) -> Result<Self, Failure> {
        engine.ready().await?;
        let network = configured(config, engine.added())?;
        engine.ready_by(&network).await?;
        Ok(Self { engine, tenant: Tenant::default(), network, device, limits: config.limits.of_local_pictures() })
    }

    /// The engine for the work of `tenant`.
    pub(super) fn of(&self, tenant: Tenant) -> Self {
        Self {
            engine: self.engine.clone(),
            tenant,
            network: self.network.clone(),
            device: self.device.clone(),
            limits: self.limits,
        }
    }

    /// Limits of a picture.
    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    fn call(&self) -> Call {
        Call { lane: Lane::Bulk, tenant: self.tenant, deadline: Instant::now() + DEADLINE, limits: self.limits }
    }

    /// As [`select_network`], with the models that the engine has loaded.
    pub(super) fn select_network(&self, recipe: &mut Recipe) -> Result<(), Failure> {
        if let Some(cut) = recipe.cut_mut() {
            cut.network = match &cut.named_model {
                Some(name) => named(name, &self.engine.model(), self.engine.added())?,
                None => self.network.clone(),
            };
        }
        Ok(())
    }

    /// The device that the networks run on: `CPU`, or the name of the GPU.
    pub(super) fn device(&self) -> String {
        self.device.to_string()
    }

    /// The model and its version.
    pub(super) fn model(&self) -> String {
        self.engine.model()
    }

    /// Runs the whole pipeline on a picture.
    pub(super) async fn run(&self, files: impl Into<Files>, recipe: &Recipe) -> Result<Output, PipelineError> {
        pipeline::run(&self.engine, files, recipe, &self.call()).await
    }

    /// Decodes and segments a picture, with the marks of `seeds`.
    pub(super) async fn segment(&self, bytes: Bytes, cut: &Cut, seeds: &Arc<Seeds>) -> Result<Segmentation, Failure> {
        let (pool, call) = (self.engine.buffers().clone(), self.call());
        let header = codec::probe(&bytes, &self.limits)?;
        let slot = self.engine.admit(call.tenant, header.size.area(), call.deadline).await?;
        let decode = move || codec::decode(&bytes, &header, &pool);
        let frame = self.engine.cpu_in(&slot, decode).await??;
        Ok(pipeline::segment(&self.engine, &slot, frame, cut, seeds, &call).await?)
    }

    /// Runs work on the engine's CPU pool.
    pub(super) async fn cpu<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.engine.cpu(self.tenant, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::InferenceMode;

    #[test]
    fn another_inference_mode_changes_the_models() {
        let weights = Weights::embedded();
        let mut recipe = Recipe::default();
        assert_eq!(models_of(&recipe, &weights, Precision::F32), [weights.sha256()]);
        recipe.cut_out_by(InferenceMode::Quality);
        assert_eq!(models_of(&recipe, &weights, Precision::F32), [format!("{}-quality", weights.sha256())]);
        assert_eq!(models_of(&recipe, &weights, Precision::Bf16), [format!("{}-bf16-quality", weights.sha256())]);
    }
}
