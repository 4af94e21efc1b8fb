//! Cuts out one photo with the library: an engine on the CPU, a recipe, the pipeline.
//!
//! ```sh
//! cargo run --release --example cut_out -- photo.jpg cutout.png
//! ```

use backdrop::codec::Limits;
use backdrop::engine::{Engine, EngineConfig, Lane, Tenant};
use backdrop::model::device::{ActiveDevice, DeviceChoice};
use backdrop::model::weights::Weights;
use backdrop::pipeline::{self, Call};
use backdrop::recipe::{ENDPOINTS, Fields};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(photo), Some(cutout), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: cut_out PHOTO CUTOUT".into());
    };

    // The engine loads the network on its own thread and batches the pictures that wait for it.
    let (weights, config) = (Weights::embedded(), EngineConfig::default());
    let device = ActiveDevice::select(&DeviceChoice::Cpu)?;
    let engine = Engine::start(&config, Arc::new(move || device.segmenter(&weights, config.max_batch)));
    engine.ready().await?;

    // The fields of an endpoint, as a request would send them, become a recipe.
    let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.name == "remove").expect("`remove` is an endpoint");
    let mut fields = Fields::default();
    fields.push("max_dim", "2000")?;
    let recipe = endpoint.recipe(&fields)?;

    let call = Call {
        lane: Lane::Interactive,
        tenant: Tenant::default(),
        deadline: Instant::now() + Duration::from_secs(60),
        limits: Limits::default(),
    };
    let output = pipeline::run(&engine, bytes::Bytes::from(std::fs::read(photo)?), &recipe, &call).await?;
    std::fs::write(&cutout, &output.image.bytes)?;
    println!("{cutout}: {} bytes, model {}, subject {:?}", output.image.bytes.len(), output.model, output.subject);
    Ok(())
}
