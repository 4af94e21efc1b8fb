//! Added models: the conventions of each type, tested with networks that return a known function of their input; unusable files;
//! several models in an engine.

use crate::engine::support::{config as engine_config, factory, slot, soon};
use crate::support::onnxruntime::{config, models_in, network};
use backdrop::engine::{Engine, EngineError, Lane, Tenant};
use backdrop::image::{Frame, RawMask, Size};
use backdrop::model::CpuRetoucher;
use backdrop::model::added::{AddedModels, AddedName, Adding, FindError, ModelFile, ModelsConfig};
use backdrop::model::onnx::ModelType;
use backdrop::recipe::Network;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const IMAGENET: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
/// Values of half precision have eleven bits.
const HALF: f32 = 2e-3;

fn name(text: &str) -> AddedName {
    text.parse().expect("a name")
}

/// Left half and right half of one colour each.
fn halves(size: Size, left: [u8; 3], right: [u8; 3]) -> Frame {
    let pixel = |at: u32| if at % size.width < size.width / 2 { left } else { right };
    let pixels = (0..size.width * size.height).flat_map(|at| {
        let [red, green, blue] = pixel(at);
        [red, green, blue, 255]
    });
    Frame::new(size, pixels.collect::<Vec<_>>().into())
}

/// The networks' output for a normalised colour.
fn linear([red, green, blue]: [f32; 3]) -> f32 {
    0.5 + 0.1 * red + 0.05 * green + 0.025 * blue
}

fn normalised(colour: [u8; 3], range: f32, (mean, deviation): ([f32; 3], [f32; 3])) -> [f32; 3] {
    std::array::from_fn(|channel| (f32::from(colour[channel]) / range - mean[channel]) / deviation[channel])
}

/// A type, and conventions in TOML.
fn settings(kind: ModelType, conventions: &[(&str, &str)]) -> Adding {
    let conventions = conventions.iter().map(|(key, value)| {
        let table: toml::Table = toml::from_str(&format!("value = {value}")).expect("a value");
        ((*key).to_owned(), table["value"].clone())
    });
    Adding { kind: Some(kind), conventions: conventions.collect(), ..Adding::default() }
}

fn mask_of(models: &AddedModels, added: &AddedName, frame: &Frame) -> Result<RawMask, String> {
    let mut network = models.load(added, 1).map_err(|error| error.to_string())?;
    network.segment(&[frame]).map(|mut masks| masks.remove(0)).map_err(|error| error.to_string())
}

/// The values in the middle of the left and of the right half.
fn values_of(mask: &RawMask) -> [f32; 2] {
    let (columns, row) = (mask.size().width as usize, mask.size().height as usize / 2);
    [columns / 4, columns * 3 / 4].map(|column| mask.values()[row * columns + column])
}

#[test]
fn each_type_takes_pictures_as_its_authors_program_does() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let (left, right) = ([200, 90, 30], [10, 60, 120]);
    let (half, plain) = (([0.5; 3], [1.0; 3]), ([0.0; 3], [1.0; 3]));
    let whole = Size::new(1024, 1024);
    let longer = Size::new(1024, 512);
    let all = [
        ("first", ModelType::U2net, Size::new(320, 320), 200.0, IMAGENET, 1.0, false),
        ("first", ModelType::Isnet, whole, 255.0, half, 1.0, false),
        ("first", ModelType::IsnetAnime, longer, 255.0, plain, 1.0, false),
        ("last", ModelType::Birefnet, whole, 255.0, IMAGENET, 1.0, false),
        ("first", ModelType::Rmbg, whole, 255.0, half, 1.0, false),
        ("first", ModelType::Ben2, whole, 255.0, plain, 1.0, false),
        ("first", ModelType::Modnet, longer, 255.0, ([0.5; 3], [0.5; 3]), 1.0, true),
        ("named", ModelType::Withoutbg, longer, 255.0, plain, 1.2, true),
    ];
    for (file, kind, grid, range, normalisation, factor, is_matte) in all {
        let called = kind.name();
        let adding = Adding { name: Some(called.to_owned()), ..settings(kind, &[]) };
        let (model, untried) = models.add(&network(file), adding).expect(called);
        assert!(untried.is_none(), "{kind}");
        // Resampling overshoots where colours meet. U²-Net divides by the largest sample, which the overshoot would change.
        let right = if kind == ModelType::U2net { left } else { right };
        let picture = halves(Size::new(300, 150), left, right);
        let mask = mask_of(&models, &model.name, &picture).expect(called);
        assert_eq!((mask.size(), mask.is_matte()), (grid, is_matte), "{kind}");
        for (value, colour) in values_of(&mask).into_iter().zip([left, right]) {
            let expected = (factor * linear(normalised(colour, range, normalisation))).clamp(0.0, 1.0);
            assert!((value - expected).abs() < 1e-4, "{kind}: {value} instead of {expected}");
        }
    }
    let names: Vec<_> = models.list().into_iter().map(|model| model.unwrap().name.name().to_owned()).collect();
    assert_eq!(names, ["ben2", "birefnet", "isnet", "isnet-anime", "modnet", "rmbg", "u2net", "withoutbg"]);
}

