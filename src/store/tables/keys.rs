//! Table of keys: SHA-256 of the newest token → `KeyRecord`, with an index public key id → that SHA-256.
//!
//! Revoked keys stay, so that a listing can show when they were revoked.

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, TableError, TableHandle, WriteTransaction};

use super::{Bytes, KeyOf, Records, Row, Source, Text};
use crate::store::records::KeyRecord;
use crate::store::storage_fault::Fault;
use crate::store::{Key, KeyHash};

type Hash = &'static [u8; 32];

const KEY_IDS: TableDefinition<'_, Text, Hash> = TableDefinition::new("key_ids");

impl Row for KeyRecord {
    type Key = Hash;

    const TABLE: TableDefinition<'static, Hash, Bytes> = TableDefinition::new("keys");

    fn name(_: &KeyOf<'_, Self>) -> String {
        "a key".into()
    }
}

/// The table of keys and its index by id.
pub(in crate::store) struct Keys<S: Source> {
    pub(in crate::store) rows: Records<S, KeyRecord>,
    ids: S::Table<Text, Hash>,
}

impl<S: Source> Keys<S> {
    pub(super) fn open(source: S) -> Result<Self, TableError> {
        Ok(Self { rows: Records::open(source)?, ids: source.table(KEY_IDS)? })
    }

    /// The hash that the index has for an id.
    pub(in crate::store) fn hash_of(&self, id: &str) -> Result<Option<KeyHash>, Fault> {
        Ok(self.ids.get(id)?.map(|row| KeyHash(*row.value())))
    }

    /// A key by its id.
    pub(in crate::store) fn find(&self, id: &str) -> Result<Option<(KeyHash, Key)>, Fault> {
        let Some(hash) = self.hash_of(id)? else { return Ok(None) };
        let Some(key) = self.rows.get(&hash.0)? else {
            return Err(Fault::Damaged(format!("key {id} is in the index and not in the table")));
        };
        Ok(Some((hash, key)))
    }

    /// Name and length of the index.
    pub(in crate::store) fn index(&self) -> Result<(&'static str, u64), Fault> {
        Ok((KEY_IDS.name(), self.ids.len()?))
    }
}

impl Keys<&WriteTransaction> {
    pub(in crate::store) fn put(&mut self, hash: KeyHash, key: &Key) -> Result<(), Fault> {
        self.rows.put(&hash.0, key.clone())?;
        self.ids.insert(key.id.as_str(), &hash.0)?;
        Ok(())
    }

    /// Removes a row whose key is put under another hash in the same change, which updates the index.
    pub(in crate::store) fn remove(&mut self, hash: KeyHash) -> Result<(), Fault> {
        self.rows.remove(&hash.0)
    }
}
