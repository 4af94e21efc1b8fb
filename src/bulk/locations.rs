//! The source and destination of a run, and which listed objects belong to it.

use super::hash::hash;
use super::options::RunOptions;
use crate::source::{StorageLocation, decode_unaddressable};
use object_store::ObjectMeta;

/// The source and destination of a run.
#[derive(Clone, Debug)]
pub struct Locations {
    /// Where pictures are read.
    pub source: StorageLocation,
    /// Where results are written.
    pub destination: StorageLocation,
    /// Common prefix of all addresses in the source.
    pub(super) source_prefix: String,
    /// Common prefix of all addresses in the destination.
    pub(super) destination_prefix: String,
}

/// Why a source and a destination cannot be used together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationsError {
    /// Results would be indistinguishable from sources.
    #[error("results cannot go to the place that the pictures come from; choose another folder or bucket")]
    Same,
}

/// An object that belongs to a run.
pub(super) struct Selected {
    /// Address of the source.
    pub(super) source: String,
    /// Key of the result, relative to the destination.
    pub(super) result_key: String,
}

impl Locations {
    /// The destination may be inside the source, whose listing then leaves it out.
    ///
    /// # Errors
    /// When source and destination are the same.
    pub fn new(source: StorageLocation, destination: StorageLocation) -> Result<Self, LocationsError> {
        let (source_prefix, destination_prefix) = (source.address_prefix(), destination.address_prefix());
        if source_prefix == destination_prefix {
            Err(LocationsError::Same)
        } else {
            Ok(Self { source, destination, source_prefix, destination_prefix })
        }
    }

    /// Source address and result key of an object; `None` when filter or shard exclude it, or it is a result.
    pub(super) fn select(&self, options: &RunOptions, meta: &ObjectMeta) -> Option<Selected> {
        let unaddressable = decode_unaddressable(&meta.location);
        let source = self.source.address(unaddressable.as_deref().unwrap_or(meta.location.as_ref()));
        let key = source.strip_prefix(self.source_prefix.as_str())?;
        let is_result = source.starts_with(self.destination_prefix.as_str())
            && self.destination_prefix.starts_with(self.source_prefix.as_str());
        if is_result || !options.filter.matches(key) {
            return None;
        }
        let result_key = options.template.render(key, options.extension);
        let result_key = result_key.trim_start_matches('/').to_owned();
        let in_shard = options.shard.is_none_or(|shard| shard.contains(hash(&[&result_key])));
        in_shard.then_some(Selected { source, result_key })
    }
}
