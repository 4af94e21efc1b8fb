//! Renders the key of a result from the key of its source: `{dir}/{stem}.{ext}`.

use std::fmt;
use std::str::FromStr;

/// A template for result keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// Folders of the source key, without the last slash.
    Dir,
    /// Name of the source without its extension.
    Stem,
    /// Name of the source with its extension.
    Name,
    /// Extension of the result.
    Ext,
}

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTemplateError {
    /// An unknown placeholder.
    #[error("there is no placeholder `{{{0}}}`; there are {{dir}}, {{stem}}, {{name}} and {{ext}}")]
    Unknown(String),
    /// An unmatched brace.
    #[error("a brace is unmatched; placeholders are written like {{stem}}")]
    Brace,
    /// Every result would have the same key.
    #[error("it gives every picture the same name; use {{stem}} or {{name}}")]
    Constant,
}

impl KeyTemplate {
    /// Keeps the folder tree; the extension is the result's.
    pub const DEFAULT: &'static str = "{dir}/{stem}.{ext}";

    /// The result key for the source `key`, both relative to their locations. An empty `{dir}` also drops the slash after
    /// it.
    #[must_use]
    pub fn render(&self, key: &str, extension: &str) -> String {
        let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
        // A name such as `.jpg` has no extension.
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
        let mut result = String::with_capacity(key.len() + 8);
        let mut drop_slash = false;
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => text.strip_prefix('/').filter(|_| drop_slash).unwrap_or(text),
                Piece::Dir => dir,
                Piece::Stem => stem,
                Piece::Name => name,
                Piece::Ext => extension,
            };
            drop_slash = *piece == Piece::Dir && dir.is_empty() && (result.is_empty() || result.ends_with('/'));
            result.push_str(text);
        }
        result
    }
}

impl fmt::Display for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Dir => f.write_str("{dir}"),
            Piece::Stem => f.write_str("{stem}"),
            Piece::Name => f.write_str("{name}"),
            Piece::Ext => f.write_str("{ext}"),
        })
    }
}

impl FromStr for KeyTemplate {
    type Err = KeyTemplateError;

    fn from_str(text: &str) -> Result<Self, KeyTemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            let inside = rest[at..].strip_prefix('{').ok_or(KeyTemplateError::Brace)?;
            let (name, after) = inside.split_once('}').ok_or(KeyTemplateError::Brace)?;
            pieces.push(match name {
                "dir" => Piece::Dir,
                "stem" => Piece::Stem,
                "name" => Piece::Name,
                "ext" => Piece::Ext,
                other => return Err(KeyTemplateError::Unknown(other.to_owned())),
            });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if !pieces.iter().any(|piece| matches!(piece, Piece::Stem | Piece::Name)) {
            return Err(KeyTemplateError::Constant);
        }
        Ok(Self(pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_by_parts_of_the_source_key() {
        for (template, key, expected) in [
            (KeyTemplate::DEFAULT, "a.jpg", "a.png"),
            (KeyTemplate::DEFAULT, "x/y/a b.jpeg", "x/y/a b.png"),
            (KeyTemplate::DEFAULT, "x/ü", "x/ü.png"),
            (KeyTemplate::DEFAULT, "x/.jpg", "x/.jpg.png"),
            (KeyTemplate::DEFAULT, "x.y/a.b.jpg", "x.y/a.b.png"),
            ("cut/{dir}/{name}.{ext}", "x/a.jpg", "cut/x/a.jpg.png"),
            ("cut/{dir}/{name}.{ext}", "a.jpg", "cut/a.jpg.png"),
            ("{stem}", "x/a.jpg", "a"),
            ("{dir}-{stem}", "a.jpg", "-a"),
            ("v{dir}/{stem}", "a.jpg", "v/a"),
        ] {
            let parsed = template.parse::<KeyTemplate>().unwrap();
            assert_eq!(
                (parsed.render(key, "png").as_str(), parsed.to_string().as_str()),
                (expected, template),
                "{key}"
            );
        }
    }

    #[test]
    fn an_invalid_template_is_refused_with_the_reason() {
        let error = |text: &str| text.parse::<KeyTemplate>().unwrap_err().to_string();
        assert_eq!(
            error("{base}/{stem}"),
            "there is no placeholder `{base}`; there are {dir}, {stem}, {name} and {ext}"
        );
        assert_eq!("{stem".parse::<KeyTemplate>(), Err(KeyTemplateError::Brace));
        assert_eq!("stem}".parse::<KeyTemplate>(), Err(KeyTemplateError::Brace));
        assert_eq!("{dir}/result.{ext}".parse::<KeyTemplate>(), Err(KeyTemplateError::Constant));
        assert_eq!("".parse::<KeyTemplate>(), Err(KeyTemplateError::Constant));
    }
}
