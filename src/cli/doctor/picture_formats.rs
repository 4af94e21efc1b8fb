//! Checks what pictures need beyond the built-in codecs: the HEIC decoder.

use super::check::Check;

/// Decodes a small HEIC file.
#[cfg(feature = "heic")]
pub(super) fn heic() -> Check {
    use crate::codec::{self, Limits};
    use crate::image::BufferPool;
    use bytes::Bytes;
    const PICTURE: &[u8] = include_bytes!("../../../tests/fixtures/codec/plain.heic");
    let bytes = Bytes::from_static(PICTURE);
    let decoded =
        codec::probe(&bytes, &Limits::default()).and_then(|header| codec::decode(&bytes, &header, &BufferPool::new(0)));
    match decoded {
        Ok(_) => Check::ok("heic", "a HEIC picture was decoded"),
        Err(error) => Check::failed(
            "heic",
            format!("a HEIC picture cannot be decoded: {}", crate::telemetry::with_causes(&error)),
            "install libde265 1.0.11 or newer",
        ),
    }
}

#[cfg(not(feature = "heic"))]
pub(super) fn heic() -> Check {
    Check::warning("heic", "this build reads no HEIC pictures", "build it with the feature `heic`")
}
