//! Compresses filtered rows to deflate blocks (RFC 1951) of literals and runs of zeros.
//!
//! Filtered photos have few other matches that pay (libpng's documentation agrees), and on noise a search for them
//! makes files larger. zlib's strategy for runs (`Z_RLE`) gives files of equal size but searches runs at every byte and
//! takes three times the time; fdeflate's fixed code makes files a tenth larger. Here zeros are searched a word at a
//! time, one scan counts symbols and then writes them, and each block has Huffman codes fitted to it.

use multiversion::multiversion;

/// Bytes of a block: smaller blocks adapt better to the picture, larger ones have fewer code tables.
const BLOCK_BYTES: usize = 64 << 10;
/// Literals, the end of the block and the lengths of matches.
const SYMBOLS: usize = 286;
const END_OF_BLOCK: usize = 256;
/// Longest code in bits, so that four codes fit into a word; deflate allows fifteen.
const MAX_CODE_BITS: usize = 12;
/// Lengths of a match, least and most.
const MIN_MATCH: usize = 3;
const MAX_MATCH: usize = 258;
/// Most bits of a match in addition to its length's code: extra bits of the length, and the distance.
const MATCH_BITS: usize = 5 + 1;
/// Symbols for the lengths of codes, their order in a block's header, and their longest code.
const LENGTH_SYMBOLS: usize = 19;
const LENGTH_ORDER: [usize; LENGTH_SYMBOLS] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const MAX_LENGTH_CODE_BITS: usize = 7;
/// Most bytes of a block's header and end.
const OVERHEAD: usize = 1024;

/// Appends the blocks of `bytes` to `out`, up to a byte boundary. The last block ends the stream if `is_last`;
/// otherwise an empty stored block follows, so that another run of blocks can begin.
pub(super) fn compress(bytes: &[u8], is_last: bool, out: &mut Vec<u8>) {
    let mut writer = BitWriter { at: out.len(), out, bits: 0, count: 0 };
    let blocks = bytes.len().div_ceil(BLOCK_BYTES).max(1);
    for index in 0..blocks {
        let block = &bytes[index * BLOCK_BYTES..((index + 1) * BLOCK_BYTES).min(bytes.len())];
        writer.block(block, is_last && index + 1 == blocks);
    }
    if !is_last {
        writer.put(0, 3);
    }
    writer.align();
    if !is_last {
        writer.put(0xffff_0000, 32);
        writer.flush();
    }
    writer.finish();
}

/// A part of the filtered bytes.
enum Part<'a> {
    Literals(&'a [u8]),
    /// This many zeros, after a literal zero.
    Run(usize),
}

