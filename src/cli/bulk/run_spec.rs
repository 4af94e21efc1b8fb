//! What workers need to know of a run that a command queues for them: its places, endpoint and fields, as JSON.

use super::pipeline_processor::{PipelineProcessor, SharedEngine};
use super::result_parameters::{models_of, parameters_hash};
use crate::bulk::Locations;
use crate::bulk::cluster::{Prepare, PreparedRun};
use crate::cli::exit_code::Failure;
use crate::cli::local_engine;
use crate::cli::remove::AuxFiles;
use crate::recipe::{BG_FILE, ENDPOINTS, Endpoint, FieldError, Fields, InferenceMode};
use crate::source::StorageLocation;
use crate::store::BulkRun;
use crate::telemetry::with_causes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A run. Two commands with the same one resume the same run.
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
    model: InferenceMode,
    /// Maximum size of a source in bytes.
    max_bytes: u64,
    /// Hash of all that a result depends on, so that a worker with other weights leaves the run to others.
    parameters: String,
    /// Which objects, and how their results are named: part of the run's identity alone.
    selection: Selection,
}

/// Which objects of the source are in a run, and how their results are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
    pub(super) output: String,
    pub(super) limit: Option<u64>,
}

impl RunSpec {
    pub(super) fn new(
        places: [&str; 2],
        endpoint: &Endpoint,
        fields: &Fields,
        model: InferenceMode,
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
            model,
            max_bytes,
            parameters: parameters.to_owned(),
            selection,
        }
    }

    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The run as it is queued, named by a hash of the spec. The auxiliary files are part of `parameters`.
    pub(super) fn run(&self, aux_files: &AuxFiles) -> BulkRun {
        let spec = serde_json::to_string(self).expect("a spec is plain data");
        let id = Sha256::digest(&spec).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
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
        let spec = RunSpec::read(&run.spec).map_err(|error| format!("another version began it: {error}"))?;
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.name == spec.endpoint);
        let endpoint = endpoint.ok_or_else(|| format!("another version began it, for {}", spec.endpoint))?;
        let fields = spec.fields()?;
        let mut recipe = endpoint.recipe(&fields)?;
        recipe.cut_out_by(spec.model);
        let aux_files = AuxFiles::of_queue(run.background.clone(), run.mark.clone());
        let config = self.0.config();
        let models = models_of(&recipe, &local_engine::weights(config)?, config.engine.precision);
        if parameters_hash(endpoint, &fields, &aux_files, &models) != spec.parameters {
            return Err("its results would differ: it was begun with other weights, precision or version".into());
        }
        // The source first: no destination folder is created when it is missing.
        let source = StorageLocation::open(&spec.from, false)?;
        let locations = Locations::new(source, StorageLocation::open(&spec.to, true)?)?;
        let processor = PipelineProcessor::new(Arc::clone(&self.0), recipe, aux_files);
        Ok(PreparedRun { locations, max_bytes: spec.max_bytes, processor })
    }
}

impl Prepare for RunPreparation {
    type Processor = PipelineProcessor;

    async fn prepare(&self, run: &BulkRun) -> Result<PreparedRun<PipelineProcessor>, String> {
        self.open(run).map_err(|error| with_causes(&*error))
    }
}
