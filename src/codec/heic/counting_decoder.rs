//! An HEVC decoder plugin for libheif that counts its input and returns a grey picture of the coded size.
//!
//! The fuzz target of the cost check uses it in place of libde265. libde265 stops libheif at the first damaged picture;
//! this decoder never does, so everything that libheif could decode of a file is counted.

use super::hevc;
use crate::image::Size;
use libheif_sys as sys;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// Name of the plugin, by which a decode selects it.
pub(super) const NAME: &str = "counting";
const NAME_C: &CStr = c"counting";
/// Side in pixels above which pictures are counted but not returned.
const MAX_SIDE: u32 = 2048;

/// Counts of the decodes on this thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) pictures: usize,
    /// Bytes of their NAL units, including the configuration.
    pub(super) bytes: usize,
    /// Pixels, by the sizes in the sequence parameter sets.
    pub(super) pixels: u64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { pictures: 0, bytes: 0, pixels: 0 }) };
}

/// Runs `work` and returns the counts of its decodes on this thread.
pub(super) fn counts_of(work: impl FnOnce()) -> Counts {
    COUNTS.set(Counts::default());
    work();
    COUNTS.get()
}

/// `heif_decoder_plugin` of `heif_plugin.h`, version 5; the bindings declare it without fields.
#[repr(C)]
struct Plugin {
    plugin_api_version: c_int,
    get_plugin_name: extern "C" fn() -> *const c_char,
    init_plugin: Option<extern "C" fn()>,
    deinit_plugin: Option<extern "C" fn()>,
    does_support_format: extern "C" fn(sys::heif_compression_format) -> c_int,
    new_decoder: extern "C" fn(*mut *mut c_void) -> sys::heif_error,
    free_decoder: unsafe extern "C" fn(*mut c_void),
    push_data: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> sys::heif_error,
    decode_image: unsafe extern "C" fn(*mut c_void, *mut *mut sys::heif_image) -> sys::heif_error,
    set_strict_decoding: Option<extern "C" fn(*mut c_void, c_int)>,
    id_name: *const c_char,
    decode_next_image:
        Option<unsafe extern "C" fn(*mut c_void, *mut *mut sys::heif_image, *const c_void) -> sys::heif_error>,
    minimum_required_libheif_version: u32,
    does_support_format2: extern "C" fn(*const sys::heif_compression_format) -> c_int,
    new_decoder2: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> sys::heif_error,
    push_data2: unsafe extern "C" fn(*mut c_void, *const c_void, usize, usize) -> sys::heif_error,
    flush_data: extern "C" fn(*mut c_void) -> sys::heif_error,
    decode_next_image2:
        unsafe extern "C" fn(*mut c_void, *mut *mut sys::heif_image, *mut usize, *const c_void) -> sys::heif_error,
}

// SAFETY: it is never changed, and its pointers are to constants.
unsafe impl Sync for Plugin {}

static PLUGIN: Plugin = Plugin {
    plugin_api_version: 5,
    get_plugin_name: name,
    init_plugin: None,
    deinit_plugin: None,
    does_support_format: priority,
    new_decoder,
    free_decoder,
    push_data,
    decode_image,
    set_strict_decoding: None,
    id_name: NAME_C.as_ptr(),
    decode_next_image: None,
    minimum_required_libheif_version: 0,
    does_support_format2: priority_of_description,
    new_decoder2,
    push_data2,
    flush_data,
    decode_next_image2,
};

/// Registers the plugin for the whole process. Call it once, before the first decode.
pub(super) fn register() {
    // SAFETY: it has the layout that libheif reads, and is static.
    let error = unsafe { sys::heif_register_decoder_plugin((&raw const PLUGIN).cast()) };
    assert_eq!(error.code, sys::heif_error_code_heif_error_Ok, "libheif refuses the decoder");
}

/// The current coded picture: the size in its last sequence parameter set, until the picture is returned.
struct Decoder {
    size: Option<Size>,
}

const fn error(code: sys::heif_error_code) -> sys::heif_error {
    sys::heif_error { code, subcode: sys::heif_suberror_code_heif_suberror_Unspecified, message: NAME_C.as_ptr() }
}

const OK: sys::heif_error = error(sys::heif_error_code_heif_error_Ok);
const FAILED: sys::heif_error = error(sys::heif_error_code_heif_error_Decoder_plugin_error);

extern "C" fn name() -> *const c_char {
    NAME_C.as_ptr()
}