#[test]
fn the_operators_of_birefnet_give_the_mask_that_pytorch_computes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let (added, _) = models.add(&network("birefnet"), settings(ModelType::Birefnet, &[])).expect("a model");
    // `picture()` of tests/models/make_birefnet.py.
    let pixel = |x: u32, y: u32| match (x, y) {
        (24..48, 20..44) => [230, 220, 60, 255],
        _ => [3 * x, 3 * y, 255 - (x + y), 255].map(|sample| sample as u8),
    };
    let pixels = (0..64 * 64).flat_map(|at| pixel(at % 64, at / 64));
    let frame = Frame::new(Size::new(64, 64), pixels.collect::<Vec<_>>().into());
    let mask = mask_of(&models, &added.name, &frame).expect("a mask");
    let reference = fs::read(network("birefnet").with_extension("f32")).expect("the reference");
    let expected: Vec<f32> = reference.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let range =
        expected.iter().copied().fold((1.0_f32, 0.0_f32), |(low, high), value| (low.min(value), high.max(value)));
    assert!(range.0 < 0.2 && range.1 > 0.8, "{range:?}: any mask would do");
    let differences = mask.values().iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
    assert!(mask.values().len() == expected.len() && differences.fold(0.0, f32::max) < 1e-3);
}

#[test]
fn every_convention_can_be_given_and_changes_the_version() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let custom = [
        ("size", "64"),
        ("fit", "\"letterbox-top-left\""),
        ("range", "128.0"),
        ("mean", "[0.1, 0.2, 0.3]"),
        ("deviation", "[0.5, 1.0, 2.0]"),
        ("order", "\"bgr\""),
        ("input", "\"x\""),
        ("output", "{ named = \"z\" }"),
        ("result", "\"matte\""),
    ];
    let (left, right) = ([200, 90, 30], [10, 60, 120]);
    let tall = halves(Size::new(60, 120), left, right);
    let added = |name: &str, given: &[(&str, &str)]| {
        let adding = Adding { name: Some(name.to_owned()), ..settings(ModelType::Custom, given) };
        models.add(&network("first"), adding).map(|(model, _)| model)
    };
    let model = added("all", &custom).expect("all are given");
    let mask = mask_of(&models, &model.name, &tall).expect("a mask");
    assert_eq!((mask.size(), mask.is_matte()), (Size::new(32, 64), true));
    for (value, [red, green, blue]) in values_of(&mask).into_iter().zip([left, right]) {
        let normalisation = ([0.1, 0.2, 0.3], [0.5, 1.0, 2.0]);
        let expected = 1.0 - linear(normalised([blue, green, red], 128.0, normalisation));
        assert!((value - expected).abs() < 1e-4, "{value} instead of {expected}");
    }
    let other: Vec<_> = custom.iter().map(|&(key, value)| (key, if key == "size" { "96" } else { value })).collect();
    let other = added("other", &other).expect("all are given");
    assert_ne!(model.name.version(), other.name.version());
    assert_eq!(model.card.sha256, other.card.sha256);

    for missing in ["size", "fit", "mean"] {
        let given: Vec<_> = custom.into_iter().filter(|(key, _)| *key != missing).collect();
        let error = added("incomplete", &given).expect_err(missing).to_string();
        assert!(error.contains(&format!("missing field `{missing}`")), "{error}");
    }
    for (key, value) in
        [("size", "0"), ("deviation", "[1.0, 0.0, 1.0]"), ("range", "-1.0"), ("fit", "\"cover\""), ("sides", "3")]
    {
        let mut given: Vec<_> = custom.into_iter().filter(|(known, _)| *known != key).collect();
        given.push((key, value));
        let error = added("wrong", &given).expect_err(key).to_string();
        assert!(error.starts_with("the conventions are wrong"), "{error}");
    }
}

