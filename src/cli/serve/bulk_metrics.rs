//! Reads how far the bulk runs in the database are, for the metrics of a daemon.

use crate::store::{BulkQueue, BulkRunState, BulkStatus};
use crate::telemetry::metrics::{self, BulkProgress};
use std::time::Duration;

/// Between two readings.
const INTERVAL: Duration = Duration::from_secs(15);

/// Sets the metrics again and again; they keep their last values while the database is away. Ends only where
/// no database is configured.
pub(super) async fn report(queue: Option<BulkQueue>) {
    let Some(queue) = queue else { return };
    loop {
        match queue.status(None).await {
            Ok(runs) => metrics::bulk_progress(progress(&runs)),
            // While the database is away, which the daemon itself reports.
            Err(error) => tracing::debug!(%error, "the progress of bulk runs cannot be read"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Sums over the runs that are not cancelled.
fn progress(runs: &[BulkStatus]) -> BulkProgress {
    let runs = runs.iter().filter(|run| run.state != BulkRunState::Cancelled);
    runs.fold(BulkProgress::default(), |sum, run| BulkProgress {
        finished: sum.finished + run.finished,
        left: sum.left + run.objects.saturating_sub(run.finished),
        queued: sum.queued + run.open_chunks.saturating_sub(run.claimed_chunks),
        claimed: sum.claimed + run.claimed_chunks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_runs_count_for_nothing() {
        let run = |state, finished| BulkStatus {
            state,
            objects: 500,
            finished,
            open_chunks: 4,
            claimed_chunks: 1,
            ..BulkStatus::default()
        };
        let runs = [run(BulkRunState::Running, 100), run(BulkRunState::Paused, 50), run(BulkRunState::Cancelled, 200)];
        assert_eq!(progress(&runs), BulkProgress { finished: 150, left: 850, queued: 6, claimed: 2 });
        assert_eq!(progress(&[]), BulkProgress::default());
    }
}
