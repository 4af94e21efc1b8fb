//! The golden set: its pictures, its requests, and the files of expectations.

pub(super) use crate::support::pictures::decoded;
use backdrop::codec::{self, Channels, EncodeOptions, PngEffort};
use backdrop::image::{Buffer, Composite, Frame, OutputFormat, Quality, Size};
use bytes::Bytes;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A row of `manifest.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Picture {
    pub(super) name: String,
    pub(super) category: String,
    pub(super) origin: String,
    pub(super) licence: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    picture: Vec<Picture>,
}

/// `tests/golden`.
pub(super) fn folder() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/golden")
}

/// `golden` in the target directory, for comparison sheets.
pub(super) fn output_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("`tmp` lies in the target directory").join("golden")
}

/// The rows of the manifest that this build can decode.
pub(super) fn pictures() -> Vec<Picture> {
    all_pictures().into_iter().filter(|picture| cfg!(feature = "heic") || !picture.name.ends_with(".heic")).collect()
}

/// Every row of the manifest.
pub(super) fn all_pictures() -> Vec<Picture> {
    let text = fs::read_to_string(folder().join("manifest.toml")).expect("the manifest is there");
    toml::from_str::<Manifest>(&text).expect("the manifest is valid").picture
}

/// The file of a picture.
pub(super) fn file_of(name: &str) -> Bytes {
    fs::read(folder().join("pictures").join(name)).unwrap_or_else(|error| panic!("{name}: {error}")).into()
}

/// The exact alpha of a drawn picture.
pub(super) fn truth_of(name: &str) -> Option<Frame> {
    read(&folder().join("truth").join(stem(name)).with_extension("png"))
}

/// A file name without its extension.
pub(super) fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// An image file of the set, if it exists.
pub(super) fn read(path: &Path) -> Option<Frame> {
    fs::read(path).ok().map(|bytes| decoded(&bytes))
}

/// The lossless file of a frame.
pub(super) fn encoded(frame: &Frame) -> Bytes {
    let grey = frame.pixels().as_chunks::<4>().0.iter().all(|&[r, g, b, a]| r == g && g == b && a == 255);
    let (frame, channels, format) = if grey {
        let pixels = frame.pixels().as_chunks::<4>().0.iter().flat_map(|&[value, ..]| [0, 0, 0, value]);
        let alpha = Frame::new(frame.size(), Buffer::from(pixels.collect::<Vec<u8>>()));
        (alpha, Channels::Alpha, OutputFormat::Png)
    } else {
        (frame.clone(), Channels::Rgba, OutputFormat::WebP)
    };
    let quality = Quality::new(100).expect("in range");
    let options = EncodeOptions { format, quality, png: PngEffort::Best, channels };
    codec::encode(Composite::unchanged(frame), &options).expect("small enough").bytes
}

/// A plane of bytes as an opaque grey frame.
pub(super) fn grey(size: Size, values: impl IntoIterator<Item = u8>) -> Frame {
    let pixels = values.into_iter().flat_map(|value| [value, value, value, 255]);
    Frame::new(size, Buffer::from(pixels.collect::<Vec<u8>>()))
}

/// A request, and its pictures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) endpoint: &'static str,
    pub(super) fields: &'static [(&'static str, &'static str)],
    /// The picture that is uploaded as `bg_file`.
    pub(super) background: Option<&'static str>,
    pub(super) pictures: &'static [&'static str],
}

impl Case {
    /// Endpoint and fields, as a folder name.
    pub(super) fn stage(&self) -> String {
        let text = |value: &str| value.replace(' ', "-");
        let fields = self.fields.iter().filter(|(name, _)| *name != "format");
        let fields = fields.map(|(name, value)| format!(".{name}={}", text(value)));
        let background = self.background.map(|name| format!(".bg_file={}", stem(name)));
        std::iter::once(self.endpoint.to_owned()).chain(fields).chain(background).collect()
    }
}

const fn case(
    endpoint: &'static str,
    fields: &'static [(&'static str, &'static str)],
    pictures: &'static [&'static str],
) -> Case {
    Case { endpoint, fields, background: None, pictures }
}

/// The lossless format for endpoints whose default is JPEG.
const PNG: (&str, &str) = ("format", "png");

/// Every endpoint and every field that affects pixels, on pictures that show its effect.
pub(super) const CASES: &[Case] = &[
    case("remove", &[], &["hair-curls.jpg", "glass-green.jpg", "thin-chair.jpg", "portrait-turned.jpg"]),
    case("remove", &[("edge", "hard")], &["goods-shoe.jpg", "thin-bicycle.jpg"]),
    case("remove", &[("edge", "auto")], &["goods-camera.jpg", "glass-wine.jpg"]),
    case("remove", &[("matting", "none")], &["fur-toy.jpg"]),
    case("remove", &[("decontaminate", "true")], &["hair-green.jpg", "white-carton.png"]),
    case("remove", &[("despill", "true")], &["glass-green.jpg"]),
    case("remove", &[("detect", "high_recall")], &["white-carton.png", "grey-photographer.jpg"]),
    case("remove", &[("engine", "product-v1")], &["goods-bottle.jpg", "goods-camera.jpg", "white-mug.jpg"]),
    case("remove", &[("keep_alpha", "false")], &["transparent-plant.png"]),
    case("mask", &[("edge", "hard")], &["several-fruit.jpg", "line-wide.png"]),
    case("mask", &[("engine", "product-v1")], &["goods-lamp.jpg", "cmyk-carton.jpg"]),
    case("replace-bg", &[("bg_color", "teal")], &["glass-wine.jpg", "transparent-bottle.webp"]),
    Case {
        endpoint: "replace-bg",
        fields: &[PNG],
        background: Some("none-sky.png"),
        pictures: &["fur-horse.jpg", "thin-plant.jpg"],
    },
    case("replace-bg-ai", &[("prompt", "a wooden table by a window"), PNG], &["white-mug.jpg", "goods-bottle.jpg"]),
    case("studio-shot", &[PNG], &["goods-shoe.jpg", "goods-camera.jpg"]),
    case("studio-shot", &[("bg_blur", "true"), PNG], &["shadow-figure.jpg"]),
    case("studio-shot", &[], &["cmyk-carton.jpg"]),
    case("smart-crop", &[], &["scene-ball.jpg", "scene-figure.jpg"]),
    case("headshot", &[PNG], &["portrait-astronaut.jpg", "portrait-turned.jpg"]),
    case("shadow", &[], &["shadow-vase.jpg", "thin-stool.png"]),
    case("sticker", &[], &["several-people.jpg", "fur-chelsea.jpg"]),
    case("upscale", &[], &["portrait-small.jpg", "transparent-grey.png"]),
    case("upscale", &[("scale", "4")], &["portrait-small.jpg"]),
    case("face-restore", &[], &["portrait-small.jpg", "portrait-astronaut.jpg"]),
];
