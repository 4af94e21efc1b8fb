//! A record as text.

use super::percentiles::{Latency, Percentile};
use super::record::{Bound, Outcomes, Record, Run, Verdict};
use crate::cli::text_table::format_table;

/// The whole record.
pub(super) fn text(record: &Record) -> String {
    let mut lines = vec![format!("{:<12}{}", "result", result(record))];
    match record.runs.as_slice() {
        [run] => lines.extend(run_lines(run)),
        runs => lines.push(search_table(runs, record.parameters.percentile)),
    }
    lines.join("\n")
}

/// The one number and its note.
pub(super) fn result(record: &Record) -> String {
    let result = &record.result;
    let value = match result.value {
        Some(value) => format!("{}: {} {}", result.metric, number(value), result.unit),
        None => format!("{}: not shown", result.metric),
    };
    if result.note.is_empty() { value } else { format!("{value} ({})", result.note) }
}

/// Three digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Three digits, or a dash.
pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// The runs in the order of their rates.
pub(super) fn by_rate(runs: &[Run]) -> Vec<&Run> {
    let mut sorted: Vec<&Run> = runs.iter().collect();
    sorted.sort_by(|a, b| a.rate.unwrap_or_default().total_cmp(&b.rate.unwrap_or_default()));
    sorted
}

fn run_lines(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |label: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("{label:<12}{text}"));
        }
    };
    let rate = run.rate.map(|rate| format!(", {} a second expected", number(rate)));
    line("images", format!("{} in {:.1} s{}", run.images, run.seconds, rate.unwrap_or_default()));
    let (images, megapixels) = (number(run.images_per_second), number(run.megapixels_per_second));
    line("throughput", format!("{images} images/s  {megapixels} MPix/s"));
    if let Some(latency) = &run.latency_ms {
        line("latency", latency_text(latency));
        line("", latency.missing());
    }
    line("bound", run.bound.as_ref().map(bound_text).unwrap_or_default());
    line("stages", stages(run));
    line("answers", outcomes(&run.outcomes));
    line("generator", warning(run).unwrap_or_default());
    lines
}

fn latency_text(latency: &Latency) -> String {
    let stated = |p: Percentile| latency.get(p).map(|ms| format!("{} {}", p.name(), number(ms)));
    let percentiles: Vec<_> = Percentile::ALL.into_iter().filter_map(stated).collect();
    let ends = format!("mean {}  max {} ms", number(latency.mean), number(latency.max));
    if percentiles.is_empty() { ends } else { format!("{}  {ends}", percentiles.join("  ")) }
}

/// How a run did against the bound.
fn bound_text(bound: &Bound) -> String {
    let verdict = match (bound.verdict, bound.confident) {
        (Verdict::Met, true) => "met, with 99 % confidence",
        (Verdict::Met, false) => "met in this run, by less than 99 % confidence",
        (Verdict::Missed, _) => "missed",
        (Verdict::TooFewSamples, _) => "not decided: too few samples",
    };
    format!("{verdict}; {} queries exceeded it", bound.exceeded)
}

fn stages(run: &Run) -> String {
    let stage = |stage: &super::record::StageTime| {
        format!("{} {} ms {:.0} %", stage.name, number(stage.mean_ms), stage.share * 100.0)
    };
    run.stages.iter().map(stage).collect::<Vec<_>>().join("  ")
}

/// The outcomes; empty if all pictures are finished.
pub(super) fn outcomes(outcomes: &Outcomes) -> String {
    if outcomes.refused == 0 && outcomes.failed.is_empty() {
        return String::new();
    }
    let failed = outcomes.failed.iter().map(|(reason, count)| format!("{count} × {reason}"));
    let counts = [format!("{} done", outcomes.done), format!("{} refused (429)", outcomes.refused)];
    counts.into_iter().chain(failed).collect::<Vec<_>>().join("  ")
}

/// A warning if the generator did not keep the load.
pub(super) fn warning(run: &Run) -> Option<String> {
    let generator = &run.generator;
    generator.is_late().then(|| {
        let rate = run.rate.map(|rate| format!(" at {} a second", number(rate))).unwrap_or_default();
        format!(
            "late{rate}: {} of {} queries were sent more than 10 ms after they were due (at most {} ms); their latencies include it",
            generator.late,
            generator.queries,
            number(generator.most_late_ms)
        )
    })
}

/// The runs of a search, by rate.
fn search_table(runs: &[Run], percentile: Percentile) -> String {
    let tail = if percentile > Percentile::P90 { percentile } else { Percentile::P99 };
    let tail_heading = format!("{} ms", tail.name());
    let row = |run: &Run| {
        let latency = run.latency_ms.as_ref();
        let of = |p: Percentile| or_dash(latency.and_then(|latency| latency.get(p)));
        let verdict = match run.bound.as_ref().map(|bound| bound.verdict) {
            Some(Verdict::Met) => "met",
            Some(Verdict::Missed) => "missed",
            Some(Verdict::TooFewSamples) | None => "not decided",
        };
        let late = if run.generator.is_late() { ", generator late" } else { "" };
        let stopped = if run.generator.stopped_early { ", stopped early" } else { "" };
        [
            number(run.rate.unwrap_or_default()),
            run.generator.queries.to_string(),
            number(run.images_per_second),
            of(Percentile::P50),
            of(Percentile::P90),
            of(tail),
            or_dash(latency.map(|latency| latency.max)),
            run.outcomes.refused.to_string(),
            run.outcomes.failures().to_string(),
            format!("{verdict}{stopped}{late}"),
        ]
    };
    let heading = [
        "rate/s",
        "queries",
        "images/s",
        "p50 ms",
        "p90 ms",
        tail_heading.as_str(),
        "max ms",
        "refused",
        "failed",
        "bound",
    ];
    format_table(heading, by_rate(runs).into_iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::record::tests::record;
    use crate::cli::bench::scenario::Scenario;

    #[test]
    fn a_run_with_few_samples_says_which_percentiles_it_does_not_state() {
        let text = text(&record(Scenario::SingleStream, &[80.0; 70]));
        assert!(text.contains("result      p90 latency: 80.0 ms"), "{text}");
        assert!(text.contains("latency     p50 80.0  p90 80.0  mean 80.0  max 80.0 ms"), "{text}");
        assert!(text.contains("not stated with 70 samples: p95 needs 130, p99 needs 662"), "{text}");
        assert!(text.contains("stages      decode 8.00 ms 10 %  matte 48.0 ms 60 %  other 24.0 ms 30 %"), "{text}");
        assert!(!text.contains("answers") && !text.contains("generator"), "{text}");
    }

    #[test]
    fn failures_and_a_late_generator_are_reported() {
        let mut record = record(Scenario::ClosedLoop, &[80.0; 70]);
        let run = &mut record.runs[0];
        run.outcomes.refused = 3;
        run.outcomes.failed.insert("500".to_owned(), 1);
        run.generator.late = 7;
        run.generator.most_late_ms = 40.0;
        let text = text(&record);
        assert!(text.contains("answers     70 done  3 refused (429)  1 × 500"), "{text}");
        assert!(text.contains("generator   late: 7 of 70 queries"), "{text}");
    }
}
