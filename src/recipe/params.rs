//! The macro `fields!`: declares a group of fields as a struct of options, a table ([`Field`]) and a parser.
//!
//! An endpoint's fields are a tuple of its specific group and the shared groups (`shared`).

use super::{FieldError, Fields, Kind, Value};

/// Who defines a field or endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The interface specification.
    Specification,
    /// Backdrop, beyond the specification; marked `x-origin: extension` in the contract.
    Extension,
}

/// One row of an endpoint's table of fields.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name.
    pub name: &'static str,
    /// Accepted values.
    pub kind: Kind,
    /// Value when it is not sent.
    pub default: Option<&'static str>,
    /// Whether it is required, in the request or in its preset.
    pub required: bool,
    /// Whether the specification or Backdrop defines it.
    pub origin: Origin,
    /// Its effect, for `/docs` and the contract.
    pub about: &'static str,
}

/// A set of fields parsed together.
pub(super) trait Group: Default {
    fn table() -> Vec<Field>;

    /// Parses the field `name`; `None` when this group lacks it.
    fn set(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>>;

    /// Parses the field `name` of a preset, where its value may have another meaning.
    fn set_stored(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>> {
        self.set(name, text)
    }

    fn read(fields: &Fields) -> Result<Self, FieldError> {
        let mut group = Self::default();
        for (name, text) in fields.iter() {
            let known = if fields.is_stored(name) { group.set_stored(name, text) } else { group.set(name, text) };
            known.unwrap_or_else(|| Err(Self::unknown(name)))?;
        }
        Ok(group)
    }

    /// The error for a field that this group lacks.
    fn unknown(name: &str) -> FieldError {
        FieldError::unknown(name, Self::table().iter().map(|field| field.name))
    }
}

macro_rules! tuple {
    ($($group:ident $at:tt),+) => {
        impl<$($group: Group),+> Group for ($($group,)+) {
            fn table() -> Vec<Field> {
                [$($group::table()),+].concat()
            }

            fn set(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>> {
                None$(.or_else(|| self.$at.set(name, text)))+
            }

            fn set_stored(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>> {
                None$(.or_else(|| self.$at.set_stored(name, text)))+
            }
        }
    };
}
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);

/// Name of a field: of its member, or the given name.
macro_rules! field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}
pub(super) use field_name;

/// Declares a [`Group`]. Each line reads `/// effect`, `name: Type = default-as-text-or-nothing`. A name that is a
/// keyword of Rust reads `member as "name"`.
macro_rules! fields {
    (
        $(#[$meta:meta])*
        struct $name:ident {
            $( $(#[doc = $about:literal])+ $field:ident $(as $name_of:literal)?: $value:ty = $default:expr; )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub(super) struct $name {
            $( $(#[doc = $about])+ pub(super) $field: Option<$value>, )+
        }

        impl $crate::recipe::params::Group for $name {
            fn table() -> Vec<$crate::recipe::Field> {
                vec![
                    $( $crate::recipe::Field {
                        name: $crate::recipe::params::field_name!($field $($name_of)?),
                        kind: <$value as $crate::recipe::Value>::KIND,
                        default: $default,
                        required: <$value as $crate::recipe::Value>::REQUIRED,
                        // The table of endpoints marks the fields of the specification.
                        origin: $crate::recipe::Origin::Extension,
                        about: concat!($($about),+),
                    }, )+
                ]
            }

            fn set(&mut self, name: &str, text: &str) -> Option<Result<(), $crate::recipe::FieldError>> {
                match name {
                    $( $crate::recipe::params::field_name!($field $($name_of)?) => {
                        Some($crate::recipe::params::parse(name, text).map(|value| self.$field = Some(value)))
                    } )+
                    _ => None,
                }
            }
        }
    };
}
pub(super) use fields;

/// Parses one value; the error names the accepted values.
pub(super) fn parse<V: Value>(name: &str, text: &str) -> Result<V, FieldError> {
    V::parse(text).ok_or_else(|| FieldError::invalid(name, text, V::KIND.expected() + V::REASON))
}
