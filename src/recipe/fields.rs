//! Names and values as the caller sent them, and what can be wrong with one.

/// Fields in the order they came, each name at most once, and the names of the files that came with them.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    entries: Vec<(String, String)>,
    files: Vec<String>,
}

impl Fields {
    /// Adds a field.
    ///
    /// # Errors
    /// [`FieldError::Repeated`] when the name is already there: which of the two values was meant cannot be known.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        if self.get(name).is_some() {
            return Err(FieldError::Repeated { param: name.to_owned() });
        }
        self.entries.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Says that a file came under `name`.
    pub fn attach(&mut self, name: &str) {
        self.files.push(name.to_owned());
    }

    /// Whether a file came under `name`.
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
        self.entries.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These fields, and of the `stored` ones of a preset those that were not sent.
    #[must_use]
    pub fn over(mut self, stored: &Self) -> Self {
        for (name, value) in stored.iter() {
            if self.get(name).is_none() {
                self.entries.push((name.to_owned(), value.to_owned()));
            }
        }
        self
    }
}

/// Why a field cannot be used. Each one names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A value outside of what the field takes.
    #[error("invalid `{param}`: {} (expected {expected})", shown(value))]
    Invalid {
        /// The field.
        param: String,
        /// What was sent.
        value: String,
        /// What it takes, in words.
        expected: String,
    },
    /// A field that has to be there is not.
    #[error("`{param}` is missing")]
    Missing {
        /// The field.
        param: String,
    },
    /// No such field.
    #[error("unknown field `{param}`")]
    Unknown {
        /// The name that was sent.
        param: String,
    },
    /// The same field twice.
    #[error("`{param}` was sent more than once")]
    Repeated {
        /// The field.
        param: String,
    },
}

impl FieldError {
    /// [`FieldError::Invalid`].
    pub fn invalid(param: &str, value: &str, expected: impl Into<String>) -> Self {
        Self::Invalid { param: param.to_owned(), value: value.to_owned(), expected: expected.into() }
    }

    /// The name of the field.
    #[must_use]
    pub fn param(&self) -> &str {
        match self {
            Self::Invalid { param, .. }
            | Self::Missing { param }
            | Self::Unknown { param }
            | Self::Repeated { param } => param,
        }
    }
}

/// A value quoted for a message, shortened so that an answer never echoes a large upload.
fn shown(value: &str) -> String {
    const MOST: usize = 80;
    match value.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
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
    fn what_was_sent_wins_over_what_a_preset_holds() {
        let sent = fields(&[("edge", "soft"), ("preset", "p")]);
        let merged = sent.over(&fields(&[("edge", "hard"), ("width", "100")]));
        let merged: Vec<_> = merged.iter().collect();
        assert_eq!(merged, [("edge", "soft"), ("preset", "p"), ("width", "100")]);
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
    }
}