#[test]
fn a_graphs_own_size_precision_and_files_of_weights_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let (left, right) = ([200, 90, 30], [10, 60, 120]);
    let picture = halves(Size::new(90, 90), left, right);
    for (file, grid, tolerance) in [
        ("fixed", Size::new(48, 32), 1e-4),
        ("half", Size::new(1024, 1024), HALF),
        ("data", Size::new(1024, 1024), 1e-4),
    ] {
        let (model, _) = models.add(&network(file), settings(ModelType::Ben2, &[])).expect(file);
        assert_eq!((model.name.name(), model.card.parameters), (file, 4));
        let mask = mask_of(&models, &model.name, &picture).expect(file);
        assert_eq!(mask.size(), grid, "{file}");
        for (value, colour) in values_of(&mask).into_iter().zip([left, right]) {
            let expected = linear(normalised(colour, 255.0, ([0.0; 3], [1.0; 3])));
            assert!((value - expected).abs() < tolerance, "{file}: {value} instead of {expected}");
        }
    }
    let data = models.find(&name("data")).expect("it was added").card.data;
    assert_eq!(data.keys().collect::<Vec<_>>(), ["data.onnx_data"]);
    // Changed weights are detected too.
    let weights = folder.path().join("models/data/data.onnx_data");
    fs::remove_file(&weights).unwrap();
    fs::write(&weights, [0; 16]).unwrap();
    let error = mask_of(&models, &name("data"), &picture).expect_err("other weights");
    assert!(error.contains("data.onnx_data has changed since it was added"), "{error}");
}

