//! `backdrop eval`: how good the weights are, on pictures whose truth is known.
//!
//! Measures two things on every picture: the *mask* as `matting=none` returns it, and the *matte* as `/remove` does with
//! the fields of `--set`. Then, how well the uncertainty foretold which mattes are bad.

mod calibration;
mod details;
mod measure;
mod metrics;
mod sets;
mod table;
mod worst;

use super::exit::{Failure, Outcome};
use super::print;
use super::runtime::{self, Local};
use super::set::name_and_value;
use super::settings::Settings;
use crate::recipe::{Cut, ENDPOINTS, Fields};
use clap::Args;
use measure::JOBS;
use std::path::PathBuf;
use worst::Sheets;

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
    /// Also draw the worst pictures of each set into OUT/SET.png: photo, truth, cutout
    #[arg(long, value_name = "OUT")]
    contact_sheets: Option<PathBuf>,
    /// Pictures on a contact sheet
    #[arg(long, value_name = "N", default_value_t = 40, requires = "contact_sheets")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=200))]
    worst: u16,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

impl Eval {
    /// How `--set` asks `/remove` to cut out.
    fn cut(&self) -> Result<Cut, Failure> {
        let mut fields = Fields::default();
        for (name, value) in &self.set {
            fields.push(name, value)?;
        }
        let remove = ENDPOINTS.iter().find(|endpoint| endpoint.name == "remove").expect("the first of them");
        Ok(remove.recipe(&fields)?.cut().expect("/remove cuts out").clone())
    }

    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.settings.load(&[])?;
        let sets = sets::find(&self.folder)?;
        let cut = Cut { model: config.engine.model, ..self.cut()? };
        let sheets = self.contact_sheets.as_deref().map(|folder| Sheets { folder, most: usize::from(self.worst) });
        let (results, model) = runtime::block_on(async {
            let local = Local::start(&config, JOBS).await?;
            let results = measure::all(&local, sets, &cut, sheets.as_ref()).await?;
            Ok::<_, Failure>((results, cut.model.of(&local.model())))
        })??;
        let (sets, failed) = (&results.sets, results.failed);
        if let Some(path) = &self.details {
            std::fs::write(path, details::csv(sets)?)?;
        }
        if self.json {
            print::json(&serde_json::json!({
                "model": model,
                "failed": failed,
                "sets": table::json(sets),
                "calibration": calibration::calibrations(sets),
            }))?;
        } else {
            print::line(&format!("{}{}", table::text(sets), calibration::text(sets)))?;
        }
        Ok(Outcome::of(failed))
    }
}
