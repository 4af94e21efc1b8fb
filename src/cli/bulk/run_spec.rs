//! The specification of a queued run for workers and leading daemons: its places, endpoint, fields and selection, as JSON.

use super::pipeline_processor::{PipelineProcessor, SharedEngine};
use super::result_parameters::{model_of, parameters_hash};
use crate::bulk::cluster::{Prepare, PreparedRun};
use crate::bulk::{Locations, RunOptions, Selection};
use crate::cli::exit_code::Failure;
use crate::cli::local_engine;
use crate::cli::remove::AuxFiles;
use crate::config::Config;
use crate::engine::Tenant;
use crate::model::Precision;
use crate::model::weights::Weights;
use crate::recipe::{BG_FILE, ENDPOINTS, Endpoint, FieldError, Fields, Network, Recipe};
use crate::source::StorageLocation;
use crate::store::{BULK_ID_PREFIX, BulkRun};
use crate::telemetry::with_causes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A run. Two commands with equal specifications resume one run, and so do two requests of one key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSpec {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) endpoint: String,
    /// Fields that were sent, and those of a preset.
    sent: Vec<(String, String)>,
    stored: Vec<(String, String)>,
    /// Whether the background was sent as a file.
    has_background_file: bool,
    /// `model` in the queue, for compatibility.
    #[serde(rename = "model")]
    network: Network,
    /// Maximum size of a source in bytes.
    max_bytes: u64,
    /// Hash of all that a result depends on: a worker with other weights leaves the run to other workers.
    parameters: String,
    /// Which objects, and how their results are named.
    selection: Selection,
}

impl RunSpec {
    pub(super) fn new(
        places: [&str; 2],
        endpoint: &Endpoint,
        fields: &Fields,
        network: Network,
        (max_bytes, parameters): (u64, &str),
        selection: Selection,
    ) -> Self {
        let [from, to] = places.map(|place| place.trim_end_matches('/').to_owned());
        let of_kind = |is_stored: bool| {
            let fields = fields.iter().filter(|(name, _)| fields.is_stored(name) == is_stored);
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        Self {
            from,
            to,
            endpoint: endpoint.name.to_owned(),
            sent: of_kind(false),
            stored: of_kind(true),
            has_background_file: fields.has_file(BG_FILE),
            network,
            max_bytes,
            parameters: parameters.to_owned(),
            selection,
        }
    }

    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The specification of a queued run.
    ///
    /// # Errors
    /// When another version began it.
    pub(super) fn of(run: &BulkRun) -> Result<Self, Failure> {
        Self::read(&run.spec).map_err(|error| format!("another version began it: {error}").into())
    }

    /// The places of `run`. The source first: no destination folder is created when it is missing. A run over HTTP is confined to
    /// its places: its account may use no others.
    pub(super) fn locations(&self, run: &BulkRun) -> Result<Locations, Failure> {
        let is_over_http = run.id.starts_with(BULK_ID_PREFIX);
        let open = if is_over_http { StorageLocation::open_confined } else { StorageLocation::open };
        let source = open(&self.from, false)?;
        Ok(Locations::new(source, open(&self.to, true)?)?)
    }

    /// The recipe of each picture.
    ///
    /// # Errors
    /// When the results of this process would differ.
    fn recipe(&self, run: &BulkRun, weights: &Weights, precision: Precision) -> Result<(Recipe, AuxFiles), Failure> {
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.name == self.endpoint);
        let endpoint = endpoint.ok_or_else(|| format!("another version began it, for {}", self.endpoint))?;
        let fields = self.fields()?;
        let mut recipe = endpoint.recipe(&fields)?;
        recipe.cut_out_by(self.network.clone());
        let aux_files = AuxFiles::of_queue(run.background.clone(), run.mark.clone());
        let models = local_engine::models_of(&recipe, weights, precision);
        if parameters_hash(endpoint, &fields, &aux_files, &models) != self.parameters {
            return Err("its results would differ: it was begun with other weights, precision or version".into());
        }
        Ok((recipe, aux_files))
    }

    /// The options of its listing.
    ///
    /// # Errors
    /// When the results of this process would differ.
    pub(super) fn options(&self, run: &BulkRun, config: &Config) -> Result<RunOptions, Failure> {
        let (weights, precision) = (local_engine::weights(config)?, config.engine.precision);
        let (recipe, _) = self.recipe(run, &weights, precision)?;
        Ok(RunOptions {
            filter: self.selection.filter()?,
            template: self.selection.template()?,
            extension: recipe.encode.format.name(),
            shard: None,
            limit: self.selection.limit,
            parameters: self.parameters.clone(),
            model: model_of(&recipe, &weights, precision),
            max_bytes: self.max_bytes,
        })
    }

    /// The run as it is queued, named by a hash of the spec. The auxiliary files are part of `parameters`.
    pub(super) fn run(&self, aux_files: &AuxFiles) -> BulkRun {
        let spec = serde_json::to_string(self).expect("a spec is plain data");
        let id = format!("{:.12x}", Sha256::digest(&spec));
        let bytes = |file: &Option<bytes::Bytes>| file.as_ref().map(|bytes| bytes.to_vec());
        BulkRun { id, spec, background: bytes(&aux_files.background), mark: bytes(&aux_files.mark) }
    }

    fn fields(&self) -> Result<Fields, FieldError> {
        let fields = |pairs: &[(String, String)]| {
            let mut fields = Fields::default();
            pairs.iter().try_for_each(|(name, value)| fields.push(name, value)).map(|()| fields)
        };
        let mut sent = fields(&self.sent)?;
        if self.has_background_file {
            sent.attach(BG_FILE);
        }
        Ok(sent.over(&fields(&self.stored)?))
    }
}

/// Prepares queued runs on the engine of this process.
pub(in crate::cli) struct RunPreparation(Arc<SharedEngine>);

impl RunPreparation {
    pub(in crate::cli) fn new(engine: SharedEngine) -> Self {
        Self(Arc::new(engine))
    }

    fn open(&self, run: &BulkRun) -> Result<PreparedRun<PipelineProcessor>, Failure> {
        let spec = RunSpec::of(run)?;
        let config = self.0.config();
        let (recipe, aux_files) = spec.recipe(run, &local_engine::weights(config)?, config.engine.precision)?;
        let locations = spec.locations(run)?;
        let processor = PipelineProcessor::new(Arc::clone(&self.0), Tenant::background(&run.id), recipe, aux_files);
        Ok(PreparedRun { locations, max_bytes: spec.max_bytes, processor })
    }
}

impl Prepare for RunPreparation {
    type Processor = PipelineProcessor;

    async fn prepare(&self, run: &BulkRun) -> Result<PreparedRun<PipelineProcessor>, String> {
        self.open(run).map_err(|error| with_causes(&*error))
    }
}
