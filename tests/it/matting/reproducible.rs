//! Equal pictures, fields and models give equal bytes, on any number of threads and in any batch.

#![cfg(unix)]

use crate::cli::serve::Running;
use crate::support::command::photo;
use backdrop::model::weights::Weights;
use backdrop::recipe::InferenceMode;
use futures_util::future::join_all;
use reqwest::StatusCode;
use reqwest::multipart::{Form, Part};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// A daemon with the embedded network, on the CPU, and its folder.
fn start(workers: &str, max_batch: &str) -> (Running, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("BACKDROP_ENGINE_CPU_WORKERS", workers),
        ("BACKDROP_ENGINE_MAX_BATCH", max_batch),
        ("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000"),
    ];
    (Running::start(folder.path(), &settings), folder)
}

async fn send(daemon: &Running, case: &Case, model: &str) -> reqwest::Response {
    let file = Part::bytes(fs::read(photo(case.photo)).unwrap());
    let form = Form::new().part("file", file).text(case.field, case.value).text("max_dim", "300");
    let request = daemon.post("/remove").header("x-service-model", case.model.of(model)).multipart(form);
    request.timeout(Duration::from_secs(120)).send().await.expect("an answer")
}

async fn cut(daemon: &Running, case: &Case, model: &str) -> Vec<u8> {
    let response = send(daemon, case, model).await;
    assert_eq!(response.status(), StatusCode::OK, "{case:?}");
    assert_eq!(response.headers()["x-service-model"], *case.model.of(&Weights::embedded().model()));
    response.bytes().await.expect("the whole answer").to_vec()
}

#[derive(Clone, Copy, Debug)]
struct Case {
    photo: &'static str,
    field: &'static str,
    value: &'static str,
    model: InferenceMode,
}

#[tokio::test]
async fn same_picture_fields_and_model_give_the_same_bytes_in_any_batch_and_on_any_number_of_threads() {
    let model = Weights::embedded().model();
    let name = model.split('/').next().expect("a name");
    let (fast, quality) = (InferenceMode::Fast, InferenceMode::Quality);
    let settings = [
        ("detect", "standard", fast),
        ("detect", "high_recall", fast),
        ("engine", "product-v1", fast),
        ("decontaminate", "true", fast),
        ("detect", "standard", quality),
        ("detect", "high_recall", quality),
    ];
    // In quality mode high recall changes the fourth photo alone.
    let mut cases = ["coffee.jpg", "chelsea.png", "astronaut.jpg", "../golden/pictures/goods-camera.jpg"]
        .map(|photo| settings.map(|(field, value, model)| Case { photo, field, value, model }))
        .concat();
    // The subject fills the second photo: there is nothing to refine.
    cases.retain(|case| case.photo != "chelsea.png" || case.model != InferenceMode::Quality);

    // One thread, one picture at a time; the first request arrives while the network is still loading.
    let (alone, _folder) = start("1", "1");
    let mut expected = Vec::new();
    for case in &cases {
        expected.push(cut(&alone, case, name).await);
    }
    // Two settings may have equal results for one photo, but not for all. `decontaminate` changes none of these photos.
    let setting = |case: &Case| (case.field, case.value, case.model);
    let differ = |one: usize, other: usize| {
        let answers =
            |index: usize| cases.iter().zip(&expected).filter(move |(case, _)| setting(case) == settings[index]);
        answers(one).any(|(case, answer)| answers(other).any(|(same, its)| same.photo == case.photo && its != answer))
    };
    for (one, other) in (0..settings.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
        assert!(
            [one, other].iter().any(|&setting| settings[setting].0 == "decontaminate") || differ(one, other),
            "{:?} and {:?} have the same results",
            settings[one],
            settings[other]
        );
    }
    let refused = send(&alone, &cases[0], "another-model").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    drop(alone);

    // Three threads, and batches in arbitrary composition.
    let (busy, _folder) = start("3", "8");
    for round in 0..3 {
        let mut order: Vec<usize> = (0..cases.len()).chain(0..cases.len()).collect();
        order.rotate_left(round);
        let answers = join_all(order.iter().map(|&index| cut(&busy, &cases[index], &model))).await;
        for (index, answer) in order.into_iter().zip(answers) {
            assert!(answer == expected[index], "{:?} differs in round {round}", cases[index]);
        }
    }
}
