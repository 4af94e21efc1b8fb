//! Prints progress and errors on standard error, which may be closed or full.

use std::borrow::Cow;

/// `text` as a terminal may show it: names of files and messages of peers may hold control characters, which are written as escapes.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    let is_control = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_control) {
        return text.into();
    }
    let escaped =
        |character: char| if is_control(character) { character.escape_default().to_string() } else { character.into() };
    text.chars().map(escaped).collect::<String>().into()
}

/// Prints [`printable`] text to standard error. A failed write is ignored (`eprintln!` panics): the exit code reports the outcome of
/// the work.
macro_rules! print_stderr {
    ($($line:tt)+) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "{}", $crate::cli::stderr::printable(&format!($($line)+)));
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a.jpg\n  é\t→"), "a.jpg\n  é\t→");
        assert_eq!(printable("\u{1b}[31mred\r\u{7}\u{9b}"), "\\u{1b}[31mred\\r\\u{7}\\u{9b}");
    }
}
