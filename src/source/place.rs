//! A location in object storage, parsed from a URL and compared by path segments, without opening it.

use object_store::path::Path;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use url::{Position, Url};

/// A bucket or the root of the file system, and the key of a folder or object in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The URL, normalised: one spelling for each key.
    url: String,
    /// Scheme and bucket: `s3://shop`, or `file://`.
    root: String,
    /// The key, decoded, so that two spellings of a key are equal.
    key: Path,
}

impl Place {
    /// Parses a URL; `None` if the text is no URL of a location, or has segments that no key can contain, such as `..`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut url = Url::parse(text).ok()?;
        // The text must show the location: no query, no fragment, and no `..`, which parsing would remove.
        let has_more = url.query().is_some() || url.fragment().is_some();
        let climbs = text.split(['/', '\\']).any(|segment| segment.to_ascii_lowercase().replace("%2e", ".") == "..");
        let root = url[..Position::BeforePath].to_owned();
        if has_more || climbs || !root.contains("://") {
            return None;
        }
        // An empty key has a slash or none.
        let key = Path::from_url_path(url.path()).ok()?;
        if key.parts().next().is_some() {
            url.path_segments_mut().ok()?.clear().extend(key.parts());
        }
        Some(Self { url: url.into(), root, key })
    }

    /// Whether `other` is this location or below it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.root == other.root && other.key.prefix_matches(&self.key)
    }

    /// The location with the symbolic links of a `file://` path resolved, as far as the path exists; `None` if they
    /// cannot be. Reads the file system.
    #[must_use]
    pub fn resolved(&self) -> Option<Self> {
        let url = Url::parse(&self.url).ok()?;
        if url.scheme() != "file" {
            return Some(self.clone());
        }
        Self::of_folder(&canonical(&url.to_file_path().ok()?).ok()?)
    }

    pub(super) fn of_folder(path: &std::path::Path) -> Option<Self> {
        Self::parse(Url::from_file_path(path).ok()?.as_str())
    }

    /// The normalised URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The canonical path of the longest existing ancestor, followed by the rest of the path.
///
/// # Errors
/// Errors of the file system; [`ErrorKind::PermissionDenied`] for a link to a target that may be created later.
pub(super) fn canonical(path: &std::path::Path) -> io::Result<PathBuf> {
    let error = match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => error,
        done => return done,
    };
    match (path.symlink_metadata(), path.parent(), path.file_name()) {
        (Err(_), Some(parent), Some(name)) => Ok(canonical(parent)?.join(name)),
        (Ok(link), ..) if link.is_symlink() => Err(ErrorKind::PermissionDenied.into()),
        // Created since the first attempt.
        (Ok(_), ..) => path.canonicalize(),
        (Err(_), ..) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_created_meanwhile_is_no_missing_link() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for round in 0..500 {
            let new = base.join(round.to_string());
            std::thread::scope(|scope| {
                scope.spawn(|| std::fs::create_dir(&new).unwrap());
                assert_eq!(canonical(&new.join("a.png")).unwrap(), new.join("a.png"));
            });
        }
        std::fs::write(base.join("file"), "").unwrap();
        assert_eq!(canonical(&base.join("file/a.png")).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn a_place_contains_paths_below_it_by_whole_segments() {
        let place = |text: &str| Place::parse(text).expect("a place");
        for (outer, inside, outside) in [
            ("s3://shop", "s3://shop", "s3://shop2/a s3a://shop/a gs://shop/a s3://other@shop/a"),
            ("s3://shop/", "s3://shop/a", "s3://shop2"),
            ("s3://shop/a", "s3://shop/a s3://shop/a/b/c.jsonl", "s3://shop s3://shop/ab"),
            ("s3://shop/a/", "s3://shop/a", "s3://shop/ab"),
            ("s3://shop/a b", "s3://shop/a%20b/c", "s3://shop/a"),
            ("file:///srv/shop", "file:///srv/shop/in", "file:///srv/shop2 file://host/srv/shop"),
        ] {
            for (inners, expected) in [(inside, true), (outside, false)] {
                for inner in inners.split(' ') {
                    assert_eq!(place(outer).contains(&place(inner)), expected, "{outer} {inner}");
                }
            }
        }
    }

    #[test]
    fn two_spellings_of_a_key_have_one_url() {
        for (text, url) in [
            ("s3://shop", "s3://shop"),
            ("s3://shop/a/", "s3://shop/a"),
            ("s3://shop/%72.jsonl", "s3://shop/r.jsonl"),
            ("s3://shop/a b/%23%25.jsonl", "s3://shop/a%20b/%23%25.jsonl"),
            ("file:///srv/a%20b/", "file:///srv/a%20b"),
        ] {
            let place = Place::parse(text).expect("a place");
            assert_eq!(place.url(), url);
            assert_eq!(Place::parse(url), Some(place), "{text}");
        }
    }

    #[test]
    fn text_that_does_not_name_one_place_is_none() {
        assert_eq!(Place::parse(""), None);
        let refused = "shop/a /srv/shop c:/shop s3://shop/a/../../b s3://shop/a/%2e%2E/b s3://shop/a%2F..%2Fb s3://shop//a \
            s3://shop/a?x=1 s3://shop/a#b file:///srv/shop/.. file:///srv/shop/%2E./etc";
        for text in refused.split_whitespace() {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }
}
