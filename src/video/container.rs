//! Detects the container format from the magic bytes, never from the file name.
//!
//! ffmpeg gets an explicit demuxer: its probing would also accept a playlist and open the files listed there.

use super::VideoError;

/// Bytes needed for detection.
pub(super) const SNIFF_BYTES: usize = 512;

/// The supported containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    /// mp4, mov and related formats.
    Mov,
    /// Matroska and `WebM`.
    Matroska,
    Gif,
}

impl Container {
    /// Name of the demuxer, for ffmpeg's `-f`.
    pub(super) const fn demuxer(self) -> &'static str {
        match self {
            Self::Mov => "mov",
            Self::Matroska => "matroska",
            Self::Gif => "gif",
        }
    }

    /// Full name of the demuxer, for ffmpeg's `-format_whitelist`.
    pub(super) const fn demuxer_list(self) -> &'static str {
        match self {
            Self::Mov => "mov,mp4,m4a,3gp,3g2,mj2",
            Self::Matroska => "matroska,webm",
            Self::Gif => "gif",
        }
    }

    /// The container of the file that begins with `bytes`. Fails with [`VideoError::Unsupported`] for another
    /// recognised format, else [`VideoError::Unreadable`].
    pub(super) fn detect(bytes: &[u8]) -> Result<Self, VideoError> {
        let at = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
        if at(0, 6) == b"GIF87a" || at(0, 6) == b"GIF89a" {
            return Ok(Self::Gif);
        }
        if at(0, 4) == [0x1A, 0x45, 0xDF, 0xA3] {
            return Ok(Self::Matroska);
        }
        match at(4, 8) {
            // Still pictures (HEIF, AVIF) use the box structure too.
            b"ftyp" if matches!(at(8, 12), b"avif" | b"avis" | b"heic" | b"heix" | b"hevc" | b"mif1" | b"msf1") => {
                return Err(VideoError::Unsupported("heif".to_owned()));
            }
            // Old QuickTime files have no `ftyp`.
            b"ftyp" | b"moov" | b"mdat" | b"wide" | b"free" | b"skip" | b"pnot" => return Ok(Self::Mov),
            _ => {}
        }
        Err(unsupported_format(bytes).map_or(VideoError::Unreadable, |name| VideoError::Unsupported(name.to_owned())))
    }
}

/// Name of a recognised but unsupported format.
fn unsupported_format(bytes: &[u8]) -> Option<&'static str> {
    const SIGNATURES: &[(usize, &[u8], &str)] = &[
        (8, b"AVI ", "avi"),
        (8, b"WEBP", "webp"),
        (8, b"WAVE", "wav"),
        (0, b"FLV", "flv"),
        (0, b"OggS", "ogg"),
        (0, b"\x30\x26\xB2\x75\x8E\x66\xCF\x11", "wmv"),
        (0, b"\x00\x00\x01\xBA", "mpeg"),
        (0, b"\x00\x00\x01\xB3", "mpeg"),
        (0, b"\xFF\xD8\xFF", "jpeg"),
        (0, b"\x89PNG\r\n\x1A\n", "png"),
        (0, b"ID3", "mp3"),
        (0, b"fLaC", "flac"),
        (0, b"#EXTM3U", "m3u8"),
        (0, b"ffconcat", "ffconcat"),
        (0, b"<?xml", "xml"),
        (0, b"%PDF", "pdf"),
        (0, b"PK\x03\x04", "zip"),
    ];
    let found = SIGNATURES
        .iter()
        .find(|(from, signature, _)| bytes.get(*from..).is_some_and(|rest| rest.starts_with(signature)));
    let transport = || [0, 188, 376].iter().all(|&at| bytes.get(at) == Some(&0x47));
    found.map(|(_, _, name)| *name).or_else(|| transport().then_some("ts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_formats_are_named() {
        let named = |bytes: &[u8]| match Container::detect(bytes) {
            Err(VideoError::Unsupported(name)) => name,
            other => panic!("{other:?}"),
        };
        for (bytes, name) in [
            (&b"RIFF\0\0\0\0AVI LIST"[..], "avi"),
            (b"#EXTM3U\nfile:///etc/passwd", "m3u8"),
            (b"ffconcat version 1.0", "ffconcat"),
            (b"\0\0\0\x18ftypheic", "heif"),
        ] {
            assert_eq!(named(bytes), name);
        }
        let mut packets = [0; 512];
        for at in [0, 188, 376] {
            packets[at] = 0x47;
        }
        assert_eq!(named(&packets), "ts");
        for other in [&b""[..], b"\0", b"hello, world", b"file 'a.mp4'", &[0; 512]] {
            assert!(matches!(Container::detect(other), Err(VideoError::Unreadable)));
        }
    }
}
