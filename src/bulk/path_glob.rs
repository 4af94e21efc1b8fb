//! Matches whole keys with globs, one path component after the other.
//!
//! `**` matches any number of components: after a mismatch the latest `**` takes one more component, and no earlier one does (the
//! two-pointer algorithm of wildcard matching). The `glob` crate matches single components: over a whole key it would try all
//! combinations of the stars, in exponential time.

use super::glob_alternatives::class;
use glob::{Pattern, PatternError};

/// A glob of whole keys, of which the alternatives are expanded.
#[derive(Clone, Debug)]
pub(super) struct PathGlob(Vec<Component>);

#[derive(Clone, Debug)]
enum Component {
    /// `**`: any number of components.
    AnyDepth,
    /// One component.
    Name(Pattern),
}

impl PathGlob {
    /// Parses a pattern without alternatives.
    ///
    /// # Errors
    /// When a component is malformed.
    pub(super) fn new(glob: &str) -> Result<Self, PatternError> {
        let mut components = split(glob);
        // `a/**/` is `a/**`, which matches what is below `a`: at least one component.
        if let [.., before, last] = components.as_slice()
            && before == "**"
            && last.is_empty()
        {
            components.pop();
        }
        if components.last().is_some_and(|last| last == "**") {
            components.push("*".to_owned());
        }
        let parse = |component: &String| match component.as_str() {
            "**" => Ok(Component::AnyDepth),
            name => Pattern::new(name).map(Component::Name),
        };
        components.iter().map(parse).collect::<Result<Vec<_>, _>>().map(Self)
    }

    /// Whether the components of a key match.
    pub(super) fn matches(&self, key: &[&str]) -> bool {
        let (mut at, mut key_at) = (0, 0);
        // What follows the latest `**`, and where in the key it was tried last.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.0.get(at) {
                Some(Component::AnyDepth) => {
                    at += 1;
                    retry = Some((at, key_at));
                    continue;
                }
                Some(Component::Name(name)) if key.get(key_at).is_some_and(|component| name.matches(component)) => {
                    (at, key_at) = (at + 1, key_at + 1);
                    continue;
                }
                None if key_at == key.len() => return true,
                None | Some(Component::Name(_)) => {}
            }
            match retry {
                Some((after, tried)) if tried < key.len() => {
                    (at, key_at) = (after, tried + 1);
                    retry = Some((at, key_at));
                }
                _ => return false,
            }
        }
    }
}

/// The components of a glob. A slash in a character class, which matches none, does not end a component.
fn split(glob: &str) -> Vec<String> {
    let (mut finished, mut current) = (Vec::new(), String::new());
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' => finished.push(std::mem::take(&mut current)),
            '[' => current.push_str(&class(&mut chars)),
            c => current.push(c),
        }
    }
    finished.push(current);
    finished
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(glob: &str, key: &str) -> bool {
        PathGlob::new(glob).unwrap().matches(&key.split('/').collect::<Vec<_>>())
    }

    #[test]
    fn stars_end_at_a_slash_and_double_stars_do_not() {
        for (glob, matching, others) in [
            ("a/*/b", &["a/x/b", "a//b"][..], &["a/b", "a/x/y/b", "a/x/b/"][..]),
            ("a/**", &["a/b", "a/b/c", "a/"], &["a", "b/a/c"]),
            ("a/**/", &["a/b", "a/b/c", "a/"], &["a"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b", "a/b/b"], &["ab", "a/xb", "a/b/c"]),
            ("**/a", &["a", "x/a", "x/y/a"], &["xa", "a/x"]),
            ("**/*", &["", "a", "a/b/"], &[]),
            ("**", &["", "a", "a/b/"], &[]),
            ("**/**/a/**/**", &["a/b", "x/a/", "a/a/a"], &["a", "x/a"]),
            ("**/a/*/**/b", &["a/x/b", "a/a/x/y/b", "x/a/b/b"], &["a/b", "x/a/b"]),
            ("a//b", &["a//b"], &["a/b", "a/x/b"]),
            ("/a", &["/a"], &["a"]),
            ("?/[ä-ü].[!/]", &["ß/ö.x"], &["ß/o.x", "ß/ö./", "ßß/ö.x"]),
            ("a[/]b/c", &[], &["a/b/c", "ab/c"]),
            ("A/[b/]", &["A/b"], &["a/b", "A/B", "A//"]),
        ] {
            for key in matching {
                assert!(matches(glob, key), "{glob} does not match {key}");
            }
            for key in others {
                assert!(!matches(glob, key), "{glob} matches {key}");
            }
        }
        assert!(PathGlob::new("a/[/b").is_err());
    }

    #[test]
    fn globs_of_many_stars_take_no_exponential_time() {
        let stars = "*?".repeat(20);
        let (long, deep) = (format!("{}/x", "a".repeat(60)), "a/".repeat(60));
        for glob in [
            format!("{stars}*Z/x"),
            format!("**/{stars}*Z/x"),
            format!("**/{stars}Z/**/{stars}/**/x"),
            format!("{}Z", "**/*a*/".repeat(20)),
            format!("{}Z/*", "**/*/".repeat(20)),
        ] {
            for key in [&long, &deep, &format!("{long}/{deep}")] {
                assert!(!matches(&glob, key), "{glob} matches {key}");
            }
        }
    }
}
