//! Run time of endpoints relative to `/remove` of the same photo: `cargo bench --profile release --bench cost`.
//!
//! The two run alternately, because machines are shared and noisy, and the medians of many rounds are compared.

mod support;

use backdrop::image::Size;
use std::time::{Duration, Instant};
use support::{Harness, photo, recipe};

/// Measured rounds of each pair, after one warm-up round.
const ROUNDS: usize = 11;

/// An endpoint with fields for it.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

const MP12: Size = Size::new(4000, 3000);
const LARGEST: Size = Size::new(4096, 4096);

const CASES: &[(Size, Case)] = &[
    (MP12, ("studio-shot", &[])),
    (MP12, ("studio-shot", &[("bg_blur", "true")])),
    (MP12, ("replace-bg", &[("bg_color", "teal")])),
    (MP12, ("shadow", &[])),
    (MP12, ("smart-crop", &[])),
    (LARGEST, ("sticker", &[("stroke_width", "100")])),
];

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let shop = Harness::open();
    let plain = recipe("remove", &[]);
    println!("| endpoint | photo | /remove | endpoint | ratio |\n|---|---|---|---|---|");
    for (size, (endpoint, pairs)) in CASES {
        let (file, recipe) = (photo(*size), recipe(endpoint, pairs));
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..=ROUNDS {
            for (times, recipe) in times.iter_mut().zip([&plain, &recipe]) {
                let started = Instant::now();
                shop.run(&file, recipe);
                if round > 0 {
                    times.push(started.elapsed());
                }
            }
        }
        let [without, with] = times.map(median);
        let set: String = pairs.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        println!("| {endpoint}{set} | {size} | {} ms | {} ms | {ratio:.2} |", without.as_millis(), with.as_millis());
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
