//! Table of presets: (account, preset id) → `PresetRecord`, with an index (account, name) → preset id.

use std::ops::Bound;

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, TableError, TableHandle, WriteTransaction};

use super::{Bytes, KeyOf, Records, Row, Source, Text, read_row};
use crate::store::records::PresetRecord;
use crate::store::storage_fault::Fault;
use crate::store::{LookupBy, Preset};

const PRESET_NAMES: TableDefinition<'_, (Text, Text), Text> = TableDefinition::new("preset_names");

impl Row for PresetRecord {
    type Key = (Text, Text);

    const TABLE: TableDefinition<'static, Self::Key, Bytes> = TableDefinition::new("presets");

    fn name((account, id): &KeyOf<'_, Self>) -> String {
        format!("preset {id} of account {account}")
    }
}

/// The table of presets and its index by name.
pub(in crate::store) struct Presets<S: Source> {
    pub(in crate::store) rows: Records<S, PresetRecord>,
    names: S::Table<(Text, Text), Text>,
}

impl<S: Source> Presets<S> {
    pub(in crate::store) fn open(source: S) -> Result<Self, TableError> {
        Ok(Self { rows: Records::open(source)?, names: source.table(PRESET_NAMES)? })
    }

    /// The id that the index has for a name.
    pub(in crate::store) fn id_of(&self, account: &str, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.names.get((account, name))?.map(|row| row.value().to_owned()))
    }

    /// The preset of an id or a name, tried as `first` first.
    pub(in crate::store) fn find(
        &self,
        account: &str,
        id_or_name: &str,
        first: LookupBy,
    ) -> Result<Option<Preset>, Fault> {
        let by_id = || self.rows.get((account, id_or_name));
        let by_name = || self.named(account, id_or_name);
        let found = match first {
            LookupBy::Id => by_id().transpose().or_else(|| by_name().transpose()),
            LookupBy::Name => by_name().transpose().or_else(|| by_id().transpose()),
        };
        found.transpose()
    }

    fn named(&self, account: &str, name: &str) -> Result<Option<Preset>, Fault> {
        let Some(id) = self.id_of(account, name)? else { return Ok(None) };
        let missing =
            || Fault::Damaged(format!("preset {id} of account {account} is in the index and not in the table"));
        self.rows.get((account, &id))?.map(Some).ok_or_else(missing)
    }

    /// Up to `limit` presets of an account by id, those after `after`.
    pub(in crate::store) fn page(
        &self,
        account: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Preset>, Fault> {
        let from = after.map_or(Bound::Included((account, "")), |id| Bound::Excluded((account, id)));
        let rows = self.rows.0.range::<(&str, &str)>((from, Bound::Unbounded))?.map(read_row::<PresetRecord>);
        let of_account = rows.take_while(|row| row.as_ref().map_or(true, |(key, _)| key.value().0 == account));
        of_account.take(limit).map(|row| row?.1).collect()
    }

    /// The number of an account's presets. Counts the names: the presets are some hundred times larger.
    pub(in crate::store) fn count(&self, account: &str) -> Result<usize, Fault> {
        let mut count = 0;
        for row in self.names.range::<(&str, &str)>((account, "")..)? {
            if row?.0.value().0 != account {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Name and length of the index.
    pub(in crate::store) fn index(&self) -> Result<(&'static str, u64), Fault> {
        Ok((PRESET_NAMES.name(), self.names.len()?))
    }
}

impl Presets<&WriteTransaction> {
    /// Writes a preset; `before` is the one that it overwrites.
    pub(in crate::store) fn put(&mut self, before: Option<&Preset>, preset: &Preset) -> Result<(), Fault> {
        let Preset { account, id, name, .. } = preset;
        if let Some(before) = before {
            self.names.remove((account.as_str(), before.name.as_str()))?;
        }
        self.rows.put((account, id), preset.clone())?;
        self.names.insert((account.as_str(), name.as_str()), id.as_str())?;
        Ok(())
    }

    pub(in crate::store) fn remove(&mut self, preset: &Preset) -> Result<(), Fault> {
        let Preset { account, id, name, .. } = preset;
        self.rows.remove((account, id))?;
        self.names.remove((account.as_str(), name.as_str()))?;
        Ok(())
    }
}
