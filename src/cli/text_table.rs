//! Formats rows as an aligned text table.

/// Each column is as wide as its widest cell. Columns of numbers are aligned right, others left.
pub(super) fn format_table<const N: usize>(heading: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let (heading, rows) = (heading.map(String::from), rows.into_iter().collect::<Vec<_>>());
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
    [&heading].into_iter().chain(&rows).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_with_numbers_to_the_right() {
        let rows = [["a".into(), "7".into(), "x".into()], ["größer".into(), "–".into(), String::new()]];
        assert_eq!(format_table(["set", "n", "note"], rows), "set     n  note\na       7  x\ngrößer  –");
        let rows = [["a".into(), "10.5".into()], ["b".into(), "9".into()]];
        assert_eq!(format_table(["set", "ms"], rows), "set    ms\na    10.5\nb       9");
    }
}
