//! Merges connected components of which the mask is certain nowhere with what surrounds them.
//!
//! A part of the subject that is far smaller than the largest one is a reed, a passer-by's leg or a reflection, unless the mask is
//! certain of it somewhere. A small hole, and every hole of an opaque subject, is an eye, a logo or a highlight unless mask and colours
//! both say that it shows the background.

use super::workspace::Workspace;
use crate::matting::connected_components::Components;
use backdrop_kernels::recycled::Recycled;

/// Parts and holes are small when they have less than one in so many of the largest part's cells.
const SMALL: usize = 10;
/// From this probability on the mask is certain; log odds of 5.
const CERTAIN: f32 = 0.9933;
/// A hole is background where the mask is this certain of it somewhere and its mean log likelihood ratio, each cell counting at most so
/// much, says so too.
const CERTAIN_OF_HOLE: f32 = 0.8;
const MOST_RATIO: f32 = 4.0;

/// What is known of one component.
#[derive(Clone, Copy, Debug, Default)]
struct Component {
    cells: usize,
    /// The highest probability of its label in it.
    certainty: f32,
    /// Whether it touches the border of the grid.
    on_border: bool,
    /// The sum of its log likelihood ratios.
    ratio: f32,
}

/// Merges parts, then holes.
pub(super) fn apply(workspace: &mut Workspace, opaque: bool) {
    let columns = workspace.columns();
    let Workspace { mask, marked, labels, components, likelihood, .. } = workspace;
    clear_parts(mask, labels, columns, components);
    let subject = labels.iter().filter(|&&label| label).count();
    // What the caller has marked as background is.
    let ratio = |at: usize| if marked[at] { -MOST_RATIO } else { likelihood[at] };
    let holes = measured(components, labels, columns, false, |at| (1.0 - mask[at], ratio(at)));
    relabel(components, labels, true, |component| {
        let hole = holes[component];
        let is_background = hole.certainty >= CERTAIN_OF_HOLE && hole.ratio < 0.0;
        !hole.on_border && (opaque || hole.cells * SMALL < subject) && !is_background
    });
}

/// Whether each cell is of a hole: background that does not reach the border.
pub(super) fn holes(workspace: &mut Workspace) -> Recycled<Vec<bool>> {
    let columns = workspace.columns();
    let Workspace { labels, components, .. } = workspace;
    let parts = measured(components, labels, columns, false, |_| (0.0, 0.0));
    let mut holes = Recycled::filled(labels.len(), false);
    components.runs().filter(|(_, part)| !parts[*part].on_border).for_each(|(run, _)| holes[run].fill(true));
    holes
}

/// `values` of a mask without the small parts of which it is certain nowhere.
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

/// The components of the cells with this `label`; `evidence` gives probability of the label and log likelihood ratio of a cell.
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

/// Gives the cells of the components that are `merged` this `label`.
fn relabel(components: &Components, labels: &mut [bool], label: bool, merged: impl Fn(usize) -> bool) {
    components.runs().filter(|(_, component)| merged(*component)).for_each(|(run, _)| labels[run].fill(label));
}
