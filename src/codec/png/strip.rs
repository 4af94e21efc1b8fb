//! Compresses a strip of a PNG's rows to a run of raw deflate blocks that another run can follow.
//!
//! Each run ends at a byte (a sync flush), and refers to nothing before it, so that strips are compressed in parallel and
//! joined. `pigz` does the same.

use super::filter::RowFilter;
use super::packing::Packing;
use crate::codec::encode_options::PngEffort;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Method, Strategy, compress_bound};

/// What a sync flush adds at most to [`compress_bound`]: an empty stored block.
const FLUSH_BYTES: usize = 16;

/// A compressed strip.
pub(super) struct Strip {
    /// Deflate blocks.
    pub(super) bytes: Vec<u8>,
    /// Number and Adler-32 checksum of the filtered bytes.
    pub(super) raw_len: usize,
    pub(super) adler: u32,
}

/// Compresses strips one after another, in buffers of its own.
pub(super) struct StripEncoder {
    packing: Packing,
    row_bytes: usize,
    filter: RowFilter,
    compressors: Vec<Deflate>,
    samples: Vec<u8>,
    filtered: Vec<u8>,
    scratch: Vec<u8>,
}

impl StripEncoder {
    /// For strips of up to `rows` rows of `width` pixels.
    pub(super) fn new(width: usize, rows: usize, packing: Packing, effort: PngEffort) -> Self {
        let row_bytes = width * packing.bytes();
        let raw_len = (row_bytes + 1) * rows;
        Self {
            packing,
            row_bytes,
            filter: RowFilter::new(row_bytes, packing.bytes()),
            compressors: configs(effort).iter().map(|config| Deflate::new_with_config(*config)).collect(),
            samples: Vec::with_capacity(row_bytes * (rows + 1)),
            filtered: Vec::with_capacity(raw_len),
            scratch: vec![0; compress_bound(raw_len) + FLUSH_BYTES],
        }
    }

    /// Filters and compresses rows of RGBA `pixels`, the first of which is the row above the strip where `has_above`. Keeps
    /// the smallest result.
    pub(super) fn encode(&mut self, pixels: &[u8], has_above: bool, is_last: bool) -> Result<Strip, String> {
        self.packing.pack(pixels, &mut self.samples);
        let mut rows = self.samples.chunks_exact(self.row_bytes);
        let mut above = if has_above { rows.next() } else { None };
        self.filtered.clear();
        for row in rows {
            self.filtered.extend_from_slice(self.filter.filtered(row, above));
            above = Some(row);
        }
        let flush = if is_last { DeflateFlush::Finish } else { DeflateFlush::SyncFlush };
        let mut bytes = Vec::new();
        for compressor in &mut self.compressors {
            compressor.reset();
            compressor.compress(&self.filtered, &mut self.scratch, flush).map_err(|error| error.as_str().to_owned())?;
            let (read, written) = (compressor.total_in() as usize, compressor.total_out() as usize);
            if read < self.filtered.len() || written == self.scratch.len() {
                return Err("a strip is larger than deflate's bound".to_owned());
            }
            if bytes.is_empty() || written < bytes.len() {
                bytes.clear();
                bytes.extend_from_slice(&self.scratch[..written]);
            }
        }
        Ok(Strip { bytes, raw_len: self.filtered.len(), adler: zlib_rs::adler32::adler32(1, &self.filtered) })
    }
}

/// Matches at distance 1 only: filtered photos have few others that pay (libpng's documentation says the same), and on noise
/// a search for them makes files larger.
const RUNS: DeflateConfig = raw(1, Strategy::Rle);
/// Level 9 takes three to eight times the time of 6 and makes larger files of noise than 8.
const SEARCH: DeflateConfig = raw(8, Strategy::Default);

const fn raw(level: i32, strategy: Strategy) -> DeflateConfig {
    // Negative: without zlib's header and checksum.
    DeflateConfig { level, method: Method::Deflated, window_bits: -15, mem_level: 8, strategy }
}

const fn configs(effort: PngEffort) -> &'static [DeflateConfig] {
    match effort {
        PngEffort::Fast | PngEffort::Default => &[RUNS],
        PngEffort::Best => &[RUNS, SEARCH],
    }
}
