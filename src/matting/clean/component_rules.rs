//! Merges connected components without a certain cell into their surroundings.
//!
//! A part far smaller than the largest one stays only with a cell of certain subject: else it is a reed, a passer-by's
//! leg or a reflection. A small hole, and every hole of an opaque subject, is filled as an eye, a logo or a highlight
//! unless mask and colours both say background.

use super::workspace::Workspace;
use crate::matting::connected_components::Components;
use backdrop_kernels::recycled::Recycled;

/// Parts and holes with less than one `SMALL`th of the largest part's cells are small.
const SMALL: usize = 10;
/// Probability from which the mask is certain: log odds of 5.
const CERTAIN: f32 = 0.9933;
/// A hole is background where its highest probability of background reaches this and its mean log likelihood ratio is
/// negative, with each cell limited to `MOST_RATIO`.
const CERTAIN_OF_HOLE: f32 = 0.8;
const MOST_RATIO: f32 = 4.0;

#[derive(Clone, Copy, Debug, Default)]
struct Component {
    cells: usize,
    /// Highest probability of the component's label.
    certainty: f32,
    on_border: bool,
    ratio: f32,
}

pub(super) fn apply(workspace: &mut Workspace, opaque: bool) {
    let columns = workspace.columns();
    let Workspace { mask, marked, labels, components, likelihood, .. } = workspace;
    clear_parts(mask, labels, columns, components);
    let subject = labels.iter().filter(|&&label| label).count();
    // Cells that the caller marked as background stay background.
    let ratio = |at: usize| if marked[at] { -MOST_RATIO } else { likelihood[at] };
    let holes = measured(components, labels, columns, false, |at| (1.0 - mask[at], ratio(at)));
    relabel(components, labels, true, |component| {
        let hole = holes[component];
        let is_background = hole.certainty >= CERTAIN_OF_HOLE && hole.ratio < 0.0;
        !hole.on_border && (opaque || hole.cells * SMALL < subject) && !is_background
    });
}

/// For each cell whether it is in a hole: background that does not reach the border.
pub(super) fn holes(workspace: &mut Workspace) -> Recycled<Vec<bool>> {
    let columns = workspace.columns();
    let Workspace { labels, components, .. } = workspace;
    let parts = measured(components, labels, columns, false, |_| (0.0, 0.0));
    let mut holes = Recycled::filled(labels.len(), false);
    components.runs().filter(|(_, part)| !parts[*part].on_border).for_each(|(run, _)| holes[run].fill(true));
    holes
}

/// Sets small parts of a mask without a certain cell to 0.
pub(in crate::matting) fn clear_uncertain_parts(values: &mut [f32], columns: usize) {
    let mut labels = Recycled::collected(values.iter().map(|&value| value >= 0.5));
    clear_parts(values, &mut labels, columns, &mut Recycled::<Components>::take());
    let cleared = values.iter_mut().zip(&*labels).filter(|(value, label)| **value >= 0.5 && !**label);
    cleared.for_each(|(value, _)| *value = 0.0);
}

fn clear_parts(mask: &[f32], labels: &mut [bool], columns: usize, components: &mut Components) {
    let parts = measured(components, labels, columns, true, |at| (mask[at], 0.0));
    let largest = parts.iter().map(|part| part.cells).max().unwrap_or(0);
    relabel(components, labels, false, |part| parts[part].cells * SMALL < largest && parts[part].certainty < CERTAIN);
}

/// The components of the cells with this `label`. `evidence`: a cell's probability of it, and log likelihood ratio.
fn measured(
    components: &mut Components,
    labels: &[bool],
    columns: usize,
    label: bool,
    evidence: impl Fn(usize) -> (f32, f32),
) -> Vec<Component> {
    components.find(labels, columns, |other| other == label);
    let mut measured = vec![Component::default(); components.count()];
    for (run, component) in components.runs() {
        let component = &mut measured[component];
        component.cells += run.len();
        component.on_border |= run.start < columns
            || run.end + columns > labels.len()
            || run.start.is_multiple_of(columns)
            || run.end.is_multiple_of(columns);
        for at in run {
            let (certainty, ratio) = evidence(at);
            component.certainty = component.certainty.max(certainty);
            component.ratio += ratio.clamp(-MOST_RATIO, MOST_RATIO);
        }
    }
    measured
}

fn relabel(components: &Components, labels: &mut [bool], label: bool, merged: impl Fn(usize) -> bool) {
    components.runs().filter(|(_, component)| merged(*component)).for_each(|(run, _)| labels[run].fill(label));
}
