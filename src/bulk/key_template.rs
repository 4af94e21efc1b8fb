//! The key of a result, made of the key of its source.

use std::str::FromStr;

/// How the keys of results look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// Folders of the source below the place that is read, without the last slash.
    Dir,
    /// Name of the source without its extension.
    Stem,
    /// Name of the source with its extension.
    Name,
    /// Extension of the result.
    Ext,
}

/// Why a template is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder that is not known.
    #[error("there is no placeholder `{{{0}}}`; there are {{dir}}, {{stem}}, {{name}} and {{ext}}")]
    Unknown(String),
    /// A brace without its counterpart.
    #[error("a brace stands alone; placeholders look like {{stem}}")]
    Brace,
    /// Every result would have the same key.
    #[error("it gives every picture the same name; use {{stem}} or {{name}}")]
    Constant,
}

impl Template {
    /// The tree is kept, and the extension is that of the result.
    pub const DEFAULT: &'static str = "{dir}/{stem}.{ext}";

    /// The key of the result for the source `key`, both relative to their places. An empty `{dir}` takes its slash with
    /// it.
    #[must_use]
    pub fn render(&self, key: &str, extension: &str) -> String {
        let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
        // A name such as `.jpg` is all stem.
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
        let mut result = String::with_capacity(key.len() + 8);
        let mut after_nothing = false;
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => text.strip_prefix('/').filter(|_| after_nothing).unwrap_or(text),
                Piece::Dir => dir,
                Piece::Stem => stem,
                Piece::Name => name,
                Piece::Ext => extension,
            };
            after_nothing = *piece == Piece::Dir && dir.is_empty() && (result.is_empty() || result.ends_with('/'));
            result.push_str(text);
        }
        result
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            let inside = rest[at..].strip_prefix('{').ok_or(TemplateError::Brace)?;
            let (name, after) = inside.split_once('}').ok_or(TemplateError::Brace)?;
            pieces.push(match name {
                "dir" => Piece::Dir,
                "stem" => Piece::Stem,
                "name" => Piece::Name,
                "ext" => Piece::Ext,
                other => return Err(TemplateError::Unknown(other.to_owned())),
            });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if !pieces.iter().any(|piece| matches!(piece, Piece::Stem | Piece::Name)) {
            return Err(TemplateError::Constant);
        }
        Ok(Self(pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str, key: &str) -> String {
        template.parse::<Template>().unwrap().render(key, "png")
    }

    #[test]
    fn the_tree_is_kept_by_default() {
        for (key, expected) in [
            ("a.jpg", "a.png"),
            ("x/y/a b.jpeg", "x/y/a b.png"),
            ("x/ü", "x/ü.png"),
            ("x/.jpg", "x/.jpg.png"),
            ("x.y/a.b.jpg", "x.y/a.b.png"),
        ] {
            assert_eq!(rendered(Template::DEFAULT, key), expected);
        }
    }

    #[test]
    fn placeholders_stand_for_parts_of_the_source() {
        assert_eq!(rendered("cut/{dir}/{name}.{ext}", "x/a.jpg"), "cut/x/a.jpg.png");
        assert_eq!(rendered("cut/{dir}/{name}.{ext}", "a.jpg"), "cut/a.jpg.png");
        assert_eq!(rendered("{stem}", "x/a.jpg"), "a");
        assert_eq!(rendered("{dir}-{stem}", "a.jpg"), "-a");
        assert_eq!(rendered("v{dir}/{stem}", "a.jpg"), "v/a");
    }

    #[test]
    fn what_is_no_template_says_why() {
        let error = |text: &str| text.parse::<Template>().unwrap_err().to_string();
        assert_eq!(
            error("{base}/{stem}"),
            "there is no placeholder `{base}`; there are {dir}, {stem}, {name} and {ext}"
        );
        assert_eq!("{stem".parse::<Template>(), Err(TemplateError::Brace));
        assert_eq!("stem}".parse::<Template>(), Err(TemplateError::Brace));
        assert_eq!("{dir}/result.{ext}".parse::<Template>(), Err(TemplateError::Constant));
        assert_eq!("".parse::<Template>(), Err(TemplateError::Constant));
    }
}
