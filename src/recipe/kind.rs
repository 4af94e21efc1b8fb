//! [`Kind`]: the values that a field accepts, as data for error messages, `/docs` and the contract's JSON Schema.

use serde_json::Value as Json;

/// The values that a field accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range, both ends included.
    Integer {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
    },
    /// One of these whole numbers.
    IntegerChoice(&'static [u32]),
    /// A number in this range, both ends included.
    Number {
        /// Minimum.
        min: f64,
        /// Maximum.
        max: f64,
    },
    /// A boolean: `true`, `false`, `1` or `0`.
    Boolean,
    /// Text of a certain form.
    Text(TextSpec),
    /// Texts of a certain form: repeated in a form and a query, an array in JSON, else joined by semicolons.
    List(TextSpec),
    /// Any of these.
    AnyOf(&'static [Self]),
}

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSpec {
    /// The form in words, for error messages.
    pub expected: &'static str,
    /// The form as a regular expression (ECMA 262, as in OpenAPI), if one describes it.
    pub pattern: Option<&'static str>,
    /// Maximum number of characters.
    pub max_length: u32,
    /// Examples of the form.
    pub examples: &'static [&'static str],
}

impl Kind {
    /// Separator of the texts in a list.
    pub const SEPARATOR: char = ';';

    /// The accepted values in words.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Choice(words) => listed(words.iter().map(|word| (*word).to_owned())),
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::IntegerChoice(numbers) => listed(numbers.iter().map(u32::to_string)),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Boolean => "true or false".to_owned(),
            Self::Text(form) | Self::List(form) => form.expected.to_owned(),
            Self::AnyOf(kinds) => listed(kinds.iter().map(Self::expected)),
        }
    }

    /// A JSON value as the text of a form field; every field also accepts a string. `None` when the type does not fit.
    #[must_use]
    pub fn text_of(&self, value: &Json) -> Option<String> {
        match (self, value) {
            (_, Json::String(text)) => Some(text.clone()),
            // JSON Schema: a number without fraction is an integer in any notation.
            (Self::Integer { .. } | Self::IntegerChoice(_), Json::Number(number)) => match number.as_f64() {
                Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => Some(format!("{value:.0}")),
                Some(_) | None => Some(number.to_string()),
            },
            (Self::Number { .. }, Json::Number(number)) => Some(number.to_string()),
            (Self::Boolean, Json::Bool(yes)) => Some(yes.to_string()),
            (Self::Boolean, Json::Number(number)) => Some(number.to_string()),
            (Self::List(_), Json::Array(items)) => {
                let texts: Option<Vec<_>> = items.iter().map(Json::as_str).collect();
                texts.map(|texts| texts.join(&Self::SEPARATOR.to_string()))
            }
            (Self::AnyOf(kinds), value) => kinds.iter().find_map(|kind| kind.text_of(value)),
            (
                Self::Choice(_)
                | Self::Text(_)
                | Self::List(_)
                | Self::Integer { .. }
                | Self::IntegerChoice(_)
                | Self::Number { .. }
                | Self::Boolean,
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_),
            ) => None,
        }
    }
}

/// `a, b or c`.
fn listed(words: impl Iterator<Item = String>) -> String {
    let words: Vec<_> = words.collect();
    match words.split_last() {
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_expected_reads_as_a_sentence() {
        assert_eq!(Kind::Choice(&["a"]).expected(), "a");
        assert_eq!(Kind::Choice(&["a", "b", "c"]).expected(), "a, b or c");
        assert_eq!(Kind::Integer { min: 1, max: 100 }.expected(), "an integer from 1 to 100");
        let either = Kind::AnyOf(&[Kind::Boolean, Kind::Number { min: 0.0, max: 100.0 }]);
        assert_eq!(either.expected(), "true or false or a number from 0 to 100");
    }

    #[test]
    fn a_json_value_counts_in_the_type_of_its_field_and_as_a_string() {
        let integer = Kind::Integer { min: 0, max: 9 };
        assert_eq!(integer.text_of(&json!(5)).as_deref(), Some("5"));
        assert_eq!(integer.text_of(&json!(5.0)).as_deref(), Some("5"));
        assert_eq!(integer.text_of(&json!(5.5)).as_deref(), Some("5.5"));
        assert_eq!(integer.text_of(&json!("5")).as_deref(), Some("5"));
        let among = Kind::IntegerChoice(&[1, 2, 4]);
        assert_eq!((among.expected().as_str(), among.text_of(&json!(4)).as_deref()), ("1, 2 or 4", Some("4")));
        assert_eq!(among.text_of(&json!({ "4": 4 })), None);
        assert_eq!(Kind::Boolean.text_of(&json!(true)).as_deref(), Some("true"));
        assert_eq!(Kind::Boolean.text_of(&json!(1)).as_deref(), Some("1"));
        assert_eq!(Kind::Boolean.text_of(&json!([true])), None);
        assert_eq!(Kind::Choice(&["a"]).text_of(&json!("b")).as_deref(), Some("b"));
        assert_eq!(Kind::Choice(&["a"]).text_of(&json!(null)), None);
        let list = Kind::List(TextSpec { expected: "", pattern: None, max_length: 9, examples: &[] });
        assert_eq!(list.text_of(&json!(["1,2", "3,4"])).as_deref(), Some("1,2;3,4"));
        assert_eq!(list.text_of(&json!("1,2")).as_deref(), Some("1,2"));
        assert_eq!([list.text_of(&json!([1, 2])), list.text_of(&json!(5))], [None, None]);
        let either = Kind::AnyOf(&[Kind::Boolean, Kind::Number { min: 0.0, max: 100.0 }]);
        assert_eq!(either.text_of(&json!(false)).as_deref(), Some("false"));
        assert_eq!(either.text_of(&json!(2.5)).as_deref(), Some("2.5"));
    }
}
