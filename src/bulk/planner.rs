//! Classifies each listed object: ignore, already done, reject without reading, or process.

use super::failure::{Code, Failure};
use super::hash::{Hash, hash};
use super::locations::{Locations, Selected};
use super::options::RunOptions;
use super::previous_runs::PreviousRuns;
use super::report_row::{ReportRow, object_version};
use crate::source::decode_unaddressable;
use object_store::ObjectMeta;
use object_store::path::Path;
use std::collections::HashSet;

/// Longest key of a result in bytes, the bound of S3 and GCS: a template may repeat parts of the source's key, and a report row
/// has the key.
const MAX_KEY_BYTES: usize = 1024;

/// The action for an object.
#[derive(Debug)]
pub(super) enum Action {
    /// Excluded by the filter or in another shard.
    Ignore,
    /// An earlier run finished it.
    AlreadyDone,
    /// It cannot be processed, as its listing shows.
    Reject(Box<ReportRow>),
    /// Process it.
    Process(Box<Task>),
    /// The limit is reached; this and all further objects are left.
    LimitReached,
}

/// An object to process.
#[derive(Debug)]
pub(super) struct Task {
    /// Its listing entry.
    pub(super) meta: ObjectMeta,
    /// Key of its result.
    pub(super) output: Path,
    /// Its report row as far as the listing determines it.
    pub(super) row: ReportRow,
}

/// Classifies the objects of one listing, in its order.
pub(super) struct Planner<'a> {
    locations: &'a Locations,
    options: &'a RunOptions,
    previous_runs: &'a PreviousRuns,
    /// Hashes of the result keys in use, to detect two sources with one result.
    reserved_keys: HashSet<Hash>,
    tasks: u64,
}

impl<'a> Planner<'a> {
    pub(super) fn new(locations: &'a Locations, options: &'a RunOptions, previous_runs: &'a PreviousRuns) -> Self {
        Self { locations, options, previous_runs, reserved_keys: HashSet::new(), tasks: 0 }
    }

    /// Counts a task of an interrupted listing, so that no other object gets its result.
    pub(super) fn add_planned(&mut self, row: &ReportRow) {
        self.reserved_keys.insert(hash(&[&row.output]));
        self.tasks += 1;
    }

    pub(super) fn classify(&mut self, meta: ObjectMeta) -> Action {
        let Locations { destination, source_prefix, destination_prefix, .. } = self.locations;
        let Some(Selected { source, result_key }) = self.locations.select(self.options, &meta) else {
            return Action::Ignore;
        };
        let prefix = destination.prefix.as_ref();
        let output = if prefix.is_empty() { result_key } else { format!("{prefix}/{result_key}") };
        let is_too_long = output.len() > MAX_KEY_BYTES;
        let shown = &output[..output.floor_char_boundary(MAX_KEY_BYTES)];
        let row = ReportRow {
            output: destination.address(shown),
            source_etag: object_version(&meta),
            source_bytes: meta.size,
            parameters: self.options.parameters.clone(),
            model: self.options.model.clone(),
            source,
            ..ReportRow::default()
        };
        if is_too_long {
            let why = format!("its result would have a key of more than {MAX_KEY_BYTES} bytes; change --output");
            return reject(row, Code::InvalidParameter, &why);
        }
        // The first of two objects with one result key keeps it, even when it is rejected or already done.
        if !self.reserved_keys.insert(hash(&[&row.output])) {
            return reject(row, Code::Conflict, "another object before it has the same result; change --output");
        }
        if decode_unaddressable(&meta.location).is_some() {
            let why = "no request can name its key: a part of it is empty, `.`, `..` or not text";
            return reject(row, Code::InvalidParameter, why);
        }
        // The destination may lie inside the source, which is then not read there, but not the other way round.
        if row.output.starts_with(source_prefix.as_str()) && !destination_prefix.starts_with(source_prefix.as_str()) {
            return reject(row, Code::Conflict, "its result would lie among the sources; change --output");
        }
        let Some(output) = Path::parse(&output).ok().filter(|path| path.as_ref() == output) else {
            return reject(row, Code::InvalidParameter, "its result would have a key that no request can name");
        };
        if self.previous_runs.contains(row.fingerprint()) {
            return Action::AlreadyDone;
        }
        if meta.size > self.options.max_bytes {
            return Action::Reject(Box::new(row.failed(Failure::too_large(self.options.max_bytes))));
        }
        if self.options.limit.is_some_and(|limit| self.tasks >= limit) {
            return Action::LimitReached;
        }
        self.tasks += 1;
        Action::Process(Box::new(Task { meta, output, row }))
    }
}

fn reject(row: ReportRow, code: Code, message: &str) -> Action {
    Action::Reject(Box::new(row.failed(Failure::new(code, message))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::Selection;
    use crate::source::StorageLocation;

    fn locations() -> Locations {
        let location = |url: &str| StorageLocation::open(url, false).expect("a location");
        Locations::new(location("s3://shop/in"), location("s3://shop/out")).expect("two places")
    }

    fn options(selection: &Selection) -> RunOptions {
        RunOptions {
            filter: selection.filter().expect("a filter"),
            template: selection.template().expect("a template"),
            extension: "png",
            shard: None,
            limit: None,
            parameters: String::new(),
            model: String::new(),
            max_bytes: 100,
        }
    }

    fn object(key: &str) -> ObjectMeta {
        let location = Path::parse(key).expect("a key");
        let last_modified = std::time::SystemTime::UNIX_EPOCH.into();
        ObjectMeta { location, last_modified, size: 1, e_tag: None, version: None }
    }

    #[test]
    fn what_an_interrupted_listing_has_planned_keeps_its_result_and_counts_towards_the_limit() {
        let (locations, previous_runs) = (locations(), PreviousRuns::default());
        let options = RunOptions { limit: Some(2), ..options(&Selection::default()) };
        let planner = || Planner::new(&locations, &options, &previous_runs);
        let Action::Process(planned) = planner().classify(object("in/a.jpg")) else { panic!("it is a picture") };
        let mut resumed = planner();
        resumed.add_planned(&planned.row);
        let Action::Reject(row) = resumed.classify(object("in/a.jpeg")) else { panic!("it has the same result") };
        assert_eq!(row.code.as_deref(), Some("conflict"));
        assert!(matches!(resumed.classify(object("in/b.jpg")), Action::Process(_)));
        assert!(matches!(resumed.classify(object("in/c.jpg")), Action::LimitReached));
    }

    #[test]
    fn a_result_key_that_is_too_long_is_rejected_with_a_short_row() {
        let (locations, previous_runs) = (locations(), PreviousRuns::default());
        let selection = Selection { output: "{dir}".repeat(200) + "/{stem}.{ext}", ..Selection::default() };
        let options = options(&selection);
        let mut planner = Planner::new(&locations, &options, &previous_runs);
        let mut classify = |folder: &str| planner.classify(object(&format!("in/{folder}/a.jpg")));
        // `out/`, the folder 200 times, and `/a.png`: 1,010 bytes, and 1,210.
        assert!(matches!(classify("short"), Action::Process(_)));
        let Action::Reject(row) = classify("longer") else { panic!("it has a result key") };
        assert_eq!(row.code.as_deref(), Some("invalid_parameter"));
        assert!(row.output.len() < 1100 && row.source == "s3://shop/in/longer/a.jpg", "{}", row.output);
        let umlauts = "ü".repeat(60);
        assert!(matches!(classify(&umlauts), Action::Reject(_)), "it is cut between characters");
    }
}
