//! A clip of a person with the built-in network; clips with added models.

use crate::engine::support::{config, factory, masks_of};
use crate::model::added::settings;
use crate::support::onnxruntime;
use crate::video::formats::assert_cut_out;
use crate::video::support::{clip, cut, frames, recipe, remade};
use backdrop::engine::{Engine, EngineConfig, EngineError};
use backdrop::model::added::Adding;
use backdrop::model::onnx::ModelType;
use backdrop::model::weights::Weights;
use backdrop::model::{CpuRetoucher, CpuSegmenter, SegmentError, Segmenter};
use backdrop::recipe::{Network, VideoFormat, VideoRecipe};
use backdrop::video::VideoError;
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

#[tokio::test]
async fn added_models_of_masks_and_of_mattes_cut_out_clips() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = onnxruntime::models_in(folder.path()) else { return };
    // 1 for red, 0 for the blue ground.
    let of_red = [
        ("size", "96"),
        ("fit", "\"stretch\""),
        ("range", "255.0"),
        ("mean", "[0.5, 0.5, 0.5]"),
        ("deviation", "[0.001, 1.0, 1.0]"),
        ("order", "\"rgb\""),
        ("input", "\"x\""),
        ("output", "\"first\""),
        ("activation", "\"sigmoid\""),
    ];
    let mut networks = Vec::new();
    for result in ["mask", "matte"] {
        let quoted = format!("\"{result}\"");
        let conventions = [&of_red[..], &[("result", quoted.as_str())]].concat();
        let adding = Adding { name: Some(result.to_owned()), ..settings(ModelType::Custom, &conventions) };
        networks.push(Network::Added(models.add(&onnxruntime::network("first"), adding).expect(result).0.name));
    }
    let built_in = factory(&Arc::default(), |ids| Ok(masks_of(ids)));
    let engine = Engine::start_with_models(&config(8, 4), built_in, Arc::new(CpuRetoucher::default()), models, 1 << 30);
    let clip = clip(folder.path());
    for (network, smoothing) in networks.into_iter().flat_map(|network| [(network.clone(), 0), (network, 50)]) {
        let recipe = VideoRecipe { network, smoothing, ..recipe(VideoFormat::Mov) };
        let (_kept, finished) = cut(&engine, &clip, &recipe).await.expect("it is cut out");
        assert_cut_out(&frames(&finished.file));
    }
    let gone = Network::Added("gone/00000000".parse().expect("a name"));
    let error =
        cut(&engine, &clip, &VideoRecipe { network: gone, ..recipe(VideoFormat::Mov) }).await.expect_err("no model");
    assert!(matches!(error, VideoError::Engine(EngineError::Failed(_))), "{error}");
}
