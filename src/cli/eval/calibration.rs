//! Calibration of the uncertainty: how well it predicts bad mattes.

use super::evaluate::Evaluated;
use crate::cli::text_table;
use crate::matting::BAD_MAE;
use serde::Serialize;

/// Minimum number of pictures for fifths to be meaningful.
const FEWEST: usize = 10;

/// Predicted and actual errors of a dataset.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Calibration {
    set: String,
    n: usize,
    /// Mean uncertainty: the expected share of bad mattes.
    expected_bad: f64,
    /// The share of mattes whose mean absolute error is above [`BAD_MAE`].
    bad: f64,
    /// Mean absolute error of the fifth with the least uncertainty.
    surest_mae: f64,
    /// Mean absolute error of the fifth with the most uncertainty.
    unsurest_mae: f64,
    /// `unsurest_mae / surest_mae`; `None` if `surest_mae` is 0.
    ratio: Option<f64>,
    /// Spearman's correlation of uncertainty and error; `None` when one of them is constant.
    rank_correlation: Option<f64>,
}

/// The calibration of each dataset with enough pictures, then of all datasets together.
pub(super) fn calibrations(results: &[(String, Vec<Evaluated>)]) -> Vec<Calibration> {
    let of = |evaluated: &[Evaluated]| evaluated.iter().map(|one| (one.uncertainty, one.matte.mae)).collect::<Vec<_>>();
    let mut found: Vec<_> = results.iter().filter_map(|(set, evaluated)| calibration(set, &of(evaluated))).collect();
    if results.len() > 1 {
        found.extend(calibration("all", &results.iter().flat_map(|(_, evaluated)| of(evaluated)).collect::<Vec<_>>()));
    }
    found
}

/// The calibrations as text; empty when there is none.
pub(super) fn text(results: &[(String, Vec<Evaluated>)]) -> String {
    let cells = |one: Calibration| {
        let known =
            |value: Option<f64>, digits| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
        [
            one.set.clone(),
            one.n.to_string(),
            format!("{:.3}", one.expected_bad),
            format!("{:.3}", one.bad),
            format!("{:.4}", one.surest_mae),
            format!("{:.4}", one.unsurest_mae),
            known(one.ratio, 1),
            known(one.rank_correlation, 2),
        ]
    };
    let calibrations = calibrations(results);
    if calibrations.is_empty() {
        return String::new();
    }
    let heading =
        ["uncertainty", "n", "expected bad", "bad", "MAE surest 5th", "MAE unsurest 5th", "ratio", "rank corr"];
    format!("\n\n{}", text_table::format_table(heading, calibrations.into_iter().map(cells)))
}

/// `pictures`: uncertainty and error of each.
fn calibration(set: &str, pictures: &[(f32, f64)]) -> Option<Calibration> {
    if pictures.len() < FEWEST {
        return None;
    }
    let mut sorted = pictures.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = |pictures: &[(f32, f64)], of: fn(&(f32, f64)) -> f64| {
        pictures.iter().map(of).sum::<f64>() / pictures.len() as f64
    };
    let fifth = sorted.len() / 5;
    let surest_mae = mean(&sorted[..fifth], |one| one.1);
    let unsurest_mae = mean(&sorted[sorted.len() - fifth..], |one| one.1);
    Some(Calibration {
        set: set.to_owned(),
        n: sorted.len(),
        expected_bad: mean(&sorted, |one| f64::from(one.0)),
        bad: mean(&sorted, |one| if one.1 > BAD_MAE { 1.0 } else { 0.0 }),
        surest_mae,
        unsurest_mae,
        ratio: (surest_mae > 0.0).then(|| unsurest_mae / surest_mae),
        rank_correlation: rank_correlation(&sorted),
    })
}

/// Pearson's correlation of the ranks.
fn rank_correlation(pictures: &[(f32, f64)]) -> Option<f64> {
    let uncertainty = ranks(&pictures.iter().map(|one| f64::from(one.0)).collect::<Vec<_>>());
    let error = ranks(&pictures.iter().map(|one| one.1).collect::<Vec<_>>());
    // The mean of all ranks.
    let mean = (pictures.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let spread = (product(&uncertainty, &uncertainty) * product(&error, &error)).sqrt();
    (spread > 0.0).then(|| product(&uncertainty, &error) / spread)
}

/// The rank of each value, from 0; equal values share their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equals in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = first as f64 + (equals.len() as f64 - 1.0) / 2.0;
        equals.iter().for_each(|&at| ranks[at] = rank);
        first += equals.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifths_are_by_uncertainty_and_not_by_error() {
        let pictures: Vec<(f32, f64)> = (0..10).map(|i| (i as f32 / 10.0, f64::from((i * 3) % 10) / 100.0)).collect();
        let found = calibration("cups", &pictures).unwrap();
        // Errors 0, .03 first and .04, .07 last.
        assert!((found.surest_mae - 0.015).abs() < 1e-12 && (found.unsurest_mae - 0.055).abs() < 1e-12, "{found:?}");
        assert!((found.ratio.unwrap() - 0.055 / 0.015).abs() < 1e-9, "{found:?}");
        assert!((found.expected_bad - 0.45).abs() < 1e-6 && (found.bad - 0.4).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn too_few_pictures_have_no_calibration_and_constant_values_no_correlation() {
        assert_eq!(calibration("few", &[(0.5, 0.1); 9]), None);
        let equal = calibration("equal", &[(0.5, 0.0); 10]).unwrap();
        assert_eq!((equal.ratio, equal.rank_correlation), (None, None));
    }

    #[test]
    fn rank_correlation_ignores_the_scale_and_ties_share_their_rank() {
        let cubes: Vec<(f32, f64)> = (0..20).map(|i| (i as f32, f64::from(i).powi(3))).collect();
        assert!((rank_correlation(&cubes).unwrap() - 1.0).abs() < 1e-12);
        let falling: Vec<(f32, f64)> = cubes.iter().map(|one| (one.0, -one.1)).collect();
        assert!((rank_correlation(&falling).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [1.5, 0.0, 1.5, 3.0]);
    }
}
