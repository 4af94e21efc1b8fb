//! What decoding a HEIF file would cost, by the tables of its boxes.
//!
//! A picture may be derived from others: a grid of tiles, layers on a canvas, and those from others again, the same
//! one any number of times, each with an alpha of its own. So a few hundred bytes can ask for hours of work that no
//! single size betrays. The walk adds up everything that would be decoded for the primary picture, its alpha included,
//! and holds the sum against the pixels that the picture shows: one budget for all of it.
//!
//! libde265 cannot be interrupted inside a picture, so these sums are what bounds the time of a single one:
//! pixels of pictures, pixels that slices may reach (a slice can run to its picture's end, wherever the next one
//! begins), pixels of canvases, and bytes of bitstream.

use super::boxes::wide;
use super::hevc;
use super::structure::{File, Item, MAX_ITEMS};
use crate::codec::bytes::u8_at;
use crate::codec::{DecodeError, Limits, corrupt, judge};
use crate::image::Size;

/// Decoded pixels that need no explanation: one 1024×1024 tile.
const SMALL: u64 = 1 << 20;
/// Bytes that need no explanation: the configuration of each tile in a picture of one colour.
const SMALL_BYTES: usize = 1 << 16;
/// Coded pixels for each that is shown: two layers, each with an alpha.
const CODED: u64 = 4;
/// Pixels of canvases for each that is shown: a grid or an overlay, and an identity, of the picture and of its alpha.
const COMPOSED: u64 = 4;
/// Coded pixels for each that is shown, counted again for every slice of their picture. Phones write one slice, some
/// cameras two. A slice costs about 4 ns a pixel however few bytes it has (libde265 1.0.11, one core).
const SLICED: u64 = 16;
/// Tiles of tiles of tiles are made by no camera.
const MAX_DEPTH: usize = 4;

/// Checks the cost of the primary picture of `bytes`: every coded size, and the sum of them.
pub(super) fn check_cost(bytes: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    let file = File::read(bytes)?;
    let shown = file.size(file.primary())?;
    judge(shown, limits)?;
    let mut spent = Spent { shown: pixels(shown), ..Spent::default() };
    spent.add(&file, file.primary(), limits, 0)
}

fn pixels(size: Size) -> u64 {
    u64::from(size.width) * u64::from(size.height)
}

/// The sums over everything that was visited.
#[derive(Default)]
struct Spent {
    /// Pixels of the primary picture.
    shown: u64,
    visits: usize,
    bytes: usize,
    coded: u64,
    sliced: u64,
    composed: u64,
}

impl Spent {
    /// Adds what decoding `item` costs, with everything that it is made of.
    fn add(&mut self, file: &File<'_>, item: Item, limits: &Limits, depth: usize) -> Result<(), DecodeError> {
        self.visits += 1;
        if self.visits > MAX_ITEMS || depth > MAX_DEPTH {
            return Err(corrupt("made of more parts than its size can explain"));
        }
        for &alpha in file.alphas(item) {
            self.add(file, alpha, limits, depth + 1)?;
        }
        let parts = file.derived_from(item);
        match file.kind(item)? {
            // libheif follows the references of every item, and a coded picture needs none.
            b"hvc1" if !parts.is_empty() => Err(corrupt("a coded picture that is made of others")),
            b"hvc1" => self.add_coded(file, item, limits),
            b"grid" | b"iovl" | b"iden" if parts.is_empty() => Err(corrupt("a picture made of nothing")),
            kind @ (b"grid" | b"iovl" | b"iden") => {
                let size = file.size(item)?;
                judge(size, limits)?;
                if kind != b"iden" {
                    let data = file.data(item)?;
                    self.add_bytes(file, data.len())?;
                    let canvas = canvas(kind, &data)?;
                    if canvas != size {
                        return Err(corrupt(format_args!("a canvas of {canvas} where {size} was promised")));
                    }
                }
                self.composed += pixels(size);
                self.check(self.composed, COMPOSED)?;
                parts.iter().try_for_each(|&part| self.add(file, part, limits, depth + 1))
            }
            b"av01" => Err(DecodeError::Unsupported { found: Some("AVIF") }),
            _ => Err(DecodeError::Unsupported { found: Some("HEIF of a codec other than HEVC") }),
        }
    }

    fn add_coded(&mut self, file: &File<'_>, item: Item, limits: &Limits) -> Result<(), DecodeError> {
        let size = file.size(item)?;
        judge(size, limits)?;
        self.coded += pixels(size);
        self.check(self.coded, CODED)?;
        let configuration = file.property(item, b"hvcC").ok_or_else(|| corrupt("no HEVC configuration"))?;
        let stream = file.data(item)?;
        self.add_bytes(file, configuration.len() + stream.len())?;
        // The sizes inside the bitstream, which libde265 allocates by, against the container's.
        self.sliced += pixels(size) * hevc::check(configuration, &stream, size)?;
        self.check(self.sliced, SLICED)
    }

    /// Adds bytes of items, which are copied wherever the item is used.
    fn add_bytes(&mut self, file: &File<'_>, more: usize) -> Result<(), DecodeError> {
        self.bytes += more;
        if self.bytes > file.len() * 2 + SMALL_BYTES {
            return Err(corrupt("made of more data than it has"));
        }
        Ok(())
    }

    /// Whether `sum` is explained by `times` the pixels that are shown.
    fn check(&self, sum: u64, times: u64) -> Result<(), DecodeError> {
        if sum > self.shown * times + SMALL {
            return Err(corrupt("made of more pixels than its size can explain"));
        }
        Ok(())
    }
}

/// The canvas that the data of a grid or of an overlay (ISO/IEC 23008-12, 6.6.2) describe.
fn canvas(kind: &[u8; 4], data: &[u8]) -> Result<Size, DecodeError> {
    // Behind version and flags: the numbers of rows and columns, or a colour of four channels.
    let at = if kind == b"grid" { 4 } else { 10 };
    let long = u8_at(data, 1)? & 1 != 0;
    let (width, at) = wide(data, at, long)?;
    let (height, _) = wide(data, at, long)?;
    Ok(Size::new(width, height))
}
