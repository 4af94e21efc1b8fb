//! Translates globs with alternatives and escapes, `{a,b}` and `\*`, to patterns of the `glob` crate, which has neither.

use std::iter::Peekable;
use std::str::Chars;

/// One pattern for each combination of alternatives. `[^…]` becomes `[!…]`, and stars next to other characters in a path
/// component become one star.
///
/// # Errors
/// When a brace is unmatched or an escape is incomplete.
pub(super) fn expand_alternatives(glob: &str) -> Result<Vec<String>, &'static str> {
    let patterns = sequence(&mut glob.chars().peekable(), false)?;
    Ok(patterns.iter().map(|pattern| pattern.split('/').map(collapse_stars).collect::<Vec<_>>().join("/")).collect())
}

/// Parses up to the end, or the closing brace of a `nested` sequence.
fn sequence(chars: &mut Peekable<Chars<'_>>, nested: bool) -> Result<Vec<String>, &'static str> {
    let (mut finished, mut current) = (Vec::new(), vec![String::new()]);
    loop {
        let next = match chars.next() {
            None if nested => return Err("unclosed brace"),
            Some('}') if !nested => return Err("unopened brace"),
            None | Some('}') => {
                finished.append(&mut current);
                return Ok(finished);
            }
            Some(',') if nested => {
                finished.append(&mut current);
                current.push(String::new());
                continue;
            }
            Some('{') => sequence(chars, true)?,
            Some('[') => vec![class(chars)],
            Some('\\') if cfg!(not(windows)) => vec![literal(chars.next().ok_or("incomplete escape")?)],
            Some(other) => vec![other.to_string()],
        };
        current = current.iter().flat_map(|start| next.iter().map(move |end| format!("{start}{end}"))).collect();
    }
}

/// A pattern that matches `c` only.
fn literal(c: char) -> String {
    if matches!(c, '*' | '?' | '[' | ']') { format!("[{c}]") } else { c.to_string() }
}

/// The rest of a character class, in which braces and commas are ordinary characters.
fn class(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut class = String::from("[");
    if chars.next_if(|c| matches!(c, '!' | '^')).is_some() {
        class.push('!');
    }
    class.extend(chars.next_if_eq(&']'));
    for c in chars {
        class.push(c);
        if c == ']' {
            break;
        }
    }
    class
}

/// `**` is only special as a whole path component.
fn collapse_stars(component: &str) -> String {
    let mut collapsed = String::with_capacity(component.len());
    for c in component.chars() {
        if component == "**" || c != '*' || !collapsed.ends_with('*') {
            collapsed.push(c);
        }
    }
    collapsed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_expanded_and_escapes_become_classes() {
        for (glob, patterns) in [
            ("a{b,c}", &["ab", "ac"][..]),
            ("{a,b{c,}}*", &["a*", "bc*", "b*"]),
            ("[{,}]", &["[{,}]"]),
            ("[^]a]", &["[!]a]"]),
            ("a**b/**", &["a*b/**"]),
            (r"\*\a\{", &["[*]a{"]),
        ] {
            assert_eq!(expand_alternatives(glob).unwrap(), patterns, "{glob}");
        }
        for glob in ["{a", "a}", "\\"] {
            assert!(expand_alternatives(glob).is_err(), "{glob}");
        }
    }
}
