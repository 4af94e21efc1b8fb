//! Follows a run to its end and collects the report rows of its chunks into one report.

use crate::bulk::progress::{Counters, ListingTotal, Observer};
use crate::bulk::report_log::ReportLog;
use crate::bulk::report_reader::{ReportError, ReportReader};
use crate::bulk::report_row::{ReportRow, Status};
use crate::bulk::run_error::RunError;
use crate::bulk::stop_signal::StopSignal;
use crate::bulk::summary::Summary;
use crate::store::{BulkQueue, BulkRunState, BulkStatus, OpenError};
use crate::telemetry::with_causes;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The pause between two polls of the run.
const POLL: Duration = Duration::from_millis(500);

/// Chunks whose rows are read at once.
const PAGE: u16 = 20;

/// How long chunks may wait before the absence of workers is reported.
const WITHOUT_WORKERS: Duration = Duration::from_secs(20);

/// How following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowEnd {
    /// Every object has its row.
    Finished,
    /// The run was cancelled; the objects that were done have their rows.
    Cancelled,
    /// The stop signal ended the following; the run continues.
    Left,
}

/// A run that was followed.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Totals, without objects that were skipped before they were queued.
    pub summary: Summary,
    /// How it ended.
    pub end: FollowEnd,
}

/// Appends the rows of the run `id` to `report` as its chunks are done, until the run ends or `stop` is requested.
///
/// # Errors
/// When the run is gone, the report cannot be written, or the database has another version's tables. While the database
/// is away this waits.
pub async fn follow(
    queue: &BulkQueue,
    id: &str,
    report: &ReportLog,
    stop: &StopSignal,
    observer: &mut impl Observer,
) -> Result<Followed, RunError> {
    let started = Instant::now();
    let mut collected = Collected::default();
    let mut notices = Notices::default();
    let end = loop {
        match collected.advance(queue, id, report, observer).await {
            Ok(Some(end)) => break end,
            Ok(None) => notices.is_away = false,
            Err(RunError::Queue(error @ OpenError::Io { .. })) => notices.database_away(&error, observer),
            Err(error) => return Err(error),
        }
        if let Some(status) = &collected.status {
            notices.workers(status, observer);
        }
        tokio::select! {
            () = stop.requested() => break FollowEnd::Left,
            () = tokio::time::sleep(POLL) => {}
        }
    };
    let summary = collected.summary.with_counts(&collected.counters, started.elapsed());
    Ok(Followed { summary: Summary { stopped: end != FollowEnd::Finished, ..summary }, end })
}

/// The report rows and counts that were collected.
#[derive(Default)]
struct Collected {
    /// Numbers of the chunks whose rows are in the report.
    chunks: Vec<i64>,
    counters: Counters,
    summary: Summary,
    status: Option<BulkStatus>,
}

impl Collected {
    /// Reads the state of the run and the rows of chunks that were done meanwhile.
    async fn advance(
        &mut self,
        queue: &BulkQueue,
        id: &str,
        report: &ReportLog,
        observer: &mut impl Observer,
    ) -> Result<Option<FollowEnd>, RunError> {
        let status = queue.status(Some(id)).await?.pop();
        let status = status.ok_or_else(|| RunError::Gone(id.to_owned()))?;
        if status.is_listed {
            observer.total(ListingTotal { objects: status.objects, limit: None });
        }
        let is_finished = status.is_listed && status.open_chunks == 0;
        let is_over = status.state == BulkRunState::Cancelled && status.claimed_chunks == 0;
        loop {
            // Of a cancelled run also the rows of unfinished chunks.
            let page = queue.reports(id, &self.chunks, is_over, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for (number, rows) in page {
                self.add(&rows, report, observer).await?;
                self.chunks.push(number);
            }
        }
        observer.tick(&self.counters.with_finished(status.finished));
        self.status = Some(status);
        Ok(if is_finished {
            Some(FollowEnd::Finished)
        } else if is_over {
            Some(FollowEnd::Cancelled)
        } else {
            None
        })
    }

    async fn add(&mut self, rows: &[u8], report: &ReportLog, observer: &mut impl Observer) -> Result<(), RunError> {
        for row in newest_rows(rows)? {
            report.append(&row).await?;
            let already_done = row.status == Status::Done && row.milliseconds.is_none();
            self.counters.count(&row, already_done);
            self.summary.count_failure(&row);
            if !already_done {
                observer.finished(&row, &self.counters);
            }
        }
        Ok(())
    }
}

/// The latest row of each object of a chunk: an object that failed in one attempt and was done in the next has two rows.
fn newest_rows(report: &[u8]) -> Result<Vec<ReportRow>, ReportError> {
    let mut reader = ReportReader::new(Path::new("the queue"), report);
    let mut rows = BTreeMap::new();
    while let Some(row) = reader.next()? {
        rows.insert(row.source.clone(), row);
    }
    Ok(rows.into_values().collect())
}

/// Reports each reason for which a run does not advance once.
#[derive(Default)]
struct Notices {
    is_away: bool,
    without_workers_since: Option<Instant>,
    has_reported_workers: bool,
    state: Option<BulkRunState>,
}

impl Notices {
    fn database_away(&mut self, error: &OpenError, observer: &mut impl Observer) {
        if !std::mem::replace(&mut self.is_away, true) {
            observer.notice(&format!("waiting for the database: {}", with_causes(error)));
        }
    }

    fn workers(&mut self, status: &BulkStatus, observer: &mut impl Observer) {
        if self.state.replace(status.state).is_some_and(|before| before != status.state) {
            observer.notice(&format!("the run is {}", status.state.name()));
        }
        if status.claimed_chunks > 0 || status.open_chunks == 0 || status.state != BulkRunState::Running {
            self.without_workers_since = None;
            return;
        }
        let since = *self.without_workers_since.get_or_insert_with(Instant::now);
        if since.elapsed() > WITHOUT_WORKERS && !std::mem::replace(&mut self.has_reported_workers, true) {
            observer.notice("no worker has claimed a chunk; start `backdrop work`, or read why it cannot in its log");
        }
    }
}
