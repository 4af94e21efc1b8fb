//! From a picture and its truth to the measures of what was cut out.

use super::metrics::{Scores, compare};
use super::sets::{Picture, Set};
use super::worst::{Cells, Sheets, Worst};
use crate::cli::contact_sheet::fitted;
use crate::cli::exit::Failure;
use crate::cli::progress::Progress;
use crate::cli::runtime::Local;
use crate::codec::{self, Limits};
use crate::image::{BufferPool, Frame, RawMask, Size};
use crate::matting::{self, Method, Options};
use crate::pipeline::Segmentation;
use crate::recipe::Cut;
use crate::telemetry::with_causes;
use futures_util::{StreamExt, stream};

/// Pictures in work at once; the measures themselves take as long as the network does.
pub(super) const JOBS: usize = 4;

/// The measures of one picture.
#[derive(Debug)]
pub(super) struct Measured {
    /// The picture.
    pub(super) picture: Picture,
    /// What `x-service-uncertainty` would say of it.
    pub(super) uncertainty: f32,
    /// Of the mask as `matting=none` returns it.
    pub(super) mask: Scores,
    /// Of the matte as `/remove` returns it.
    pub(super) matte: Scores,
}

/// What came of all sets.
#[derive(Debug)]
pub(super) struct Results {
    /// The measures of each set, in the order of its pictures, so that they are the same in every run.
    pub(super) sets: Vec<(String, Vec<Measured>)>,
    /// How many pictures could not be measured, each told where it happened.
    pub(super) failed: usize,
}

/// Measures all pictures of all sets, and draws the worst of each set when `sheets` are asked for.
pub(super) async fn all(
    local: &Local,
    sets: Vec<Set>,
    cut: &Cut,
    sheets: Option<&Sheets<'_>>,
) -> Result<Results, Failure> {
    let mut progress = Progress::new(sets.iter().map(|set| set.pictures.len()).sum());
    let mut results = Results { sets: Vec::new(), failed: 0 };
    for set in sets {
        let mut worst = sheets.map(|sheets| Worst::new(sheets, &set.name, set.pictures.len()));
        let cell = worst.as_ref().map(Worst::cell);
        let mut measured = Vec::new();
        let mut finished = stream::iter(set.pictures)
            .map(|picture| async move { (picture.name(), one(local, picture, cut, cell).await) })
            .buffered(JOBS);
        while let Some((name, result)) = finished.next().await {
            match result {
                Ok((scores, cells)) => {
                    progress.done(&format!("{name}  IoU {:.3}", scores.matte.iou));
                    if let (Some(worst), Some(cells)) = (&mut worst, cells) {
                        worst.add(scores.matte.mae, cells);
                    }
                    measured.push(scores);
                }
                Err(failure) => {
                    results.failed += 1;
                    progress.failed(&format!("{name}  failed: {}", with_causes(failure.as_ref())));
                }
            }
        }
        worst.map_or(Ok(()), Worst::draw)?;
        results.sets.push((set.name, measured));
    }
    progress.finish(&match results.failed {
        0 => "all measured".to_owned(),
        failed => format!("{failed} failed"),
    });
    Ok(results)
}

async fn one(
    local: &Local,
    picture: Picture,
    cut: &Cut,
    cell: Option<Size>,
) -> Result<(Measured, Option<Cells>), Failure> {
    let image = tokio::fs::read(&picture.image).await?;
    let truth = tokio::fs::read(&picture.truth).await?;
    let looked = local.look(image.into(), cut).await?;
    let (options, limits) = (cut.matting, *local.limits());
    local.cpu(move || score(picture, looked, &options, &truth, &limits, cell)).await?
}

fn score(
    picture: Picture,
    looked: Segmentation,
    options: &Options,
    truth: &[u8],
    limits: &Limits,
    cell: Option<Size>,
) -> Result<(Measured, Option<Cells>), Failure> {
    let Segmentation { frame, mask, uncertainty, .. } = looked;
    let header = codec::probe(truth, limits)?;
    let drawn = codec::decode(truth, &header, &BufferPool::new(0))?;
    let size = frame.size();
    if drawn.size() != size {
        return Err(format!("the picture is {size}, its mask {}", drawn.size()).into());
    }
    let truth = channel(&drawn, 0);
    let width = size.width as usize;
    let none = Options { method: Method::None, ..Options::default() };
    let raw = compare(&channel(&cut_out(frame.clone(), &mask, &none), 3), &truth, width);
    let photo = cell.map(|cell| fitted(frame.clone(), cell)).transpose()?;
    let cutout = cut_out(frame, &mask, options);
    let matte = compare(&channel(&cutout, 3), &truth, width);
    let cells = cell.zip(photo).map(|(cell, photo)| {
        Ok::<_, Failure>(Cells { photo, truth: fitted(drawn, cell)?, cutout: fitted(cutout, cell)? })
    });
    let cells = cells.transpose()?;
    Ok((Measured { picture, uncertainty, mask: raw, matte }, cells))
}

/// The cutout, clear all over when there is no subject: nothing found is a result too, and the worst one.
fn cut_out(frame: Frame, mask: &RawMask, options: &Options) -> Frame {
    let size = frame.size();
    match matting::cut_out(frame, mask, options) {
        Ok(cutout) => cutout.into_frame(),
        Err(matting::NoSubject) => Frame::new(size, vec![0; size.area() * 4].into()),
    }
}

fn channel(frame: &Frame, index: usize) -> Vec<u8> {
    frame.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[index]).collect()
}
