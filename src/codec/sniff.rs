//! Which container a file is, by its first bytes.

use super::Container;
use memchr::memmem;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A container that is read here.
    Readable(Container),
    /// Another, named when it is a usual one.
    Foreign(Option<&'static str>),
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// File signatures that people upload by mistake, longest rule first where two could match.
const FOREIGN: &[(&[u8], &str)] = &[
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

/// Recognises `bytes`, which are not empty.
pub(super) fn kind(bytes: &[u8]) -> Kind {
    // A file cut inside its signature is a truncated picture rather than an unknown one.
    let starts = |signature: &[u8]| {
        bytes.starts_with(signature) || (bytes.len() < signature.len() && signature.starts_with(bytes))
    };
    if starts(JPEG) {
        return Kind::Readable(Container::Jpeg);
    }
    if starts(PNG) {
        return Kind::Readable(Container::Png);
    }
    if let Some((_, name)) = FOREIGN.iter().find(|(signature, _)| bytes.starts_with(signature)) {
        return Kind::Foreign(Some(name));
    }
    match (bytes.get(..4), bytes.get(4..8), bytes.get(8..12)) {
        (Some(b"RIFF"), _, Some(b"WEBP")) => Kind::Readable(Container::WebP),
        (Some(b"RIFF"), _, Some(b"AVI ")) => Kind::Foreign(Some("an AVI video")),
        (Some(b"RIFF"), _, Some(b"WAVE")) => Kind::Foreign(Some("WAV")),
        (_, Some(b"ftyp"), _) => iso_media(bytes),
        _ => Kind::Foreign(text(bytes)),
    }
}

/// A file of the ISO base media family, by its brands.
fn iso_media(bytes: &[u8]) -> Kind {
    let declared = bytes.first_chunk::<4>().map_or(0, |size| u32::from_be_bytes(*size) as usize);
    // At most 64 brands are looked at; real files have two to eight.
    let end = declared.min(bytes.len()).min(16 + 4 * 64);
    let major = bytes.get(8..12).unwrap_or_default();
    // Bytes 12 to 16 are the minor version.
    let compatible = bytes.get(16..end).unwrap_or_default().as_chunks::<4>().0;
    let has = |names: &[&[u8; 4]]| {
        names.iter().any(|name| major == name.as_slice() || compatible.iter().any(|brand| brand == *name))
    };
    if has(&[b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"]) {
        return Kind::Readable(Container::Heic);
    }
    if has(&[b"avif", b"avis"]) {
        return Kind::Foreign(Some("AVIF"));
    }
    if has(&[b"mif1", b"mif2", b"msf1"]) {
        // A structural brand only: the codec shows in the item types of the meta box, near the start.
        let near = &bytes[..bytes.len().min(64 << 10)];
        return match (memmem::find(near, b"hvc1"), memmem::find(near, b"av01")) {
            (None, Some(_)) => Kind::Foreign(Some("AVIF")),
            (Some(hevc), Some(av1)) if av1 < hevc => Kind::Foreign(Some("AVIF")),
            _ => Kind::Readable(Container::Heic),
        };
    }
    Kind::Foreign(Some(match major {
        b"qt  " => "a QuickTime video",
        b"crx " => "a Canon CR3 raw photo",
        b"jxl " => "JPEG XL",
        _ => "an MP4 video",
    }))
}

/// Markup that is sent in place of a picture.
fn text(bytes: &[u8]) -> Option<&'static str> {
    let head = &bytes[..bytes.len().min(512)];
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start().to_ascii_lowercase();
    let holds = |needle: &[u8]| memmem::find(&head, needle).is_some();
    if head.starts_with(b"<svg") || (head.starts_with(b"<?xml") && holds(b"<svg")) {
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
    fn readable_containers_are_recognised_by_their_signature() {
        assert_eq!(kind(b"\xff\xd8\xff\xe0\0\x10JFIF"), Kind::Readable(Container::Jpeg));
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Kind::Readable(Container::Png));
        assert_eq!(kind(b"RIFF\x10\0\0\0WEBPVP8 "), Kind::Readable(Container::WebP));
    }

    #[test]
    fn a_file_cut_inside_its_signature_is_still_that_container() {
        assert_eq!(kind(b"\xff"), Kind::Readable(Container::Jpeg));
        assert_eq!(kind(b"\x89PNG"), Kind::Readable(Container::Png));
    }

    #[test]
    fn heif_brands_are_told_from_avif_and_video() {
        for brand in [b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis"] {
            assert_eq!(kind(&ftyp(brand, &[b"mif1"], b"")), Kind::Readable(Container::Heic));
        }
        assert_eq!(kind(&ftyp(b"mif1", &[b"heic"], b"")), Kind::Readable(Container::Heic));
        assert_eq!(kind(&ftyp(b"msf1", &[b"iso8"], b"....hvc1")), Kind::Readable(Container::Heic));
        assert_eq!(kind(&ftyp(b"mif1", &[b"miaf"], b"....hvc1")), Kind::Readable(Container::Heic));
        assert_eq!(kind(&ftyp(b"mif1", &[b"miaf"], b"....av01")), Kind::Foreign(Some("AVIF")));
        assert_eq!(kind(&ftyp(b"avif", &[b"mif1", b"miaf"], b"")), Kind::Foreign(Some("AVIF")));
        assert_eq!(kind(&ftyp(b"mif1", &[b"avif"], b"")), Kind::Foreign(Some("AVIF")));
        assert_eq!(kind(&ftyp(b"isom", &[b"mp42"], b"")), Kind::Foreign(Some("an MP4 video")));
        assert_eq!(kind(&ftyp(b"qt  ", &[], b"")), Kind::Foreign(Some("a QuickTime video")));
    }

    #[test]
    fn the_usual_foreign_formats_are_named() {
        let cases: [(&[u8], Option<&str>); 11] = [
            (b"GIF89a\x01\0", Some("GIF")),
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
            assert_eq!(kind(bytes), Kind::Foreign(name));
        }
    }

    #[test]
    fn more_bytes_than_sniffing_asks_for_save_no_file_that_it_refused() {
        let (brands, full) = ([b"isom"; 63], crate::codec::SNIFF_BYTES);
        let mut heic_by_its_last_brand = ftyp(b"mp42", &[&brands[..], &[b"heic"]].concat(), &[0; 4096]);
        assert_eq!(kind(&heic_by_its_last_brand[..full]), Kind::Readable(Container::Heic));
        heic_by_its_last_brand[16 + 4 * 63] = b'x';
        assert_eq!(kind(&heic_by_its_last_brand[..full]), kind(&heic_by_its_last_brand));
        let structural_only = ftyp(b"mif1", &[b"miaf"], &[0; 4096]);
        assert_eq!(kind(&structural_only[..full]), Kind::Readable(Container::Heic));
    }

    #[test]
    fn a_declared_type_or_trailing_picture_does_not_fool_it() {
        let mut gif = b"GIF89a".to_vec();
        gif.extend(b"\x89PNG\r\n\x1a\n");
        assert_eq!(kind(&gif), Kind::Foreign(Some("GIF")));
    }
}