/// Lower than libde265's 100, so that a decode uses this plugin by name only.
extern "C" fn priority(format: sys::heif_compression_format) -> c_int {
    c_int::from(format == sys::heif_compression_format_heif_compression_HEVC)
}

extern "C" fn priority_of_description(description: *const sys::heif_compression_format) -> c_int {
    // SAFETY: libheif passes a description, whose only field is the format, or null.
    unsafe { description.as_ref() }.map_or(0, |format| priority(*format))
}

extern "C" fn new_decoder(decoder: *mut *mut c_void) -> sys::heif_error {
    let new = Box::into_raw(Box::new(Decoder { size: None }));
    // SAFETY: libheif passes a pointer to write to.
    unsafe { decoder.write(new.cast()) };
    COUNTS.set(Counts { pictures: COUNTS.get().pictures + 1, ..COUNTS.get() });
    OK
}

unsafe extern "C" fn new_decoder2(decoder: *mut *mut c_void, _options: *const c_void) -> sys::heif_error {
    new_decoder(decoder)
}

unsafe extern "C" fn free_decoder(decoder: *mut c_void) {
    // SAFETY: it was made by `new_decoder`, and libheif frees it once.
    drop(unsafe { Box::from_raw(decoder.cast::<Decoder>()) });
}

unsafe extern "C" fn push_data(decoder: *mut c_void, data: *const c_void, size: usize) -> sys::heif_error {
    // SAFETY: libheif passes a decoder of `new_decoder`, and `size` readable bytes.
    let (decoder, mut data) =
        unsafe { (&mut *decoder.cast::<Decoder>(), std::slice::from_raw_parts(data.cast::<u8>(), size)) };
    let mut counts = COUNTS.get();
    while let Some((length, rest)) = data.split_first_chunk::<4>() {
        let (unit, rest) = rest.split_at(rest.len().min(u32::from_be_bytes(*length) as usize));
        counts.bytes += unit.len();
        if let Some(size) = hevc::parameter_set_size(unit) {
            counts.pixels += u64::from(size.width) * u64::from(size.height);
            decoder.size = Some(size);
        }
        data = rest;
    }
    COUNTS.set(counts);
    OK
}

unsafe extern "C" fn push_data2(
    decoder: *mut c_void,
    data: *const c_void,
    size: usize,
    _user: usize,
) -> sys::heif_error {
    // SAFETY: as in `push_data`.
    unsafe { push_data(decoder, data, size) }
}

extern "C" fn flush_data(_decoder: *mut c_void) -> sys::heif_error {
    OK
}

unsafe extern "C" fn decode_image(decoder: *mut c_void, out: *mut *mut sys::heif_image) -> sys::heif_error {
    // SAFETY: libheif passes a decoder of `new_decoder`.
    let decoder = unsafe { &mut *decoder.cast::<Decoder>() };
    let Some(size) = decoder.size.take().filter(|size| size.width.max(size.height) <= MAX_SIDE) else { return FAILED };
    let [width, height] = [size.width as c_int, size.height as c_int];
    let mut image = ptr::null_mut();
    // SAFETY: libheif itself creates and fills the image; the caller owns it from here on.
    unsafe {
        let [space, chroma] = [sys::heif_colorspace_heif_colorspace_YCbCr, sys::heif_chroma_heif_chroma_420];
        let made = sys::heif_image_create(width, height, space, chroma, &mut image);
        if made.code != sys::heif_error_code_heif_error_Ok {
            return FAILED;
        }
        for (channel, width, height) in [
            (sys::heif_channel_heif_channel_Y, width, height),
            (sys::heif_channel_heif_channel_Cb, (width + 1) / 2, (height + 1) / 2),
            (sys::heif_channel_heif_channel_Cr, (width + 1) / 2, (height + 1) / 2),
        ] {
            let added = sys::heif_image_add_plane(image, channel, width, height, 8);
            if added.code != sys::heif_error_code_heif_error_Ok {
                // The message of `added` is released with the image.
                sys::heif_image_release(image);
                return FAILED;
            }
        }
        out.write(image);
    }
    OK
}

unsafe extern "C" fn decode_next_image2(
    decoder: *mut c_void,
    out: *mut *mut sys::heif_image,
    _user: *mut usize,
    _limits: *const c_void,
) -> sys::heif_error {
    // SAFETY: as in `decode_image`.
    unsafe { decode_image(decoder, out) }
}
