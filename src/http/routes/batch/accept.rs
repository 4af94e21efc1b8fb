//! Content negotiation of a batch's reply, JSON or ZIP, from `Accept` (RFC 9110, section 12.5.1).

use hyper::header::{ACCEPT, HeaderMap};

/// Whether the caller prefers `application/zip` to `application/json`.
///
/// The archive has to be named explicitly: a range that covers both (`*/*`, `application/*`) selects JSON, as do equal
/// weights.
pub(super) fn prefers_zip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<_> = values.flat_map(|value| value.split(',')).filter_map(weighted).collect();
    let weight_of = |name: &str| {
        let named = ranges.iter().filter(|(range, _)| range.eq_ignore_ascii_case(name));
        named.map(|(_, weight)| *weight).reduce(f32::max)
    };
    let zip = weight_of("application/zip");
    // The most specific range takes precedence.
    let json = ["application/json", "application/*", "*/*"].into_iter().find_map(weight_of);
    zip.unwrap_or_default() > json.unwrap_or_default()
}

/// One media range with its weight; `None` where the weight is malformed.
fn weighted(range: &str) -> Option<(&str, f32)> {
    let mut parts = range.split(';').map(str::trim);
    let range = parts.next()?;
    let weight = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim_end().eq_ignore_ascii_case("q").then_some(value.trim_start())
    });
    let weight = match weight {
        Some(weight) => weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?,
        None => 1.0,
    };
    Some((range, weight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn prefers(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, HeaderValue::from_str(value).expect("a header value"));
        }
        prefers_zip(&headers)
    }

    #[test]
    fn zip_is_selected_where_it_is_named_and_preferred_and_json_otherwise() {
        let zip = "application/zip Application/ZIP application/zip;q=0.1 application/zip,image/png \
            application/zip,application/json;q=0,*/* application/zip;q=0.6,application/json;q=0.5,*/*";
        let zip = zip.split_whitespace().map(|value| vec![value]);
        for zip in zip.chain([
            vec!["application/json;q=0.9", "application/zip"],
            vec!["application/zip ; Q = 0.8 , */*;q=0.5"],
            vec!["text/html, application/zip;level=1;q=0.7, */*;q=0.6"],
        ]) {
            assert!(prefers(&zip), "{zip:?}");
        }
        let json = "*/* application/* application/zip,application/json application/zip,*/* application/zip,application/* \
            application/zip;q=0.4,application/json;q=0.5 application/zip;q=0.5,*/*;q=0.8 application/zip;q=0 \
            application/zip;q=2 application/zip;q=NaN application/zip;q=much application/zipped";
        for json in json.split_whitespace().map(|value| vec![value]).chain([vec![], vec![""]]) {
            assert!(!prefers(&json), "{json:?}");
        }
    }
}
