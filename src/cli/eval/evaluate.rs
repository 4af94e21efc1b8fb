//! Cuts out the pictures of the datasets and scores masks and mattes against the ground truth.

use super::clicks;
use super::datasets::{Dataset, Picture};
use super::metrics::{Scores, compare};
use super::worst_cases::{Cells, SheetOptions, WorstCases};
use crate::cli::contact_sheet::fit_to_cell;
use crate::cli::exit_code::Failure;
use crate::cli::local_engine::LocalEngine;
use crate::cli::progress::Progress;
use crate::codec::{self, Header, Limits};
use crate::image::{BufferPool, Frame, Size};
use crate::matting::outline::Reference;
use crate::matting::upsample::upsampled;
use crate::matting::{self, Guide, Method, Options, Seeds};
use crate::pipeline::Segmentation;
use crate::recipe::Cut;
use crate::telemetry::with_causes;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::borrow::Cow;
use std::sync::Arc;

/// Pictures processed concurrently; scoring takes as long as the network.
const JOBS: usize = 4;

/// The scores of one picture.
#[derive(Debug)]
pub(super) struct Evaluated {
    /// The picture.
    pub(super) picture: Picture,
    /// The value of `x-service-uncertainty`.
    pub(super) uncertainty: f32,
    /// Scores of the ground truth, which describe its outline.
    pub(super) truth: Scores,
    /// Scores of the network's mask.
    pub(super) raw: Scores,
    /// Scores of the mask, the result of `matting=none`.
    pub(super) mask: Scores,
    /// Scores of the matte, the result of `/remove`.
    pub(super) matte: Scores,
    /// Scores of the matte after each click of the simulated user.
    pub(super) clicks: Vec<Scores>,
}

impl Evaluated {
    /// The scores of the stages by their names, in their order.
    pub(super) fn stages(&self) -> impl Iterator<Item = (Cow<'static, str>, &Scores)> {
        let stages = [("truth", &self.truth), ("raw", &self.raw), ("mask", &self.mask), ("matte", &self.matte)];
        let clicks = self.clicks.iter().zip(1..).map(|(scores, count)| (format!("clicks-{count}").into(), scores));
        stages.into_iter().map(|(name, scores)| (name.into(), scores)).chain(clicks)
    }
}

/// The scores of all datasets.
#[derive(Debug)]
pub(super) struct Results {
    /// By dataset, in the order of its pictures, so that the output is deterministic.
    pub(super) sets: Vec<(String, Vec<Evaluated>)>,
    /// Number of pictures that failed and were reported.
    pub(super) failed: usize,
}

/// Scores all pictures of all datasets, and draws the worst of each when `sheets` is given.
pub(super) async fn all(
    engine: &LocalEngine,
    sets: Vec<Dataset>,
    cut: &Cut,
    clicks: u8,
    sheets: Option<&SheetOptions<'_>>,
) -> Result<Results, Failure> {
    let mut progress = Progress::new(sets.iter().map(|set| set.pictures.len()).sum());
    let mut results = Results { sets: Vec::new(), failed: 0 };
    for set in sets {
        let mut worst = sheets.map(|sheets| WorstCases::new(sheets, &set.name, set.pictures.len()));
        let cell = worst.as_ref().map(WorstCases::cell);
        let mut evaluated = Vec::new();
        let mut finished = stream::iter(set.pictures)
            .map(|picture| async move { (picture.name(), evaluate_picture(engine, picture, cut, clicks, cell).await) })
            .buffered(JOBS);
        while let Some((name, result)) = finished.next().await {
            match result {
                Ok((scores, cells)) => {
                    progress.finished(&format!("{name}  IoU {:.3}", scores.matte.iou), false);
                    if let (Some(worst), Some(cells)) = (&mut worst, cells) {
                        worst.add(scores.matte.mae, cells);
                    }
                    evaluated.push(scores);
                }
                Err(failure) => {
                    results.failed += 1;
                    progress.finished(&format!("{name}  failed: {}", with_causes(failure.as_ref())), true);
                }
            }
        }
        worst.map_or(Ok(()), WorstCases::draw)?;
        results.sets.push((set.name, evaluated));
    }
    progress.finish(&match results.failed {
        0 => "all measured".to_owned(),
        failed => format!("{failed} failed"),
    });
    Ok(results)
}

