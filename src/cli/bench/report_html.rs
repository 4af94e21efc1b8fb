//! A record as one HTML file without external parts: the result, plots of latency and stages, tables of all parameters.

use super::percentiles::Percentile;
use super::plot::{Axis, Bar, Line, Scale, bars, escape, lines};
use super::record::{Record, Run};
use super::scenario::Scenario;
use super::text;

/// Points of a distribution that are drawn; more cannot be distinguished.
const MAX_POINTS: usize = 400;
/// Colours of `report.css`.
const COLOURS: usize = 9;

/// The whole page.
pub(super) fn page(record: &Record) -> String {
    let runs = text::by_rate(&record.runs);
    let sections: [(&str, Option<String>); 5] = [
        ("Latency distribution", distribution(&runs)),
        ("Latency over load", load(record, &runs)),
        ("Stages", stages(&runs)),
        ("Runs", Some(runs_table(&runs))),
        ("Conditions", Some(conditions(record))),
    ];
    let section = |(title, content): (&str, Option<String>)| {
        content.map(|content| format!("<section><h2>{title}</h2>{content}</section>\n")).unwrap_or_default()
    };
    let body: String = sections.into_iter().map(section).collect();
    let warnings: String = runs.iter().filter_map(|run| text::warning(run)).map(|line| warning(&line)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>backdrop bench: {scenario}</title>\n<style>{css}</style>\n</head>\n<body>\n<main>\n\
         <h1>backdrop bench: {scenario}</h1>\n<p class=\"result\">{result}</p>\n{warnings}{body}</main>\n</body>\n</html>\n",
        scenario = record.parameters.scenario.name(),
        css = include_str!("report.css"),
        result = escape(&text::result(record)),
    )
}

fn warning(line: &str) -> String {
    format!("<p class=\"warning\">Load generator {}</p>\n", escape(line))
}

/// The name of a run: its rate, if it has one.
fn name(run: &Run) -> String {
    run.rate.map_or_else(|| "mean".to_owned(), |rate| format!("{}/s", text::number(rate)))
}

/// Latency by percentile, for each run; `None` without latencies.
fn distribution(runs: &[&Run]) -> Option<String> {
    let sorted: Vec<(String, Vec<f64>)> = runs
        .iter()
        .filter(|run| run.latency_ms.is_some())
        .map(|run| {
            let mut latencies = run.samples.latency_ms.clone();
            latencies.sort_by(f64::total_cmp);
            (name(run), latencies)
        })
        .collect();
    let most = sorted.iter().map(|(_, latencies)| latencies.len()).max()?;
    let y = latency_axis(sorted.iter().flat_map(|(_, latencies)| latencies).copied())?;
    let x = Axis::percentiles("percentile of the queries, %", (1.0 - 0.5 / most as f64).max(0.9));
    let mut drawn = Vec::new();
    for (index, (name, latencies)) in sorted.iter().enumerate() {
        // Up to the last percentile that the run has enough samples for; beyond it dashed.
        let stated = Percentile::ALL.into_iter().rfind(|p| latencies.len() >= p.min_samples());
        let stated = stated.map_or(0.0, Percentile::share);
        let points = quantiles(latencies);
        let split = points.partition_point(|(share, _)| *share <= stated);
        let (solid, dashed) = (points[..split].to_vec(), points[split.saturating_sub(1)..].to_vec());
        let line = |name: &str, points, dashed| Line {
            name: name.to_owned(),
            points,
            colour: index % COLOURS,
            dashed,
            dots: false,
        };
        drawn.push(line(if sorted.len() > 1 { name } else { "" }, solid, false));
        drawn.push(line("", dashed, true));
    }
    let plot = lines("Latency by percentile", &x, &y, &drawn);
    Some(format!(
        "{plot}<p class=\"note\">Dashed: above the highest percentile that the run has enough samples for (LoadGen's early \
         stopping: {}).</p>",
        Percentile::ALL.map(|p| format!("{} needs {}", p.name(), p.min_samples())).join(", ")
    ))
}

/// Shares and values of sorted latencies, denser towards the largest ones.
fn quantiles(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let share = |index: usize| (index as f64 + 0.5) / count as f64;
    let scale = Scale::Percentile;
    let mut points = Vec::new();
    let mut next = 0.0;
    let step = scale.position(share(count - 1)) / MAX_POINTS as f64;
    for (index, &latency) in sorted.iter().enumerate() {
        let at = scale.position(share(index));
        if at >= next || index == count - 1 {
            points.push((share(index), latency));
            next = at + step;
        }
    }
    points
}

