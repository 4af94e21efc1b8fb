//! One endpoint's parameters: a struct of options, and the table of its fields, from one declaration.

use super::{FieldError, Fields, Kind, Recipe};

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
    /// The form field.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What is used when it is not sent.
    pub default: Option<&'static str>,
    /// Where it comes from.
    pub origin: Origin,
    /// What it does.
    pub about: &'static str,
}

/// The parameters of one endpoint.
pub trait Params: Sized {
    /// Every field but the files.
    const FIELDS: &'static [Field];

    /// Reads every field, and refuses what does not belong here.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that cannot be used, in the order they were sent.
    fn from_fields(fields: &Fields) -> Result<Self, FieldError>;

    /// Fills the defaults.
    fn resolve(self) -> Recipe;
}

/// Declares a struct of `Option`s with its [`Field`] table and its parser. Each line reads
/// `/// what it does`, `Origin name: Type = default-as-text-or-nothing`.
macro_rules! params {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[doc = $about:literal])+ $origin:ident $field:ident: $value:ty = $default:expr; )+
        }
        resolve($self:ident) $resolve:block
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $( $(#[doc = $about])+ pub $field: Option<$value>, )+
        }

        impl $crate::recipe::Params for $name {
            const FIELDS: &'static [$crate::recipe::Field] = &[
                $( $crate::recipe::Field {
                    name: stringify!($field),
                    kind: <$value as $crate::recipe::Value>::KIND,
                    default: $default,
                    origin: $crate::recipe::Origin::$origin,
                    about: concat!($($about),+),
                }, )+
            ];

            fn from_fields(fields: &$crate::recipe::Fields) -> Result<Self, $crate::recipe::FieldError> {
                let mut params = Self::default();
                for (name, text) in fields.iter() {
                    match name {
                        $( stringify!($field) => params.$field = Some($crate::recipe::params::parse(name, text)?), )+
                        _ => $crate::recipe::reserved::check(name, text)?,
                    }
                }
                Ok(params)
            }

            fn resolve($self) -> $crate::recipe::Recipe $resolve
        }
    };
}
pub(super) use params;

/// Parses one value, with a message that says what was expected.
pub(super) fn parse<V: super::Value>(name: &str, text: &str) -> Result<V, FieldError> {
    V::parse(text).ok_or_else(|| FieldError::Invalid {
        param: name.to_owned(),
        value: text.to_owned(),
        expected: V::KIND.expected() + V::REASON,
    })
}
