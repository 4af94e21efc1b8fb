//! `backdrop eval`: measures the quality of the weights on datasets with ground truth.
//!
//! Scores the *mask* (`matting=none`) and the *matte* (`/remove` with the fields of `--set`) of each picture, then the calibration of
//! the uncertainty: how well it predicts bad mattes. With `--clicks` also the mattes after the clicks of a simulated user ([`clicks`]).

mod calibration;
mod clicks;
mod datasets;
mod evaluate;
mod metrics;
mod per_image_csv;
mod summary_table;
mod worst_cases;

use super::config_args::EngineArgs;
use super::endpoint_args::{FieldArg, endpoint_named, parse_field};
use super::exit_code::{Failure, Outcome};
use super::local_engine::{self, LocalEngine};
use super::stdout;
use crate::config::Config;
use crate::recipe::{Cut, Fields};
use clap::Args;
use std::path::PathBuf;
use worst_cases::SheetOptions;

#[derive(Args, Debug)]
pub(super) struct Eval {
    /// Folder with image/ and mask/ (the same names in both), or a folder of such folders
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Parameter of `/remove` for the cutouts, such as detect=high_recall
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_field)]
    set: Vec<FieldArg>,
    /// Write the scores of every picture to a CSV file
    #[arg(long, value_name = "FILE")]
    details: Option<PathBuf>,
    /// Also draw the worst pictures of each set to OUT/SET.png: photo, truth, cutout
    #[arg(long, value_name = "OUT")]
    contact_sheets: Option<PathBuf>,
    /// Pictures per contact sheet
    #[arg(long, value_name = "N", default_value_t = 40, requires = "contact_sheets")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=200))]
    worst: u16,
    /// Also score the matte after each of N clicks of a simulated user on its largest wrong region
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(..=20))]
    clicks: u8,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl Eval {
    /// The cutout options of `--set`, by the selected network.
    fn cut(&self, config: &Config) -> Result<Cut, Failure> {
        let mut fields = Fields::default();
        for (name, value) in &self.set {
            fields.push(name, value)?;
        }
        let mut recipe = endpoint_named("remove").recipe(&fields)?;
        local_engine::select_network(config, &mut recipe)?;
        Ok(recipe.cut().expect("/remove cuts out").clone())
    }

    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.engine_args.load(&[])?;
        let sets = datasets::find(&self.folder)?;
        let cut = self.cut(&config)?;
        let sheets =
            self.contact_sheets.as_deref().map(|folder| SheetOptions { folder, count: usize::from(self.worst) });
        let (results, model) = local_engine::block_on(async {
            let engine = LocalEngine::start(&config).await?;
            let results = evaluate::all(&engine, sets, &cut, self.clicks, sheets.as_ref()).await?;
            Ok::<_, Failure>((results, cut.network.of(&engine.model())))
        })??;
        let (sets, failed) = (&results.sets, results.failed);
        // Printed before the details are written, and its error returned after: neither failure may lose the other output.
        let report = serde_json::json!({
            "model": model,
            "failed": failed,
            "sets": summary_table::rows(sets),
            "calibration": calibration::calibrations(sets),
        });
        let text = || format!("{}{}", summary_table::text(sets), calibration::text(sets));
        let printed = stdout::print_result(self.json, &report, text);
        if let Some(path) = &self.details {
            let written = std::fs::write(path, per_image_csv::csv(sets)?);
            written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        printed?;
        Ok(Outcome::of(failed > 0))
    }
}