/// A linear axis, or a logarithmic one if the values are more than 20 times apart.
fn latency_axis(values: impl Iterator<Item = f64>) -> Option<Axis> {
    let (smallest, largest) = values.fold((f64::INFINITY, 0_f64), |(low, high), ms| (low.min(ms), high.max(ms)));
    (largest > 0.0).then(|| {
        if largest > smallest.max(1e-3) * 20.0 {
            Axis::log("latency, ms", smallest.max(1e-3), largest)
        } else {
            Axis::linear("latency, ms", largest)
        }
    })
}

/// Percentiles of the latency over the rate, of a search.
fn load(record: &Record, runs: &[&Run]) -> Option<String> {
    if runs.len() < 2 {
        return None;
    }
    let bound = record.parameters.latency_bound_ms;
    let rates: Vec<f64> = runs.iter().filter_map(|run| run.rate).collect();
    let x = Axis::linear("arrivals a second", rates.iter().copied().fold(0.0, f64::max));
    let mut drawn = Vec::new();
    for (colour, percentile) in Percentile::ALL.into_iter().enumerate() {
        let point = |run: &&Run| Some((run.rate?, run.latency_ms.as_ref()?.get(percentile)?));
        let points: Vec<_> = runs.iter().filter_map(point).collect();
        if !points.is_empty() {
            drawn.push(Line { name: percentile.name().to_owned(), points, colour, dashed: false, dots: true });
        }
    }
    let y = latency_axis(drawn.iter().flat_map(|line| &line.points).map(|(_, ms)| *ms).chain(bound))?;
    if let Some(bound) = bound {
        let ends = [rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max)];
        let name = format!("bound, {} ms", text::number(bound));
        drawn.push(Line {
            name,
            points: ends.map(|rate| (rate, bound)).to_vec(),
            colour: 8,
            dashed: true,
            dots: false,
        });
    }
    Some(lines("Latency over load", &x, &y, &drawn))
}

/// Mean times of the stages as stacked bars, one for each run.
fn stages(runs: &[&Run]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for stage in runs.iter().flat_map(|run| &run.stages) {
        if !names.contains(&stage.name.as_str()) {
            names.push(&stage.name);
        }
    }
    let colour = |name: &str| names.iter().position(|known| *known == name).unwrap_or_default() % COLOURS;
    let bar = |run: &&Run| Bar {
        label: name(run),
        parts: run.stages.iter().map(|stage| (colour(&stage.name), stage.mean_ms)).collect(),
    };
    let drawn: Vec<Bar> = runs.iter().filter(|run| !run.stages.is_empty()).map(bar).collect();
    let longest = drawn.iter().map(|bar| bar.parts.iter().map(|(_, ms)| ms).sum::<f64>()).fold(0.0, f64::max);
    if longest == 0.0 {
        return None;
    }
    // The legend has the numbers of a single run; the table has the numbers of several runs.
    let entry = |name: &str| match runs {
        [run] => {
            let stage = run.stages.iter().find(|stage| stage.name == name);
            let time = stage.map(|stage| format!(" {} ms, {:.0} %", text::number(stage.mean_ms), stage.share * 100.0));
            format!("{name}{}", time.unwrap_or_default())
        }
        _ => name.to_owned(),
    };
    let legend = names.iter().map(|name| (colour(name), entry(name)));
    Some(bars("Mean time in each stage", &Axis::linear("mean time of a picture, ms", longest), &drawn, legend))
}

fn runs_table(runs: &[&Run]) -> String {
    let percentiles = Percentile::ALL.map(|percentile| format!("{} ms", percentile.name()));
    let first = ["rate/s", "images", "images/s", "MPix/s"].map(String::from);
    let rest = ["mean ms", "max ms", "refused", "failed"].map(String::from);
    let heading = first.into_iter().chain(percentiles).chain(rest).collect::<Vec<_>>();
    let row = |run: &&Run| {
        let latency = run.latency_ms.as_ref();
        let mut cells = vec![
            text::or_dash(run.rate),
            run.images.to_string(),
            text::number(run.images_per_second),
            text::number(run.megapixels_per_second),
        ];
        cells.extend(
            Percentile::ALL.map(|percentile| text::or_dash(latency.and_then(|latency| latency.get(percentile)))),
        );
        cells.extend([latency.map(|latency| latency.mean), latency.map(|latency| latency.max)].map(text::or_dash));
        cells.extend([run.outcomes.refused.to_string(), run.outcomes.failures().to_string()]);
        cells
    };
    format!("<div class=\"wide\">{}</div>", table(&heading, &runs.iter().map(row).collect::<Vec<_>>()))
}

