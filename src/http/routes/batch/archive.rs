//! Streams a ZIP archive of stored files (PKWARE APPNOTE 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16).
//!
//! Our own and not the `zip` crate: length and CRC-32 of a file are known before its first byte is sent, so its local
//! header holds them. A general streaming writer puts them behind the file, in a data descriptor, which streaming readers
//! refuse for stored files (Java's `ZipInputStream`), and it copies the bytes.

/// Version needed to extract: 2.0.
const VERSION: u16 = 20;
/// Names are UTF-8.
const UTF8_NAMES: u16 = 1 << 11;
const STORED: u16 = 0;
/// Midnight of 1980-01-01, the earliest date of the format: archives are reproducible.
const TIME: u16 = 0;
const DATE: u16 = (1 << 5) | 1;

/// Bytes of a local header without the name.
const LOCAL_HEADER: usize = 30;

/// A partly written archive: the central directory so far.
#[derive(Debug, Default)]
pub(super) struct StoredZip {
    directory: Vec<u8>,
    entries: u16,
    /// Length of the archive so far.
    written: u32,
}

impl StoredZip {
    /// The local header of the file `name`, to be followed by its `length` bytes, whose CRC-32 is `crc`. `None` where the
    /// archive would exceed 4 GiB, which ten pictures of the default limits do not.
    pub(super) fn entry(&mut self, name: &str, length: usize, crc: u32) -> Option<Vec<u8>> {
        let length = u32::try_from(length).ok()?;
        let name_length = u16::try_from(name.len()).ok()?;
        let header_length = u32::try_from(LOCAL_HEADER + name.len()).ok()?;
        let written = self.written.checked_add(header_length)?.checked_add(length)?;
        let mut common = Vec::new();
        push_u16(&mut common, &[VERSION, UTF8_NAMES, STORED, TIME, DATE]);
        push_u32(&mut common, &[crc, length, length]);
        // No extra field.
        push_u16(&mut common, &[name_length, 0]);

        self.directory.extend_from_slice(b"PK\x01\x02");
        push_u16(&mut self.directory, &[VERSION]);
        self.directory.extend_from_slice(&common);
        // No comment, first disk, no attributes.
        push_u16(&mut self.directory, &[0, 0, 0]);
        push_u32(&mut self.directory, &[0, self.written]);
        self.directory.extend_from_slice(name.as_bytes());
        self.entries += 1;

        self.written = written;
        Some([b"PK\x03\x04", &common[..], name.as_bytes()].concat())
    }

    /// The central directory, after the last file.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut end = self.directory;
        let directory_length = u32::try_from(end.len()).expect("a few short names");
        end.extend_from_slice(b"PK\x05\x06");
        push_u16(&mut end, &[0, 0, self.entries, self.entries]);
        push_u32(&mut end, &[directory_length, self.written]);
        push_u16(&mut end, &[0]);
        end
    }
}

fn push_u16(bytes: &mut Vec<u8>, values: &[u16]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn push_u32(bytes: &mut Vec<u8>, values: &[u32]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};

    const FILES: [(&str, &[u8]); 4] =
        [("a.png", b"first"), ("empty", b""), ("größe 图.webp", &[7; 100_000]), ("results.json", b"{}")];

    fn written() -> Vec<u8> {
        let mut zip = StoredZip::default();
        let mut bytes = Vec::new();
        for (name, content) in FILES {
            bytes.extend(zip.entry(name, content.len(), crc32fast::hash(content)).expect("short"));
            bytes.extend_from_slice(content);
        }
        bytes.extend(zip.finish());
        bytes
    }

    #[test]
    fn an_archive_of_more_than_four_gibibytes_is_refused() {
        let mut zip = StoredZip::default();
        assert!(zip.entry("a", u32::MAX as usize, 0).is_none());
        assert_eq!(zip.entry("a", 3 << 30, 0).map(|header| header.len()), Some(LOCAL_HEADER + 1));
        assert!(zip.entry("b", 1 << 30, 0).is_none());
    }

    #[test]
    fn an_archive_reads_back_by_its_directory_and_as_a_stream() {
        let mut archive = zip::ZipArchive::new(Cursor::new(written())).expect("an archive");
        assert_eq!(archive.len(), FILES.len());
        let mut stream = Cursor::new(written());
        for (index, (name, content)) in FILES.into_iter().enumerate() {
            check(archive.by_index(index).expect("an entry"), name, content);
            let next = zip::read::read_zipfile_from_stream(&mut stream).expect("a header").expect("an entry");
            check(next, name, content);
        }
        assert!(zip::read::read_zipfile_from_stream(&mut stream).expect("the directory").is_none());
    }

    fn check<R: Read>(mut file: zip::read::ZipFile<'_, R>, name: &str, content: &[u8]) {
        assert_eq!(file.name().expect("UTF-8"), name);
        assert_eq!((file.compression(), file.size()), (zip::CompressionMethod::Stored, content.len() as u64), "{name}");
        let mut read = Vec::new();
        // Compares the CRC-32 too.
        file.read_to_end(&mut read).expect("the content");
        assert_eq!(read, content, "{name}");
    }
}
