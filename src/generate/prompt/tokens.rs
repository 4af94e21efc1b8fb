//! Tokenizer: splits a prompt into words and looks up phrases, prepositions and negations.

use crate::generate::vocabulary::{Concept, longest_phrase, lookup};

/// Maximum number of words that are read, far more than the 500 characters of a prompt contain.
const MAX_WORDS: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    Known(&'static Concept),
    /// "on", "over".
    On,
    /// "against", "before", "behind".
    Against,
    /// "in", "at".
    In,
    Not,
    /// "or", "nor": continues a negation.
    Or,
    And,
    Break,
    Unknown,
}

/// Splits a prompt into lower-case words without accents; punctuation that separates becomes `,`.
pub(super) fn words(prompt: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let end = |word: &mut String, words: &mut Vec<String>| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    for c in prompt.chars().flat_map(char::to_lowercase) {
        if words.len() >= MAX_WORDS {
            break;
        }
        match unaccented(c) {
            // "artist's" is one word; a combining accent belongs to its letter.
            '\'' | '’' | '\u{300}'..='\u{36F}' => {}
            c if c.is_alphanumeric() => word.push(c),
            ',' | '.' | ';' | ':' | '!' | '?' | '/' | '|' | '(' | ')' | '\n' | '、' | '。' | '،' => {
                end(&mut word, &mut words);
                if words.last().is_some_and(|last| last != ",") {
                    words.push(",".to_owned());
                }
            }
            _ => end(&mut word, &mut words),
        }
    }
    end(&mut word, &mut words);
    words
}

fn unaccented(c: char) -> char {
    match c {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'ç' => 'c',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ñ' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        other => other,
    }
}

/// The first token of `words`, and its length in words. The longest phrase of the vocabulary is preferred.
pub(super) fn next_token(words: &[String]) -> (Token, usize) {
    for length in (1..=longest_phrase().min(words.len())).rev() {
        if let Some(entry) = find_concept(&words[..length]) {
            return (Token::Known(entry), length);
        }
    }
    let two = words.get(1).map_or("", String::as_str);
    match (words[0].as_str(), two) {
        ("in" | "standing" | "set", "front") | ("free", "of" | "from") | ("next", "to") => {
            let of = usize::from(words.get(2).is_some_and(|word| word == "of"));
            if words[0] == "free" { (Token::Not, 2) } else { (Token::Against, 2 + of) }
        }
        ("on" | "onto" | "over" | "atop" | "upon" | "top", _) => (Token::On, 1),
        ("against" | "before" | "behind" | "beside" | "near" | "overlooking", _) => (Token::Against, 1),
        ("in" | "at" | "inside" | "within" | "by", _) => (Token::In, 1),
        ("no" | "not" | "without" | "never" | "avoid" | "exclude" | "excluding" | "minus" | "dont", _) => {
            (Token::Not, 1)
        }
        ("or" | "nor", _) => (Token::Or, 1),
        ("and" | "to" | "into", _) => (Token::And, 1),
        ("," | "with" | "but" | "under" | "featuring", _) => (Token::Break, 1),
        _ => (Token::Unknown, 1),
    }
}

/// The concept of a phrase, unchanged or with its last word in the singular.
pub(super) fn find_concept(words: &[String]) -> Option<&'static Concept> {
    let (last, first) = words.split_last()?;
    let phrase = |last: &str| {
        let mut phrase = first.join(" ");
        if !first.is_empty() {
            phrase.push(' ');
        }
        phrase + last
    };
    if let Some(entry) = lookup(&phrase(last)) {
        return Some(entry);
    }
    let singulars = [("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", "")];
    singulars.into_iter().find_map(|(plural, singular)| {
        let stem = last.strip_suffix(plural).filter(|stem| stem.len() >= 2)?;
        lookup(&phrase(&format!("{stem}{singular}")))
    })
}
