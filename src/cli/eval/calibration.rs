//! How well the uncertainty foretells which mattes are bad.

use super::measure::Measured;
use crate::cli::print;
use crate::matting::BAD_MAE;
use serde::Serialize;

/// Fewer pictures have no fifths to speak of.
const FEWEST: usize = 10;

/// What the uncertainty said of some pictures, and what came of it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Calibration {
    set: String,
    n: usize,
    /// The mean uncertainty: the share of bad mattes to be expected.
    expected_bad: f64,
    /// The share of mattes whose mean absolute error is above [`BAD_MAE`].
    bad: f64,
    /// Mean absolute error of the fifth with the least uncertainty.
    surest_mae: f64,
    /// Mean absolute error of the fifth with the most.
    unsurest_mae: f64,
    /// The latter by the former; none by zero.
    ratio: Option<f64>,
    /// Spearman's, of uncertainty and error; none where one of them never differs.
    rank_correlation: Option<f64>,
}

/// One for each set with pictures enough, then one for all of them together.
pub(super) fn calibrations(results: &[(String, Vec<Measured>)]) -> Vec<Calibration> {
    let of = |measured: &[Measured]| measured.iter().map(|one| (one.uncertainty, one.matte.mae)).collect::<Vec<_>>();
    let mut found: Vec<_> = results.iter().filter_map(|(set, measured)| calibration(set, &of(measured))).collect();
    if results.len() > 1 {
        found.extend(calibration("all", &results.iter().flat_map(|(_, measured)| of(measured)).collect::<Vec<_>>()));
    }
    found
}

/// The same for people; nothing when there is none.
pub(super) fn text(results: &[(String, Vec<Measured>)]) -> String {
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
    let rows: Vec<_> = calibrations(results).into_iter().map(cells).collect();
    if rows.is_empty() {
        return String::new();
    }
    let heading =
        ["uncertainty", "n", "expected bad", "bad", "MAE surest 5th", "MAE unsurest 5th", "ratio", "rank corr"];
    format!("\n\n{}", print::table(heading, &rows))
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
    // The mean of any ranks.
    let mean = (pictures.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let spread = (product(&uncertainty, &uncertainty) * product(&error, &error)).sqrt();
    (spread > 0.0).then(|| product(&uncertainty, &error) / spread)
}

/// The place of each value among all, from 0; equals share the middle of theirs.
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
    fn fifths_are_told_by_the_uncertainty_and_not_by_the_error() {
        let pictures: Vec<(f32, f64)> = (0..10).map(|i| (i as f32 / 10.0, f64::from((i * 3) % 10) / 100.0)).collect();
        let found = calibration("cups", &pictures).unwrap();
        // Errors 0, .03 first and .04, .07 last.
        assert!((found.surest_mae - 0.015).abs() < 1e-12 && (found.unsurest_mae - 0.055).abs() < 1e-12, "{found:?}");
        assert!((found.ratio.unwrap() - 0.055 / 0.015).abs() < 1e-9, "{found:?}");
        assert!((found.expected_bad - 0.45).abs() < 1e-6 && (found.bad - 0.4).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn too_few_pictures_have_no_fifths_and_equal_ones_no_order() {
        assert_eq!(calibration("few", &[(0.5, 0.1); 9]), None);
        let equal = calibration("equal", &[(0.5, 0.0); 10]).unwrap();
        assert_eq!((equal.ratio, equal.rank_correlation), (None, None));
    }

    #[test]
    fn ranks_correlate_whatever_the_scale_and_equals_share_theirs() {
        let cubes: Vec<(f32, f64)> = (0..20).map(|i| (i as f32, f64::from(i).powi(3))).collect();
        assert!((rank_correlation(&cubes).unwrap() - 1.0).abs() < 1e-12);
        let falling: Vec<(f32, f64)> = cubes.iter().map(|one| (one.0, -one.1)).collect();
        assert!((rank_correlation(&falling).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [1.5, 0.0, 1.5, 3.0]);
    }
}