#[test]
fn a_folder_of_hugging_face_says_how_its_network_takes_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let from = folder.path().join("BiRefNet_lite-ONNX");
    fs::create_dir_all(from.join("onnx")).unwrap();
    for file in ["model", "model_fp16"] {
        fs::copy(network("last"), from.join("onnx").join(format!("{file}.onnx"))).unwrap();
    }
    let preprocessor = r#"{"do_normalize": true, "do_rescale": true, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7],
        "rescale_factor": 0.0078125, "size": {"height": 256, "width": 256}}"#;
    fs::write(from.join("preprocessor_config.json"), preprocessor).unwrap();
    let (model, _) = models.add(&from, Adding::default()).expect("a folder");
    assert_eq!((model.name.name(), model.card.kind), ("birefnet_lite-onnx", ModelType::Birefnet));
    let colour = [60, 90, 30];
    let mask = mask_of(&models, &model.name, &halves(Size::new(80, 40), colour, colour)).expect("a mask");
    assert_eq!(mask.size(), Size::new(256, 256));
    let expected = linear(normalised(colour, 128.0, ([0.1, 0.2, 0.3], [0.5, 0.6, 0.7])));
    assert!((values_of(&mask)[0] - expected).abs() < 1e-4);

    fs::write(from.join("preprocessor_config.json"), r#"{"size": {"height": 256, "width": 512}}"#).unwrap();
    let again = Adding { name: Some("again".to_owned()), ..Adding::default() };
    let error = models.add(&from, again).expect_err("no square").to_string();
    assert!(error.contains("`size` has the unsupported value {\"height\":256,\"width\":512}"), "{error}");
    fs::remove_file(from.join("onnx/model.onnx")).unwrap();
    fs::copy(network("last"), from.join("other.onnx")).unwrap();
    let error = models.add(&from, Adding::default()).expect_err("two files").to_string();
    assert!(error.contains("it has other.onnx, onnx/model_fp16.onnx"), "{error}");
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let refused = |path: &Path| {
        let adding = Adding { name: Some("x".to_owned()), ..settings(ModelType::Isnet, &[]) };
        let error = models.add(path, adding).expect_err("it cannot be used");
        format!("{error}{}", std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default())
    };
    for (file, reason) in
        [("two_inputs", "expected one input; the graph has `x`"), ("operator", "ONNX Runtime refuses the file on cpu")]
    {
        let error = refused(&network(file));
        assert!(error.contains(reason) && error.contains(&format!("{file}.onnx")), "{error}");
    }
    let whole = fs::read(network("first")).unwrap();
    let broken = folder.path().join("broken.onnx");
    for bytes in [&whole[..whole.len() - 20], b"", b"\x08\x08", b"not a graph", &[0xff; 300]] {
        fs::write(&broken, bytes).unwrap();
        assert!(refused(&broken).ends_with("broken.onnx: not an ONNX file, or truncated"), "{}", refused(&broken));
    }
    assert!(refused(&folder.path().join("missing.onnx")).contains("it cannot be read"));
    let unknown = models.add(&network("first"), Adding::default()).expect_err("no type").to_string();
    assert!(
        unknown.contains("set --type u2net, isnet, ")
            && unknown.contains("inputs: x [n, 3, height, width]; outputs: y"),
        "{unknown}"
    );
    for name in ["../x", "a/b", "X", ""] {
        let adding = Adding { name: Some(name.to_owned()), ..settings(ModelType::Isnet, &[]) };
        assert!(
            models.add(&network("first"), adding).expect_err(name).to_string().ends_with("is not a valid model name"),
            "{name}"
        );
    }
    assert!(models.list().is_empty());

    // These errors show only in a run.
    let picture = halves(Size::new(40, 40), [9; 3], [200; 3]);
    for (file, reason) in [
        ("nan", "values that are no numbers"),
        ("planes", "expected one plane for each of 1 pictures"),
        ("last", "are no probabilities: its `activation` may be `sigmoid`"),
    ] {
        let outputs: &[(&str, &str)] = if file == "last" { &[("output", "\"last\"")] } else { &[] };
        let (model, _) = models.add(&network(file), settings(ModelType::Isnet, outputs)).expect(file);
        let error = mask_of(&models, &model.name, &picture).expect_err(file);
        assert!(error.contains(reason), "{error}");
    }
    let again = models.add(&network("nan"), settings(ModelType::Isnet, &[])).expect_err("it is there").to_string();
    assert!(again.contains("there is a model nan already"), "{again}");

    let card = folder.path().join("models/nan/model.toml");
    let text = fs::read_to_string(&card).unwrap();
    for damaged in [text.replace("nan.onnx", "../../nan.onnx"), text.replace("type =", "kind ="), String::new()] {
        fs::write(&card, damaged).unwrap();
        assert!(matches!(models.find(&name("nan")), Err(FindError::Damaged { .. })));
    }
    models.remove(&name("nan")).unwrap();
    assert!(matches!(models.find(&name("nan")), Err(FindError::Unknown { .. })));
    assert!(models.remove(&name("nan")).is_err());
}

#[test]
fn models_of_the_configuration_need_no_data_folder() {
    let Some(config) = config() else { return };
    let file = |name: &str, sha256: Option<&str>| ModelFile {
        name: name.parse().expect("a name"),
        file: network("first"),
        kind: ModelType::Isnet,
        conventions: None,
        sha256: sha256.map(str::to_owned),
        licence: None,
    };
    let files = vec![file("one", None), file("two", Some("00"))];
    let models = AddedModels::open(Path::new("/nonexistent"), &ModelsConfig { files, ..config }).expect("two models");
    let picture = halves(Size::new(40, 40), [9; 3], [200; 3]);
    assert!(mask_of(&models, &name("one"), &picture).is_ok());
    let error = mask_of(&models, &name("two"), &picture).expect_err("another digest");
    assert!(error.contains("first.onnx has changed"), "{error}");
    assert_eq!(models.list().len(), 2);
}

