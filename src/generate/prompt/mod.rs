//! Parses a prompt into the contents of a scene.
//!
//! The text is split into words. Phrases are matched before words, longest first, the last word also in the singular.
//! The concepts found are combined by English word order: adjectives belong to the noun that follows ("dark green
//! velvet"); "on" and "over" name the ground; "against", "before" and "behind" name the background; a negation removes
//! the next noun with its adjectives, including materials ("no wooden table"). Unknown words are skipped.

mod parsed;
mod parser;
mod tokens;

pub(super) use parsed::{NounPhrase, ParsedPrompt};

pub(super) fn parse(prompt: &str) -> ParsedPrompt {
    let words = tokens::words(prompt);
    let mut parser = parser::Parser::default();
    let mut at = 0;
    while at < words.len() {
        let (token, length) = tokens::next_token(&words[at..]);
        parser.push(token, &words[at..at + length].join(" "));
        at += length;
    }
    parser.finish()
}

/// The prompt in normal form, from which the scene's seed is computed.
pub(super) fn normalised(prompt: &str) -> String {
    tokens::words(prompt).join(" ")
}

#[cfg(test)]
mod tests;
