//! Checks the processor, and loads the network on the configured device.

use super::check::Check;
use crate::cli::local_engine::LocalEngine;
use crate::config::Config;
use crate::telemetry::with_causes;
use backdrop_kernels::conv::Isa;

/// The vector instructions that the network's kernels use.
pub(super) fn processor() -> Check {
    let isa = Isa::detect();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = format!("{isa}, {cores} {}", if cores == 1 { "core" } else { "cores" });
    match isa {
        Isa::Portable => Check::warning(
            "processor",
            format!("{found}: the kernels run without vector instructions, several times slower"),
            "use a processor with AVX2, or a GPU",
        ),
        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Avx2 => Check::ok("processor", found),
    }
}

/// Loads the network and runs its self-test.
pub(super) async fn network(config: &Config) -> Check {
    match LocalEngine::start(config).await {
        Ok(engine) => Check::ok("network", format!("{} runs on {}; {}", engine.model(), engine.device(), gpus())),
        Err(error) => Check::failed(
            "network",
            with_causes(error.as_ref()),
            format!("set `device` to auto or cpu, and check `weights` and `engine.precision`; {}", gpus()),
        ),
    }
}

/// The adapters of this machine, in words.
#[cfg(feature = "gpu")]
fn gpus() -> String {
    let found: Vec<_> = crate::model::device::adapters().iter().map(ToString::to_string).collect();
    if found.is_empty() { "no GPU was found".to_owned() } else { format!("adapters: {}", found.join("; ")) }
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> String {
    "this build has no GPU support (feature `gpu`)".to_owned()
}
