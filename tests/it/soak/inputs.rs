//! Inputs of the soak's clients: pictures, hostile files and paths of an origin with their planned statuses, a clip,
//! endpoints with fields.

use crate::codec::hostile::{metadata_bombs, wide_webp};
use crate::codec::support::fixture;
use crate::source::origin::{Answer, Origin};
use crate::support::command::{golden_picture, photo};
use crate::support::pictures::png;
use crate::video::support::{boxed, made};
use backdrop::image::Size;
use bytes::Bytes;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Names and values of a form.
type Fields = &'static [(&'static str, &'static str)];

/// Endpoints, each with the fields of a request.
pub(super) const ENDPOINTS: [(&str, Fields); 12] = [
    ("/remove", &[]),
    ("/remove", &[("edge", "hard"), ("despill", "true"), ("format", "webp")]),
    ("/remove", &[("detect", "high_recall"), ("decontaminate", "true")]),
    ("/remove", &[("engine", "product-v1")]),
    ("/mask", &[]),
    ("/replace-bg", &[("bg_color", "red"), ("format", "jpg")]),
    ("/studio-shot", &[("shadow", "true")]),
    ("/smart-crop", &[("aspect", "4:5")]),
    ("/headshot", &[("restore_face", "false")]),
    ("/shadow", &[("angle", "45")]),
    ("/sticker", &[]),
    ("/upscale", &[("scale", "2")]),
];

const PNG: &[u8] = b"\x89PNG";
const JPEG: &[u8] = b"\xff\xd8";
const ZIP: &[u8] = b"PK";

/// Drop-in routes: path, name of the file's field, further fields, first bytes of the answer.
pub(super) const DROP_INS: [(&str, &str, Fields, &[u8]); 7] = [
    ("/v1.0/removebg", "image_file", &[("size", "full")], PNG),
    ("/v1.0/removebg", "image_file", &[("bg_color", "red")], JPEG),
    ("/v1.0/removebg", "image_file", &[("format", "zip")], ZIP),
    ("/v1/segment", "image_file", &[], PNG),
    ("/v1/segment", "image_file", &[("format", "jpg")], JPEG),
    (REMBG, "file", &[("a", "true")], PNG),
    (REMBG, "file", &[("om", "true")], PNG),
];

/// The route of rembg, which also accepts addresses.
pub(super) const REMBG: &str = "/api/remove";

/// Pages and services without parameters.
pub(super) const QUERIES: [&str; 10] = [
    "/account",
    "/usage",
    "/jobs",
    "/presets",
    "/v1.0/account",
    "/v1/account",
    "/",
    "/docs",
    "/openapi.yaml",
    "/openapi.json",
];

/// Prompts of generated backdrops.
pub(super) const PROMPTS: [&str; 3] = ["a beach at sunset", "a marble table in window light", "a forest in fog"];

/// Paths of the origin, and the planned statuses of a picture from each. The first is good.
pub(super) const ORIGIN: [(&str, &[u16]); 9] = [
    ("/good", &[200]),
    ("/moved", &[200]),
    ("/missing", &[424]),
    ("/round", &[424]),
    ("/short", &[424]),
    ("/drip", &[424]),
    ("/endless", &[413, 424]),
    ("/hangup", &[424]),
    ("/silence", &[424]),
];

/// Statuses of a hostile HEIC: too large, or more expensive than its size explains; 415 in a build without a decoder.
const HOSTILE_HEIC: &[u16] = if cfg!(feature = "heic") { &[400, 413] } else { &[415] };

/// Inflated bytes of a bomb in the metadata of a PNG.
const INFLATED: usize = 60_000_000;

/// Seconds of the clip.
pub(super) const CLIP_SECONDS: u32 = 2;

/// A file that must be refused, and the planned statuses.
pub(super) struct Hostile {
    pub(super) file: Bytes,
    pub(super) planned: &'static [u16],
}

/// The files that the clients send.
pub(super) struct Inputs {
    /// Good pictures. The first is a JPEG, the third a cutout.
    pub(super) pictures: Vec<Bytes>,
    pub(super) hostile: Vec<Hostile>,
    /// A picture with a face.
    pub(super) face: Bytes,
    pub(super) clip: Bytes,
    pub(super) origin: Origin,
}

impl Inputs {
    /// Makes the clip in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        let read = |path: &Path| Bytes::from(fs::read(path).expect("a readable file"));
        let cutout = png(Size::new(64, 64), |x, _| [200, 90, 30, if x < 32 { 255 } else { 0 }]);
        let (jpeg, png_file) = (read(&photo("coffee.jpg")), read(&photo("chelsea.png")));
        let hostile = hostile(&jpeg, &png_file);
        let [bomb, ..] = metadata_bombs(&png_file, INFLATED);
        // Half of the pictures are small cutouts, to leave processor time to the others.
        let mut pictures = vec![jpeg, png_file, cutout.clone(), cutout.clone(), cutout.clone(), bomb.into()];
        if cfg!(feature = "heic") {
            pictures.extend([cutout.clone(), read(&golden_picture("heic-shoe.heic"))]);
        }
        let graph = boxed((96, 54), "10", CLIP_SECONDS);
        let clip = made(folder, "clip.mp4", &[&graph], "-c:v libx264 -pix_fmt yuv420p");
        Self { pictures, hostile, face: read(&photo("astronaut.jpg")), clip: read(&clip), origin: origin(&cutout) }
    }
}

/// Files that are no pictures, truncated, too large, or smaller than their headers declare.
fn hostile(jpeg: &Bytes, png_file: &Bytes) -> Vec<Hostile> {
    let webp = fixture("lossy.webp");
    let wide_png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\x06\0\0\0";
    let others: [(Bytes, &'static [u16]); 6] = [
        (Bytes::from_static(b"not a picture"), &[415]),
        (jpeg.slice(..jpeg.len() / 2), &[400]),
        (png_file.slice(..png_file.len() - 20), &[400]),
        (webp[..webp.len() / 2].to_vec().into(), &[400]),
        (Bytes::from_static(wide_png), &[413]),
        (wide_webp().into(), &[413]),
    ];
    let heics = ["grid_of_16384", "grid_of_grids", "grid_of_waste", "size_lie"];
    let heics = heics.map(|name| (Bytes::from(fixture(&format!("hostile/{name}.heic"))), HOSTILE_HEIC));
    others.into_iter().chain(heics).map(|(file, planned)| Hostile { file, planned }).collect()
}

/// An origin whose answers are good, wrong, slow or endless.
fn origin(picture: &Bytes) -> Origin {
    let moved = |path: &str| Answer::Redirect(302, path.to_owned());
    Origin::start([
        ("/good", Answer::Bytes(picture.clone())),
        ("/moved", moved("/good")),
        ("/missing", Answer::Status(404)),
        ("/round", moved("/round")),
        ("/short", Answer::WrongLength { announces: 2 * picture.len(), sends: picture.clone() }),
        ("/drip", Answer::Drip(picture.clone(), Duration::from_millis(50))),
        ("/endless", Answer::Endless(picture.clone())),
        ("/hangup", Answer::Hangup),
        ("/silence", Answer::Silence),
    ])
}
