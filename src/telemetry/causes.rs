//! An error and what it was caused by, on one line.

use std::error::Error;

/// `error` with its causes, each once: some errors already say what caused them.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    std::iter::successors(error.source(), |&cause| cause.source()).fold(error.to_string(), |text, cause| {
        let told = cause.to_string();
        if text.contains(&told) { text } else { format!("{text}: {told}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn told(texts: &[&'static str]) -> Option<Box<Told>> {
        let (text, rest) = texts.split_first()?;
        Some(Box::new(Told { text, source: told(rest) }))
    }

    #[test]
    fn every_cause_is_told_once() {
        let line = |texts: &[&'static str]| with_causes(&*told(texts).unwrap());
        assert_eq!(line(&["a"]), "a");
        assert_eq!(line(&["no list", "no answer", "timed out"]), "no list: no answer: timed out");
        assert_eq!(line(&["no list: no answer", "no answer", "timed out"]), "no list: no answer: timed out");
    }
}