/// Splits `bytes` into literals and runs of zeros.
#[inline(always)]
fn scan(bytes: &[u8], mut visit: impl FnMut(Part<'_>)) {
    const WORD: usize = size_of::<u64>();
    let (mut from, mut at) = (0, 0);
    while let Some(word) = bytes[at..].first_chunk::<WORD>() {
        at += WORD;
        if *word == [0; WORD] {
            let first = at - WORD;
            while bytes[at..].first_chunk::<64>().is_some_and(|block| *block == [0; 64]) {
                at += 64;
            }
            at += bytes[at..].iter().take_while(|&&byte| byte == 0).count();
            visit(Part::Literals(&bytes[from..=first]));
            visit(Part::Run(at - first - 1));
            from = at;
        }
    }
    visit(Part::Literals(&bytes[from..]));
}

/// The lengths of the matches of a run, and the number of zeros left for literals.
fn matches(run: usize) -> (impl Iterator<Item = usize>, usize) {
    let (longest, rest) = (run / MAX_MATCH, run % MAX_MATCH);
    let (last, left) = if rest < MIN_MATCH { (None, rest) } else { (Some(rest), 0) };
    (std::iter::repeat_n(MAX_MATCH, longest).chain(last), left)
}

/// Symbol of a match's length, number of its extra bits and their value.
const fn length_symbol(length: usize) -> (usize, u32, u64) {
    if length == MAX_MATCH {
        return (285, 0, 0);
    }
    let past = length - MIN_MATCH;
    if past < 8 {
        return (257 + past, 0, 0);
    }
    // Four symbols for each number of extra bits.
    let extra = past.ilog2() - 2;
    (257 + 4 * extra as usize + (past >> extra), extra, (past & ((1 << extra) - 1)) as u64)
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma+bmi1+bmi2", "x86_64+avx2+fma+bmi1+bmi2"))]
fn count(bytes: &[u8]) -> [u32; SYMBOLS] {
    // Four tables, so that counting a byte does not wait for the previous count of an equal byte.
    let mut literals = [[0u32; 256]; 4];
    let mut counts = [0u32; SYMBOLS];
    let mut zeros = 0;
    scan(bytes, |part| match part {
        Part::Literals(bytes) => {
            let (words, rest) = bytes.as_chunks::<8>();
            for word in words {
                let word = u64::from_le_bytes(*word);
                for lane in 0..8 {
                    literals[lane % 4][(word >> (8 * lane) & 255) as usize] += 1;
                }
            }
            rest.iter().for_each(|&byte| literals[0][usize::from(byte)] += 1);
        }
        Part::Run(run) => {
            let (matches, left) = matches(run);
            matches.for_each(|length| counts[length_symbol(length).0] += 1);
            zeros += left as u32;
        }
    });
    for table in &literals {
        counts.iter_mut().zip(table).for_each(|(count, &more)| *count += more);
    }
    counts[0] += zeros;
    counts[END_OF_BLOCK] = 1;
    counts
}

/// Lengths, at most `limit` bits, of the codes of symbols that occur `counts` times; 0 for symbols that do not occur.
fn code_lengths<const N: usize>(counts: &[u32; N], limit: usize) -> [u8; N] {
    let mut used: [(u32, u16); SYMBOLS] = [(0, 0); SYMBOLS];
    let mut len = 0;
    for (symbol, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        used[len] = (count, symbol as u16);
        len += 1;
    }
    let used = &mut used[..len];
    used.sort_unstable();
    let mut lengths = [0; N];
    if len < 2 {
        used.iter().for_each(|&(_, symbol)| lengths[usize::from(symbol)] = 1);
        return lengths;
    }
    // Huffman's algorithm with two queues: leaves by frequency, and inner nodes in the order of their creation.
    let mut weights = [0u32; SYMBOLS];
    let (mut leaf_parents, mut parents) = ([0usize; SYMBOLS], [0usize; SYMBOLS]);
    let (mut leaf, mut inner) = (0, 0);
    for node in 0..len - 1 {
        for _ in 0..2 {
            if leaf < len && (inner == node || used[leaf].0 <= weights[inner]) {
                (weights[node], leaf_parents[leaf]) = (weights[node] + used[leaf].0, node);
                leaf += 1;
            } else {
                (weights[node], parents[inner]) = (weights[node] + weights[inner], node);
                inner += 1;
            }
        }
    }
    let mut depths = [0usize; SYMBOLS];
    for node in (0..len - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    let mut of_length = [0usize; MAX_CODE_BITS + 1];
    for &parent in &leaf_parents[..len] {
        of_length[(depths[parent] + 1).min(limit)] += 1;
    }
    // Codes cut to the limit exceed the code space (Kraft): for each, a shorter code is made longer.
    let mut room: usize = (1..=limit).map(|length| of_length[length] << (limit - length)).sum();
    while room > 1 << limit
        && let Some(longer) = (1..limit).rev().find(|&length| of_length[length] > 0)
    {
        of_length[limit] -= 1;
        of_length[longer] -= 1;
        of_length[longer + 1] += 2;
        room -= 1;
    }
    let by_length = (1..=limit).rev().flat_map(|length| std::iter::repeat_n(length as u8, of_length[length]));
    used.iter().zip(by_length).for_each(|(&(_, symbol), length)| lengths[usize::from(symbol)] = length);
    lengths
}

/// A code, its first bit lowest.
#[derive(Clone, Copy, Default)]
struct Code {
    bits: u16,
    len: u16,
}

fn codes<const N: usize>(lengths: &[u8; N]) -> [Code; N] {
    let mut next = [0u16; MAX_CODE_BITS + 2];
    lengths.iter().filter(|length| **length > 0).for_each(|&length| next[usize::from(length) + 1] += 1);
    for length in 1..next.len() {
        next[length] = (next[length] + next[length - 1]) << 1;
    }
    lengths.map(|length| {
        if length == 0 {
            return Code::default();
        }
        let code = &mut next[usize::from(length)];
        *code += 1;
        Code { bits: (*code - 1).reverse_bits() >> (16 - u16::from(length)), len: u16::from(length) }
    })
}

/// Writes bits from the lowest on.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Bytes written.
    at: usize,
    bits: u64,
    count: u32,
}

impl BitWriter<'_> {
    /// Adds up to 56 bits to the fewer than eight that remain after [`Self::flush`].
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        self.bits |= bits << self.count;
        self.count += count;
    }

    #[inline(always)]
    fn put_code(&mut self, code: Code) {
        self.put(u64::from(code.bits), u32::from(code.len));
    }

    /// Writes whole bytes; fewer than eight bits remain.
    #[inline(always)]
    fn flush(&mut self) {
        self.out[self.at..self.at + 8].copy_from_slice(&self.bits.to_le_bytes());
        self.at += (self.count / 8) as usize;
        self.bits >>= self.count & !7;
        self.count &= 7;
    }

    fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }

    fn finish(self) {
        self.out.truncate(self.at);
    }

    /// Writes a block with codes fitted to `bytes`.
    fn block(&mut self, bytes: &[u8], is_last: bool) {
        let counts = count(bytes);
        let lengths = code_lengths(&counts, MAX_CODE_BITS);
        let most_bits = |(symbol, (&count, &length)): (usize, (&u32, &u8))| {
            let beside = if symbol > END_OF_BLOCK { MATCH_BITS } else { 0 };
            count as usize * (usize::from(length) + beside)
        };
        let bits: usize = counts.iter().zip(&lengths).enumerate().map(most_bits).sum();
        self.out.resize(self.at + bits / 8 + OVERHEAD, 0);
        self.put(u64::from(is_last) | 0b10 << 1, 3);
        self.header(&lengths);
        let codes = codes(&lengths);
        write(self, bytes, &codes);
        self.put_code(codes[END_OF_BLOCK]);
        self.flush();
    }

    /// Writes the code lengths, themselves Huffman-coded.
    fn header(&mut self, lengths: &[u8; SYMBOLS]) {
        let used = lengths.iter().rposition(|&length| length > 0).map_or(0, |last| last + 1).max(END_OF_BLOCK + 1);
        // The only distance, 1, has a code of one bit.
        let mut all = [1; SYMBOLS + 1];
        all[..used].copy_from_slice(&lengths[..used]);
        let all = &all[..=used];
        let mut counts = [0; LENGTH_SYMBOLS];
        repeats(all, |symbol, _, _| counts[symbol] += 1);
        let lengths = code_lengths(&counts, MAX_LENGTH_CODE_BITS);
        let codes = codes(&lengths);
        let sent = LENGTH_ORDER.iter().rposition(|&symbol| lengths[symbol] > 0).map_or(0, |last| last + 1).max(4);
        self.put((used - 257) as u64, 5);
        self.put(0, 5);
        self.put((sent - 4) as u64, 4);
        self.flush();
        for &symbol in &LENGTH_ORDER[..sent] {
            self.put(u64::from(lengths[symbol]), 3);
            self.flush();
        }
        repeats(all, |symbol, extra, value| {
            self.put_code(codes[symbol]);
            self.put(value, extra);
            self.flush();
        });
    }
}

