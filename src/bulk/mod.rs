//! Pictures in bulk, from one place in object storage to another.
//!
//! ```text
//! list → select → shard → claim → skip │ ask, fetch → work → put → a row in the report
//! one stream, nothing is collected     │ so many at once; downloads wait in bounded memory for a free worker
//! ```
//!
//! What is remembered of an object is a few hashes of 16 bytes: which results are spoken for, and which are done. A
//! million keys take less than 200 MB.
//!
//! The report is also what a run is continued from. A row is written when its result is stored, so that a run that was
//! killed repeats at most what it had in hand. In stores that keep metadata, each result says itself what it was made
//! of, so that a run can be continued where the report was lost.
//!
//! What is done with a picture is a [`Work`]; nothing here knows the pipeline or a terminal.

mod claim;
mod failure;
mod known;
mod ledger;
mod merge;
mod row;
mod run;
mod select;
mod shard;
mod sieve;
mod survey;
mod template;
mod transfer;

pub use failure::{Code, Failure};
pub use ledger::{Ledger, LedgerError};
pub use merge::{Merged, csv_beside, merge};
pub use row::{Row, Stages, Status, version};
pub use run::{Run, RunError, Stop, Summary, Tally, Unworked, Watch, Work, Worked};
pub use select::{EXTENSIONS, Select, SelectError};
pub use shard::{Shard, ShardError};
pub use sieve::{Order, Places, PlacesError};
pub use survey::{Survey, Total, survey, total};
pub use template::{Template, TemplateError};
pub use transfer::{Fetched, fetch};

use sha2::{Digest, Sha256};

/// Sixteen bytes that stand for texts. Two different ones that share a hash are not expected in the life of the world.
type Hash = u128;

/// The hash of texts, which cannot be moved between each other without changing it.
fn hash(texts: &[&str]) -> Hash {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    let digest = hasher.finalize();
    u128::from_le_bytes(digest[..16].try_into().expect("a digest has 32 bytes"))
}
