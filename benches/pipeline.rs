//! The pipeline of one picture on the CPU, from a JPEG file to a PNG file.

mod support;

use backdrop::image::Size;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use support::{Harness, photo, recipe};

fn remove(criterion: &mut Criterion) {
    let harness = Harness::open();
    let recipe = recipe("remove", &[]);
    let mut group = criterion.benchmark_group("pipeline/remove");
    group.sample_size(10);
    for (name, size) in [("1mp", Size::new(1152, 864)), ("4mp", Size::new(2304, 1728)), ("12mp", Size::new(4000, 3000))]
    {
        let file = photo(size);
        group.throughput(Throughput::Elements(size.area() as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| bencher.iter(|| harness.run(&file, &recipe)));
    }
    group.finish();
}

criterion_group!(benches, remove);
criterion_main!(benches);
