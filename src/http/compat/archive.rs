//! A cutout as remove.bg's ZIP archive: `color.jpg`, the colours without alpha, and `alpha.png`, the matte.
//!
//! Both are derived from the finished PNG. Transparent pixels of the JPEG get the nearest colour of their row, so that its
//! blocks along the edge hold only the subject's colours.

use crate::codec::{self, Channels, EncodeOptions, Header, Limits, PngEffort};
use crate::engine::{Admission, EngineError, Tenant};
use crate::http::reply::{ApiError, Result};
use crate::image::{BufferPool, Composite, Frame, OutputFormat, Quality};
use bytes::Bytes;
use std::error::Error;
use std::io::{Cursor, Write};
use std::time::Instant;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use zip::write::SimpleFileOptions;

/// The archive of an account's finished PNG. The PNG takes a slot again, at most until the deadline of its request (503).
pub(super) async fn color_and_alpha(
    png: Bytes,
    admission: &Admission,
    account: &str,
    deadline: Instant,
) -> Result<Vec<u8>> {
    // The PNG is our own, so it needs no limits.
    let limits = Limits { max_bytes: usize::MAX, max_side: u32::MAX, max_megapixels: u32::MAX };
    let header = codec::probe(&png, &limits).map_err(ApiError::internal)?;
    let slot = admission.slot(Tenant::of(account), 2 * header.size.area(), deadline).await?;
    let archiving = spawn_blocking(move || {
        let _slot = slot;
        zip_files(&png, &header)
    });
    let archived = timeout_at(deadline.into(), archiving).await.map_err(|_| EngineError::DeadlineExceeded)?;
    archived?.map_err(ApiError::internal)
}

fn zip_files(png: &[u8], header: &Header) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let mut frame = codec::decode(png, header, &BufferPool::new(0))?;
    let file = |frame: Frame, format, channels| {
        let options = EncodeOptions { format, quality: Quality::DEFAULT, png: PngEffort::default(), channels };
        codec::encode(Composite::unchanged(frame), &options).map(|image| image.bytes)
    };
    let alpha = file(frame.clone(), OutputFormat::Png, Channels::Alpha)?;
    fill_transparent(&mut frame);
    let color = file(frame, OutputFormat::Jpeg, Channels::Rgba)?;
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::with_capacity(alpha.len() + color.len() + 1024)));
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default());
    for (name, bytes) in [("color.jpg", color), ("alpha.png", alpha)] {
        archive.start_file(name, options)?;
        archive.write_all(&bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Makes `frame` opaque; transparent pixels get the nearest colour to their left, else to their right, else of the row
/// above, else below.
fn fill_transparent(frame: &mut Frame) {
    let row = frame.size().width.max(1) as usize * 4;
    let pixels = frame.pixels_mut();
    let mut first = None;
    for at in (0..pixels.len()).step_by(row) {
        let line = &mut pixels[at..at + row];
        let (line_pixels, _) = line.as_chunks_mut::<4>();
        let shows = line_pixels.iter().find(|pixel| pixel[3] > 0).copied();
        if let Some(mut color) = shows {
            for pixel in line_pixels {
                if pixel[3] > 0 {
                    color = *pixel;
                }
                *pixel = [color[0], color[1], color[2], 255];
            }
            first.get_or_insert(at);
        } else if first.is_some() {
            pixels.copy_within(at - row..at, at);
        }
    }
    match first {
        Some(first) => {
            for at in (0..first).step_by(row) {
                pixels.copy_within(first..first + row, at);
            }
        }
        None => pixels.as_chunks_mut::<4>().0.fill([0, 0, 0, 255]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Buffer, Size};
    use std::io::Read;

    fn frame(pixels: &[[u8; 4]], width: u32) -> Frame {
        let height = u32::try_from(pixels.len()).expect("a few") / width;
        Frame::new(Size::new(width, height), Buffer::from(pixels.as_flattened().to_vec()))
    }

    #[test]
    fn transparent_pixels_get_the_nearest_colour_and_a_picture_without_subject_is_black() {
        let (none, red, blue) = ([0; 4], [200, 0, 0, 255], [0, 0, 200, 10]);
        let mut frame = frame(&[none, none, none, none, red, none, blue, none, none], 3);
        fill_transparent(&mut frame);
        let rows = |y| [0, 1, 2].map(|x| frame.pixel(x, y));
        let (red, blue) = ([200, 0, 0, 255], [0, 0, 200, 255]);
        assert_eq!([rows(0), rows(1), rows(2)], [[red; 3], [red; 3], [blue; 3]]);
        let mut empty = self::frame(&[[9, 9, 9, 0]; 4], 2);
        fill_transparent(&mut empty);
        assert_eq!(empty.pixels(), [[0, 0, 0, 255]; 4].as_flattened());
    }

    #[test]
    fn the_archive_holds_the_colours_and_the_matte() {
        let pixels: Vec<_> = (0..64 * 64).map(|at| if at % 64 < 32 { [0; 4] } else { [180, 90, 30, 128] }).collect();
        let options = EncodeOptions {
            format: OutputFormat::Png,
            quality: Quality::DEFAULT,
            png: PngEffort::default(),
            channels: Channels::Rgba,
        };
        let png = codec::encode(Composite::unchanged(frame(&pixels, 64)), &options).expect("a PNG").bytes;
        let header = codec::probe(&png, &Limits::default()).expect("a PNG");
        let archive = zip_files(&png, &header).expect("an archive");
        let mut archive = zip::ZipArchive::new(Cursor::new(archive)).expect("a ZIP archive");
        let mut read = |name| {
            let mut bytes = Vec::new();
            archive.by_name(name).expect(name).read_to_end(&mut bytes).expect(name);
            let header = codec::probe(&bytes, &Limits::default()).expect(name);
            codec::decode(&bytes, &header, &BufferPool::new(0)).expect(name)
        };
        let (color, alpha) = (read("color.jpg"), read("alpha.png"));
        for x in [0, 31, 32, 63] {
            let near = color.pixel(x, 20).iter().zip([180, 90, 30, 255]).all(|(is, was)| is.abs_diff(was) < 6);
            assert!(near, "{:?} at {x}", color.pixel(x, 20));
        }
        assert_eq!([alpha.pixel(31, 5)[0], alpha.pixel(32, 5)[0]], [0, 128]);
    }
}
