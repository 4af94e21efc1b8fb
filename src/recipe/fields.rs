//! [`Fields`]: names and trimmed values of a request's fields as sent, and [`FieldError`], the refusal of a field.

use super::Kind;

/// Name of the form part with an uploaded background.
pub const BG_FILE: &str = "bg_file";

/// Fields that may be sent more than once: their values are joined ([`Kind::List`]).
const LISTS: [&str; 2] = ["point", "not_point"];

/// Fields in the order of the request, each name at most once, and the names of the files sent with them.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    entries: Vec<SentField>,
    files: Vec<String>,
}

#[derive(Clone, Debug)]
struct SentField {
    name: String,
    value: String,
    /// Whether the value comes from a preset.
    stored: bool,
}

impl Fields {
    /// Adds a field. A blank value counts as not sent: browsers and clients send all fields of a form, even empty ones.
    ///
    /// # Errors
    /// [`FieldError::Repeated`] for a repeated name, except of a list: neither value takes precedence.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        let value = value.trim();
        if value.is_empty() {
            return Ok(());
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == name) {
            if LISTS.contains(&name) {
                entry.value.push(Kind::SEPARATOR);
                entry.value.push_str(value);
                return Ok(());
            }
            return Err(FieldError::Repeated { param: name.to_owned() });
        }
        self.entries.push(SentField { name: name.to_owned(), value: value.to_owned(), stored: false });
        Ok(())
    }

    /// Records that a file was sent under `name`.
    pub fn attach(&mut self, name: &str) {
        self.files.push(name.to_owned());
    }

    /// Whether a file was sent under `name`.
    #[must_use]
    pub fn has_file(&self, name: &str) -> bool {
        self.files.iter().any(|file| file == name)
    }

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|&(known, _)| known == name).map(|(_, value)| value)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), entry.value.as_str()))
    }

    /// Whether the value of `name` comes from a preset.
    #[must_use]
    pub fn is_stored(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.stored && entry.name == name)
    }

    /// These fields, completed by fields of the preset `stored` that were not sent.
    #[must_use]
    pub fn over(mut self, stored: &Self) -> Self {
        for (name, value) in stored.iter() {
            if self.get(name).is_none() {
                self.entries.push(SentField { name: name.to_owned(), value: value.to_owned(), stored: true });
            }
        }
        self
    }
}

/// Why a field is refused. Each variant names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A value that the field does not accept.
    #[error("invalid `{param}`: {} (expected {expected})", shown(value))]
    Invalid {
        /// The field.
        param: String,
        /// The value that was sent.
        value: String,
        /// The accepted values, in words.
        expected: String,
    },
    /// A required field is missing.
    #[error("`{param}` is missing")]
    Missing {
        /// The field.
        param: String,
    },
    /// No field has this name.
    #[error("unknown field `{}`", shown_name(param))]
    Unknown {
        /// The name that was sent.
        param: String,
    },
    /// No field has this name, but one has a similar name.
    #[error("unknown field `{}`; did you mean `{nearest}`?", shown_name(param))]
    Misspelled {
        /// The name that was sent.
        param: String,
        /// The similar name.
        nearest: String,
    },
    /// Only other endpoints have the field.
    #[error("`{here}` has no `{param}`; it is a field of {others}")]
    Elsewhere {
        /// The name that was sent.
        param: String,
        /// Path of this endpoint.
        here: &'static str,
        /// Paths of the endpoints with the field.
        others: String,
    },
    /// The field has no effect in this request.
    #[error("`{param}` is not taken here: {reason}")]
    NotTaken {
        /// The field.
        param: String,
        /// The reason.
        reason: &'static str,
    },
    /// The field was sent twice.
    #[error("`{}` was sent more than once", shown_name(param))]
    Repeated {
        /// The field.
        param: String,
    },
}

impl FieldError {
    /// Makes a [`FieldError::Invalid`].
    pub fn invalid(param: &str, value: &str, expected: impl Into<String>) -> Self {
        Self::Invalid { param: param.to_owned(), value: value.to_owned(), expected: expected.into() }
    }

    /// Makes a [`FieldError::NotTaken`].
    #[must_use]
    pub fn not_taken(param: &str, reason: &'static str) -> Self {
        Self::NotTaken { param: param.to_owned(), reason }
    }

    /// [`FieldError::Misspelled`] if one of the `known` names is similar, else [`FieldError::Unknown`].
    pub fn unknown<'a>(param: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let param = param.to_owned();
        match nearest(&param, known) {
            Some(nearest) => Self::Misspelled { param, nearest: nearest.to_owned() },
            None => Self::Unknown { param },
        }
    }

    /// The name of the field.
    #[must_use]
    pub fn param(&self) -> &str {
        match self {
            Self::Invalid { param, .. }
            | Self::Missing { param }
            | Self::Unknown { param }
            | Self::Misspelled { param, .. }
            | Self::Elsewhere { param, .. }
            | Self::NotTaken { param, .. }
            | Self::Repeated { param } => param,
        }
    }
}

