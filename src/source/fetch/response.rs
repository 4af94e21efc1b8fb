//! Checks a response's status and headers: a redirect, or an unencoded body.

use super::error::FetchError;
use crate::image::{SourceUrl, UrlError};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, HeaderValue, LOCATION};
use hyper::{Response, StatusCode};

/// A response that passed the checks: the body, or the target of a redirect.
pub(super) enum Checked<T> {
    Body(T),
    Redirect(SourceUrl),
}

/// The content codings of IANA's registry. With others (empty, `aws-chunked`, `none`, `utf-8`) the body is the file.
const CODINGS: [&[u8]; 12] = [
    b"aes128gcm",
    b"br",
    b"compress",
    b"dcb",
    b"dcz",
    b"deflate",
    b"exi",
    b"gzip",
    b"pack200-gzip",
    b"x-compress",
    b"x-gzip",
    b"zstd",
];

/// Whether a `Content-Encoding` names a coding.
#[must_use]
pub fn is_coded(encoding: &HeaderValue) -> bool {
    let mut names = encoding.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    names.any(|name| CODINGS.iter().any(|coding| name.eq_ignore_ascii_case(coding)))
}

pub(super) fn check_response(url: &SourceUrl, response: Response<Incoming>) -> Result<Checked<Incoming>, FetchError> {
    let (status, headers) = (response.status(), response.headers());
    if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        let location = headers.get(LOCATION).ok_or(FetchError::Status(status))?;
        let location = str::from_utf8(location.as_bytes()).map_err(|_| FetchError::Redirect(UrlError::Malformed))?;
        return url.join(location).map(Checked::Redirect).map_err(FetchError::Redirect);
    }
    if status != StatusCode::OK {
        return Err(FetchError::Status(status));
    }
    if let Some(encoding) = headers.get_all(CONTENT_ENCODING).iter().find(|encoding| is_coded(encoding)) {
        return Err(FetchError::Encoded(encoding.clone()));
    }
    Ok(Checked::Body(response.into_body()))
}
