//! Benchmarks prompt parsing and rendering of 12 MP backdrops: `cargo bench --bench generate`.

use backdrop::generate::render;
use backdrop::image::Size;
use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    const PHOTO: Size = Size::new(4000, 3000);
    const SCENES: [(&str, &str); 10] = [
        ("studio", ""),
        ("marble-window", "a white marble countertop, soft window light"),
        ("walnut-brick", "on a walnut table against a brick wall, soft window light from the left"),
        ("terrazzo", "terrazzo floor and wall"),
        ("cobbles", "cobblestone floor, cobblestone wall"),
        ("leather-leaves", "leather floor, leather wall, dappled light"),
        ("forest-mist", "misty forest at dawn, petals"),
        ("autumn", "autumn forest, fallen leaves"),
        ("kitchen", "bright kitchen, marble counter"),
        ("city-bokeh", "city bokeh at night"),
    ];
    let mut group = criterion.benchmark_group("generate");
    group.sample_size(10);
    for (name, prompt) in SCENES {
        group.bench_function(format!("{name}/12mp"), |bench| bench.iter(|| render(prompt, PHOTO)));
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
