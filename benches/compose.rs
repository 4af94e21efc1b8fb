//! Compositing of a cutout by `flatten`, in typical scenes: `cargo bench --bench compose`.

use backdrop::compose::{
    Background, Fit, Framing, Materials, Outline, Padding, Resize, SUBJECT_ALPHA, Scene, Shadow, flatten,
};
use backdrop::image::color::Color;
use backdrop::image::{Buffer, Frame, Size, Subject};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

/// A wavy disc with a soft edge that fills most of the picture, as a cutout or with its background.
fn picture(size: Size, cutout: bool) -> Frame {
    let (width, height) = (size.width as f32, size.height as f32);
    let mut pixels = vec![0; size.area() * 4];
    for (index, pixel) in pixels.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let (x, y) = ((index % size.width as usize) as f32 / width, (index / size.width as usize) as f32 / height);
        let (dx, dy) = (x - 0.5, y - 0.5);
        let distance = dx.hypot(dy) - 0.35 - 0.04 * (dy.atan2(dx) * 9.0).sin();
        let alpha = (0.5 - distance * 400.0).clamp(0.0, 1.0) * 255.0;
        let level = |base: f32| (base + 40.0 * (x * 40.0).sin() * (y * 30.0).cos()) as u8;
        *pixel =
            [level(40.0 + 150.0 * x), level(60.0 + 120.0 * y), level(100.0), if cutout { alpha as u8 } else { 255 }];
        if pixel[3] == 0 {
            *pixel = [0; 4];
        }
    }
    Frame::new(size, Buffer::from(pixels))
}

fn benches(criterion: &mut Criterion) {
    const PHOTO: Size = Size::new(4000, 3000);
    const LARGEST: Size = Size::new(4096, 4096);
    let shadow = |sigma| Some(Shadow { color: Color::BLACK, opacity: 0.35, dx: 8.0, dy: 12.0, sigma });
    let padded = Framing::Padded { aspect: None, padding: Padding::Share(0.1) };
    let blurred = |intensity| Background::Blurred { intensity, behind: Color::WHITE };
    let studio = Scene { framing: padded, shadow: shadow(10.0), ..Scene::default() };
    let white = Background::Color(Color::WHITE);
    let outline = |width| Some(Outline { color: Color::WHITE, width });
    let cover = Background::Picture { fit: Fit::Cover, behind: Color::WHITE };
    let half = Resize { max_dim: Some(2048), ..Resize::default() };
    let scenes = [
        ("studio/12mp", PHOTO, Scene { background: white, ..studio.clone() }),
        ("studio-2048/12mp", PHOTO, Scene { background: white, resize: half, ..studio.clone() }),
        ("studio-blurred-2/12mp", PHOTO, Scene { background: blurred(2), ..studio.clone() }),
        ("studio-blurred-100/12mp", PHOTO, Scene { background: blurred(100), ..studio }),
        ("shadow-hard/12mp", PHOTO, Scene { framing: Framing::Expanded, shadow: shadow(3.0), ..Scene::default() }),
        ("shadow-soft/12mp", PHOTO, Scene { framing: Framing::Expanded, shadow: shadow(50.0), ..Scene::default() }),
        ("replace-cover/12mp", PHOTO, Scene { background: cover, ..Scene::default() }),
        (
            "sticker-100/16mp",
            LARGEST,
            Scene { framing: Framing::Trimmed { padding: 32 }, outline: outline(100.0), ..Scene::default() },
        ),
    ];
    let mut group = criterion.benchmark_group("flatten");
    group.sample_size(10);
    for (name, size, scene) in scenes {
        let (cutout, source) = (picture(size, true), picture(size, false));
        let subject = cutout.covered(SUBJECT_ALPHA).expect("a subject");
        let layout = scene.layout(size, subject).expect("a layout");
        let background = picture(Size::new(3000, 2000), false);
        group.bench_function(name, |bench| {
            let given = || (cutout.clone(), scene.background == cover);
            bench.iter_batched(
                given,
                |(cutout, needs)| {
                    let background = needs.then(|| background.clone());
                    let materials = Materials { background, plate: scene.plate(&source), mark: None };
                    flatten(Subject::Source(cutout), subject, &layout, &scene, materials)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
