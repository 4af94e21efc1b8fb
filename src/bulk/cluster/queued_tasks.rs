//! The tasks of a chunk as JSON: what a worker needs to know of each object, so that it does not list.

use crate::bulk::planner::Task;
use crate::bulk::report_row::ReportRow;
use crate::bulk::run_error::RunError;
use object_store::ObjectMeta;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Serialize, Deserialize)]
struct QueuedTask {
    /// Key of the source.
    source: String,
    /// Bytes of the source.
    size: u64,
    /// Microseconds from 1970.
    modified: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Key of the result.
    output: String,
    row: ReportRow,
}

/// The tasks as text.
pub(super) fn encode(tasks: &[Task]) -> String {
    let queued = |task: &Task| QueuedTask {
        source: task.meta.location.to_string(),
        size: task.meta.size,
        modified: task.meta.last_modified.timestamp_micros(),
        etag: task.meta.e_tag.clone(),
        version: task.meta.version.clone(),
        output: task.output.to_string(),
        row: task.row.clone(),
    };
    serde_json::to_string(&tasks.iter().map(queued).collect::<Vec<_>>()).expect("tasks are plain data")
}

/// The tasks of a text.
pub(super) fn decode(text: &str) -> Result<Vec<Task>, RunError> {
    let damaged = |error: &dyn std::fmt::Display| RunError::Fatal(format!("the queue has a damaged chunk: {error}"));
    let queued: Vec<QueuedTask> = serde_json::from_str(text).map_err(|error| damaged(&error))?;
    let task = |queued: QueuedTask| {
        let QueuedTask { source, size, modified, etag, version, output, row } = queued;
        let path = |key: &str| Path::parse(key).map_err(|error| damaged(&error));
        let meta =
            ObjectMeta { location: path(&source)?, last_modified: time(modified).into(), size, e_tag: etag, version };
        Ok(Task { meta, output: path(&output)?, row })
    };
    queued.into_iter().map(task).collect()
}

fn time(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::report_row::object_version;

    #[test]
    fn a_task_has_the_same_keys_and_version_after_the_queue() {
        for (key, etag, micros) in [("a b/ü%.jpg", Some("\"x\""), 1_700_000_000_123_456), ("x", None, -5)] {
            let meta = ObjectMeta {
                location: Path::parse(key).unwrap(),
                last_modified: time(micros).into(),
                size: 7,
                e_tag: etag.map(str::to_owned),
                version: None,
            };
            let row = ReportRow { source: format!("s3://shop/{key}"), source_bytes: 7, ..ReportRow::default() };
            let task = Task { meta, output: Path::parse("out/a b.png").unwrap(), row };
            let again = decode(&encode(std::slice::from_ref(&task))).unwrap().remove(0);
            assert_eq!((&again.meta, &again.output, &again.row), (&task.meta, &task.output, &task.row));
            assert_eq!(object_version(&again.meta), object_version(&task.meta));
        }
        assert!(decode("[{}]").is_err());
    }
}
