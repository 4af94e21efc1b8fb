//! Table of keys: SHA-256 of the newest token → `KeyRecord`, with an index public key id → that SHA-256.
//!
//! Revoked keys stay, so that a listing can show when they were revoked.

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Row, Text};
use crate::store::records::{KeyRecord, Record};
use crate::store::storage_fault::Fault;
use crate::store::{Key, KeyHash};

type Hash = &'static [u8; 32];

pub(in crate::store) const KEYS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("keys");
pub(in crate::store) const KEY_IDS: TableDefinition<'_, &str, &[u8; 32]> = TableDefinition::new("key_ids");

/// The table of keys and its index by id.
pub(in crate::store) struct Keys<T, I> {
    keys: T,
    ids: I,
}

pub(super) type Writing<'txn> = Keys<Table<'txn, Hash, Bytes>, Table<'txn, Text, Hash>>;
pub(super) type Reading = Keys<ReadOnlyTable<Hash, Bytes>, ReadOnlyTable<Text, Hash>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        Ok(Self { keys: transaction.open_table(KEYS)?, ids: transaction.open_table(KEY_IDS)? })
    }
}

impl Reading {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        Ok(Self { keys: transaction.open_table(KEYS)?, ids: transaction.open_table(KEY_IDS)? })
    }
}

impl<T: ReadableTable<Hash, Bytes>, I: ReadableTable<Text, Hash>> Keys<T, I> {
    pub(in crate::store) fn get(&self, hash: KeyHash) -> Result<Option<Key>, Fault> {
        self.keys.get(&hash.0)?.map(|row| decode(row.value())).transpose()
    }

    /// The hash that the index has for an id.
    pub(in crate::store) fn hash_of(&self, id: &str) -> Result<Option<KeyHash>, Fault> {
        Ok(self.ids.get(id)?.map(|row| KeyHash(*row.value())))
    }

    /// A key by its id.
    pub(in crate::store) fn find(&self, id: &str) -> Result<Option<(KeyHash, Key)>, Fault> {
        let Some(hash) = self.hash_of(id)? else { return Ok(None) };
        let Some(key) = self.get(hash)? else {
            return Err(Fault::Damaged(format!("key {id} is in the index and not in the table")));
        };
        Ok(Some((hash, key)))
    }

    /// All rows: the hash and the key.
    pub(in crate::store) fn rows(&self) -> Result<impl Iterator<Item = Row<KeyHash, Key>>, Fault> {
        Ok(self.keys.iter()?.map(|row| {
            let (hash, bytes) = row?;
            Ok((KeyHash(*hash.value()), decode(bytes.value())))
        }))
    }

    /// All rows of the index.
    pub(in crate::store) fn ids(&self) -> Result<impl Iterator<Item = Result<(String, KeyHash), Fault>>, Fault> {
        Ok(self.ids.iter()?.map(|row| {
            let (id, hash) = row?;
            Ok((id.value().to_owned(), KeyHash(*hash.value())))
        }))
    }
}

impl Writing<'_> {
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        self.keys.is_empty()
    }

    pub(in crate::store) fn put(&mut self, hash: KeyHash, key: &Key) -> Result<(), Fault> {
        self.keys.insert(&hash.0, KeyRecord::from_latest(key.clone()).encode().as_slice())?;
        self.ids.insert(key.id.as_str(), &hash.0)?;
        Ok(())
    }

    /// Removes a row whose key is put under another hash in the same change, which updates the index.
    pub(in crate::store) fn remove(&mut self, hash: KeyHash) -> Result<(), Fault> {
        self.keys.remove(&hash.0)?;
        Ok(())
    }
}

fn decode(bytes: &[u8]) -> Result<Key, Fault> {
    KeyRecord::decode(bytes).map(Record::latest).map_err(|error| Fault::unreadable("a key", &error))
}
