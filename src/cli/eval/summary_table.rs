//! Mean scores per dataset, as JSON and as a text table.

use super::evaluate::Evaluated;
use super::metrics::{MattingErrors, Scores, max_f};
use crate::cli::text_table;
use crate::matting::outline::{Outline, width_percentile};
use serde::Serialize;

/// The mean scores of a dataset.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    set: String,
    of: String,
    n: usize,
    mae: f64,
    iou: f64,
    max_f: f64,
    boundary_iou: f64,
    /// Excess length of the outline.
    raggedness: Option<f64>,
    /// Median and 90th percentile of the width of sharp edges, in pixels.
    edge_width: Option<[f64; 2]>,
    /// Mean coverage of thin parts, and of the background next to them.
    thin: Option<f64>,
    beside_thin: Option<f64>,
    /// Pictures with a soft ground truth, over which the matting errors are averaged.
    soft: usize,
    #[serde(flatten)]
    matting: Option<MeanMatting>,
}

#[derive(Debug, Serialize)]
struct MeanMatting {
    sad: f64,
    mse: f64,
    grad: f64,
    conn: f64,
}

/// The rows as text.
pub(super) fn text(results: &[(String, Vec<Evaluated>)]) -> String {
    let heading = [
        "set", "of", "n", "MAE", "IoU", "max F", "bIoU", "ragged", "edge", "p90", "thin", "beside", "soft", "SAD",
        "MSE", "Grad", "Conn",
    ];
    let dash = || "–".to_owned();
    let cells = |row: Row| {
        let matting = |pick: fn(&MeanMatting) -> String| row.matting.as_ref().map_or_else(dash, pick);
        [
            row.set.clone(),
            row.of.clone(),
            row.n.to_string(),
            format!("{:.4}", row.mae),
            format!("{:.4}", row.iou),
            format!("{:.4}", row.max_f),
            format!("{:.4}", row.boundary_iou),
            row.raggedness.map_or_else(dash, |share| format!("{:.2} %", 100.0 * share)),
            row.edge_width.map_or_else(dash, |[median, _]| format!("{median:.2}")),
            row.edge_width.map_or_else(dash, |[_, high]| format!("{high:.2}")),
            row.thin.map_or_else(dash, |mean| format!("{mean:.3}")),
            row.beside_thin.map_or_else(dash, |mean| format!("{mean:.3}")),
            row.soft.to_string(),
            matting(|m| format!("{:.2}", m.sad)),
            matting(|m| format!("{:.5}", m.mse)),
            matting(|m| format!("{:.2}", m.grad)),
            matting(|m| format!("{:.2}", m.conn)),
        ]
    };
    text_table::format_table(heading, rows(results).into_iter().map(cells))
}

/// The mean scores of each stage of each dataset.
pub(super) fn rows(results: &[(String, Vec<Evaluated>)]) -> Vec<Row> {
    let evaluated = results.iter().filter(|(_, evaluated)| !evaluated.is_empty());
    evaluated
        .flat_map(|(set, evaluated)| {
            let stages = evaluated[0].stages().map(|(name, _)| name).enumerate();
            stages.map(move |(stage, of)| {
                let scores = evaluated.iter().filter_map(|one| one.stages().nth(stage)).map(|(_, scores)| scores);
                row(set, of.into_owned(), &scores.collect::<Vec<_>>())
            })
        })
        .collect()
}

fn row(set: &str, of: String, scores: &[&Scores]) -> Row {
    let mean = |pick: fn(&Scores) -> f64| scores.iter().map(|scores| pick(scores)).sum::<f64>() / scores.len() as f64;
    let soft: Vec<&MattingErrors> = scores.iter().filter_map(|scores| scores.matting.as_ref()).collect();
    let soft_mean =
        |pick: fn(&MattingErrors) -> f64| soft.iter().map(|matting| pick(matting)).sum::<f64>() / soft.len() as f64;
    let outline_mean = |pick: fn(&Outline) -> Option<f64>| {
        let values: Vec<f64> = scores.iter().filter_map(|scores| pick(&scores.outline)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let mut widths: Vec<u8> = scores.iter().flat_map(|scores| scores.outline.widths.iter().copied()).collect();
    widths.sort_unstable();
    let edge_width = width_percentile(&widths, 50).zip(width_percentile(&widths, 90));
    Row {
        set: set.to_owned(),
        of,
        n: scores.len(),
        mae: mean(|scores| scores.mae),
        iou: mean(|scores| scores.iou),
        max_f: max_f(scores.iter().map(|scores| scores.curve.as_slice())),
        boundary_iou: mean(|scores| scores.boundary_iou),
        raggedness: outline_mean(|outline| outline.raggedness),
        edge_width: edge_width.map(<[f64; 2]>::from),
        thin: outline_mean(|outline| outline.thin.map(|(thin, _)| thin)),
        beside_thin: outline_mean(|outline| outline.thin.map(|(_, beside)| beside)),
        soft: soft.len(),
        matting: (!soft.is_empty()).then(|| MeanMatting {
            sad: soft_mean(|m| m.sad),
            mse: soft_mean(|m| m.mse),
            grad: soft_mean(|m| m.gradient),
            conn: soft_mean(|m| m.connectivity),
        }),
    }
}
