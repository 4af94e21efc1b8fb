//! One of several machines that share a run.

use super::Hash;
use std::str::FromStr;

/// The part of a run that one machine does. Parts are told apart by a hash of the result's key, so that each object is in
/// exactly one of them and two objects that want the same key are in the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    index: u32,
    /// At least 1.
    count: u32,
}

/// Why a part cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Not `K/N`.
    #[error("`{0}` is no shard; expected K/N with K from 0 to N-1, such as 0/8")]
    Malformed(String),
    /// A service says which machine this is, and nobody says how many there are.
    #[error("{index} is set, but not how many machines share the run; set {count}, or say --shard K/N")]
    NoCount {
        /// The variable that is there.
        index: &'static str,
        /// The variable that is not.
        count: &'static str,
    },
    /// The variables make no shard.
    #[error("{index}={k} and {count}={n} make no shard; the index counts from 0 and is below the count")]
    Variables {
        /// Name of the index.
        index: &'static str,
        /// Its value.
        k: String,
        /// Name of the count.
        count: &'static str,
        /// Its value.
        n: String,
    },
}

/// What services call a machine's index, from 0, and how many there are.
///
/// Kubernetes tells no count: the manifest has to repeat its `completions` under the name given here.
const VARIABLES: [(&str, &str); 4] = [
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"),
    ("AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"),
    ("CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT"),
    ("BATCH_TASK_INDEX", "BATCH_TASK_COUNT"),
];

impl Shard {
    /// What the service that runs this machine says; nothing where none does.
    ///
    /// # Errors
    /// When an index has no count, or they do not fit.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ShardError> {
        for (index, count) in VARIABLES {
            let Some(k) = variable(index) else { continue };
            let n = variable(count).ok_or(ShardError::NoCount { index, count })?;
            let shard = Self::of(&k, &n).ok_or(ShardError::Variables { index, k, count, n })?;
            return Ok(Some(shard));
        }
        Ok(None)
    }

    fn of(index: &str, count: &str) -> Option<Self> {
        let (index, count) = (index.trim().parse().ok()?, count.trim().parse().ok()?);
        (index < count).then_some(Self { index, count })
    }

    /// Whether a result's key is in this part.
    pub(super) fn has(self, output: Hash) -> bool {
        output % u128::from(self.count) == u128::from(self.index)
    }

    /// `3-of-8`, for the names of reports.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}-of-{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let parts = text.split_once('/').and_then(|(index, count)| Self::of(index, count));
        parts.ok_or_else(|| ShardError::Malformed(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::hash;

    #[test]
    fn shards_share_out_every_key_once_and_evenly() {
        let shards: Vec<Shard> = (0..7).map(|k| format!("{k}/7").parse().unwrap()).collect();
        let mut counts = [0_u32; 7];
        for key in 0..7000 {
            let output = hash(&[&format!("file:///out/{key}.png")]);
            let owners: Vec<_> = (0..7).filter(|&k| shards[k].has(output)).collect();
            assert_eq!(owners.len(), 1);
            counts[owners[0]] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_hash_of_a_key_does_not_change_with_versions() {
        // Machines of one run may be of different builds, and a report may be continued by a later one.
        assert_eq!(hash(&["s3://shop/a.png"]) % 1000, 614);
    }

    #[test]
    fn services_say_which_machine_this_is() {
        let shard = |variables: &[(&str, &str)]| {
            Shard::from_environment(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(shard(&[]), Ok(None));
        assert_eq!(shard(&[("JOB_COMPLETION_INDEX", "2"), ("JOB_COMPLETIONS", "5")]), Ok(Some("2/5".parse().unwrap())));
        for (index, count) in VARIABLES {
            assert_eq!(shard(&[(index, "0"), (count, "1")]), Ok(Some("0/1".parse().unwrap())));
            let error = shard(&[(index, "0")]).unwrap_err().to_string();
            assert!(error.contains(index) && error.contains(&format!("set {count}, or say --shard")), "{error}");
            assert!(matches!(shard(&[(index, "5"), (count, "5")]), Err(ShardError::Variables { .. })));
        }
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in ["", "1", "8/8", "-1/8", "1/0", "a/b", "0/", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        assert_eq!("3/8".parse::<Shard>().unwrap().name(), "3-of-8");
    }
}
