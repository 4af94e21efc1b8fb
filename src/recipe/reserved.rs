//! Fields of the interface that this version cannot honour yet.
//!
//! They are never ignored: a caller who asks for a watermark must not get a picture without one. A value that says
//! what happens anyway (`detect=standard`) is taken.

use super::{FieldError, Flag, Value};

/// A field that is refused, unless it asks for what happens anyway.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// The form field.
    pub name: &'static str,
    /// The value that changes nothing; none where the field has no such value.
    pub accepts: Option<&'static str>,
}

/// Every such field.
pub const RESERVED: &[Reserved] = &[
    Reserved { name: "detect", accepts: Some("standard") },
    Reserved { name: "decontaminate", accepts: Some("false") },
    Reserved { name: "engine", accepts: None },
    Reserved { name: "despill", accepts: Some("false") },
    Reserved { name: "watermark", accepts: None },
    Reserved { name: "watermark_opacity", accepts: Some("1.0") },
    Reserved { name: "preset", accepts: None },
];

/// Judges a field that the endpoint's own table does not have.
pub(super) fn check(name: &str, text: &str) -> Result<(), FieldError> {
    let Some(reserved) = RESERVED.iter().find(|reserved| reserved.name == name) else {
        return Err(FieldError::Unknown { param: name.to_owned() });
    };
    if reserved.accepts.is_some_and(|accepted| same(accepted, text)) {
        return Ok(());
    }
    Err(FieldError::Unavailable { param: name.to_owned(), value: text.to_owned(), accepts: reserved.accepts })
}

/// Whether two texts say the same: as words, as booleans (`false` and `0`) or as numbers (`1.0` and `1`).
fn same(accepted: &str, text: &str) -> bool {
    let flag = |text| Flag::parse(text).map(|Flag(yes)| yes);
    match (flag(accepted), accepted.parse::<f64>()) {
        (Some(expected), _) => flag(text) == Some(expected),
        (None, Ok(expected)) => text.parse() == Ok(expected),
        (None, Err(_)) => accepted == text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_changes_nothing_is_taken() {
        for (name, text) in [
            ("detect", "standard"),
            ("decontaminate", "false"),
            ("decontaminate", "0"),
            ("despill", "false"),
            ("despill", "0"),
            ("watermark_opacity", "1"),
            ("watermark_opacity", "1.0"),
        ] {
            assert_eq!(check(name, text), Ok(()), "{name}={text}");
        }
    }

    #[test]
    fn a_value_that_would_change_something_is_refused_by_name() {
        for (name, text) in [
            ("detect", "high_recall"),
            ("detect", ""),
            ("decontaminate", "true"),
            ("engine", "product-v1"),
            ("engine", ""),
            ("despill", "100"),
            ("watermark", "https://example.org/w.png"),
            ("watermark_opacity", "0.5"),
            ("preset", "p1"),
        ] {
            let error = check(name, text).expect_err(name);
            assert_eq!(error.param(), name);
            assert!(error.to_string().contains("not available in this version"), "{error}");
        }
    }

    #[test]
    fn a_name_that_nobody_knows_is_unknown() {
        assert_eq!(check("egde", "soft"), Err(FieldError::Unknown { param: "egde".into() }));
    }
}
