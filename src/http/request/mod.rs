//! Reads requests: checks of the head, forms, JSON, raw bodies, clips, URLs to fetch.

pub(super) mod base64_picture;
pub(super) mod body;
pub(super) mod clip_probe;
pub(super) mod clip_upload;
pub(super) mod fetching;
pub(super) mod fingerprint;
pub(super) mod form;
pub(super) mod head_check;
pub(super) mod image_request;
pub(super) mod input_names;
pub(super) mod json;
pub(super) mod multipart;
pub(super) mod picture_json;
pub(super) mod preset_fields;