/// Calls `write(symbol, extra bits, their value)` for the code lengths; the symbols 16 to 18 repeat lengths.
fn repeats(lengths: &[u8], mut write: impl FnMut(usize, u32, u64)) {
    for alike in lengths.chunk_by(|a, b| a == b) {
        let length = usize::from(alike[0]);
        let mut left = alike.len();
        if length == 0 {
            while left >= 3 {
                let repeated = left.min(138);
                if repeated > 10 {
                    write(18, 7, repeated as u64 - 11)
                } else {
                    write(17, 3, repeated as u64 - 3)
                }
                left -= repeated;
            }
        } else {
            write(length, 0, 0);
            left -= 1;
            while left >= 3 {
                let repeated = left.min(6);
                write(16, 2, repeated as u64 - 3);
                left -= repeated;
            }
        }
        (0..left).for_each(|_| write(length, 0, 0));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma+bmi1+bmi2", "x86_64+avx2+fma+bmi1+bmi2"))]
fn write(writer: &mut BitWriter<'_>, bytes: &[u8], codes: &[Code; SYMBOLS]) {
    scan(bytes, |part| match part {
        Part::Literals(bytes) => {
            let (fours, rest) = bytes.as_chunks::<4>();
            for four in fours {
                four.iter().for_each(|&byte| writer.put_code(codes[usize::from(byte)]));
                writer.flush();
            }
            for &byte in rest {
                writer.put_code(codes[usize::from(byte)]);
                writer.flush();
            }
        }
        Part::Run(run) => {
            let (matches, left) = matches(run);
            for length in matches {
                let (symbol, extra, value) = length_symbol(length);
                writer.put_code(codes[symbol]);
                writer.put(value, extra);
                writer.put(0, 1);
                writer.flush();
            }
            for _ in 0..left {
                writer.put_code(codes[0]);
                writer.flush();
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u32) -> impl FnMut() -> u32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        }
    }

    /// The bytes that a decoder restores from `parts`, joined.
    fn decompressed(parts: &[&[u8]]) -> Vec<u8> {
        let mut stream = vec![0x78, 0x9c];
        let mut sum = 1;
        for (index, part) in parts.iter().enumerate() {
            compress(part, index + 1 == parts.len(), &mut stream);
            sum = zlib_rs::adler32::adler32(sum, part);
        }
        stream.extend_from_slice(&sum.to_be_bytes());
        fdeflate::decompress_to_vec(&stream).expect("a valid stream")
    }

    #[test]
    fn runs_of_all_lengths_between_literals_are_restored() {
        let mut random = noise(1);
        let mut bytes = Vec::new();
        for run in 0..800 {
            bytes.extend((0..random() % 20).map(|_| random() as u8));
            bytes.resize(bytes.len() + run, 0);
        }
        bytes.push(1);
        assert!(bytes.len() > 4 * BLOCK_BYTES);
        assert_eq!(decompressed(&[&bytes]), bytes);
        for len in [1, 2, 7, 8, 9, 100, 300] {
            assert_eq!(decompressed(&[&vec![0; len], &bytes[..len], &vec![5; len]]).len(), 3 * len, "{len}");
        }
    }

    #[test]
    fn noise_grows_by_no_more_than_a_hundredth() {
        let mut random = noise(3);
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES).map(|_| random() as u8).collect();
        let mut compressed = Vec::new();
        compress(&bytes, true, &mut compressed);
        assert!(compressed.len() <= bytes.len() + bytes.len() / 100, "{} of {}", compressed.len(), bytes.len());
        assert_eq!(decompressed(&[&bytes]), bytes);
    }

    #[test]
    fn codes_are_optimal_where_the_limit_allows_it_and_complete_where_it_does_not() {
        // Fibonacci numbers: Huffman's code gets as deep as the number of symbols.
        let mut counts = [0; 24];
        (counts[0], counts[1]) = (1, 1);
        (2..24).for_each(|at| counts[at] = counts[at - 1] + counts[at - 2]);
        let cut = code_lengths(&counts, MAX_CODE_BITS);
        let room: usize = cut.iter().map(|&length| 1 << (MAX_CODE_BITS - usize::from(length))).sum();
        assert_eq!((room, cut.iter().max()), (1 << MAX_CODE_BITS, Some(&(MAX_CODE_BITS as u8))));
        assert_eq!(code_lengths(&[45, 13, 12, 16, 9, 5], MAX_CODE_BITS), [1, 3, 3, 3, 4, 4]);
        assert_eq!(code_lengths(&[0, 3, 0], MAX_CODE_BITS), [0, 1, 0]);
        let bytes: Vec<u8> =
            (0..24).flat_map(|at| std::iter::repeat_n(at + 1, counts[usize::from(at)] as usize)).collect();
        assert_eq!(decompressed(&[&bytes[..BLOCK_BYTES]]), bytes[..BLOCK_BYTES]);
    }
}
