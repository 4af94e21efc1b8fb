//! Translates globs with alternatives and escapes, `{a,b}` and `\*`, to patterns of the `glob` crate, which has neither.

use std::iter::Peekable;
use std::str::Chars;

/// Maximum number of patterns. Each pair of braces multiplies it.
pub(super) const MAX_PATTERNS: usize = 1_000;

/// Maximum length of all patterns together, and of a glob.
pub(super) const MAX_BYTES: usize = 64 << 10;

/// Maximum number of braces that are open at once: each is a level of recursion.
const MAX_LEVELS: usize = 16;

/// Why a glob is not expanded, or several together.
pub(super) const TOO_LARGE: &str = "more than 1,000 patterns, or 64 KiB of them";

/// One pattern for each combination of alternatives. `[^…]` becomes `[!…]`, and stars next to other characters in a path
/// component become one star.
///
/// # Errors
/// When a brace is unmatched, an escape is incomplete, or the patterns are too many.
pub(super) fn expand_alternatives(glob: &str) -> Result<Vec<String>, &'static str> {
    if glob.len() > MAX_BYTES {
        return Err(TOO_LARGE);
    }
    let patterns = sequence(&mut glob.chars().peekable(), 0)?;
    Ok(patterns.iter().map(|pattern| pattern.split('/').map(collapse_stars).collect::<Vec<_>>().join("/")).collect())
}

/// Parses up to the end, or in a `level` above 0 up to the closing brace.
fn sequence(chars: &mut Peekable<Chars<'_>>, level: usize) -> Result<Vec<String>, &'static str> {
    let nested = level > 0;
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
            Some('{') if level == MAX_LEVELS => return Err("braces in more than 16 levels"),
            Some('{') => sequence(chars, level + 1)?,
            Some('[') => vec![class(chars)],
            Some('\\') if cfg!(not(windows)) => vec![literal(chars.next().ok_or("incomplete escape")?)],
            Some(other) => vec![other.to_string()],
        };
        current = product(current, &next)?;
        if !is_small(finished.iter().chain(&current)) {
            return Err(TOO_LARGE);
        }
    }
}

/// Each of `ends` after each of `starts`, unless these are too many or too long.
fn product(mut starts: Vec<String>, ends: &[String]) -> Result<Vec<String>, &'static str> {
    if let [end] = ends {
        starts.iter_mut().for_each(|start| start.push_str(end));
        return Ok(starts);
    }
    let bytes = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
    let product_bytes = bytes(&starts) * ends.len() + bytes(ends) * starts.len();
    if starts.len() * ends.len() > MAX_PATTERNS || product_bytes > MAX_BYTES {
        return Err(TOO_LARGE);
    }
    Ok(starts.iter().flat_map(|start| ends.iter().map(move |end| format!("{start}{end}"))).collect())
}

/// Whether patterns are within the bounds.
pub(super) fn is_small<'a>(patterns: impl Iterator<Item = &'a String>) -> bool {
    let (count, bytes) = patterns.fold((0, 0), |(count, bytes), pattern| (count + 1, bytes + pattern.len()));
    count <= MAX_PATTERNS && bytes <= MAX_BYTES
}

/// A pattern that matches `c` only.
fn literal(c: char) -> String {
    if matches!(c, '*' | '?' | '[' | ']') { format!("[{c}]") } else { c.to_string() }
}

/// The rest of a character class, in which braces and commas are ordinary characters.
pub(super) fn class(chars: &mut Peekable<Chars<'_>>) -> String {
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

    #[test]
    fn patterns_are_bounded_in_number_length_and_depth() {
        let nested = |levels: usize| "{".repeat(levels) + &"}".repeat(levels);
        assert_eq!(expand_alternatives(&"{a,b}".repeat(9)).map(|patterns| patterns.len()), Ok(512));
        assert!(expand_alternatives(&nested(MAX_LEVELS)).is_ok());
        assert_eq!(expand_alternatives(&"a".repeat(MAX_BYTES)).map(|patterns| patterns.len()), Ok(1));
        for glob in [
            "{a,b}".repeat(40),
            format!("{{{}}}", ",".repeat(MAX_PATTERNS)),
            nested(MAX_LEVELS + 1),
            "{".repeat(60_000),
            "{a,b}".repeat(9) + &"x".repeat(MAX_BYTES / 512),
            "a".repeat(MAX_BYTES + 1),
        ] {
            assert!(expand_alternatives(&glob).is_err(), "{:?}", glob.get(..20));
        }
    }
}
