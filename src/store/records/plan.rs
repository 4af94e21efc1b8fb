//! The account plans free, paid and plus as stored: names, order and serialised form.
//!
//! `account/plan.rs` has the rule which request needs which plan.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An account's plan. Each plan includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plan {
    /// A number of free images each month.
    Free,
    /// Billed; all features that need a paid plan.
    Paid,
    /// Paid, and the Plus-tier fields.
    Plus,
}

impl Plan {
    /// All plans, smallest first.
    pub const ALL: [Self; 3] = [Self::Free, Self::Paid, Self::Plus];

    /// The plan's name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Paid => "paid",
            Self::Plus => "plus",
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_ordered_and_written_by_their_names() {
        assert!(Plan::Free < Plan::Paid && Plan::Paid < Plan::Plus);
        for plan in Plan::ALL {
            assert_eq!(serde_json::to_value(plan).expect("a text"), plan.name());
        }
    }
}
