//! Compresses a strip of a PNG's rows to a run of raw deflate blocks that another run can follow.
//!
//! Each run ends at a byte and refers to nothing before it, so that strips can be compressed in parallel, as in `pigz`.

use super::filter::RowFilter;
use super::packing::Packing;
use super::zero_runs;
use crate::codec::encode_options::PngEffort;
use std::borrow::Cow;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Method, Strategy, compress_bound};

/// Bytes of a sync flush in addition to [`compress_bound`]: an empty stored block.
const FLUSH_BYTES: usize = 16;

/// The pixels of a strip, packed RGBA.
pub(super) struct StripPixels<'a> {
    /// The row above the strip.
    pub(super) above: Option<&'a [u8]>,
    /// All rows but the last. They are overwritten.
    pub(super) body: &'a mut [u8],
    pub(super) last: &'a [u8],
}

pub(super) struct Strip<'a> {
    /// Deflate blocks, stored over the strip's pixels if they fit.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Number and Adler-32 checksum of the filtered bytes.
    pub(super) raw_len: usize,
    pub(super) adler: u32,
}

/// Compresses strips one after another in reused buffers.
pub(super) struct StripEncoder {
    packing: Packing,
    row_bytes: usize,
    filter: RowFilter,
    search: Option<Deflate>,
    samples: Vec<u8>,
    filtered: Vec<u8>,
    blocks: Vec<u8>,
    searched: Vec<u8>,
}

impl StripEncoder {
    /// An encoder of strips of up to `rows` rows of `width` pixels.
    pub(super) fn new(width: usize, rows: usize, packing: Packing, effort: PngEffort) -> Self {
        let row_bytes = width * packing.bytes();
        let raw_len = (row_bytes + 1) * rows;
        let search = (effort == PngEffort::Best).then(|| Deflate::new_with_config(SEARCH));
        Self {
            packing,
            row_bytes,
            filter: RowFilter::new(row_bytes, packing.bytes()),
            searched: vec![0; search.as_ref().map_or(0, |_| compress_bound(raw_len) + FLUSH_BYTES)],
            search,
            samples: Vec::with_capacity(row_bytes * (rows + 1)),
            filtered: Vec::with_capacity(raw_len),
            blocks: Vec::new(),
        }
    }

    /// Filters and compresses the rows of `strip`; keeps the smallest result.
    pub(super) fn encode<'a>(&mut self, strip: StripPixels<'a>, is_last: bool) -> Result<Strip<'a>, String> {
        let StripPixels { above, body, last } = strip;
        self.samples.clear();
        [above.unwrap_or_default(), body, last].into_iter().for_each(|rows| self.packing.pack(rows, &mut self.samples));
        let mut rows = self.samples.chunks_exact(self.row_bytes);
        let mut above = above.and_then(|_| rows.next());
        self.filtered.clear();
        for row in rows {
            self.filtered.extend_from_slice(self.filter.filtered(row, above));
            above = Some(row);
        }
        self.blocks.clear();
        zero_runs::compress(&self.filtered, is_last, &mut self.blocks);
        let mut smallest = &self.blocks[..];
        if let Some(search) = &mut self.search {
            search.reset();
            let flush = if is_last { DeflateFlush::Finish } else { DeflateFlush::SyncFlush };
            search.compress(&self.filtered, &mut self.searched, flush).map_err(|error| error.as_str().to_owned())?;
            let (read, written) = (search.total_in() as usize, search.total_out() as usize);
            if read < self.filtered.len() || written == self.searched.len() {
                return Err("a strip is larger than deflate's bound".to_owned());
            }
            if written < smallest.len() {
                smallest = &self.searched[..written];
            }
        }
        let bytes = match body.get_mut(..smallest.len()) {
            Some(place) => {
                place.copy_from_slice(smallest);
                Cow::Borrowed(&*place)
            }
            None => Cow::Owned(smallest.to_vec()),
        };
        Ok(Strip { bytes, raw_len: self.filtered.len(), adler: zlib_rs::adler32::adler32(1, &self.filtered) })
    }
}

/// Level 9 takes three to eight times the time of level 6 and makes larger files of noise than level 8.
const SEARCH: DeflateConfig = DeflateConfig {
    level: 8,
    method: Method::Deflated,
    // Negative: without zlib's header and checksum.
    window_bits: -15,
    mem_level: 8,
    strategy: Strategy::Default,
};