async fn evaluate_picture(
    engine: &LocalEngine,
    picture: Picture,
    cut: &Cut,
    clicks: u8,
    cell: Option<Size>,
) -> Result<(Evaluated, Option<Cells>), Failure> {
    let image = Bytes::from(tokio::fs::read(&picture.image).await?);
    let truth = tokio::fs::read(&picture.truth).await?;
    let segmentation = engine.segment(image.clone(), cut, &Arc::default()).await?;
    let (options, limits) = (cut.matting_of(segmentation.mask.edge()), *engine.limits());
    let scored = move || score(picture, segmentation, &options, &truth, &limits, cell);
    let Scored { mut evaluated, cells, mut coverage, truth } = engine.cpu(scored).await??;
    let (truth, mut seeds) = (Arc::new(truth), Arc::new(Seeds::default()));
    for _ in 0..clicks {
        let (marked, right) = (Arc::clone(&seeds), Arc::clone(&truth));
        let click = move || {
            let mut seeds = Seeds::clone(&marked);
            let is_clicked = clicks::click(&coverage, &right.coverage, right.width, &mut seeds);
            (coverage, is_clicked.then_some(seeds))
        };
        let clicked;
        (coverage, clicked) = engine.cpu(click).await?;
        if let Some(clicked) = clicked {
            seeds = Arc::new(clicked);
            let Segmentation { frame, mask, standard, .. } = engine.segment(image.clone(), cut, &seeds).await?;
            let seeds = Arc::clone(&seeds);
            let matted = move || {
                let guide = Guide::Network { mask: &mask, standard: standard.as_ref(), seeds: &seeds };
                channel(&cut_out(frame, guide, &options), 3)
            };
            coverage = engine.cpu(matted).await?;
        }
        evaluated.clicks.push(compare(&coverage, &truth.coverage, truth.width, &truth.reference));
    }
    Ok((evaluated, cells))
}

/// The ground truth of a picture.
struct Truth {
    coverage: Vec<u8>,
    width: usize,
    reference: Reference,
}

/// The scores of a picture without clicks, and what the clicks start from.
struct Scored {
    evaluated: Evaluated,
    cells: Option<Cells>,
    /// Coverage of the matte.
    coverage: Vec<u8>,
    truth: Truth,
}

fn score(
    picture: Picture,
    segmentation: Segmentation,
    options: &Options,
    truth: &[u8],
    limits: &Limits,
    cell: Option<Size>,
) -> Result<Scored, Failure> {
    let Segmentation { frame, mask, standard, uncertainty, .. } = segmentation;
    // The ground truth is coverage, which has no colour profile.
    let header = Header { applies_profile: false, ..codec::probe(truth, limits)? };
    let truth_frame = codec::decode(truth, &header, &BufferPool::new(0))?;
    let size = frame.size();
    if truth_frame.size() != size {
        return Err(format!("the picture is {size}, its mask {}", truth_frame.size()).into());
    }
    let (coverage, width) = (channel(&truth_frame, 0), size.width as usize);
    let truth = Truth { reference: Reference::of(&coverage, width), coverage, width };
    let scores = |coverage: &[u8]| compare(coverage, &truth.coverage, width, &truth.reference);
    let raw = scores(upsampled(mask.values(), mask.size(), &frame).coverage());
    let none = Options { method: Method::None, ..Options::default() };
    let seeds = Seeds::default();
    let unmarked = |frame: Frame, options: &Options| {
        cut_out(frame, Guide::Network { mask: &mask, standard: standard.as_ref(), seeds: &seeds }, options)
    };
    let clean = scores(&channel(&unmarked(frame.clone(), &none), 3));
    let photo = cell.map(|cell| fit_to_cell(frame.clone(), cell)).transpose()?;
    let cutout = unmarked(frame.clone(), options);
    let coverage = channel(&cutout, 3);
    let (matte, of_truth) = (scores(&coverage), scores(&truth.coverage));
    let cells = cell.zip(photo).map(|(cell, photo)| {
        Ok::<_, Failure>(Cells { photo, truth: fit_to_cell(truth_frame, cell)?, cutout: fit_to_cell(cutout, cell)? })
    });
    let cells = cells.transpose()?;
    let evaluated = Evaluated { picture, uncertainty, truth: of_truth, raw, mask: clean, matte, clicks: Vec::new() };
    Ok(Scored { evaluated, cells, coverage, truth })
}

/// The cutout; fully transparent when there is no subject, which scores as the worst result.
fn cut_out(frame: Frame, guide: Guide<'_>, options: &Options) -> Frame {
    let size = frame.size();
    match matting::cut_out(frame, guide, options) {
        Ok(cutout) => cutout.into_frame(),
        Err(matting::NoSubject) => Frame::new(size, vec![0; size.area() * 4].into()),
    }
}

fn channel(frame: &Frame, index: usize) -> Vec<u8> {
    frame.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[index]).collect()
}
