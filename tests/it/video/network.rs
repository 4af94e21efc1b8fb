//! A clip of a person with the built-in network.

use crate::video::support::{cut, frames, recipe, remade};
use backdrop::engine::{Engine, EngineConfig};
use backdrop::model::weights::Weights;
use backdrop::model::{CpuSegmenter, SegmentError, Segmenter};
use backdrop::recipe::{VideoFormat, VideoRecipe};
use backdrop_kernels::conv::Isa;
use std::path::Path;
use std::sync::Arc;

#[tokio::test]
async fn a_person_is_cut_out_of_a_pan_over_a_photo() {
    let folder = tempfile::tempdir().unwrap();
    let photo = folder.path().join("photo.jpg");
    std::fs::copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/photos/astronaut.jpg"), &photo)
        .unwrap();
    // Six frames that pan over the photo.
    let clip = remade(
        &photo,
        "clip.mp4",
        "-vf loop=loop=5:size=1,setpts=N/(10*TB),scale=320:320,crop=288:288:x=4*n:y=2*n -r 10 -c:v libx264 -crf 12 \
         -pix_fmt yuv420p",
    );
    let weights = Weights::embedded();
    let factory = move || -> Result<Box<dyn Segmenter>, SegmentError> {
        let network =
            CpuSegmenter::new(&weights, Isa::detect()).map_err(|error| SegmentError::Device(error.to_string()))?;
        Ok(Box::new(network))
    };
    let engine = Engine::start(&EngineConfig { cpu_workers: 2, ..EngineConfig::default() }, Arc::new(factory));
    let recipe = VideoRecipe { smoothing: 50, ..recipe(VideoFormat::Mov) };
    let (_kept, finished) = cut(&engine, &clip, &recipe).await.unwrap();
    let frames = frames(&finished.file);
    assert_eq!(frames.len(), 6);
    for (index, frame) in (0..).zip(&frames) {
        // The face is in the upper middle of the photo, between a flag and a shuttle.
        let face = frame.pixel(140 - 4 * index, 70 - 2 * index);
        assert!(face[3] > 240 && face[0] > 120, "frame {index}: {face:?}");
        let covered = frame.pixels().as_chunks::<4>().0.iter().filter(|pixel| pixel[3] > 127).count();
        let share = covered as f64 / (288.0 * 288.0);
        assert!((0.25..0.85).contains(&share), "frame {index}: {share} of it is subject");
        assert!(frame.pixel(4, 4)[3] < 60, "frame {index}: {:?}", frame.pixel(4, 4));
    }
}
