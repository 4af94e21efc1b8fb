//! Values as other services write them: switches and colours.

use super::input::ParsedBody;
use super::refusal::Refusal;

/// The text under `name` in lower case.
pub(super) fn lower(sent: &ParsedBody, name: &str) -> Option<String> {
    sent.text(name).map(str::to_ascii_lowercase)
}

/// A switch; off where it is not sent.
pub(super) fn flag(sent: &ParsedBody, name: &str, code: &'static str) -> Result<bool, Refusal> {
    match lower(sent, name).as_deref() {
        None | Some("false" | "0" | "no" | "off") => Ok(false),
        Some("true" | "1" | "yes" | "on") => Ok(true),
        Some(_) => Err(Refusal::invalid_request(code, format!("`{name}` is true or false"))),
    }
}

/// A colour, with the `#` that hexadecimal digits may lack.
pub(super) fn with_hash(color: &str) -> String {
    let is_bare = matches!(color.len(), 3 | 4 | 6 | 8) && color.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_bare { format!("#{color}") } else { color.to_owned() }
}
