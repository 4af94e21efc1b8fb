//! Daemon and command line on a GPU, or on Mesa's lavapipe where there is none, end to end, with the network at a reduced side.
#![cfg(unix)]

use super::serve::Running;
use crate::engine::pipeline::png;
use crate::model::gpu::{SIDE, adapter, weights};
use crate::support::command::{backdrop, photo, stderr};
use crate::support::hang_guard::until;
use backdrop::image::Size;
use backdrop::model::weights::architecture::edge::FEATURES;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Least matte IoU of the two devices.
const LEAST_IOU: f64 = 0.998;

/// Settings of a daemon or command on `device`, with the weights in `folder`.
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

/// The alpha of a PNG.
fn alpha(file: &[u8]) -> Vec<f64> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("it fits in memory")];
    reader.next_frame(&mut pixels).expect("a whole PNG");
    pixels.as_chunks::<4>().0.iter().map(|pixel| f64::from(pixel[3])).collect()
}

/// Intersection over union of two mattes, as fuzzy sets.
fn iou(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    let sum = |pick: fn(f64, f64) -> f64| one.iter().zip(other).map(|(&a, &b)| pick(a, b)).sum::<f64>();
    sum(f64::min) / sum(f64::max)
}

#[test]
fn the_command_line_gives_the_same_cutout_on_a_gpu() {
    let Some(adapter) = adapter() else { return };
    let folder = tempfile::tempdir().unwrap();
    let weights = saved_weights(folder.path());
    let disc = png(Size::new(300, 200), |x, y| {
        let inside = x.abs_diff(150).pow(2) + y.abs_diff(100).pow(2) < 60 * 60;
        let shade = (x / 5) as u8;
        if inside { [240, 200, 90, 255] } else { [20 + shade, 50, 75 - shade / 2, 255] }
    });
    let input = folder.path().join("disc.png");
    fs::write(&input, disc).unwrap();
    let [on_cpu, on_gpu] = ["cpu", &adapter.name].map(|device| {
        let output = folder.path().join(format!("{}.png", device.len()));
        let mut command = backdrop();
        command.envs(variables(device, &weights)).arg("remove").arg(&input).arg("-o").arg(&output);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{device}: {}", stderr(&ran));
        alpha(&fs::read(&output).unwrap())
    });
    let iou = iou(&on_cpu, &on_gpu);
    assert!(on_cpu.iter().sum::<f64>() > 0.0 && iou >= LEAST_IOU, "{iou}");
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
