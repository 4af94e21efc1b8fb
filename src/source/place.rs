//! A place in object storage by its URL, compared with others by its segments, without opening it.

use object_store::path::Path;
use url::{Position, Url};

/// A bucket or the root of the file system, and the key of a folder or an object in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    url: String,
    /// Scheme and bucket: `s3://shop`, or `file://`.
    root: String,
    /// Decoded, so that two ways to write one key are equal.
    key: Path,
}

impl Place {
    /// The place of a URL; `None` where the text is no URL of a place, or has segments that no key has, such as `..`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        // What follows the path, and a `..` that parsing removes, name no place that the text shows.
        let has_more = url.query().is_some() || url.fragment().is_some();
        let climbs = text.split(['/', '\\']).any(|segment| segment.to_ascii_lowercase().replace("%2e", ".") == "..");
        let root = url[..Position::BeforePath].to_owned();
        if has_more || climbs || !root.contains("://") {
            return None;
        }
        // An empty key may be written with or without a slash.
        let key = Path::from_url_path(url.path()).ok()?;
        Some(Self { url: url.to_string(), root, key })
    }

    /// Whether `other` is this place or lies below it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.root == other.root && other.key.prefix_matches(&self.key)
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(outer: &str, inner: &str) -> bool {
        Place::parse(outer).expect("a place").contains(&Place::parse(inner).expect("a place"))
    }

    #[test]
    fn a_place_contains_what_lies_below_it_by_whole_segments() {
        for (outer, inner) in [
            ("s3://shop", "s3://shop"),
            ("s3://shop/", "s3://shop/a"),
            ("s3://shop/a", "s3://shop/a"),
            ("s3://shop/a/", "s3://shop/a"),
            ("s3://shop/a", "s3://shop/a/b/c.jsonl"),
            ("s3://shop/a b", "s3://shop/a%20b/c"),
            ("file:///srv/shop", "file:///srv/shop/in"),
        ] {
            assert!(contains(outer, inner), "{outer} {inner}");
        }
        for (outer, inner) in [
            ("s3://shop", "s3://shop2/a"),
            ("s3://shop", "s3a://shop/a"),
            ("s3://shop", "gs://shop/a"),
            ("s3://shop", "s3://other@shop/a"),
            ("s3://shop/a", "s3://shop"),
            ("s3://shop/a", "s3://shop/ab"),
            ("s3://shop/a/b", "s3://shop/a"),
            ("file:///srv/shop", "file:///srv/shop2"),
            ("file:///srv/shop", "file://host/srv/shop"),
        ] {
            assert!(!contains(outer, inner), "{outer} {inner}");
        }
    }

    #[test]
    fn what_does_not_name_one_place_is_none() {
        for text in [
            "",
            "shop/a",
            "/srv/shop",
            "c:/shop",
            "s3://shop/a/../../b",
            "s3://shop/a/%2e%2E/b",
            "s3://shop/a%2F..%2Fb",
            "s3://shop//a",
            "s3://shop/a?x=1",
            "s3://shop/a#b",
            "file:///srv/shop/..",
            "file:///srv/shop/%2E./etc",
        ] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }
}
