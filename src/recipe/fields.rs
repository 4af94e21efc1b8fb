//! Names and values as the caller sent them, and what can be wrong with one.

/// Form fields in the order they came, each name at most once.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    entries: Vec<(String, String)>,
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

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|&(known, _)| known == name).map(|(_, value)| value)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value.as_str()))
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
    /// A field of the interface that this version cannot honour yet.
    #[error("invalid `{param}`: {} (not available in this version{})", shown(value), .accepts.map(|only| format!("; only {only} is")).unwrap_or_default())]
    Unavailable {
        /// The field.
        param: String,
        /// What was sent.
        value: String,
        /// The one value that changes nothing and is therefore taken.
        accepts: Option<&'static str>,
    },
}

impl FieldError {
    /// The name of the field.
    #[must_use]
    pub fn param(&self) -> &str {
        match self {
            Self::Invalid { param, .. }
            | Self::Unknown { param }
            | Self::Repeated { param }
            | Self::Unavailable { param, .. } => param,
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

    #[test]
    fn a_repeated_field_is_refused_even_with_the_same_value() {
        let mut fields = Fields::default();
        fields.push("edge", "soft").expect("first");
        assert_eq!(fields.push("edge", "soft"), Err(FieldError::Repeated { param: "edge".into() }));
    }

    #[test]
    fn a_long_value_is_shortened_at_a_character_border() {
        let error =
            FieldError::Invalid { param: "edge".into(), value: "é".repeat(500), expected: "soft or hard".into() };
        let message = error.to_string();
        assert!(message.len() < 300, "{message}");
        assert!(message.ends_with("… (expected soft or hard)"), "{message}");
    }

    #[test]
    fn control_characters_are_escaped_in_the_message() {
        let error = FieldError::Invalid { param: "edge".into(), value: "a\nb".into(), expected: "soft or hard".into() };
        assert_eq!(error.to_string(), r#"invalid `edge`: "a\nb" (expected soft or hard)"#);
    }
}
