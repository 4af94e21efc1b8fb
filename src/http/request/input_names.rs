//! Names of the parts, members and parameters that hold pictures, and the aliases that clients of other services use.

/// The part that holds the picture.
pub(crate) const FILE: &str = "file";

/// The parts that hold the pictures of a batch.
pub(crate) const FILES: &str = "files";

/// The member that holds a URL, and the one that holds a batch of them.
pub(crate) const URL: &str = "url";
pub(crate) const URLS: &str = "urls";

/// The member that holds a picture as base64.
pub(crate) const IMAGE_BASE64: &str = "image_base64";

/// Alias and canonical name.
const ALIASES: &[(&str, &str)] = &[("image", FILE), ("image_file", FILE), ("image_url", URL)];

/// The canonical name of the part, member or parameter `name`; lists are also written `files[]` and, by PHP, `files[0]`.
pub(crate) fn canonical(name: &str) -> &str {
    let list = name.strip_suffix(']').and_then(|name| name.split_once('['));
    if let Some((list @ (FILES | URLS), index)) = list
        && index.bytes().all(|byte| byte.is_ascii_digit())
    {
        return list;
    }
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, canonical)| canonical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::ENDPOINTS;

    #[test]
    fn aliases_stand_for_pictures_and_hide_no_field() {
        for (alias, ours) in ALIASES {
            assert_eq!(canonical(alias), *ours);
            assert!([FILE, FILES, URL, URLS].contains(ours), "{ours}");
            assert!(ENDPOINTS.iter().all(|endpoint| endpoint.field(alias).is_none()), "{alias}");
        }
        for list in [FILES, URLS] {
            assert_eq!(["[]", "[0]", "[17]"].map(|index| canonical(&format!("{list}{index}")).to_owned()), [list; 3]);
        }
        for name in ["file", "edge", "Image", "", "file[]", "files[a]", "files[", "files]"] {
            assert_eq!(canonical(name), name);
        }
    }
}
