//! Removes secrets from the URLs in a text for the log.

use std::borrow::Cow;

/// `text` without the users, passwords and queries of its URLs.
#[must_use]
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let Some(scheme) = text.find("://") else { return text.into() };
    let (before, rest) = text.split_at(scheme + 3);
    let end =
        rest.find(|character: char| character.is_whitespace() || "\"'`<>".contains(character)).unwrap_or(rest.len());
    let (address, after) = rest.split_at(end);
    let (path, secret) = address.split_once(['?', '#']).map_or((address, ""), |(path, _)| (path, "?…"));
    // The last `@` before the path ends the user.
    let host = path[..path.find('/').unwrap_or(path.len())].rfind('@').map_or(0, |at| at + 1);
    let user = if host > 0 { "…@" } else { "" };
    format!("{before}{user}{}{secret}{}", &path[host..], without_secrets(after)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_query_are_taken_out_of_every_address() {
        for (text, right) in [
            ("no address", "no address"),
            ("https://example.org/a.jpg", "https://example.org/a.jpg"),
            ("\"https://user:p@ss@example.org/a.jpg?sig=1\" is none", "\"https://…@example.org/a.jpg?…\" is none"),
            ("`https://u:p@a`, then http://b/@c?d#e", "`https://…@a`, then http://b/@c?…"),
            ("https://u:p", "https://u:p"),
            ("://@", "://…@"),
        ] {
            assert_eq!(without_secrets(text), right);
        }
    }
}
