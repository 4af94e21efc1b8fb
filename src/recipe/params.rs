//! The macro that declares a group of fields: a struct of options, the table of its fields ([`Field`]) and its parser.
//!
//! The fields of an endpoint are a tuple: its own group and the shared ones (`shared`).

use super::{FieldError, Fields, Kind, Value};

/// Where a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The interface specification.
    Specification,
    /// Backdrop's own addition, marked `x-origin: extension` in the contract.
    Extension,
}

/// One row of an endpoint's table of fields.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: Kind,
    /// The value when it is not sent.
    pub default: Option<&'static str>,
    /// Whether it is required, in the request or in its preset.
    pub required: bool,
    /// Where it comes from.
    pub origin: Origin,
    /// What it does, for `/docs` and the contract.
    pub about: &'static str,
}

/// Fields that are read together.
pub(super) trait Group: Default {
    /// The table.
    fn table() -> Vec<Field>;

    /// Parses the field `name`; nothing when it is not in this group.
    fn set(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>>;

    /// Parses the field `name` of a preset, which may have another meaning there.
    fn set_stored(&mut self, name: &str, text: &str) -> Option<Result<(), FieldError>> {
        self.set(name, text)
    }

    /// Parses every field.
    fn read(fields: &Fields) -> Result<Self, FieldError> {
        let mut group = Self::default();
        for (name, text) in fields.iter() {
            let known = if fields.is_stored(name) { group.set_stored(name, text) } else { group.set(name, text) };
            known.unwrap_or_else(|| Err(Self::unknown(name)))?;
        }
        Ok(group)
    }

    /// The refusal of a field that is not in this group.
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

/// The name of a field: that of its member, or another one.
macro_rules! field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}
pub(super) use field_name;

/// Declares a [`Group`]. Each line reads `/// what it does`, `name: Type = default-as-text-or-nothing`; a name that is a
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
                        // The table of endpoints marks those of the specification.
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

/// Parses one value, with a message that says what was expected.
pub(super) fn parse<V: Value>(name: &str, text: &str) -> Result<V, FieldError> {
    V::parse(text).ok_or_else(|| FieldError::invalid(name, text, V::KIND.expected() + V::REASON))
}
