//! Detects a file's container by its magic bytes, and names common formats that are not supported.

use super::error::DecodeError;
use super::header::Container;
use memchr::memmem;

/// Bytes after which [`detect_container`] refuses no file that it would accept with more bytes.
pub const SNIFF_BYTES: usize = 512;

/// Detects the container by the first bytes of a file.
///
/// # Errors
/// [`DecodeError::Empty`] and [`DecodeError::Unsupported`].
pub fn detect_container(bytes: &[u8]) -> Result<Container, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    match detect_format(bytes) {
        Format::Supported(container) => Ok(container),
        Format::Unsupported(found) => Err(DecodeError::Unsupported { found }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Supported(Container),
    /// Another format, named when it is common.
    Unsupported(Option<&'static str>),
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// Signatures of formats that are uploaded by mistake. Where two could match, the longer one is first.
const UNSUPPORTED: &[(&[u8], &str)] = &[
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    (b"BM", "BMP"),
    (b"%PDF", "PDF"),
    (b"8BPS", "a Photoshop document"),
    (b"\0\0\x01\0", "an icon"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"qoif", "QOI"),
    (b"DDS ", "DDS"),
    (b"\x76\x2f\x31\x01", "OpenEXR"),
    (b"\x1a\x45\xdf\xa3", "a Matroska or WebM video"),
    (b"OggS", "Ogg"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip"),
];

/// Detects the format of non-empty `bytes`.
pub(super) fn detect_format(bytes: &[u8]) -> Format {
    // A file that ends inside its signature is a truncated picture, not an unknown format.
    let starts = |signature: &[u8]| {
        bytes.starts_with(signature) || (bytes.len() < signature.len() && signature.starts_with(bytes))
    };
    if starts(JPEG) {
        return Format::Supported(Container::Jpeg);
    }
    if starts(PNG) {
        return Format::Supported(Container::Png);
    }
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(signature, _)| bytes.starts_with(signature)) {
        return Format::Unsupported(Some(name));
    }
    match (bytes.get(..4), bytes.get(4..8), bytes.get(8..12)) {
        (Some(b"RIFF"), _, Some(b"WEBP")) => Format::Supported(Container::WebP),
        (Some(b"RIFF"), _, Some(b"AVI ")) => Format::Unsupported(Some("an AVI video")),
        (Some(b"RIFF"), _, Some(b"WAVE")) => Format::Unsupported(Some("WAV")),
        (_, Some(b"ftyp"), _) => iso_media(bytes),
        _ => Format::Unsupported(markup(bytes)),
    }
}

/// A file of the ISO base media family, by its brands.
fn iso_media(bytes: &[u8]) -> Format {
    let declared = bytes.first_chunk::<4>().map_or(0, |size| u32::from_be_bytes(*size) as usize);
    // At most 64 brands are checked; real files have two to eight.
    let end = declared.min(bytes.len()).min(16 + 4 * 64);
    let major = bytes.get(8..12).unwrap_or_default();
    // Bytes 12 to 16 are the minor version.
    let compatible = bytes.get(16..end).unwrap_or_default().as_chunks::<4>().0;
    let has = |names: &[&[u8; 4]]| {
        names.iter().any(|name| major == name.as_slice() || compatible.iter().any(|brand| brand == *name))
    };
    if has(&[b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"]) {
        return Format::Supported(Container::Heic);
    }
    if has(&[b"avif", b"avis"]) {
        return Format::Unsupported(Some("AVIF"));
    }
    if has(&[b"mif1", b"mif2", b"msf1"]) {
        // A structural brand: the codec follows from the item types of the meta box, near the start.
        let near = &bytes[..bytes.len().min(64 << 10)];
        return match (memmem::find(near, b"hvc1"), memmem::find(near, b"av01")) {
            (None, Some(_)) => Format::Unsupported(Some("AVIF")),
            (Some(hevc), Some(av1)) if av1 < hevc => Format::Unsupported(Some("AVIF")),
            _ => Format::Supported(Container::Heic),
        };
    }
    Format::Unsupported(Some(match major {
        b"qt  " => "a QuickTime video",
        b"crx " => "a Canon CR3 raw photo",
        b"jxl " => "JPEG XL",
        _ => "an MP4 video",
    }))
}

/// Detects markup sent instead of a picture.
fn markup(bytes: &[u8]) -> Option<&'static str> {
    let head = &bytes[..bytes.len().min(512)];
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start().to_ascii_lowercase();
    let contains = |needle: &[u8]| memmem::find(&head, needle).is_some();
    if head.starts_with(b"<svg") || (head.starts_with(b"<?xml") && contains(b"<svg")) {
        Some("SVG")
    } else if head.starts_with(b"<!doctype html") || head.starts_with(b"<html") {
        Some("a web page")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ftyp(major: &[u8; 4], compatible: &[&[u8; 4]], rest: &[u8]) -> Vec<u8> {
        let size = u32::try_from(16 + 4 * compatible.len()).expect("few brands");
        let mut out = [size.to_be_bytes(), *b"ftyp", *major, [0; 4]].concat();
        out.extend(compatible.iter().flat_map(|brand| brand.iter()));
        out.extend(rest);
        out
    }

    #[test]
    fn a_file_cut_inside_its_signature_is_still_that_container() {
        assert_eq!(detect_format(b"\xff"), Format::Supported(Container::Jpeg));
        assert_eq!(detect_format(b"\x89PNG"), Format::Supported(Container::Png));
    }

    #[test]
    fn heif_brands_are_distinguished_from_avif_and_video() {
        for brand in [b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis"] {
            assert_eq!(detect_format(&ftyp(brand, &[b"mif1"], b"")), Format::Supported(Container::Heic));
        }
        assert_eq!(detect_format(&ftyp(b"mif1", &[b"heic"], b"")), Format::Supported(Container::Heic));
        assert_eq!(detect_format(&ftyp(b"msf1", &[b"iso8"], b"....hvc1")), Format::Supported(Container::Heic));
        assert_eq!(detect_format(&ftyp(b"mif1", &[b"miaf"], b"....hvc1")), Format::Supported(Container::Heic));
        assert_eq!(detect_format(&ftyp(b"mif1", &[b"miaf"], b"....av01")), Format::Unsupported(Some("AVIF")));
        assert_eq!(detect_format(&ftyp(b"avif", &[b"mif1", b"miaf"], b"")), Format::Unsupported(Some("AVIF")));
        assert_eq!(detect_format(&ftyp(b"mif1", &[b"avif"], b"")), Format::Unsupported(Some("AVIF")));
        assert_eq!(detect_format(&ftyp(b"isom", &[b"mp42"], b"")), Format::Unsupported(Some("an MP4 video")));
        assert_eq!(detect_format(&ftyp(b"qt  ", &[], b"")), Format::Unsupported(Some("a QuickTime video")));
    }

    #[test]
    fn common_unsupported_formats_are_named() {
        let cases: [(&[u8], Option<&str>); 12] = [
            (b"GIF89a\x01\0", Some("GIF")),
            (b"GIF89a\x89PNG\r\n\x1a\n", Some("GIF")),
            (b"BM\x36\0", Some("BMP")),
            (b"II*\0\x08\0\0\0", Some("TIFF")),
            (b"MM\0*\0\0\0\x08", Some("TIFF")),
            (b"%PDF-1.7", Some("PDF")),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", Some("SVG")),
            (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- x --><SVG/>", Some("SVG")),
            (b"  <!DOCTYPE html><html>", Some("a web page")),
            (b"PK\x03\x04", Some("a ZIP archive")),
            (b"hello, world", None),
            (&[0; 64], None),
        ];
        for (bytes, name) in cases {
            assert_eq!(detect_format(bytes), Format::Unsupported(name));
        }
    }

    #[test]
    fn bytes_after_the_sniffed_ones_do_not_change_the_result() {
        let (brands, full) = ([b"isom"; 63], SNIFF_BYTES);
        let mut heic_by_its_last_brand = ftyp(b"mp42", &[&brands[..], &[b"heic"]].concat(), &[0; 4096]);
        assert_eq!(detect_format(&heic_by_its_last_brand[..full]), Format::Supported(Container::Heic));
        heic_by_its_last_brand[16 + 4 * 63] = b'x';
        assert_eq!(detect_format(&heic_by_its_last_brand[..full]), detect_format(&heic_by_its_last_brand));
        let structural_only = ftyp(b"mif1", &[b"miaf"], &[0; 4096]);
        assert_eq!(detect_format(&structural_only[..full]), Format::Supported(Container::Heic));
    }
}
