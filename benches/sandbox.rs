//! Cost of decode workers: pictures are probed and decoded in this process and in a worker: `cargo bench --bench sandbox`.
//! The pixels are read, or read and written in place like a cutout (`written`).
//!
//! Also the time from the start of a worker to its first answer, for which a picture waits only if no worker is ready.

#[cfg(target_os = "linux")]
#[path = "support/heic_grid.rs"]
mod heic_grid;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("decode workers need Linux");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use super::heic_grid::heic_grid;
    use backdrop::codec::sandbox::{self, Program, Workers};
    use backdrop::codec::{self, Channels, EncodeOptions, Header, Limits, PngEffort};
    use backdrop::image::{Buffer, BufferPool, Composite, Frame, OutputFormat, Quality, Size};
    use criterion::Criterion;
    use std::hint::black_box;
    use std::process::ExitCode;

    /// Bytes of a page.
    const PAGE: usize = 4096;

    /// The program's allocator.
    #[global_allocator]
    static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

    pub(super) fn main() -> ExitCode {
        if std::env::args().nth(1).as_deref() == Some("decode-worker") {
            return sandbox::run();
        }
        let mut criterion = Criterion::default().configure_from_args();
        benches(&mut criterion);
        criterion.final_summary();
        ExitCode::SUCCESS
    }

    fn jpeg(size: Size) -> Vec<u8> {
        let mut seed = 1_u32;
        let mut noise = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 29) as u8
        };
        let pixel = |at: usize| {
            let (x, y) = (at % size.width as usize, at / size.width as usize);
            [(x / 20) as u8, (y / 15) as u8, ((x ^ y) / 64 * 40) as u8]
        };
        let pixels = (0..size.area()).flat_map(|at| {
            let [red, green, blue] = pixel(at).map(|value| value.wrapping_add(noise()));
            [red, green, blue, 255]
        });
        let frame = Frame::new(size, Buffer::from(pixels.collect::<Vec<_>>()));
        let (format, quality) = (OutputFormat::Jpeg, Quality::DEFAULT);
        let options = EncodeOptions { format, quality, png: PngEffort::Default, channels: Channels::Rgba };
        codec::encode(Composite::unchanged(frame), &options).expect("a file").bytes.to_vec()
    }

    fn benches(criterion: &mut Criterion) {
        let limits = Limits { max_bytes: 64 << 20, ..Limits::default() };
        let pool = BufferPool::new(256 << 20);
        let program = || Program::new("/proc/self/exe", ["decode-worker"]);
        let workers = Workers::new(program());
        let mut pictures = vec![
            ("jpeg/1mp", jpeg(Size::new(1250, 800))),
            ("jpeg/4mp", jpeg(Size::new(2500, 1600))),
            ("jpeg/12mp", jpeg(Size::new(4000, 3000))),
        ];
        if cfg!(feature = "heic") {
            // 280×200 pixels, repeated to 2520×1600 and to 3920×3000.
            let coded = include_bytes!("../tests/golden/pictures/heic-shoe.heic");
            pictures.push(("heic/0.06mp", coded.to_vec()));
            pictures.push(("heic/4mp", heic_grid(coded, 9, 8)));
            pictures.push(("heic/12mp", heic_grid(coded, 14, 15)));
        }
        let mut group = criterion.benchmark_group("sandbox");
        for (name, bytes) in &pictures {
            let header = codec::probe(bytes, &limits).expect("a header");
            let in_process = || {
                let header = codec::probe(bytes, &limits).expect("a header");
                codec::decode(bytes, &header, &pool).expect("a picture")
            };
            let by_worker = || {
                let (size, flaw) = workers.probe(header.container, bytes, &limits).expect("a header");
                let header = Header { size, flaw, ..header };
                workers.decode(bytes, &header, &pool).expect("a picture")
            };
            group.sample_size(20);
            group.bench_function(format!("{name}/in-process"), |b| b.iter(|| read(&in_process())));
            group.bench_function(format!("{name}/worker"), |b| b.iter(|| read(&by_worker())));
            group.bench_function(format!("{name}/in-process/written"), |b| b.iter(|| written(in_process())));
            group.bench_function(format!("{name}/worker/written"), |b| b.iter(|| written(by_worker())));
        }
        let (_, small) = &pictures[0];
        let header = codec::probe(small, &limits).expect("a header");
        group.bench_function("start", |b| {
            b.iter(|| Workers::new(program()).probe(header.container, small, &limits).expect("a header"));
        });
        group.finish();
    }

    /// Reads every cache line of the pixels, like the next stage: memory of another process is mapped at its first use.
    fn read(frame: &Frame) -> u64 {
        frame.pixels().iter().step_by(64).map(|&byte| u64::from(byte)).sum()
    }

    /// Also writes a byte of every page: the system then copies the pages of another process.
    fn written(mut frame: Frame) -> Frame {
        black_box(read(&frame));
        frame.pixels_mut().iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        frame
    }
}
