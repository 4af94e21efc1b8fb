//! `backdrop eval`: how good the weights are, on pictures whose truth is known.
//!
//! Measures two things on every picture: the *mask* as `matting=none` returns it, and the *matte* as `/remove` does with
//! the fields of `--set`.

mod components;
mod metrics;
mod sets;
mod table;

use super::exit::{Failure, Outcome, with_causes};
use super::print;
use super::progress::Progress;
use super::runtime::{self, Local};
use super::set::name_and_value;
use super::settings::Settings;
use crate::codec::{self, Limits};
use crate::image::{BufferPool, Frame};
use crate::matting::{self, Method, Options};
use crate::pipeline::Looked;
use crate::recipe::{Cut, ENDPOINTS, Fields};
use clap::Args;
use futures_util::{StreamExt, stream};
use metrics::{Scores, compare};
use sets::{Picture, Set};
use std::fmt::Write;
use std::path::PathBuf;

/// Pictures in work at once; the measures themselves take as long as the network does.
const JOBS: usize = 4;

#[derive(Args, Debug)]
pub(super) struct Eval {
    /// Folder with image/ and mask/ (the same names in both), or a folder of such folders
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A field of `/remove` that the cutouts are made with, such as detect=high_recall
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<super::set::Set>,
    /// Write the measures of every picture to a CSV file
    #[arg(long, value_name = "FILE")]
    details: Option<PathBuf>,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// The measures of one picture.
#[derive(Debug)]
pub(super) struct Measured {
    picture: Picture,
    mask: Scores,
    matte: Scores,
}

impl Eval {
    /// How `--set` asks `/remove` to cut out.
    fn cut(&self) -> Result<Cut, Failure> {
        let mut fields = Fields::default();
        for (name, value) in &self.set {
            fields.push(name, value)?;
        }
        let remove = ENDPOINTS.iter().find(|endpoint| endpoint.name == "remove").expect("the first of them");
        Ok(remove.recipe(&fields)?.cut)
    }

    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.settings.load(&[])?;
        let sets = sets::find(&self.folder)?;
        let cut = self.cut()?;
        let (results, failed, model) = runtime::block_on(async {
            let local = Local::start(&config, JOBS).await?;
            let (results, failed) = measure_all(&local, sets, &cut).await;
            Ok::<_, Failure>((results, failed, local.model()))
        })??;
        if let Some(path) = &self.details {
            std::fs::write(path, details(&results)?)?;
        }
        if self.json {
            print::json(&serde_json::json!({ "model": model, "failed": failed, "sets": table::json(&results) }))?;
        } else {
            print::line(&table::text(&results))?;
        }
        Ok(Outcome::of(failed))
    }
}

async fn measure_all(local: &Local, sets: Vec<Set>, cut: &Cut) -> (Vec<(String, Vec<Measured>)>, usize) {
    let mut progress = Progress::new(sets.iter().map(|set| set.pictures.len()).sum());
    let (mut results, mut failed) = (Vec::new(), 0);
    for set in sets {
        let mut measured = Vec::new();
        let mut finished = stream::iter(set.pictures)
            .map(|picture| async move { (picture.name(), measure(local, picture, cut).await) })
            // In order, so that the table and the file of details are the same in every run.
            .buffered(JOBS);
        while let Some((name, result)) = finished.next().await {
            match result {
                Ok(scores) => {
                    progress.done(&format!("{name}  IoU {:.3}", scores.matte.iou));
                    measured.push(scores);
                }
                Err(failure) => {
                    failed += 1;
                    progress.failed(&format!("{name}  failed: {}", with_causes(failure.as_ref())));
                }
            }
        }
        results.push((set.name, measured));
    }
    progress.finish(&match failed {
        0 => "all measured".to_owned(),
        _ => format!("{failed} failed"),
    });
    (results, failed)
}

async fn measure(local: &Local, picture: Picture, cut: &Cut) -> Result<Measured, Failure> {
    let image = tokio::fs::read(&picture.image).await?;
    let truth = tokio::fs::read(&picture.truth).await?;
    let looked = local.look(image.into(), cut).await?;
    let options = cut.matting;
    local.cpu(move || score(picture, looked, &options, &truth)).await?
}

fn score(picture: Picture, looked: Looked, options: &Options, truth: &[u8]) -> Result<Measured, Failure> {
    let Looked { frame, mask, .. } = looked;
    let header = codec::probe(truth, &Limits::default())?;
    let truth = codec::decode(truth, &header, &BufferPool::new(0))?;
    let size = frame.size();
    if truth.size() != size {
        return Err(format!("the picture is {size}, its mask {}", truth.size()).into());
    }
    let truth = channel(&truth, 0);
    let width = size.width as usize;
    let coverage_by = |options: &Options, frame: Frame| match matting::cut_out(frame, &mask, options) {
        Ok(cutout) => channel(&cutout.0, 3),
        // Nothing found is a result too, and the worst one.
        Err(matting::NoSubject) => vec![0; size.area()],
    };
    let raw =
        compare(&coverage_by(&Options { method: Method::None, ..Options::default() }, frame.clone()), &truth, width);
    let matte = compare(&coverage_by(options, frame), &truth, width);
    Ok(Measured { picture, mask: raw, matte })
}

fn channel(frame: &Frame, index: usize) -> Vec<u8> {
    frame.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[index]).collect()
}

fn details(results: &[(String, Vec<Measured>)]) -> Result<String, std::fmt::Error> {
    let mut csv = String::from("set,picture,of,mae,iou,boundary_iou,max_f,sad,mse,grad,conn\n");
    for (set, measured) in results {
        for one in measured {
            for (of, scores) in [("mask", &one.mask), ("matte", &one.matte)] {
                let max_f = metrics::max_f([scores.curve.as_slice()].into_iter());
                let name = one.picture.name().replace('"', "\"\"");
                write!(
                    csv,
                    "\"{set}\",\"{name}\",{of},{:.6},{:.6},{:.6},{max_f:.6}",
                    scores.mae, scores.iou, scores.boundary_iou
                )?;
                match &scores.matting {
                    Some(m) => writeln!(csv, ",{:.6},{:.8},{:.6},{:.6}", m.sad, m.mse, m.gradient, m.connectivity)?,
                    None => writeln!(csv, ",,,,")?,
                }
            }
        }
    }
    Ok(csv)
}
