//! Partition of a run over several machines, `K/N`, from a flag or from the variables of batch services.

use super::hash::Hash;
use std::str::FromStr;

/// The part of a run that one machine processes. Objects are assigned by the hash of their result's key, so that each is
/// in exactly one shard and two objects with the same result key are in the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    index: u32,
    /// At least 1.
    count: u32,
}

/// Why a shard is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Not `K/N`.
    #[error("`{0}` is not a shard; expected K/N with K from 0 to N-1, such as 0/8")]
    Malformed(String),
    /// The environment has the index of this machine but not the number of machines.
    #[error("{index} is set, but not how many machines share the run; set {count}, or pass --shard K/N")]
    NoCount {
        /// The variable that is set.
        index: &'static str,
        /// The variable that is missing.
        count: &'static str,
    },
    /// The variables do not form a shard.
    #[error("{index}={k} and {count}={n} do not form a shard; the index counts from 0 and is below the count")]
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

/// Variables of batch services: the machine's index, from 0, and the number of machines.
///
/// Kubernetes sets no count: the manifest has to repeat its `completions` under the name given here.
const VARIABLES: [(&str, &str); 4] = [
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"),
    ("AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"),
    ("CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT"),
    ("BATCH_TASK_INDEX", "BATCH_TASK_COUNT"),
];

impl Shard {
    /// The shard that a batch service assigned to this machine; `None` outside of such a service.
    ///
    /// # Errors
    /// When an index has no count, or is not below it.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ShardError> {
        for (index, count) in VARIABLES {
            let Some(k) = variable(index) else { continue };
            let n = variable(count).ok_or(ShardError::NoCount { index, count })?;
            let shard = Self::parse(&k, &n).ok_or(ShardError::Variables { index, k, count, n })?;
            return Ok(Some(shard));
        }
        Ok(None)
    }

    fn parse(index: &str, count: &str) -> Option<Self> {
        let (index, count) = (index.trim().parse().ok()?, count.trim().parse().ok()?);
        (index < count).then_some(Self { index, count })
    }

    /// Whether a result's key is in this shard.
    pub(super) fn contains(self, output: Hash) -> bool {
        output % u128::from(self.count) == u128::from(self.index)
    }

    /// `3-of-8`, for report names.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}-of-{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let parts = text.split_once('/').and_then(|(index, count)| Self::parse(index, count));
        parts.ok_or_else(|| ShardError::Malformed(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::hash::hash;

    #[test]
    fn every_key_is_in_one_shard_and_shards_are_even() {
        let shards: Vec<Shard> = (0..7).map(|k| format!("{k}/7").parse().unwrap()).collect();
        let mut counts = [0_u32; 7];
        for key in 0..7000 {
            let output = hash(&[&format!("file:///out/{key}.png")]);
            let owners: Vec<_> = (0..7).filter(|&k| shards[k].contains(output)).collect();
            assert_eq!(owners.len(), 1);
            counts[owners[0]] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_hash_of_a_key_does_not_change_with_versions() {
        // Machines of one run may have different builds, and a later build may resume a report.
        assert_eq!(hash(&["s3://shop/a.png"]) % 1000, 614);
    }

    #[test]
    fn the_shard_is_read_from_the_variables_of_batch_services() {
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
            assert!(error.contains(index) && error.contains(&format!("set {count}, or pass --shard")), "{error}");
            assert!(matches!(shard(&[(index, "5"), (count, "5")]), Err(ShardError::Variables { .. })));
        }
    }

    #[test]
    fn an_invalid_shard_is_refused() {
        for text in ["", "1", "8/8", "-1/8", "1/0", "a/b", "0/", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        assert_eq!("3/8".parse::<Shard>().unwrap().name(), "3-of-8");
    }
}
