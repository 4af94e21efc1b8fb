//! Encodes WebP: lossy with libwebp, lossless with image-webp, which is five times faster than libwebp at the same size.

use crate::image::{Buffer, Quality, Size};
use image_webp::{ColorType, WebPEncoder};
use libwebp_sys as ffi;
use std::ffi::{c_int, c_void};

/// Longest side in pixels of the format.
pub(in crate::codec) const MAX_SIDE: u32 = 16_383;

/// libwebp's effort, 0 to 6. On a 4096×4096 cutout at quality 92: 0 took 0.8 s for 2.16 MB, 2 took 1.5 s for
/// 1.85 MB, 4 took 2.3 s for 1.90 MB.
const METHOD: c_int = 2;

pub(in crate::codec) fn encode_lossless(samples: &[u8], size: Size, color: ColorType) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    WebPEncoder::new(&mut out).encode(samples, size.width, size.height, color).map_err(|error| error.to_string())?;
    Ok(out)
}

/// Encodes packed RGBA at `quality`; alpha is lossless. Frees the pixels once libwebp has copied them.
pub(in crate::codec) fn encode_lossy(pixels: Buffer, size: Size, quality: Quality) -> Result<Vec<u8>, String> {
    let mut config = ffi::WebPConfig::new().map_err(|()| "libwebp has a different version")?;
    config.quality = f32::from(quality.get());
    config.method = METHOD;
    let mut picture = Picture::new(&pixels, size)?;
    drop(pixels);
    picture.encode(&config)
}

/// A `WebPPicture` that frees its planes.
struct Picture(ffi::WebPPicture);

impl Picture {
    /// Converts packed RGBA to libwebp's planes of luma, chroma and alpha.
    fn new(pixels: &[u8], size: Size) -> Result<Self, String> {
        assert_eq!(pixels.len(), size.area() * 4, "packed RGBA");
        let side = |side: u32| c_int::try_from(side).map_err(|error| error.to_string());
        let mut inner = ffi::WebPPicture::new().map_err(|()| "libwebp has a different version")?;
        inner.width = side(size.width)?;
        inner.height = side(size.height)?;
        let stride = inner.width.checked_mul(4).ok_or("rows too long")?;
        let mut picture = Self(inner);
        // SAFETY: the picture is initialised, and `pixels` holds `height` rows of `stride` bytes (asserted above),
        // which the call only reads.
        let imported = unsafe { ffi::WebPPictureImportRGBA(&raw mut picture.0, pixels.as_ptr(), stride) };
        if imported == 0 { Err("libwebp is out of memory".to_owned()) } else { Ok(picture) }
    }

    fn encode(&mut self, config: &ffi::WebPConfig) -> Result<Vec<u8>, String> {
        let mut out: Vec<u8> = Vec::new();
        self.0.writer = Some(append);
        self.0.custom_ptr = (&raw mut out).cast::<c_void>();
        // SAFETY: config and picture are initialised; `append` is given `custom_ptr`, which points to `out`, alive
        // and not otherwise used until the call returns.
        let encoded = unsafe { ffi::WebPEncode(config, &raw mut self.0) };
        self.0.custom_ptr = std::ptr::null_mut();
        if encoded == 0 { Err(format!("libwebp: {:?}", self.0.error_code)) } else { Ok(out) }
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        // SAFETY: the picture was initialised by `WebPPicture::new` and is freed once, here.
        unsafe { ffi::WebPPictureFree(&raw mut self.0) };
    }
}

/// libwebp's output callback: appends to the `Vec<u8>` in `custom_ptr`.
unsafe extern "C" fn append(data: *const u8, len: usize, picture: *const ffi::WebPPicture) -> c_int {
    // SAFETY: libwebp calls this only inside `WebPEncode`, with the picture given there and `len` readable bytes;
    // `custom_ptr` is the vector set in `Picture::encode`.
    let (out, data) = unsafe { (&mut *(*picture).custom_ptr.cast::<Vec<u8>>(), std::slice::from_raw_parts(data, len)) };
    out.extend_from_slice(data);
    1
}
