//! The schema, on one screen.
//!
//! Values are postcard records (`records.rs`) stored as plain bytes: redb's own `Value` cannot fail, a record can.
//! A change of a table's types, or of a record that older versions could not skip, raises [`SCHEMA`].

use redb::TableDefinition;

/// The schema that this version writes, and the newest that it reads.
pub(super) const SCHEMA: u64 = 1;

/// Facts about the file itself: [`META_SCHEMA`].
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Row of [`META`] that holds the schema of the file.
pub(super) const META_SCHEMA: &str = "schema";

/// Account name → `AccountRecord`.
pub(super) const ACCOUNTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("accounts");

/// SHA-256 of the token → `KeyRecord`. Revoked keys stay, so that a listing can show when.
pub(super) const KEYS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("keys");

/// Public key id → the row of [`KEYS`].
pub(super) const KEY_IDS: TableDefinition<'_, &str, &[u8; 32]> = TableDefinition::new("key_ids");
