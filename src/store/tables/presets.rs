//! Table of presets: (account, preset id) → `PresetRecord`, with an index (account, name) → preset id.

use std::ops::Bound;

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Row, Text};
use crate::store::records::{PresetRecord, Record};
use crate::store::storage_fault::{ApplyError, Fault};
use crate::store::{ChangeError, PRESETS_PER_ACCOUNT, Preset};

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

    /// Adds a preset, or overwrites the one of its account and id, which keeps its creation time.
    pub(in crate::store) fn put(&mut self, preset: Preset) -> Result<Preset, ApplyError> {
        let Preset { account, id, name, .. } = &preset;
        if self.id_of(account, name)?.is_some_and(|taken_by| taken_by != *id) {
            return Err(ChangeError::PresetNameTaken(name.clone()).into());
        }
        let before = self.get(account, id)?;
        if before.is_none() && self.count(account)? >= PRESETS_PER_ACCOUNT {
            return Err(ChangeError::TooManyPresets(account.clone()).into());
        }
        if let Some(before) = &before {
            self.names.remove((account.as_str(), before.name.as_str()))?;
        }
        let created_at = before.map_or(preset.created_at, |before| before.created_at);
        let preset = Preset { created_at, ..preset };
        let (account, id) = (preset.account.as_str(), preset.id.as_str());
        self.presets.insert((account, id), PresetRecord::from_latest(preset.clone()).encode().as_slice())?;
        self.names.insert((account, preset.name.as_str()), id)?;
        Ok(preset)
    }

    pub(in crate::store) fn delete(&mut self, account: &str, id: &str) -> Result<(), ApplyError> {
        let Some(preset) = self.get(account, id)? else { return Err(ChangeError::NoSuchPreset(id.into()).into()) };
        self.presets.remove((account, id))?;
        self.names.remove((account, preset.name.as_str()))?;
        Ok(())
    }
}

fn decode(account: &str, id: &str, bytes: &[u8]) -> Result<Preset, Fault> {
    let unreadable = |error| Fault::unreadable(format_args!("preset {id} of account {account}"), &error);
    PresetRecord::decode(bytes).map(Record::latest).map_err(unreadable)
}
