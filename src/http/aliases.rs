//! Names that clients of other services give to pictures, and the names that they have here.

/// The other name, and ours.
const ALIASES: &[(&str, &str)] =
    &[("image", "file"), ("image_file", "file"), ("files[]", "files"), ("urls[]", "urls"), ("image_url", "url")];

/// The name that a part, a member or a parameter called `name` has here.
pub(super) fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, ours)| ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::form::{FILE, FILES};
    use crate::http::submission::{URL, URLS};
    use crate::recipe::ENDPOINTS;

    #[test]
    fn an_alias_stands_for_a_picture_and_hides_no_field() {
        for (alias, ours) in ALIASES {
            assert_eq!(canonical(alias), *ours);
            assert!([FILE, FILES, URL, URLS].contains(ours), "{ours}");
            assert!(ENDPOINTS.iter().all(|endpoint| endpoint.field(alias).is_none()), "{alias}");
        }
        for name in ["file", "edge", "Image", "", "file[]"] {
            assert_eq!(canonical(name), name);
        }
    }
}
