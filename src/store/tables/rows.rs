//! Tables of records: reads and writes of rows, the same for a snapshot and for a transaction that writes.

use redb::{
    AccessGuard, Key, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table,
    TableDefinition, TableError, Value, WriteTransaction,
};

use crate::store::records::Record;
use crate::store::storage_fault::Fault;

/// A column of text in a key or an index.
pub(super) type Text = &'static str;

/// An encoded record.
pub(super) type Bytes = &'static [u8];

/// Where tables are opened: a reader's snapshot, or a transaction that writes.
pub(in crate::store) trait Source: Copy {
    /// An open table.
    type Table<K: Key + 'static, V: Value + 'static>: ReadableTable<K, V>;

    fn table<K: Key, V: Value>(self, definition: TableDefinition<'_, K, V>) -> Result<Self::Table<K, V>, TableError>;
}

impl Source for &ReadTransaction {
    type Table<K: Key + 'static, V: Value + 'static> = ReadOnlyTable<K, V>;

    fn table<K: Key, V: Value>(self, definition: TableDefinition<'_, K, V>) -> Result<Self::Table<K, V>, TableError> {
        self.open_table(definition)
    }
}

impl<'txn> Source for &'txn WriteTransaction {
    type Table<K: Key + 'static, V: Value + 'static> = Table<'txn, K, V>;

    fn table<K: Key, V: Value>(self, definition: TableDefinition<'_, K, V>) -> Result<Self::Table<K, V>, TableError> {
        self.open_table(definition)
    }
}

/// A record that is the value of a table.
pub(in crate::store) trait Row: Record {
    /// The key of the table.
    type Key: Key + 'static;

    const TABLE: TableDefinition<'static, Self::Key, Bytes>;

    /// The row with this key in the message of an error.
    fn name(key: &KeyOf<'_, Self>) -> String;
}

/// A key as it is passed to a table.
pub(in crate::store) type KeyOf<'k, R> = <<R as Row>::Key as Value>::SelfType<'k>;

/// A row that was read. One whose record cannot be decoded has its key.
type Found<'a, R> = Result<(AccessGuard<'a, <R as Row>::Key>, Result<<R as Record>::Latest, Fault>), Fault>;

/// A table of records.
pub(in crate::store) struct Records<S: Source, R: Row>(pub(super) S::Table<R::Key, Bytes>);

impl<S: Source, R: Row> Records<S, R> {
    pub(in crate::store) fn open(source: S) -> Result<Self, TableError> {
        source.table(R::TABLE).map(Self)
    }

    pub(in crate::store) fn is_empty(&self) -> Result<bool, StorageError> {
        self.0.is_empty()
    }

    pub(in crate::store) fn get(&self, key: KeyOf<'_, R>) -> Result<Option<R::Latest>, Fault> {
        self.0.get(&key)?.map(|row| decode::<R>(&key, row.value())).transpose()
    }

    /// Whether there is a row, without decoding it.
    pub(in crate::store) fn contains(&self, key: KeyOf<'_, R>) -> Result<bool, Fault> {
        Ok(self.0.get(&key)?.is_some())
    }

    /// All rows.
    pub(in crate::store) fn all(&self) -> Result<impl Iterator<Item = Found<'_, R>>, Fault> {
        Ok(self.0.iter()?.map(read_row::<R>))
    }

    /// The rows from a key on.
    pub(in crate::store) fn from(&self, first: KeyOf<'_, R>) -> Result<impl Iterator<Item = Found<'_, R>>, Fault> {
        Ok(self.0.range::<KeyOf<'_, R>>(first..)?.map(read_row::<R>))
    }
}

impl<R: Row> Records<&WriteTransaction, R> {
    /// Writes a row, over the row with its key.
    pub(in crate::store) fn put(&mut self, key: KeyOf<'_, R>, record: R::Latest) -> Result<(), Fault> {
        self.0.insert(key, R::from_latest(record).encode().as_slice())?;
        Ok(())
    }

    pub(super) fn remove(&mut self, key: KeyOf<'_, R>) -> Result<(), Fault> {
        self.0.remove(key)?;
        Ok(())
    }
}

/// Decodes the record of a row.
pub(super) fn read_row<'a, R: Row>(
    row: Result<(AccessGuard<'a, R::Key>, AccessGuard<'a, Bytes>), StorageError>,
) -> Found<'a, R> {
    let (key, bytes) = row?;
    let record = decode::<R>(&key.value(), bytes.value());
    Ok((key, record))
}

fn decode<R: Row>(key: &KeyOf<'_, R>, bytes: &[u8]) -> Result<R::Latest, Fault> {
    R::decode(bytes).map(Record::latest).map_err(|error| Fault::unreadable(R::name(key), &error))
}
