//! The stages of the golden set: the network's masks, mattes, and results of the endpoints.

use super::set::{self, Case};
use crate::engine::pipeline::call;
use crate::engine::support::config;
use backdrop::engine::Engine;
use backdrop::image::{Frame, Size};
use backdrop::model::weights::Weights;
use backdrop::model::{CpuRetoucher, CpuSegmenter, SegmentError, Segmenter};
use backdrop::pipeline::{self, Call, Files, PipelineError};
use backdrop::recipe::{BG_FILE, ENDPOINTS, Fields, Recipe};
use backdrop_kernels::conv::Isa;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The networks on one instruction set.
pub(super) struct Stages {
    network: CpuSegmenter,
    engine: Engine,
    runtime: Runtime,
}

impl Stages {
    pub(super) fn on(isa: Isa) -> Self {
        let network = move || CpuSegmenter::new(&Weights::embedded(), isa).expect("the embedded weights are complete");
        let factory = move || -> Result<Box<dyn Segmenter>, SegmentError> { Ok(Box::new(network())) };
        let runtime = Runtime::new().expect("a runtime");
        let engine = runtime.block_on(async {
            let engine = Engine::start_with(&config(4, 1), Arc::new(factory), Arc::new(CpuRetoucher::new(isa)));
            engine.ready().await.expect("the network loads");
            engine
        });
        Self { network: network(), engine, runtime }
    }

    /// The network's mask of a picture.
    pub(super) fn mask(&mut self, name: &str) -> Frame {
        mask_of(&mut self.network, name)
    }

    /// The result of `/mask`; all zero without a subject.
    pub(super) fn matte(&self, name: &str) -> Frame {
        let case = Case { endpoint: "mask", fields: &[], background: None, pictures: &[] };
        self.result(&case, name)
    }

    /// The result of an endpoint; an empty picture without a subject.
    pub(super) fn result(&self, case: &Case, name: &str) -> Frame {
        let files = Files {
            source: set::file_of(name),
            background: case.background.map(set::file_of),
            mark: None,
            mask: None,
            fetch: Duration::ZERO,
        };
        let call = Call { deadline: Instant::now() + Duration::from_secs(600), ..call() };
        match self.runtime.block_on(pipeline::run(&self.engine, files, &recipe(case), &call)) {
            Ok(output) => set::decoded(&output.image.bytes),
            Err(PipelineError::NoSubject(_)) => {
                let size: Size = set::decoded(&set::file_of(name)).size();
                set::grey(size, vec![0; size.area()])
            }
            Err(error) => panic!("{} of {name}: {error}", case.stage()),
        }
    }
}

/// A network's mask of a picture as grey, on the network's grid.
pub(super) fn mask_of(network: &mut impl Segmenter, name: &str) -> Frame {
    let frame = set::decoded(&set::file_of(name));
    let mask = network.segment(&[&frame]).expect("the device does not fail").remove(0);
    set::grey(mask.size(), mask.values().iter().map(|value| (value * 255.0 + 0.5) as u8))
}

/// The recipe of a request with these fields.
fn recipe(case: &Case) -> Recipe {
    let endpoint = ENDPOINTS.iter().find(|known| known.name == case.endpoint).expect("an endpoint");
    let mut fields = Fields::default();
    case.fields.iter().for_each(|(name, value)| fields.push(name, value).expect("each once"));
    if case.background.is_some() {
        fields.attach(BG_FILE);
    }
    endpoint.recipe(&fields).unwrap_or_else(|error| panic!("{}: {error}", case.stage()))
}
