//! A bulk run on this machine: lists objects, plans what to do with each, and executes it.

use super::executor::{Executor, Work};
use super::locations::Locations;
use super::options::RunOptions;
use super::planner::{Action, Planner};
use super::processor::Processor;
use super::progress::{Counters, ListingTotal, Observer, add};
use super::report_log::ReportLog;
use super::run_error::RunError;
use super::stop_signal::StopSignal;
use super::summary::Summary;
use futures_util::{StreamExt, TryStreamExt};
use std::future::ready;

/// A run and everything it needs.
#[derive(Debug)]
pub struct Run<'a, P> {
    /// Source and destination.
    pub locations: &'a Locations,
    /// Filter, naming and limits.
    pub options: &'a RunOptions,
    /// Pictures processed concurrently; at least 1.
    pub jobs: usize,
    /// The per-picture work.
    pub processor: &'a P,
    /// The report.
    pub report: &'a ReportLog,
    /// Ends the run early: pictures in progress are finished, no other is started.
    pub stop: &'a StopSignal,
}

impl<P: Processor> Run<'_, P> {
    /// Runs to the end. Dropping the future cancels everything at once.
    pub async fn run(&self, observer: &mut impl Observer) -> (Summary, Option<RunError>) {
        let &Self { locations, options, jobs, processor, report, stop } = self;
        let counters = Counters::default();
        let executor = Executor::new(Work { locations, max_bytes: options.max_bytes, jobs, processor, report, stop });
        let source = &locations.source;
        let mut planner = Planner::new(locations, options, report.previous_runs());
        let listing = source.store.list(Some(&source.prefix)).take_until(executor.halted());
        let actions = listing
            .map(|listed| {
                let action = listed.map(|meta| planner.classify(meta));
                match &action {
                    Ok(Action::Ignore) => add(&counters.ignored, 1),
                    Ok(Action::AlreadyDone) => add(&counters.skipped, 1),
                    Ok(Action::Reject(_) | Action::Process(_) | Action::LimitReached) | Err(_) => {}
                }
                action
            })
            .take_while(|action| ready(!matches!(action, Ok(Action::LimitReached))))
            .filter(|action| ready(!matches!(action, Ok(Action::Ignore | Action::AlreadyDone))));
        executor.execute(actions, count_objects(locations, options), &counters, observer).await
    }
}

/// Counts the objects of a run, for progress and time left; `None` if they cannot be listed.
async fn count_objects(locations: &Locations, options: &RunOptions) -> Option<ListingTotal> {
    let mut listing = locations.source.store.list(Some(&locations.source.prefix));
    let mut total = ListingTotal { objects: 0, limit: options.limit };
    while let Some(meta) = listing.try_next().await.ok()? {
        total.objects += u64::from(locations.select(options, &meta).is_some());
    }
    Some(total)
}
