//! Stored preset: request parameters saved under a name.

use serde::{Deserialize, Serialize};

use super::OneVersion;
use crate::store::UnixSeconds;

/// A preset in its newest form, whatever version it was stored in.
pub type Preset = PresetV1;

/// A preset, as stored. Since schema 2.
pub type PresetRecord = OneVersion<PresetV1>;

/// Version 1 of a preset: parameters saved under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresetV1 {
    /// Public id, `preset_` + 12 characters; with the account the key of the table.
    pub id: String,
    /// Name of the account it belongs to.
    pub account: String,
    /// The owner's name for it, unique in the account.
    pub name: String,
    /// The path of the endpoint that it is for.
    pub endpoint: Option<String>,
    /// The parameters: a JSON object as text.
    pub params: String,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// When it was last overwritten.
    pub updated_at: UnixSeconds,
}
