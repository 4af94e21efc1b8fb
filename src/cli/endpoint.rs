//! `--endpoint NAME`.

use crate::recipe::{ENDPOINTS, Endpoint};
use clap::builder::{PossibleValue, PossibleValuesParser};

/// The names of all endpoints that answer pictures.
pub(super) fn endpoint_names() -> PossibleValuesParser {
    let value = |endpoint: &'static Endpoint| PossibleValue::new(endpoint.name).help(endpoint.about);
    ENDPOINTS.iter().map(value).collect::<Vec<_>>().into()
}

/// The endpoint of a name that the argument parser let through.
pub(super) fn endpoint_named(name: &str) -> &'static Endpoint {
    ENDPOINTS.iter().find(|endpoint| endpoint.name == name).expect("the argument parser knows them")
}
