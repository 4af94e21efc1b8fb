//! A daemon on a GPU, or on Mesa's lavapipe without a GPU, end to end, with the network at a reduced side.
#![cfg(unix)]

use super::serve::Running;
use crate::model::gpu::{SIDE, adapter, weights};
use crate::support::command::photo;
use crate::support::hang_guard::until;
use backdrop::model::weights::architecture::edge::FEATURES;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Settings of a daemon on `device`, with the weights in `folder`.
fn variables<'a>(device: &'a str, weights: &'a str) -> [(&'a str, &'a str); 4] {
    [
        ("BACKDROP_DEVICE", device),
        ("BACKDROP_WEIGHTS", weights),
        ("BACKDROP_ENGINE_MAX_BATCH", "1"),
        ("BACKDROP_ENGINE_IDLE_UNLOAD", "1s"),
    ]
}

/// The weights as a file whose network has the reduced side.
fn saved_weights(folder: &Path) -> String {
    let path = folder.join("weights.safetensors");
    weights().save(&path).expect("it is written");
    path.to_str().expect("a path of text").to_owned()
}

#[tokio::test]
async fn a_daemon_on_a_gpu_moves_a_picture_up_once_and_down_once() {
    let Some(adapter) = adapter() else { return };
    let folder = tempfile::tempdir().unwrap();
    let weights = saved_weights(folder.path());
    let running = Running::start(&folder.path().join("data"), &variables(&adapter.name, &weights));
    let remove = async |area: Option<&'static str>| {
        let photo = reqwest::multipart::Part::bytes(fs::read(photo("coffee.jpg")).unwrap());
        let mut form = reqwest::multipart::Form::new().part("file", photo);
        if let Some(area) = area {
            form = form.text("box", area);
        }
        let request = running.post("/remove").multipart(form);
        let response = request.timeout(Duration::from_secs(600)).send().await.unwrap();
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let sides =
            ["x-service-width", "x-service-height"].map(|name| header(name).and_then(|side| side.parse::<u32>().ok()));
        (response.status().as_u16(), sides, header("server-timing").unwrap_or_default())
    };
    // Shaders are compiled first, on the processor with lavapipe: requests may reach their deadline meanwhile.
    let mut tries = 0;
    let (width, height, timing) = loop {
        let (status, sides, timing) = remove(None).await;
        if let (200, [Some(width), Some(height)]) = (status, sides) {
            break (width, height, timing);
        }
        tries += 1;
        assert!(tries < 10, "{status}");
    };
    let (pixels, cells): (u64, usize) = (4 * u64::from(width) * u64::from(height), 4 * SIDE * SIDE);
    let features = (4 * FEATURES) as u64;
    let (up, down) = (pixels + 2 * cells as u64, pixels + cells as u64 + features);
    let expected = format!("device;desc=\"{up} up, {down} down\"");
    assert!(timing.ends_with(&expected), "{timing}: {expected} expected");

    // The network and matting take the box alone, with the copy that the network saw.
    let (status, _, timing) = remove(Some("10%,10%,90%,90%")).await;
    assert_eq!(status, 200);
    let described = timing.split("device;desc=\"").nth(1).expect("what was moved");
    let up_of_box: u64 = described.split(' ').next().and_then(|up| up.parse().ok()).expect("a number");
    let down_of_box: u64 = described.split(' ').nth(2).and_then(|down| down.parse().ok()).expect("a number");
    assert!(up_of_box < up && down_of_box == up_of_box - cells as u64 + features, "{timing}");

    // Unloaded while idle, which leaves the daemon ready on the same device, and loaded again.
    let unloaded = async || running.page("/metrics").await.contains("backdrop_model_loaded 0\n");
    until("it is unloaded", unloaded).await;
    let ready: serde_json::Value = serde_json::from_str(&running.page("/readyz").await).unwrap();
    assert_eq!((&ready["status"], &ready["device"]), (&"ready".into(), &adapter.to_string().into()));
    let (status, _, timing) = remove(None).await;
    assert_eq!(status, 200);
    assert!(timing.ends_with(&expected), "{timing}: the GPU was not loaded again");
    running.daemon.drain();
}
