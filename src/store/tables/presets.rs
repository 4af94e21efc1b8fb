//! Table of presets: (account, preset id) → `PresetRecord`, with an index (account, name) → preset id.

use std::ops::Bound;

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Row, Text};
use crate::store::Preset;
use crate::store::records::{PresetRecord, Record};
use crate::store::storage_fault::Fault;

pub(in crate::store) const PRESETS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("presets");
pub(in crate::store) const PRESET_NAMES: TableDefinition<'_, (&str, &str), &str> = TableDefinition::new("preset_names");

/// The table of presets and its index by name.
pub(in crate::store) struct Presets<T, I> {
    presets: T,
    names: I,
}

pub(super) type Writing<'txn> = Presets<Table<'txn, (Text, Text), Bytes>, Table<'txn, (Text, Text), Text>>;
pub(super) type Reading = Presets<ReadOnlyTable<(Text, Text), Bytes>, ReadOnlyTable<(Text, Text), Text>>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        Ok(Self { presets: transaction.open_table(PRESETS)?, names: transaction.open_table(PRESET_NAMES)? })
    }
}

impl Reading {
    pub(in crate::store) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        Ok(Self { presets: transaction.open_table(PRESETS)?, names: transaction.open_table(PRESET_NAMES)? })
    }
}

impl<T: ReadableTable<(Text, Text), Bytes>, I: ReadableTable<(Text, Text), Text>> Presets<T, I> {
    pub(in crate::store) fn get(&self, account: &str, id: &str) -> Result<Option<Preset>, Fault> {
        self.presets.get((account, id))?.map(|row| decode(account, id, row.value())).transpose()
    }

    /// The id that the index has for a name.
    pub(in crate::store) fn id_of(&self, account: &str, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.names.get((account, name))?.map(|row| row.value().to_owned()))
    }

    pub(in crate::store) fn find(&self, account: &str, name: &str) -> Result<Option<Preset>, Fault> {
        let Some(id) = self.id_of(account, name)? else { return Ok(None) };
        let preset = self.get(account, &id)?;
        preset.map(Some).ok_or_else(|| {
            Fault::Damaged(format!("preset {id} of account {account} is in the index and not in the table"))
        })
    }

    /// Up to `limit` presets of an account by id, those after `after`.
    pub(in crate::store) fn page(
        &self,
        account: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Preset>, Fault> {
        let from = after.map_or(Bound::Included((account, "")), |id| Bound::Excluded((account, id)));
        let mut page = Vec::new();
        for row in self.presets.range::<(&str, &str)>((from, Bound::Unbounded))?.take(limit) {
            let (key, bytes) = row?;
            let (owner, id) = key.value();
            if owner != account {
                break;
            }
            page.push(decode(account, id, bytes.value())?);
        }
        Ok(page)
    }

    /// The number of an account's presets. Counts the names: the presets are some hundred times larger.
    pub(in crate::store) fn count(&self, account: &str) -> Result<usize, Fault> {
        let mut count = 0;
        for row in self.names.range::<(&str, &str)>((account, "")..)? {
            let (key, _) = row?;
            if key.value().0 != account {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// All rows: the key (account and id) and the preset.
    pub(in crate::store) fn rows(&self) -> Result<impl Iterator<Item = Row<[String; 2], Preset>>, Fault> {
        Ok(self.presets.iter()?.map(|row| {
            let (key, bytes) = row?;
            let (account, id) = key.value();
            Ok(([account.to_owned(), id.to_owned()], decode(account, id, bytes.value())))
        }))
    }

    /// All rows of the index: account, name, id.
    pub(in crate::store) fn names(&self) -> Result<impl Iterator<Item = Result<[String; 3], Fault>>, Fault> {
        Ok(self.names.iter()?.map(|row| {
            let (key, id) = row?;
            let (account, name) = key.value();
            Ok([account.to_owned(), name.to_owned(), id.value().to_owned()])
        }))
    }
}

impl Writing<'_> {
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        self.presets.is_empty()
    }

    /// Writes a preset; `before` is the one that it overwrites.
    pub(in crate::store) fn put(&mut self, before: Option<&Preset>, preset: &Preset) -> Result<(), Fault> {
        let Preset { account, id, name, .. } = preset;
        if let Some(before) = before {
            self.names.remove((account.as_str(), before.name.as_str()))?;
        }
        let record = PresetRecord::from_latest(preset.clone()).encode();
        self.presets.insert((account.as_str(), id.as_str()), record.as_slice())?;
        self.names.insert((account.as_str(), name.as_str()), id.as_str())?;
        Ok(())
    }

    pub(in crate::store) fn remove(&mut self, preset: &Preset) -> Result<(), Fault> {
        let Preset { account, id, name, .. } = preset;
        self.presets.remove((account.as_str(), id.as_str()))?;
        self.names.remove((account.as_str(), name.as_str()))?;
        Ok(())
    }
}

fn decode(account: &str, id: &str, bytes: &[u8]) -> Result<Preset, Fault> {
    let unreadable = |error| Fault::unreadable(format_args!("preset {id} of account {account}"), &error);
    PresetRecord::decode(bytes).map(Record::latest).map_err(unreadable)
}
