//! Finds the positions of lost restart markers in a sequential scan (ITU-T T.81, F.2.2). Each interval's data end at a
//! byte boundary, so decoding its coefficients finds where the next interval begins.

/// The Huffman tables of a scan: four for DC coefficients, then four for AC coefficients.
#[derive(Default)]
pub(super) struct Tables([[Option<Table>; 4]; 2]);

/// A Huffman table: number of codes of each length from 1 to 16, and the symbols in the order of their codes.
struct Table {
    counts: [u8; 16],
    symbols: Vec<u8>,
}

impl Tables {
    /// The tables of `standard`, DHT segments with markers, replaced by the tables in `own`, bodies of DHT segments.
    pub(super) fn of(mut standard: &[u8], own: &[&[u8]]) -> Self {
        let mut tables = Self::default();
        while let Some((&[0xff, 0xc4, high, low], rest)) = standard.split_first_chunk() {
            let len = usize::from(u16::from_be_bytes([high, low])).saturating_sub(2);
            let Some((body, behind)) = rest.split_at_checked(len) else { break };
            tables.define(body);
            standard = behind;
        }
        own.iter().for_each(|body| tables.define(body));
        tables
    }

    /// Defines the tables of a DHT segment's body. Stops at a malformed table, which the decoder refuses.
    fn define(&mut self, mut segment: &[u8]) {
        while let Some((&[place, ref counts @ ..], rest)) = segment.split_first_chunk::<17>() {
            let len = counts.iter().map(|count| usize::from(*count)).sum();
            let (Some(symbols), Some(tables)) = (rest.get(..len), self.0.get_mut(usize::from(place >> 4))) else {
                return;
            };
            if let Some(table) = tables.get_mut(usize::from(place & 15)) {
                *table = Some(Table { counts: *counts, symbols: symbols.to_vec() });
            }
            segment = &rest[len..];
        }
    }
}

pub(super) struct Scan<'a> {
    pub(super) data: &'a [u8],
    pub(super) units: usize,
    /// Number of MCUs between two markers; 0 without markers.
    pub(super) interval: usize,
    /// Table numbers of each block of an MCU: DC in the upper four bits, AC in the lower ones.
    pub(super) blocks: Vec<u8>,
}

impl Scan<'_> {
    /// Positions in the data where a marker is missing, each with the marker's number (0 to 7); `None` if the data end
    /// before the last MCU or have an undefined code.
    pub(super) fn lost_markers(&self, tables: &Tables) -> Option<Vec<(usize, u8)>> {
        let table = |class: usize, number: u8| tables.0[class].get(usize::from(number))?.as_ref();
        let blocks: Option<Vec<_>> =
            self.blocks.iter().map(|numbers| table(0, numbers >> 4).zip(table(1, numbers & 15))).collect();
        let (blocks, mut bits, mut lost) = (blocks?, Bits { data: self.data, at: 0, byte: 0, left: 0 }, Vec::new());
        for unit in 0..self.units {
            if unit > 0 && unit.is_multiple_of(self.interval) {
                bits.left = 0;
                match self.data.get(bits.at..bits.at + 2) {
                    Some([0xff, 0xd0..=0xd7]) => bits.at += 2,
                    _ => lost.push((bits.at, ((unit / self.interval - 1) % 8) as u8)),
                }
            }
            blocks.iter().try_for_each(|(dc, ac)| bits.skip_block(dc, ac))?;
        }
        Some(lost)
    }
}

/// Reads bits, the most significant first.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    byte: u8,
    left: u8,
}

impl Bits<'_> {
    fn next(&mut self) -> Option<u16> {
        if self.left == 0 {
            self.byte = *self.data.get(self.at)?;
            self.at += 1;
            if self.byte == 0xff {
                // 0xff is followed by a stuffed zero; any other byte makes it a marker.
                self.data.get(self.at).filter(|stuffed| **stuffed == 0)?;
                self.at += 1;
            }
            self.left = 8;
        }
        self.left -= 1;
        Some(u16::from(self.byte >> self.left & 1))
    }

    fn symbol(&mut self, table: &Table) -> Option<u8> {
        let (mut code, mut first, mut index) = (0_u16, 0_u16, 0_usize);
        for count in table.counts {
            code = code << 1 | self.next()?;
            if code.wrapping_sub(first) < u16::from(count) {
                return table.symbols.get(index + usize::from(code - first)).copied();
            }
            index += usize::from(count);
            first = (first + u16::from(count)) << 1;
        }
        None
    }

    fn skip_block(&mut self, dc: &Table, ac: &Table) -> Option<()> {
        let difference = self.symbol(dc)?;
        (0..difference).try_for_each(|_| self.next().map(|_| ()))?;
        let mut coefficient = 1;
        while coefficient < 64 {
            let (run, size) = match self.symbol(ac)? {
                0 => break,
                symbol => (symbol >> 4, symbol & 15),
            };
            coefficient += usize::from(run) + 1;
            (0..size).try_for_each(|_| self.next().map(|_| ()))?;
        }
        (coefficient <= 64).then_some(())
    }
}
