//! Tests of weights files: loading, checking, importing and damaged files.

use std::path::PathBuf;

use safetensors::Dtype;

use super::architecture::fgnet;
use super::*;

static EMBEDDED: &[u8] = BuiltIn::Fgnet.bytes();

/// A tensor in a safetensors file: type, extents, bytes.
type Raw = (Dtype, Vec<usize>, Vec<u8>);

fn single(shape: &[usize], values: &[f32]) -> Raw {
    (Dtype::F32, shape.to_vec(), values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// Weights of a file as another tool would write them: single precision.
fn unpacked(which: BuiltIn) -> BTreeMap<String, Raw> {
    Weights::built_in(which)
        .tensors
        .iter()
        .map(|(name, tensor)| (name.clone(), single(&tensor.shape, &tensor.values)))
        .collect()
}

/// The segmentation weights as another tool would write them.
fn foreign() -> BTreeMap<String, Raw> {
    unpacked(BuiltIn::Fgnet)
}

fn container(tensors: &BTreeMap<String, Raw>) -> Vec<u8> {
    container_with(tensors, None)
}

fn container_with(tensors: &BTreeMap<String, Raw>, metadata: Option<HashMap<String, String>>) -> Vec<u8> {
    let views: Vec<_> = tensors
        .iter()
        .map(|(name, (dtype, shape, bytes))| {
            (name, safetensors::tensor::TensorView::new(*dtype, shape.clone(), bytes).expect("bytes for the shape"))
        })
        .collect();
    safetensors::serialize(views, metadata).expect("a container")
}

/// A temporary folder with a file.
fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("a temporary file");
    (folder, path)
}

fn import_bytes(name: &str, bytes: &[u8]) -> Result<Weights, WeightsError> {
    let (_folder, path) = file(name, bytes);
    import(&path)
}

fn import_tensors(tensors: &BTreeMap<String, Raw>) -> Result<Weights, WeightsError> {
    import_bytes("mine.safetensors", &container(tensors))
}

/// Files written by PyTorch: `tests/reference/weights/record.py`.
#[cfg(feature = "pytorch")]
const AVERAGED: &[u8] = include_bytes!("../../../tests/reference/weights/averaged.pth");
#[cfg(feature = "pytorch")]
const UNFOLDED: &[u8] = include_bytes!("../../../tests/reference/weights/unfolded.pth");

#[test]
fn the_embedded_weights_are_what_the_manifest_says() {
    for (file, result) in manifest::verify() {
        assert!(result.is_ok(), "{file}: {result:?}");
    }
    let listed: Vec<String> = manifest::entries().into_iter().map(|entry| entry.file).collect();
    assert_eq!(listed, BuiltIn::ALL.map(BuiltIn::file), "a file that is listed and not embedded, or in another order");
}

#[test]
fn each_embedded_file_is_of_its_network() {
    for which in BuiltIn::ALL {
        let card = Weights::built_in(which).card().clone();
        let fits = match which {
            BuiltIn::Fgnet => card.require(architecture::Architecture::Fgnet).is_ok(),
            BuiltIn::Guided => card.require(architecture::Architecture::Guided).is_ok(),
            BuiltIn::Upscale(factor) => card.factor().is_ok_and(|found| found == factor),
            BuiltIn::Restore => card.network == Network::Restore,
            BuiltIn::Edge => card.network == Network::Edge,
            BuiltIn::Face => card.threshold().is_ok(),
        };
        assert!(fits, "{which:?} is {card:?}");
        assert_eq!(format!("{}.safetensors", card.name), which.file());
    }
}

#[test]
fn the_manifest_check_rejects_another_card_and_other_bytes() {
    for (entry, which) in manifest::entries().into_iter().zip(BuiltIn::ALL) {
        let mut bytes = which.bytes().to_vec();
        *bytes.last_mut().expect("a file") ^= 1;
        let refused = |error: WeightsError, wrong: &str| {
            assert!(matches!(error, WeightsError::Manifest { field, .. } if field == wrong), "{which:?}: {error}");
        };
        refused(entry.check(&bytes).expect_err("another digest"), "sha256");
        let other = manifest::Entry { version: "none".to_owned(), ..entry.clone() };
        refused(other.check(which.bytes()).expect_err("another version"), "version");
        let other = match which {
            BuiltIn::Fgnet | BuiltIn::Guided => manifest::Entry { input_side: Some(64), ..entry },
            BuiltIn::Upscale(_) => manifest::Entry { factor: None, ..entry },
            BuiltIn::Restore | BuiltIn::Edge => manifest::Entry { factor: Some(2), ..entry },
            BuiltIn::Face => manifest::Entry { threshold: Some(0.999), ..entry },
        };
        refused(other.check(which.bytes()).expect_err("another entry"), "network metadata");
    }
}

/// The result of `Weights::from_bytes` for an embedded file with changed tensors.
fn after(which: BuiltIn, change: impl FnOnce(&mut BTreeMap<String, Raw>)) -> Result<Weights, WeightsError> {
    let mut tensors = unpacked(which);
    change(&mut tensors);
    let card = Weights::built_in(which).card().clone();
    let own = card.network.own_field().map(|(name, value)| (name.to_owned(), value));
    let architecture = card.network.architecture().to_string();
    let fields = [("name", card.name), ("version", card.version), ("licence", card.licence)];
    let metadata =
        fields.into_iter().chain([("architecture", architecture)]).map(|(key, value)| (key.to_owned(), value));
    Weights::from_bytes(&container_with(&tensors, Some(metadata.chain(own).collect())))
}

#[test]
fn every_network_is_checked_against_its_own_tensors() {
    for which in BuiltIn::ALL {
        let same = after(which, |_| ()).expect("nothing was changed");
        assert_eq!(same.tensors, Weights::built_in(which).tensors, "{which:?}");
        let expected = same.card().network.tensors();
        let (first, last) = (&expected[0], &expected[expected.len() - 1]);

        let error = after(which, |tensors| {
            tensors.remove(&last.name);
            tensors.remove(&first.name);
        });
        let error = error.expect_err("two tensors are missing");
        assert!(matches!(&error, WeightsError::Missing { name, .. } if *name == first.name), "{which:?}: {error}");

        let error = after(which, |tensors| drop(tensors.insert(last.name.clone(), single(&[2, 2], &[0.0; 4]))));
        let error = error.expect_err("a tensor of another shape");
        let reported = matches!(&error, WeightsError::Shape { name, found, expected } if *name == last.name
            && *found == [2, 2] && *expected == last.shape);
        assert!(reported, "{which:?}: {error}");

        let error = after(which, |tensors| drop(tensors.insert("extra".to_owned(), single(&[1], &[0.0]))));
        let error = error.expect_err("one tensor more");
        assert!(matches!(&error, WeightsError::Surplus(names) if *names == ["extra"]), "{which:?}: {error}");

        let values = first.shape.iter().product::<usize>();
        for value in [f32::NAN, f32::INFINITY, 70_000.0] {
            let mut wrong = vec![0.0; values];
            wrong[values - 1] = value;
            let error = after(which, |tensors| drop(tensors.insert(first.name.clone(), single(&first.shape, &wrong))));
            let error = error.expect_err("a value that half precision lacks");
            assert!(matches!(&error, WeightsError::Value { name, .. } if *name == first.name), "{which:?}: {error}");
        }
    }
}

#[test]
fn every_network_has_its_own_field_with_a_valid_value() {
    for (network, field, values) in [
        ("fgnet", "input_side", ["", "63", "385", "4096", "many"]),
        ("upscale", "factor", ["", "3", "2.0", "-2", "two"]),
        ("face", "threshold", ["", "0", "1", "NaN", "half"]),
    ] {
        let metadata = |value: Option<&str>| {
            let value = value.map(|value| (field.to_owned(), value.to_owned()));
            [("architecture".to_owned(), network.to_owned())].into_iter().chain(value).collect()
        };
        for value in values.map(Some).into_iter().chain([None]) {
            let error = Network::from_metadata(&metadata(value)).expect_err("a field that is not there, or absurd");
            assert!(matches!(error, WeightsError::Metadata(name) if name == field), "{network}, {value:?}: {error}");
        }
    }
}

#[test]
fn weights_of_another_network_are_refused() {
    for which in BuiltIn::ALL {
        let weights = Weights::built_in(which);
        let own = weights.card().network.architecture();
        for wanted in architecture::Architecture::ALL {
            let answer = weights.clone().require(wanted);
            assert_eq!(answer.is_ok(), own == wanted, "{own} where {wanted} is wanted");
        }
        let imported = import_bytes("other.safetensors", which.bytes());
        assert_eq!(imported.is_ok(), which == BuiltIn::Fgnet, "{which:?} was imported as segmentation weights");
    }
    let error = Weights::built_in(BuiltIn::Restore).card().input_side().expect_err("it has none");
    assert_eq!(error.to_string(), "weights for the network `restore`, expected `fgnet`");
}

#[test]
fn saved_files_are_reproducible_and_load_again() {
    let weights = Weights::embedded();
    assert_eq!(weights.to_bytes(), EMBEDDED, "the shipped file differs from what this code writes");
    let (_folder, path) = file("copy.safetensors", b"");
    weights.save(&path).expect("a writable folder");
    for again in [Weights::from_file(&path), import(&path)].map(|again| again.expect("our own file")) {
        assert_eq!((again.sha256(), again.card()), (weights.sha256(), weights.card()));
        assert_eq!(again.tensors, weights.tensors);
    }
    let foreign = import_tensors(&foreign()).expect("complete weights");
    assert_eq!(foreign.model(), "mine/1", "named after its file");
    assert_eq!(foreign.with_card(weights.card().clone()).sha256(), weights.sha256());
}

#[test]
fn a_name_or_version_that_no_header_can_carry_is_refused() {
    let weights = Weights::built_in(BuiltIn::Upscale(crate::model::Factor::Two));
    let (_folder, path) = file("weights.safetensors", b"");
    let named = |name: &str, version: &str| {
        let card = Card { name: name.to_owned(), version: version.to_owned(), ..weights.card().clone() };
        weights.clone().with_card(card)
    };
    let (longest, too_long) = ("x".repeat(64), "x".repeat(65));
    for label in [" a ~", longest.as_str()] {
        named(label, label).save(&path).expect("printable text");
        assert_eq!(Weights::from_file(&path).expect("printable text").model(), format!("{label}/{label}"));
    }
    fs::remove_file(&path).expect("it was written");
    for label in ["", "a\nb", "a\tb", "a\u{7f}", "gr\u{f6}\u{df}e", too_long.as_str()] {
        for (weights, wrong) in [(named(label, "1"), "name"), (named("a", label), "version")] {
            let refused = |error: &WeightsError| matches!(error, WeightsError::Label { field, .. } if *field == wrong);
            let error = Weights::from_bytes(&weights.to_bytes()).expect_err(label);
            assert!(refused(&error), "{label:?}: {error}");
            let error = weights.save(&path).expect_err(label);
            assert!(refused(&error) && !path.exists(), "{label:?}: {error}");
        }
    }
    let error = named("a\nb", "1").save(&path).expect_err("a line break").to_string();
    assert!(error.starts_with("`name` of the weights is \"a\\nb\", expected 1 to 64 characters"), "{error}");
}

#[test]
fn an_import_with_an_invalid_name_is_saved_only_under_a_valid_one() {
    let (_folder, path) = file("saved.safetensors", b"");
    let own = Weights::embedded().with_card(Card { name: "a\nb".to_owned(), ..Weights::embedded().card().clone() });
    for (bytes, name) in [(container(&foreign()), "gr\u{f6}\u{df}e"), (own.to_bytes(), "a\nb")] {
        let weights = import_bytes("gr\u{f6}\u{df}e.safetensors", &bytes).expect("complete weights");
        assert_eq!(weights.card().name, name);
        let error = weights.save(&path).expect_err("such a name");
        assert!(matches!(&error, WeightsError::Label { field: "name", found } if found == name), "{error}");
        let card = Card { name: "mine".to_owned(), ..weights.card().clone() };
        weights.with_card(card).save(&path).expect("another name");
        assert_eq!(Weights::from_file(&path).expect("our own file").card().name, "mine");
    }
}

#[test]
fn single_double_half_and_brain_floats_are_read() {
    let mut tensors = foreign();
    let values = &Weights::embedded().tensors["head.bias"].values;
    let shape = vec![values.len()];
    let as_double = values.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect();
    let as_half = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
    for (dtype, bytes) in [(Dtype::F64, as_double), (Dtype::F16, as_half)] {
        tensors.insert("head.bias".to_owned(), (dtype, shape.clone(), bytes));
        assert_eq!(import_tensors(&tensors).expect("complete weights").tensors["head.bias"].values, *values);
    }
    let brain = [1.5, -2.0, 0.0, 96.0];
    let bytes = brain.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect();
    tensors.insert("head.bias".to_owned(), (Dtype::BF16, shape, bytes));
    assert_eq!(import_tensors(&tensors).expect("complete weights").tensors["head.bias"].values, brain);
}

#[test]
fn batch_normalisation_is_folded_into_the_convolutions() {
    let embedded = Weights::embedded();
    let mut tensors = BTreeMap::new();
    for convolution in fgnet::convolutions() {
        let name = &convolution.name;
        let weight = &embedded.tensors[&format!("{name}.weight")];
        let bias = &embedded.tensors[&format!("{name}.bias")];
        let Some(module) = convolution.normalised() else {
            tensors.insert(format!("{name}.weight"), single(&weight.shape, &weight.values));
            tensors.insert(format!("{name}.bias"), single(&bias.shape, &bias.values));
            continue;
        };
        // Statistics that differ between channels, with weights and shifts that cancel them.
        let channels = weight.shape[0];
        let each = |value: fn(f32) -> f32| (0..channels).map(|channel| value(channel as f32)).collect::<Vec<f32>>();
        let (gamma, mean) = (each(|c| 0.5 + c % 7.0 / 8.0), each(|c| c % 5.0 / 4.0 - 0.5));
        let variance = each(|c| 0.1 + c % 3.0);
        let scale = |c: usize| gamma[c] / (variance[c] + 1e-3).sqrt();
        let taps = weight.values.len() / channels;
        let unscaled: Vec<f32> = weight.values.iter().enumerate().map(|(i, value)| value / scale(i / taps)).collect();
        let beta: Vec<f32> = bias.values.iter().enumerate().map(|(c, value)| value + mean[c] * scale(c)).collect();
        tensors.insert(format!("{name}.weight"), single(&weight.shape, &unscaled));
        for (statistic, values) in
            [("weight", gamma), ("bias", beta), ("running_mean", mean), ("running_var", variance)]
        {
            tensors.insert(format!("{module}.bn.{statistic}"), single(&[channels], &values));
        }
        let counter = (Dtype::I64, vec![], 3045_i64.to_le_bytes().to_vec());
        tensors.insert(format!("{module}.bn.num_batches_tracked"), counter);
    }
    tensors.insert("side.0.weight".to_owned(), single(&[1, 128, 1, 1], &[0.0; 128]));
    let weights = import_tensors(&tensors).expect("complete weights");
    for (name, tensor) in &embedded.tensors {
        for (&found, &expected) in weights.tensors[name].values.iter().zip(&tensor.values) {
            // Half precision has eleven significant bits.
            let tolerance = (expected.abs() / 1024.0).max(1e-6);
            assert!((found - expected).abs() <= tolerance, "{name}: {found}, not {expected}");
        }
    }
}

#[cfg(feature = "pytorch")]
#[test]
fn the_averaged_weights_of_a_checkpoint_are_imported() {
    let weights = import_bytes("averaged.pth", AVERAGED).expect("a checkpoint of PyTorch");
    let mut names: Vec<&String> = weights.tensors.keys().collect();
    names.sort();
    for (index, name) in names.into_iter().enumerate() {
        let tensor = &weights.tensors[name];
        assert!(tensor.values.iter().all(|&value| value == index as f32 / 1024.0), "{name}: {}", tensor.values[0]);
    }
}

#[cfg(feature = "pytorch")]
#[test]
fn a_checkpoint_with_batch_normalisation_is_folded() {
    let weights = import_bytes("unfolded.PTH", UNFOLDED).expect("a checkpoint of PyTorch");
    let mut names: Vec<String> = Vec::new();
    for convolution in fgnet::convolutions() {
        names.push(format!("{}.weight", convolution.name));
        match convolution.normalised() {
            Some(module) => {
                names.extend(["weight", "bias", "running_mean", "running_var"].map(|s| format!("{module}.bn.{s}")));
            }
            None => names.push(format!("{}.bias", convolution.name)),
        }
    }
    names.sort();
    let recorded = |name: &str| {
        let index = names.binary_search_by(|known| known.as_str().cmp(name)).expect("a recorded name");
        half::bf16::from_f32(index as f32 / 1024.0).to_f64()
    };
    let bn = |statistic: &str| recorded(&format!("d1.bn.{statistic}"));
    let scale = bn("weight") / (bn("running_var") + 1e-3).sqrt();
    let close = |name: &str, expected: f64| {
        let found = f64::from(weights.tensors[name].values[0]);
        assert!((found - expected).abs() < 1e-3, "{name}: {found}, not {expected}");
    };
    close("d1.conv.weight", recorded("d1.conv.weight") * scale);
    close("d1.conv.bias", bn("bias") - bn("running_mean") * scale);
    close("head.bias", recorded("head.bias"));
}

#[test]
fn an_import_names_the_first_wrong_tensor() {
    let refusal = |change: fn(&mut BTreeMap<String, Raw>)| {
        let mut tensors = foreign();
        change(&mut tensors);
        import_tensors(&tensors).expect_err("it was changed").to_string()
    };
    let missing = refusal(|tensors| {
        tensors.retain(|name, _| !["head.bias", "enc.blocks.3.dw.conv.bias", "lat4.conv.weight"].contains(&&**name));
    });
    assert_eq!(missing, "tensor \"enc.blocks.3.dw.conv.bias\" (shape [144]) is missing");
    let integers = refusal(|tensors| drop(tensors.insert("head.bias".to_owned(), (Dtype::I32, vec![4], vec![0; 16]))));
    assert!(integers.contains("head.bias") && integers.contains("I32"), "{integers}");
}

#[test]
fn a_weights_file_must_carry_a_card_and_the_right_architecture() {
    let error = Weights::from_bytes(&container(&foreign())).expect_err("no metadata");
    assert!(matches!(error, WeightsError::Metadata(_)), "{error}");
    let text = |from: &str, to: &str| {
        let at = EMBEDDED.windows(from.len()).position(|window| window == from.as_bytes()).expect("the field");
        let mut bytes = EMBEDDED.to_vec();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        Weights::from_bytes(&bytes).expect_err("a file that was changed")
    };
    let error = text("\"architecture\":\"fgnet\"", "\"architecture\":\"other\"");
    assert_eq!(
        error.to_string(),
        "weights for the network `other`, expected `fgnet`, `guided`, `upscale`, `restore`, `face`, `edge`"
    );
}

#[cfg(feature = "pytorch")]
#[test]
fn a_file_that_is_not_there_is_named() {
    let error = import(Path::new("/nowhere/weights.pth")).expect_err("no such file").to_string();
    assert!(error.starts_with("/nowhere/weights.pth: "), "{error}");
}

/// Truncated at many lengths, and with single bytes changed: an error or weights, never a panic.
fn survives_damage(name: &str, bytes: &[u8], header: usize) {
    let (_folder, path) = file(name, bytes);
    for step in 0..30 {
        fs::write(&path, &bytes[..bytes.len() * step / 30]).expect("a temporary file");
        assert!(import(&path).is_err(), "{name}: accepted although cut at {step}/30");
    }
    let mut state = 1_u32;
    for _ in 0..100 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut damaged = bytes.to_vec();
        damaged[(state >> 8) as usize % header] ^= (state >> 24) as u8 | 1;
        fs::write(&path, &damaged).expect("a temporary file");
        let _ = import(&path);
    }
}

#[test]
fn damaged_safetensors_files_are_errors() {
    survives_damage("damaged.safetensors", EMBEDDED, 16_000);
}

#[cfg(not(feature = "pytorch"))]
#[test]
fn a_checkpoint_needs_the_reader_that_this_build_lacks() {
    let error = import(Path::new("weights.pth")).expect_err("no reader").to_string();
    assert!(error.contains("feature `pytorch`"), "{error}");
}

#[cfg(feature = "pytorch")]
#[test]
fn damaged_checkpoints_are_errors() {
    survives_damage("damaged.pth", AVERAGED, AVERAGED.len());
}

#[test]
fn a_header_with_more_data_than_the_file_is_an_error() {
    for length in [u64::MAX, 1 << 40, 100_000_000, 9] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"{}");
        let error = import_bytes("lying.safetensors", &bytes).expect_err("a lying header");
        assert!(matches!(error, WeightsError::Container { .. }), "{error}");
    }
}