#[tokio::test]
async fn a_model_that_fails_or_is_replaced_leaves_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let mut added = Vec::new();
    for (called, file) in [("one", "first"), ("two", "first"), ("bad", "nan")] {
        let adding = Adding { name: Some(called.to_owned()), ..settings(ModelType::Isnet, &[("size", "64")]) };
        added.push(models.add(&network(file), adding).expect(called).0);
    }
    // One of them fits.
    let memory = added[0].memory().max(added[2].memory());
    let built_in = factory(&Arc::default(), |ids| Ok(crate::engine::support::masks_of(ids)));
    let retoucher = Arc::new(CpuRetoucher::default());
    let engine = Engine::start_with_models(&engine_config(8, 4), built_in, retoucher, models.clone(), memory);
    engine.ready().await.expect("the built-in network");
    let segment = async |network: &Network| {
        let slot = slot(&engine).await;
        let frames = vec![halves(Size::new(40, 40), [9; 3], [200; 3])];
        engine.segment(network, &slot, frames, Lane::Interactive, soon()).await
    };
    let [one, two, bad] = [0, 1, 2].map(|at: usize| Network::Added(added[at].name.clone()));
    let is_loaded = || [0, 1, 2].map(|at: usize| engine.is_loaded(&added[at].name));
    assert_eq!(is_loaded(), [false; 3], "a model is loaded with its first picture");
    for _ in 0..2 {
        assert_eq!(segment(&one).await.expect("a mask").masks[0].size(), Size::new(64, 64));
        assert_eq!(is_loaded(), [true, false, false]);
        assert!(segment(&two).await.is_ok());
        assert_eq!(is_loaded(), [false, true, false]);
        let error = segment(&bad).await.expect_err("no numbers");
        assert!(matches!(&error, EngineError::Device(reason) if reason.contains("no numbers")), "{error}");
    }
    // Many at once; the two models exclude each other in memory.
    let both = (0..6).map(|at| segment(if at % 2 == 0 { &one } else { &two }));
    for answer in futures_util::future::join_all(both).await {
        assert!(answer.is_ok(), "{answer:?}");
    }
    let gone = Network::Added(name("gone/00000000"));
    assert!(
        matches!(segment(&gone).await, Err(EngineError::Failed(reason)) if reason.contains("unknown model gone/00000000"))
    );
    let file = folder.path().join("models/one/first.onnx");
    fs::remove_file(&file).unwrap();
    fs::copy(network("named"), &file).unwrap();
    assert!(segment(&two).await.is_ok());
    let error = segment(&one).await.expect_err("another file");
    assert!(matches!(&error, EngineError::Failed(reason) if reason.contains("first.onnx has changed")), "{error}");
    assert!(segment(&two).await.is_ok());
    engine.shutdown().await;
    let stopped = engine.admit(Tenant::default(), 1, soon()).await;
    assert!(matches!(stopped, Err(EngineError::Stopped)));
}

#[tokio::test]
async fn a_model_larger_than_the_memory_for_all_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(models) = models_in(folder.path()) else { return };
    let (model, _) = models.add(&network("first"), settings(ModelType::Isnet, &[])).expect("a model");
    let built_in = factory(&Arc::default(), |ids| Ok(crate::engine::support::masks_of(ids)));
    let retoucher = Arc::new(CpuRetoucher::default());
    let engine = Engine::start_with_models(&engine_config(8, 4), built_in, retoucher, models, model.memory() - 1);
    let error = engine.ready_by(&Network::Added(model.name)).await.expect_err("too large");
    assert!(error.to_string().contains("more than `models.memory`"), "{error}");
}
