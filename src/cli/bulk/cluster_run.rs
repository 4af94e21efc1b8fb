//! `backdrop bulk FROM TO --cluster`: queues a run for workers, follows it to its end, and writes its report.

use super::progress::Progress;
use super::report_file::ReportFile;
use super::summary::finish_run;
use crate::bulk::cluster::{Enqueued, FollowEnd, Followed, enqueue, follow, listed};
use crate::bulk::{Locations, ReportLog, RunOptions, StopSignal, Summary};
use crate::cli::exit_code::{Failure, Outcome};
use crate::store::{BulkQueue, BulkRun};

/// A run for workers.
pub(super) struct ClusterRun<'a> {
    pub(super) queue: &'a BulkQueue,
    pub(super) run: &'a BulkRun,
    pub(super) locations: &'a Locations,
    pub(super) options: &'a RunOptions,
    /// Returns once the objects are queued.
    pub(super) is_detached: bool,
    /// Prints a summary as JSON.
    pub(super) json: bool,
}

impl ClusterRun<'_> {
    pub(super) async fn run(
        &self,
        report: ReportLog,
        report_file: &ReportFile,
        stop: &StopSignal,
    ) -> Result<Outcome, Failure> {
        let id = &self.run.id;
        let listed = self.list(&report, stop).await?;
        if !listed.is_complete {
            print_stderr!("The listing of run {id} is incomplete; to resume it, run the same command again.");
            return Ok(Outcome::SomeFailed);
        }
        if self.is_detached {
            print_stderr!("To follow the run {id} and write its report, run the same command without --detach.");
            return Ok(Outcome::Done);
        }
        let mut progress = Progress::new();
        let followed = follow(self.queue, id, &report, stop, &mut progress).await;
        progress.finish();
        let Followed { summary, end } = followed?;
        let summary = Summary { skipped: summary.skipped + listed.skipped, ignored: listed.ignored, ..summary };
        match end {
            FollowEnd::Finished => {}
            FollowEnd::Cancelled => print_stderr!("The run {id} was cancelled."),
            FollowEnd::Left => print_stderr!(
                "The run {id} goes on. The same command follows it again, and `backdrop bulk cancel {id}` ends it."
            ),
        }
        let outcome = finish_run(&summary, report, report_file, self.json).await?;
        if end != FollowEnd::Left {
            // Only now: until the report is written, the database has the only copy of its rows.
            self.queue.remove(id).await?;
        }
        if end == FollowEnd::Finished && summary.is_empty() {
            return Err(format!("there is no picture in {}", self.locations.source.address_prefix()).into());
        }
        Ok(outcome)
    }

    /// Queues the objects, unless an earlier command has queued them all.
    async fn list(&self, report: &ReportLog, stop: &StopSignal) -> Result<Enqueued, Failure> {
        if let Some(run) = listed(self.queue, &self.run.id).await? {
            print_stderr!("Run {}: resumed, {} of {} objects are finished", run.id, run.finished, run.objects);
            return Ok(Enqueued::from(&run));
        }
        print_stderr!("Run {}: listing the objects", self.run.id);
        let listed = enqueue(self.queue, self.run, self.locations, self.options, report, stop).await?;
        print_stderr!("Run {}: {} objects queued", self.run.id, listed.objects);
        Ok(listed)
    }
}