fn table(heading: &[String], rows: &[Vec<String>]) -> String {
    let line = |tag: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>")
    };
    format!("<table>{}{}</table>", line("th", heading), rows.iter().map(|row| line("td", row)).collect::<String>())
}

/// The conditions of the measurement.
fn conditions(record: &Record) -> String {
    let p = &record.parameters;
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    let pixels: usize = record.photos.iter().map(|photo| photo.pixels).sum();
    let set: String = p.set.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    let bound = p.latency_bound_ms.map_or_else(String::new, |ms| format!(", {} within {ms} ms", p.percentile.name()));
    let load = match (p.scenario, p.rate) {
        (Scenario::Server, Some(rate)) => format!("Poisson arrivals, {} a second{bound}", text::number(rate)),
        (Scenario::Server, None) => format!("Poisson arrivals, the rate searched{bound}"),
        (Scenario::MultiStream, _) => format!("one query of {} pictures at a time", p.samples_per_query),
        (Scenario::SingleStream, _) => "one picture at a time".to_owned(),
        (Scenario::ClosedLoop, _) => format!("{} clients, one picture at a time each", p.clients),
        (Scenario::Offline, _) => format!("all pictures at once, {} handed over at a time", p.clients),
    };
    let rows = [
        ("started", format!("{:.0}", record.started)),
        ("version", record.version.clone()),
        ("service", record.service.url.clone().unwrap_or_else(|| "the pipeline in one process".to_owned())),
        ("device", or_none(&record.service.device)),
        ("model", or_none(&record.service.model)),
        ("machine", record.machine.line()),
        ("photos", format!("{}, {} megapixels together", record.photos.len(), text::number(pixels as f64 / 1e6))),
        ("endpoint", format!("{}{set}", p.endpoint)),
        ("load", load),
        ("duration", format!("{} s after {} s of warm-up; seed {}", p.seconds, p.warm_up_seconds, p.seed)),
    ];
    let row = |(name, value): (&str, String)| format!("<tr><th>{name}</th><td>{}</td></tr>", escape(&value));
    format!("<table class=\"conditions\">{}</table>", rows.into_iter().map(row).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::record::tests::record;

    fn search() -> Record {
        let mut record = record(Scenario::Server, &[80.0; 700]);
        record.parameters.latency_bound_ms = Some(200.0);
        let run = record.runs.remove(0);
        record.runs = [9.0, 3.0, 6.0].map(|rate| Run { rate: Some(rate), ..run.clone() }).to_vec();
        record
    }

    #[test]
    fn the_page_loads_nothing_and_names_only_the_namespace_of_svg() {
        for page in [page(&record(Scenario::SingleStream, &[80.0; 70])), page(&search())] {
            let page = page.replace("http://www.w3.org/2000/svg", "");
            for external in ["http:", "https:", "src=", "href=", "url(", "@import"] {
                assert!(!page.contains(external), "{external}");
            }
        }
    }

    #[test]
    fn a_search_has_a_curve_over_its_rates_and_a_single_run_has_not() {
        let page_of_search = page(&search());
        assert!(page_of_search.contains("Latency over load") && page_of_search.contains("bound, 200 ms"));
        let rates: Vec<_> = ["3.00/s", "6.00/s", "9.00/s"].map(|rate| page_of_search.find(rate)).into();
        assert!(rates.is_sorted() && rates[0].is_some(), "by rate: {rates:?}");
        assert!(!page(&record(Scenario::SingleStream, &[80.0; 70])).contains("Latency over load"));
    }

    #[test]
    fn an_offline_run_has_stages_and_no_latencies() {
        let page = page(&record(Scenario::Offline, &[80.0; 70]));
        assert!(!page.contains("Latency distribution") && page.contains("matte 48.0 ms, 60 %"), "{page}");
    }
}
