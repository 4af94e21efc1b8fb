//! Cuts out given pictures with given masks: our side of `benches/peers/halo`, which compares halos.
//!
//! `cargo bench --bench halo -- DIR` takes each `DIR/image/NAME.png` with `DIR/mask/NAME.png` (8-bit grey on any grid,
//! stretched over the picture, like a network's answer) and writes the soft cutout as `DIR/ours/NAME.png`, RGBA with
//! straight alpha. Without a folder it does nothing: `make bench` runs every bench.

mod support;

use backdrop::codec::{self, Channels, EncodeOptions, PngEffort};
use backdrop::image::{Composite, Frame, InvalidMask, OutputFormat, Quality, RawMask};
use backdrop::matting::{self, Options};
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use support::picture;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let Some(folder) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).map(PathBuf::from) else {
        println!("halo: NOT RUN, no folder given; see benches/peers/halo/README.md");
        return Ok(());
    };
    let ours = folder.join("ours");
    fs::create_dir_all(&ours)?;
    let mut count = 0;
    for entry in fs::read_dir(folder.join("image"))? {
        let image = entry?.path();
        let name = image.file_name().ok_or("a picture without a name")?;
        let mask = mask_of(&picture(&folder.join("mask").join(name))?)?;
        let cutout = matting::cut_out(picture(&image)?, &mask, &Options::default())?;
        fs::write(ours.join(name), png(cutout.into_frame())?)?;
        count += 1;
    }
    println!("halo: {count} pictures cut out");
    Ok(())
}

fn mask_of(grey: &Frame) -> Result<RawMask, InvalidMask> {
    let (pixels, _) = grey.pixels().as_chunks::<4>();
    RawMask::new(grey.size(), pixels.iter().map(|pixel| f32::from(pixel[0]) / 255.0).collect::<Vec<f32>>())
}

fn png(frame: Frame) -> Result<Vec<u8>, Box<dyn Error>> {
    let options = EncodeOptions {
        format: OutputFormat::Png,
        quality: Quality::DEFAULT,
        png: PngEffort::Fast,
        channels: Channels::Rgba,
    };
    Ok(codec::encode(Composite::unchanged(frame), &options)?.bytes.to_vec())
}
