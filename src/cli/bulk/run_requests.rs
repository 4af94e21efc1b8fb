//! Prepares the bulk runs that keys request over HTTP.

use super::result_parameters::parameters_hash;
use super::run_spec::RunSpec;
use crate::bulk::Locations;
use crate::cli::exit_code::Failure;
use crate::cli::local_engine;
use crate::cli::remove::AuxFiles;
use crate::config::Config;
use crate::http::{BulkRefusal, BulkRequest, PrepareBulk};
use crate::jobs::BulkPlaces;
use crate::source::StorageLocation;
use crate::store::{BULK_ID_PREFIX, BulkRun, NewBulkJob};
use crate::telemetry::with_causes;
use sha2::{Digest, Sha256};
use std::error::Error;
use std::sync::Arc;

/// Prepares runs with the settings of a daemon.
pub(in crate::cli) struct RunRequests(Arc<Config>);

impl RunRequests {
    pub(in crate::cli) const fn new(config: Arc<Config>) -> Self {
        Self(config)
    }

    /// The run of the workers.
    fn run(&self, request: BulkRequest) -> Result<BulkRun, Failure> {
        let BulkRequest { from, to, endpoint, fields, network, background, mark, selection, .. } = request;
        let config = &*self.0;
        let mut recipe = endpoint.recipe(&fields)?;
        recipe.cut_out_by(network.clone());
        let aux_files = AuxFiles::of_queue(background.map(Vec::from), mark.map(Vec::from));
        let models = local_engine::models_of(&recipe, &local_engine::weights(config)?, config.engine.precision);
        let parameters = parameters_hash(endpoint, &fields, &aux_files, &models);
        let max_bytes = config.limits.of_local_pictures().max_bytes as u64;
        let spec = RunSpec::new([&from, &to], endpoint, &fields, network, (max_bytes, &parameters), selection);
        Ok(spec.run(&aux_files))
    }
}

impl PrepareBulk for RunRequests {
    fn prepare(&self, request: BulkRequest) -> Result<NewBulkJob, BulkRefusal> {
        // Checked before a folder is created.
        let places = BulkPlaces { from: &request.from, to: &request.to, report: request.report.as_deref() };
        let resolved = self.0.jobs.resolved_bulk_places(&request.account, &places);
        let resolved = resolved.map_err(|param| BulkRefusal::Forbidden { param })?;
        require_usable(&resolved.from, &resolved.to)?;
        let (key_id, account, name) = (request.key_id.clone(), request.account.clone(), request.name.clone());
        let report = request.report.clone();
        let (source, destination) = (request.from.clone(), request.to.clone());
        // Without links: the places are opened later, when links may lead elsewhere.
        let request = BulkRequest { from: resolved.from, to: resolved.to, ..request };
        let run = self.run(request).map_err(|error| BulkRefusal::Internal(with_causes(&*error)))?;
        let hash = hash_of(&key_id, report.as_deref().unwrap_or_default(), &run.id);
        let run = BulkRun { id: format!("{BULK_ID_PREFIX}{hash}"), ..run };
        // Named after the run and not its places, as reports of a command are: two runs at once have two reports.
        let in_destination = || format!("{}/backdrop-bulk-{hash}.jsonl", destination.trim_end_matches('/'));
        let report = report.unwrap_or_else(in_destination);
        Ok(NewBulkJob { run, key_id, account, name, source, destination, report })
    }
}

/// Refuses places that cannot be opened. The source first: no destination folder is created when it is missing.
fn require_usable(from: &str, to: &str) -> Result<(), BulkRefusal> {
    fn refused(param: &'static str, error: &(dyn Error + 'static)) -> BulkRefusal {
        BulkRefusal::Parameter { param, message: format!("`{param}`: {}", with_causes(error)) }
    }
    let source = StorageLocation::open_confined(from, false).map_err(|error| refused("from", &error))?;
    let destination = StorageLocation::open_confined(to, true).map_err(|error| refused("to", &error))?;
    Locations::new(source, destination).map(drop).map_err(|error| refused("to", &error))
}

/// The name of a run of a key, equal for equal requests.
fn hash_of(key_id: &str, report: &str, run: &str) -> String {
    format!("{:.12x}", Sha256::digest([key_id, report, run].join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::Selection;
    use crate::cli::endpoint_args::endpoint_named;
    use crate::recipe::{Fields, InferenceMode, Network};

    #[test]
    fn the_same_request_of_a_key_is_the_same_run_and_its_report_is_in_the_destination() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let url = |name: &str| format!("file://{}/{name}", folder.path().display());
        let mut config = Config::default();
        config.jobs.bulk_places.insert("shop".into(), vec![url("")]);
        let requests = RunRequests::new(Arc::new(config));
        let request = || BulkRequest {
            key_id: "key_1".into(),
            account: "shop".into(),
            name: None,
            from: url("in"),
            to: url("out/"),
            report: None,
            endpoint: endpoint_named("remove"),
            fields: Fields::default(),
            network: Network::default(),
            background: None,
            mark: None,
            selection: Selection::default(),
        };
        let prepared = |request| requests.prepare(request).unwrap();
        let first = prepared(request());
        assert_eq!(prepared(request()), first);
        assert!(first.run.id.starts_with(BULK_ID_PREFIX) && first.run.id.len() == BULK_ID_PREFIX.len() + 12);
        let hash = &first.run.id[BULK_ID_PREFIX.len()..];
        assert_eq!(first.report, url(&format!("out/backdrop-bulk-{hash}.jsonl")));
        let other = BulkRequest { account: "other".into(), to: url("new"), ..request() };
        assert_eq!(requests.prepare(other), Err(BulkRefusal::Forbidden { param: "from" }));
        assert!(!folder.path().join("new").exists(), "no folder of an account that may not use it");
        let limited = Selection { limit: Some(5), ..Selection::default() };
        for other in [
            BulkRequest { key_id: "key_2".into(), ..request() },
            BulkRequest { report: Some(url("report.jsonl")), ..request() },
            BulkRequest { selection: limited, ..request() },
            BulkRequest { network: InferenceMode::Quality.into(), ..request() },
        ] {
            assert_ne!(prepared(other).run.id, first.run.id);
        }
    }
}
