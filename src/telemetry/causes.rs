//! Formats an error with its chain of sources on one line.

use std::error::Error;

/// `error` with its sources. A source whose text an error already contains is not repeated.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    std::iter::successors(error.source(), |&cause| cause.source()).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Chained {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn chain(texts: &[&'static str]) -> Option<Box<Chained>> {
        let (text, rest) = texts.split_first()?;
        Some(Box::new(Chained { text, source: chain(rest) }))
    }

    #[test]
    fn every_cause_appears_once() {
        let line = |texts: &[&'static str]| with_causes(&*chain(texts).unwrap());
        assert_eq!(line(&["a"]), "a");
        assert_eq!(line(&["no list", "no answer", "timed out"]), "no list: no answer: timed out");
        assert_eq!(line(&["no list: no answer", "no answer", "timed out"]), "no list: no answer: timed out");
    }
}
