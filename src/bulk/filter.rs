//! Selects objects by their keys: include and exclude globs, or picture file extensions.

use super::glob_alternatives::{TOO_LARGE, expand_alternatives, is_small};
use super::path_glob::PathGlob;
use glob::{MatchOptions, Pattern, PatternError};

/// Extensions of picture files, the default filter. How a file is decoded depends on its content alone.
const EXTENSIONS: [&str; 14] =
    ["jpg", "jpeg", "jpe", "jif", "jfif", "pjp", "pjpeg", "png", "webp", "heic", "heics", "heif", "heifs", "hif"];

/// Include and exclude globs.
///
/// A glob with a slash matches the key relative to the source, where `*` does not cross a slash (`**` does); one without
/// matches the file name alone.
#[derive(Clone, Debug)]
pub struct KeyFilter {
    /// `None`: by extension.
    include: Option<Globs>,
    exclude: Globs,
}

/// A glob is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed glob `{glob}`: {reason}")]
pub struct GlobError {
    glob: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Default)]
struct Globs {
    keys: Vec<PathGlob>,
    names: Vec<Pattern>,
}

impl Globs {
    fn new(globs: &[String]) -> Result<Self, GlobError> {
        let (mut parsed, mut texts) = (Self::default(), Vec::new());
        for glob in globs {
            let malformed = |reason| GlobError { glob: glob.clone(), reason };
            let malformed_at = |error: PatternError| malformed(error.msg);
            let expanded = expand_alternatives(glob).map_err(malformed)?;
            // The bound applies to all globs together.
            if !is_small(texts.iter().chain(&expanded)) {
                return Err(malformed(TOO_LARGE));
            }
            for text in &expanded {
                if glob.contains('/') {
                    parsed.keys.push(PathGlob::new(text).map_err(malformed_at)?);
                } else {
                    parsed.names.push(Pattern::new(text).map_err(malformed_at)?);
                }
            }
            texts.extend(expanded);
        }
        Ok(parsed)
    }

    fn match_key(&self, key: &str) -> bool {
        let components: Vec<_> = key.split('/').collect();
        // As in a shell, a wildcard matches no hidden file, such as macOS's `._a.jpg` next to `a.jpg`.
        let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
        self.names.iter().any(|name| name.matches_with(file_name(key), options))
            || self.keys.iter().any(|glob| glob.matches(&components))
    }
}

impl KeyFilter {
    /// Selects the keys that a glob of `include` matches, or pictures by extension if it is empty, and no glob of `exclude`.
    ///
    /// # Errors
    /// When a glob is malformed.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, GlobError> {
        let include = if include.is_empty() { None } else { Some(Globs::new(include)?) };
        Ok(Self { include, exclude: Globs::new(exclude)? })
    }

    /// Whether `key`, relative to the source, is selected.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let included = match &self.include {
            Some(globs) => globs.match_key(key),
            None => has_image_extension(file_name(key)) && !file_name(key).starts_with('.'),
        };
        included && !self.exclude.match_key(key)
    }
}

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// Whether a file name has the extension of a picture format, in any case.
#[must_use]
pub fn has_image_extension(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, extension)| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> KeyFilter {
        let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
        KeyFilter::new(&owned(include), &owned(exclude)).unwrap()
    }

    #[test]
    fn pictures_are_selected_by_default() {
        let filter = filter(&[], &["thumbs/**", "*.small.*"]);
        for selected in ["a.jpg", "x/B.JPEG", "ü/c.webp", "x/thumbs/a.png", "DSC00001.HIF", "a.pjpeg"] {
            assert!(filter.matches(selected), "{selected}");
        }
        for left in ["._a.jpg", "x/._a.jpg", "a.txt", "jpg", "x.jpg/readme", "thumbs/a.jpg", "x/a.small.jpg", ""] {
            assert!(!filter.matches(left), "{left}");
        }
    }

    #[test]
    fn a_glob_without_a_slash_matches_the_file_name() {
        let filter = filter(&["IMG_*", "shop/*/front.*"], &["*.txt"]);
        for selected in ["IMG_1", "x/y/IMG_2.jpg", "shop/7/front.jpg"] {
            assert!(filter.matches(selected), "{selected}");
        }
        assert!(KeyFilter::new(&["*.jpg".to_owned()], &[]).is_ok_and(|filter| !filter.matches("x/._a.jpg")));
        for left in ["shop/7/8/front.jpg", "x/shop/7/front.jpg", "IMG_1.txt", "IMG_1/a.jpg"] {
            assert!(!filter.matches(left), "{left}");
        }
        assert!(KeyFilter::new(&["[".to_owned()], &[]).is_err());
        let globs = |count: usize| vec!["{a,b}".to_owned(); count];
        assert!(KeyFilter::new(&globs(500), &[]).is_ok() && KeyFilter::new(&globs(501), &[]).is_err());
    }
}
