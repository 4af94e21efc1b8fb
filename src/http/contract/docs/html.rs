//! Text as HTML.

/// Text without markup, for elements and attributes in double quotes.
pub(super) fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// A line of text, with `code` between backticks.
pub(super) fn line(text: &str) -> String {
    let text = plain(text.trim());
    let pieces = text.split('`').enumerate();
    pieces.map(|(at, piece)| if at % 2 == 1 { format!("<code>{piece}</code>") } else { piece.to_owned() }).collect()
}

/// Paragraphs that empty lines separate.
pub(super) fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|paragraph| format!("<p>{}</p>", line(paragraph))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(line(" a < b & `c` "), "a &lt; b &amp; <code>c</code>");
        assert_eq!(plain("\"<a>\""), "&quot;&lt;a>&quot;");
        assert_eq!(paragraphs("a\n\n`b`"), "<p>a</p><p><code>b</code></p>");
    }
}
