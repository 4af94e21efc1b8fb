//! Writes the scores of every picture as CSV.

use super::evaluate::Evaluated;
use super::metrics::max_f;
use crate::matting::outline::width_percentile;
use std::fmt::{Error, Write};

/// One line for each stage of each picture.
pub(super) fn csv(results: &[(String, Vec<Evaluated>)]) -> Result<String, Error> {
    let mut csv = String::from(
        "set,picture,of,mae,iou,boundary_iou,max_f,sad,mse,grad,conn,raggedness,edge_width,thin,beside_thin,uncertainty\n",
    );
    for (set, measured) in results {
        for one in measured {
            for (of, scores) in one.stages() {
                let max_f = max_f([scores.curve.as_slice()].into_iter());
                let name = one.picture.name().replace('"', "\"\"");
                write!(
                    csv,
                    "\"{set}\",\"{name}\",{of},{:.6},{:.6},{:.6},{max_f:.6}",
                    scores.mae, scores.iou, scores.boundary_iou
                )?;
                match &scores.matting {
                    Some(m) => write!(csv, ",{:.6},{:.8},{:.6},{:.6}", m.sad, m.mse, m.gradient, m.connectivity)?,
                    None => write!(csv, ",,,,")?,
                }
                let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
                let outline = &scores.outline;
                let thin = outline.thin.unzip();
                let p90 = width_percentile(&outline.widths, 90);
                let values = [outline.raggedness, p90, thin.0, thin.1].map(number);
                writeln!(csv, ",{},{:.6}", values.join(","), one.uncertainty)?;
            }
        }
    }
    Ok(csv)
}
