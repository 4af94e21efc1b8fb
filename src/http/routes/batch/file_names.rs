//! File names of the pictures in a batch's archive, from the names of the uploads and the paths of the URLs.
//!
//! A name is safe on every system that unpacks it: one path component without control characters, without the
//! characters and device names that Windows reserves, short, and unique also where case is ignored.

use std::collections::HashSet;
use url::{Url, form_urlencoded};

/// Bytes of a name before its number and extension; file systems allow 255 in all.
const MAX_STEM: usize = 120;

/// The names given so far, in lower case.
#[derive(Debug, Default)]
pub(super) struct FileNames(HashSet<String>);

impl FileNames {
    /// The name of the picture at `index`, whose name at the caller is `original`.
    pub(super) fn name(&mut self, index: usize, original: Option<&str>, extension: &str) -> String {
        let stem = original.and_then(safe_stem).unwrap_or_else(|| format!("picture-{}", index + 1));
        let numbered = (2..).map(|number| format!("{stem}-{number}.{extension}"));
        let mut candidates = std::iter::once(format!("{stem}.{extension}")).chain(numbered);
        candidates.find(|name| self.0.insert(name.to_lowercase())).expect("there is always a next number")
    }
}

/// The last segment of a URL's path, decoded.
pub(super) fn last_segment(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let part = url.path_segments()?.next_back()?;
    // A form decoder, in which three characters have a meaning that they lack in a path.
    let part = part.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(part.as_bytes()).next().map(|(name, _)| name.into_owned())
}

/// The name without folders and extension, with `_` for unsafe characters; `None` where nothing is left.
fn safe_stem(original: &str) -> Option<String> {
    let last = original.rsplit(['/', '\\']).next()?;
    let stem = match last.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        Some(_) | None => last,
    };
    let safe: String = stem.chars().map(|character| if is_safe(character) { character } else { '_' }).collect();
    let short = safe.char_indices().take_while(|(at, character)| at + character.len_utf8() <= MAX_STEM);
    let short: String = short.map(|(_, character)| character).collect();
    // Neither a hidden file nor `..`, and no trailing characters that Windows drops.
    let stem = short.trim_matches(['.', ' ']);
    if stem.is_empty() {
        return None;
    }
    Some(if is_device(stem) { format!("_{stem}") } else { stem.to_owned() })
}

fn is_safe(character: char) -> bool {
    // The second row changes the text direction, which can disguise the extension.
    !matches!(character, '<' | '>' | ':' | '"' | '|' | '?' | '*' | '/' | '\\')
        && !matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        && !character.is_control()
}

/// Whether Windows reserves the name for a device, with any extension.
fn is_device(stem: &str) -> bool {
    let name = stem.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let numbered = name.strip_prefix("com").or_else(|| name.strip_prefix("lpt"));
    matches!(name.as_str(), "con" | "prn" | "aux" | "nul")
        || numbered.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(original: &str) -> String {
        FileNames::default().name(3, Some(original), "png")
    }

    #[test]
    fn a_name_is_one_safe_component_with_its_stem_and_the_extension_of_its_format() {
        for (original, expected) in [
            ("photo.jpg", "photo.png"),
            ("photo", "photo.png"),
            ("a.b.webp", "a.b.png"),
            ("größe 图.HEIC", "größe 图.png"),
            ("photo.png", "photo.png"),
            ("console.jpg", "console.png"),
            ("com10.jpg", "com10.png"),
            ("../../etc/passwd", "passwd.png"),
            ("C:\\photos\\cat.jpg", "cat.png"),
            ("/absolute.jpg", "absolute.png"),
            ("folder/", "picture-4.png"),
            ("..", "picture-4.png"),
            ("...jpg", "picture-4.png"),
            (".htaccess", "htaccess.png"),
            ("", "picture-4.png"),
            ("   .jpg", "picture-4.png"),
            ("a:b*c?.jpg", "a_b_c_.png"),
            ("line\nbreak\0.jpg", "line_break_.png"),
            ("photo\u{202e}gnp.exe", "photo_gnp.png"),
            ("end. .jpg", "end.png"),
            ("NUL.jpg", "_NUL.png"),
            ("com1.tar.gz", "_com1.tar.png"),
        ] {
            assert_eq!(name(original), expected, "{original:?}");
        }
        assert_eq!(FileNames::default().name(0, None, "webp"), "picture-1.webp");
        for long in ["x".repeat(5000), "图".repeat(300)] {
            let name = name(&long);
            assert!((100..=MAX_STEM + 4).contains(&name.len()), "{}", name.len());
        }
    }

    #[test]
    fn names_are_unique_ignoring_case() {
        let mut names = FileNames::default();
        let given: Vec<_> = ["a.jpg", "A.png", "b/a.webp", "a-2.jpg", "ä.jpg", "Ä.jpg"]
            .into_iter()
            .enumerate()
            .map(|(index, original)| names.name(index, Some(original), "png"))
            .collect();
        assert_eq!(given, ["a.png", "A-2.png", "a-3.png", "a-2-2.png", "ä.png", "Ä-2.png"]);
    }

    #[test]
    fn the_last_segment_of_a_url_is_decoded() {
        for (url, expected) in [
            ("https://example.org/photos/cat.jpg?w=5#top", "cat.jpg"),
            ("https://example.org/a%20b+c&d=e.jpg", "a b+c&d=e.jpg"),
            ("https://example.org/%2e%2e%2fsecret.jpg", "../secret.jpg"),
            ("https://example.org/folder/", ""),
        ] {
            assert_eq!(last_segment(url).unwrap_or_default(), expected, "{url}");
        }
        assert_eq!(last_segment("no address"), None);
    }
}
