//! Bounds the decode cost of a HEIF file from its item tables.
//!
//! A picture may be derived from others: a grid of tiles, layers on a canvas, recursively, the same one any number of
//! times, each with its own alpha. A few hundred bytes can therefore describe hours of work without any large size. The
//! walk sums everything that would be decoded for the primary picture, alpha included, and compares the sums with the
//! pixels shown: one budget for all.
//!
//! libde265 cannot be interrupted inside a picture, so these sums bound the time of a single one: pixels of pictures,
//! pixels that slices may cover (a slice can extend to the picture's end, wherever the next one begins), pixels of
//! canvases, and bytes of bitstream.

use super::boxes::u16_or_u32;
use super::hevc;
use super::item_tables::{ItemId, ItemTables, MAX_ITEMS};
use crate::codec::byte_reader::u8_at;
use crate::codec::error::{DecodeError, corrupt};
use crate::codec::limits::{Limits, check_size};
use crate::image::Size;

/// Pixels always allowed: one 1024×1024 tile.
const SMALL: u64 = 1 << 20;
/// Bytes always allowed: the configuration of each tile in a picture of one colour.
const SMALL_BYTES: usize = 1 << 16;
/// Coded pixels per shown pixel: two layers, each with alpha.
const CODED: u64 = 4;
/// Canvas pixels per shown pixel: a grid or an overlay, and an identity, of the picture and of its alpha.
const COMPOSED: u64 = 4;
/// Coded pixels per shown pixel, counted once per slice of their picture. Phones write one slice, some
/// cameras two. A slice costs about 4 ns per pixel, however few bytes it has (libde265 1.0.11, one core).
const SLICED: u64 = 16;
/// Maximum nesting; no camera nests tiles three deep.
const MAX_DEPTH: usize = 4;

/// Checks the decode cost of the primary picture of `bytes`: every coded size, and the sums.
pub(super) fn check_cost(bytes: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    Cost::of(bytes, limits).map(|_| ())
}

fn pixels(size: Size) -> u64 {
    u64::from(size.width) * u64::from(size.height)
}

/// Sums over the visited items.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Pixels of the primary picture.
    shown: u64,
    /// Items, counted once per use.
    pub(super) visits: usize,
    /// Bytes of their data and configurations.
    pub(super) bytes: usize,
    pub(super) coded: u64,
    sliced: u64,
    composed: u64,
}

impl Cost {
    /// The cost of the primary picture of `bytes`, within the budget.
    pub(super) fn of(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let file = ItemTables::read(bytes)?;
        let shown = file.size(file.primary())?;
        check_size(shown, limits)?;
        let mut cost = Self { shown: pixels(shown), ..Self::default() };
        cost.add(&file, file.primary(), limits, 0)?;
        Ok(cost)
    }

    /// Adds the cost of `item` and, recursively, of its inputs.
    fn add(&mut self, file: &ItemTables<'_>, item: ItemId, limits: &Limits, depth: usize) -> Result<(), DecodeError> {
        self.visits += 1;
        if self.visits > MAX_ITEMS || depth > MAX_DEPTH {
            return Err(corrupt("made of more parts than its size can explain"));
        }
        for &alpha in file.alphas(item) {
            self.add(file, alpha, limits, depth + 1)?;
        }
        let parts = file.derived_from(item);
        match file.kind(item)? {
            // libheif follows the references of every item; a coded picture needs none.
            b"hvc1" if !parts.is_empty() => Err(corrupt("a coded picture that is made of others")),
            b"hvc1" => self.add_coded(file, item, limits),
            b"grid" | b"iovl" | b"iden" if parts.is_empty() => Err(corrupt("a picture made of nothing")),
            kind @ (b"grid" | b"iovl" | b"iden") => {
                let size = file.size(item)?;
                check_size(size, limits)?;
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

    fn add_coded(&mut self, file: &ItemTables<'_>, item: ItemId, limits: &Limits) -> Result<(), DecodeError> {
        let size = file.size(item)?;
        check_size(size, limits)?;
        self.coded += pixels(size);
        self.check(self.coded, CODED)?;
        let configuration = file.property(item, b"hvcC").ok_or_else(|| corrupt("no HEVC configuration"))?;
        let stream = file.data(item)?;
        self.add_bytes(file, configuration.len() + stream.len())?;
        // The sizes inside the bitstream, which libde265 allocates by, against the container's.
        self.sliced += pixels(size) * hevc::check(configuration, &stream, size)?;
        self.check(self.sliced, SLICED)
    }

    /// Adds the bytes of an item, which are copied at each use.
    fn add_bytes(&mut self, file: &ItemTables<'_>, more: usize) -> Result<(), DecodeError> {
        self.bytes += more;
        if self.bytes > file.len() * 2 + SMALL_BYTES {
            return Err(corrupt("its items need more data than it has"));
        }
        Ok(())
    }

    /// Checks that `sum` is at most `ratio` times the pixels shown.
    fn check(&self, sum: u64, ratio: u64) -> Result<(), DecodeError> {
        if sum > self.shown * ratio + SMALL {
            return Err(corrupt("made of more pixels than its size can explain"));
        }
        Ok(())
    }
}

/// The canvas size in the data of a grid or overlay (ISO/IEC 23008-12, 6.6.2).
fn canvas(kind: &[u8; 4], data: &[u8]) -> Result<Size, DecodeError> {
    // After version and flags: the numbers of rows and columns, or a colour of four channels.
    let at = if kind == b"grid" { 4 } else { 10 };
    let long = u8_at(data, 1)? & 1 != 0;
    let (width, at) = u16_or_u32(data, at, long)?;
    let (height, _) = u16_or_u32(data, at, long)?;
    Ok(Size::new(width, height))
}