/// The `known` name with the fewest edits (a letter added, removed, changed or exchanged with its neighbour) from
/// `name`: at most one for every three letters, and at most three. Case does not count; `-` equals `_`.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    const MOST_EDITS: usize = 3;
    // The time is proportional to the product of the lengths, and the sender chooses the name's length.
    if name.len() > LONGEST {
        return None;
    }
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    let name = plain(name);
    let most = (name.chars().count() / 3).min(MOST_EDITS);
    let edits = |known: &'a str| (strsim::damerau_levenshtein(&name, &plain(known)), known);
    let (edits, known) = known.into_iter().map(edits).min_by_key(|(edits, _)| *edits)?;
    (edits <= most).then_some(known)
}

/// A value quoted for a message.
fn shown(value: &str) -> String {
    let (start, rest) = shortened(value);
    format!("{start:?}{rest}")
}

/// A sent field name for a message, with control characters escaped.
fn shown_name(name: &str) -> String {
    let (start, rest) = shortened(name);
    format!("{}{rest}", start.escape_debug())
}

/// The start of a text, and `…` if it was cut: a reply never echoes a large upload.
fn shortened(text: &str) -> (&str, &'static str) {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => (&text[..end], "…"),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    #[test]
    fn a_repeated_field_is_refused_even_with_the_same_value() {
        let mut fields = fields(&[("edge", "soft")]);
        assert_eq!(fields.push("edge", "soft"), Err(FieldError::Repeated { param: "edge".into() }));
    }

    #[test]
    fn the_values_of_a_list_are_joined() {
        let mut fields = fields(&[("point", "1,2"), ("not_point", "5,6"), ("point", ""), ("point", " 3,4 ")]);
        assert_eq!([fields.get("point"), fields.get("not_point")], [Some("1,2;3,4"), Some("5,6")]);
        assert_eq!(fields.push("point", "7,8"), Ok(()));
        let sent = super::tests::fields(&[("point", "9,9")]).over(&fields);
        assert_eq!(sent.get("point"), Some("9,9"), "what was sent takes the place of a preset's");
    }

    #[test]
    fn blanks_around_a_value_are_dropped_and_a_blank_value_counts_as_not_sent() {
        let mut fields = fields(&[("edge", " soft\t"), ("width", ""), ("height", " \r\n "), ("watermark", " a b ")]);
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("edge", "soft"), ("watermark", "a b")]);
        assert_eq!(fields.push("width", "5"), Ok(()), "an empty one before it does not count");
        assert_eq!(fields.push("width", " "), Ok(()), "nor one behind it");
        assert_eq!(fields.get("width"), Some("5"));
    }

    #[test]
    fn sent_values_override_a_preset() {
        let sent = fields(&[("edge", "soft"), ("preset", "p"), ("height", "")]);
        let merged = sent.over(&fields(&[("edge", "hard"), ("width", "100"), ("height", "7")]));
        assert_eq!(
            ["edge", "preset", "width", "height"].map(|name| merged.is_stored(name)),
            [false, false, true, true]
        );
        let merged: Vec<_> = merged.iter().collect();
        assert_eq!(merged, [("edge", "soft"), ("preset", "p"), ("width", "100"), ("height", "7")]);
    }

    #[test]
    fn a_misspelled_name_is_answered_with_the_nearest_one() {
        let known = ["edge", "width", "height", "max_dim", "bg_color", "watermark", "watermark_opacity", "format"];
        for (nearest, all_sent) in [
            ("edge", &["egde", "EDGE", "edges", "ädge"][..]),
            ("width", &["with"]),
            ("max_dim", &["maxdim", "maxDim", "Max-Dim"]),
            ("bg_color", &["bg_colour", "bgcolor"]),
            ("watermark_opacity", &["watermark-opacity"]),
            ("watermark", &["watermrak"]),
        ] {
            for sent in all_sent {
                let expected = FieldError::Misspelled { param: (*sent).into(), nearest: nearest.into() };
                assert_eq!(FieldError::unknown(sent, known), expected);
            }
        }
        let long = "edge".repeat(10_000);
        for sent in ["x", "", "seconds", "compression", &long] {
            assert_eq!(FieldError::unknown(sent, known), FieldError::Unknown { param: sent.into() });
        }
        assert_eq!(FieldError::unknown("egde", known).to_string(), "unknown field `egde`; did you mean `edge`?");
    }

    #[test]
    fn a_long_value_is_shortened_at_a_character_border() {
        let message = FieldError::invalid("edge", &"é".repeat(500), "soft or hard").to_string();
        assert!(message.len() < 300, "{message}");
        assert!(message.ends_with("… (expected soft or hard)"), "{message}");
    }

    #[test]
    fn control_characters_are_escaped_in_the_message() {
        let error = FieldError::invalid("edge", "a\nb", "soft or hard");
        assert_eq!(error.to_string(), r#"invalid `edge`: "a\nb" (expected soft or hard)"#);
        for error in [FieldError::unknown("a\nb", []), FieldError::Repeated { param: "a\nb".into() }] {
            let message = error.to_string();
            assert!(message.contains(r"`a\nb`") && !message.contains(char::is_control), "{message}");
        }
        assert_eq!(
            FieldError::unknown("ed\nge", ["edge"]).to_string(),
            r"unknown field `ed\nge`; did you mean `edge`?"
        );
        let long = FieldError::unknown(&"é".repeat(500), []).to_string();
        assert!(long.len() < 200 && long.ends_with("…`"), "{long}");
    }
}
