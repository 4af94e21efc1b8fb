//! Results on standard output.

use std::io::{self, Write};

/// Standard output takes no more. Inside an [`io::Error`], so that it is told from a connection that broke.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result")]
pub(super) struct Unwritten(#[source] io::Error);

/// Prints one line.
///
/// # Errors
/// [`Unwritten`] of the same kind.
pub(super) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(unwritten)
}

pub(super) fn unwritten(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unwritten(error))
}

/// Prints a value as indented JSON.
pub(super) fn json(value: &impl serde::Serialize) -> io::Result<()> {
    line(&serde_json::to_string_pretty(value)?)
}

/// Rows under a heading, each column as wide as its widest cell; numbers to the right, words to the left.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let heading = heading.map(String::from);
    let width = |column: usize| {
        let cells = rows.iter().chain([&heading]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let is_number =
        |column: usize| rows.iter().all(|row| row[column].starts_with(|c: char| c.is_ascii_digit() || c == '–'));
    let layout: [(usize, bool); N] =
        std::array::from_fn(|column| (width(column), !rows.is_empty() && is_number(column)));
    let line = |row: &[String; N]| {
        let cell = |(cell, (width, right)): (&String, (usize, bool))| {
            if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        };
        row.iter().zip(layout).map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    [&heading].into_iter().chain(rows).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_with_numbers_to_the_right() {
        let rows = [["a".into(), "7".into(), "x".into()], ["größer".into(), "–".into(), String::new()]];
        assert_eq!(table(["set", "n", "note"], &rows), "set     n  note\na       7  x\ngrößer  –");
        let rows = [["a".into(), "10.5".into()], ["b".into(), "9".into()]];
        assert_eq!(table(["set", "ms"], &rows), "set    ms\na    10.5\nb       9");
    }
}
