//! Vocabulary of the built-in generator: words and phrases, each with its meaning for a scene.
//!
//! Words are in the singular, in lower case and without accents: the normal form that [`prompt`](super::prompt) produces.

mod entries;
mod meaning;

pub(super) use entries::CONCEPTS;
pub(super) use meaning::{Concept, LightDirection, LightStyle, Meaning, Mood, PropKind, ShadowStyle, Slot, Tone};

use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) fn longest_phrase() -> usize {
    static LONGEST: LazyLock<usize> = LazyLock::new(|| {
        CONCEPTS.iter().flat_map(|entry| entry.words).map(|words| words.split(' ').count()).max().unwrap_or(1)
    });
    *LONGEST
}

/// Looks up the concept of a word or phrase.
pub(super) fn lookup(phrase: &str) -> Option<&'static Concept> {
    static INDEX: LazyLock<HashMap<&'static str, &'static Concept>> = LazyLock::new(|| {
        CONCEPTS.iter().flat_map(|entry| entry.words.iter().map(move |word| (*word, entry))).collect()
    });
    INDEX.get(phrase).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_more_than_eighty_concepts_and_no_word_is_listed_twice() {
        assert!(CONCEPTS.len() >= 80, "{}", CONCEPTS.len());
        let mut words: Vec<&str> = CONCEPTS.iter().flat_map(|entry| entry.words).copied().collect();
        let all = words.len();
        words.sort_unstable();
        let twice: Vec<_> = words.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert_eq!(twice, [""; 0], "of {all} words");
        for (at, one) in CONCEPTS.iter().enumerate() {
            assert!(
                CONCEPTS[at + 1..].iter().all(|other| other.meaning != one.meaning),
                "{:?} has two entries",
                one.meaning
            );
        }
    }
}
