//! Names of the pictures in a batch's archive, from the names of the uploads and the paths of the addresses.
//!
//! A name is safe on every system that unpacks it: one path component without control characters, without the
//! characters and device names that Windows reserves, short, and unlike all others also where case does not count.

use std::collections::HashSet;
use url::{Url, form_urlencoded};

/// Bytes of a name before its number and extension; file systems have 255 for all.
const MAX_STEM: usize = 120;

/// The names given so far, in lower case.
#[derive(Debug, Default)]
pub(super) struct FileNames(HashSet<String>);

impl FileNames {
    /// The name of the picture at `index`, which the caller calls `called`.
    pub(super) fn name(&mut self, index: usize, called: Option<&str>, extension: &str) -> String {
        let stem = called.and_then(safe_stem).unwrap_or_else(|| format!("picture-{}", index + 1));
        let numbered = (2..).map(|number| format!("{stem}-{number}.{extension}"));
        let mut candidates = std::iter::once(format!("{stem}.{extension}")).chain(numbered);
        candidates.find(|name| self.0.insert(name.to_lowercase())).expect("there is always a next number")
    }
}

/// The last part of an address's path, decoded.
pub(super) fn last_part(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let part = url.path_segments()?.next_back()?;
    // A decoder of forms, for which three characters mean more than in a path.
    let part = part.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(part.as_bytes()).next().map(|(name, _)| name.into_owned())
}

/// The name without its folders and its extension, with `_` for what is not safe; nothing where nothing is left.
fn safe_stem(called: &str) -> Option<String> {
    let last = called.rsplit(['/', '\\']).next()?;
    let stem = match last.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        Some(_) | None => last,
    };
    let safe: String = stem.chars().map(|character| if is_safe(character) { character } else { '_' }).collect();
    let short = safe.char_indices().take_while(|(at, character)| at + character.len_utf8() <= MAX_STEM);
    let short: String = short.map(|(_, character)| character).collect();
    // No hidden file, no `..`, and no end that Windows drops.
    let stem = short.trim_matches(['.', ' ']);
    if stem.is_empty() {
        return None;
    }
    Some(if is_device(stem) { format!("_{stem}") } else { stem.to_owned() })
}

fn is_safe(character: char) -> bool {
    // The second row changes the direction of what is shown, and so seems to change the extension.
    !matches!(character, '<' | '>' | ':' | '"' | '|' | '?' | '*' | '/' | '\\')
        && !matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        && !character.is_control()
}

/// Whether Windows has a device of that name, whatever its extension.
fn is_device(stem: &str) -> bool {
    let name = stem.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let numbered = name.strip_prefix("com").or_else(|| name.strip_prefix("lpt"));
    matches!(name.as_str(), "con" | "prn" | "aux" | "nul")
        || numbered.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(called: &str) -> String {
        FileNames::default().name(3, Some(called), "png")
    }

    #[test]
    fn a_name_keeps_its_stem_and_gets_the_extension_of_its_format() {
        for (called, expected) in [
            ("photo.jpg", "photo.png"),
            ("photo", "photo.png"),
            ("a.b.webp", "a.b.png"),
            ("größe 图.HEIC", "größe 图.png"),
            ("photo.png", "photo.png"),
            ("console.jpg", "console.png"),
            ("com10.jpg", "com10.png"),
        ] {
            assert_eq!(name(called), expected, "{called}");
        }
    }

    #[test]
    fn a_name_is_one_safe_component() {
        for (called, expected) in [
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
            assert_eq!(name(called), expected, "{called:?}");
        }
        assert_eq!(FileNames::default().name(0, None, "webp"), "picture-1.webp");
        for long in ["x".repeat(5000), "图".repeat(300)] {
            let name = name(&long);
            assert!((100..=MAX_STEM + 4).contains(&name.len()), "{}", name.len());
        }
    }

    #[test]
    fn names_differ_also_where_case_does_not_count() {
        let mut names = FileNames::default();
        let given: Vec<_> = ["a.jpg", "A.png", "b/a.webp", "a-2.jpg", "ä.jpg", "Ä.jpg"]
            .into_iter()
            .enumerate()
            .map(|(index, called)| names.name(index, Some(called), "png"))
            .collect();
        assert_eq!(given, ["a.png", "A-2.png", "a-3.png", "a-2-2.png", "ä.png", "Ä-2.png"]);
    }

    #[test]
    fn the_last_part_of_an_address_is_decoded() {
        for (url, expected) in [
            ("https://example.org/photos/cat.jpg?w=5#top", "cat.jpg"),
            ("https://example.org/a%20b+c&d=e.jpg", "a b+c&d=e.jpg"),
            ("https://example.org/%2e%2e%2fsecret.jpg", "../secret.jpg"),
            ("https://example.org/folder/", ""),
        ] {
            assert_eq!(last_part(url).unwrap_or_default(), expected, "{url}");
        }
        assert_eq!(last_part("no address"), None);
    }
}
