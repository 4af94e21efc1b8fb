//! Accounts take turns: which queued job is started next.

use sha2::{Digest, Sha256};

use super::Job;
use super::storage_fault::Fault;

/// The place of an account in the cycle of accounts: a hash of its name, the same at every start.
pub(super) fn turn_of(account: &str) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(account));
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Of the oldest queued job of each key, in the order of the queue, the one to start next: accounts take turns in a fixed
/// cycle, first the account after `last_turn`, and of an account the oldest job.
pub(super) fn next_in_turn(
    last_turn: Option<u64>,
    oldest_of_keys: impl Iterator<Item = Result<Job, Fault>>,
) -> Result<Option<Job>, Fault> {
    let mut best: Option<(u64, Job)> = None;
    for job in oldest_of_keys {
        let job = job?;
        let Some(last_turn) = last_turn else { return Ok(Some(job)) };
        // Distance from the last account in the cycle; that account itself comes last.
        let distance = turn_of(&job.account).wrapping_sub(last_turn).wrapping_sub(1);
        // Another key of the same account has an equal distance: the earlier row is the older job.
        if best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, job));
        }
    }
    Ok(best.map(|(_, job)| job))
}
