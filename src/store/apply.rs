//! One change against the tables of an open write transaction.
//!
//! Every check of a change comes before its first write: a refused change leaves the transaction as it was, so the
//! others of the same group commit are not disturbed.

use redb::{ReadableTable, Table, WriteTransaction};

use super::records::{AccountRecord, KeyRecord, Record, RecordError};
use super::tables::{ACCOUNTS, KEY_IDS, KEYS};
use super::{Account, Change, ChangeError, Key, KeyHash, Rows};

/// Why a change did not go into the transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// The change is not possible; the transaction is unharmed.
    Refused(ChangeError),
    /// The file failed; the whole transaction is void.
    Storage(String),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Storage(error.into().to_string())
    }
}

/// The tables of a write transaction.
pub(super) struct Tables<'txn> {
    accounts: Table<'txn, &'static str, &'static [u8]>,
    keys: Table<'txn, &'static [u8; 32], &'static [u8]>,
    key_ids: Table<'txn, &'static str, &'static [u8; 32]>,
}

impl<'txn> Tables<'txn> {
    /// Opens all tables, creating those that are not there yet.
    pub(super) fn open(transaction: &'txn WriteTransaction) -> Result<Self, redb::TableError> {
        Ok(Self {
            accounts: transaction.open_table(ACCOUNTS)?,
            keys: transaction.open_table(KEYS)?,
            key_ids: transaction.open_table(KEY_IDS)?,
        })
    }

    /// Applies `change`; gives the rows that it wrote, as they are now.
    pub(super) fn apply(&mut self, change: Change) -> Result<Rows, Failure> {
        match change {
            Change::CreateAccount { account, first_key } => {
                if self.accounts.get(account.name.as_str())?.is_some() {
                    return Err(Failure::Refused(ChangeError::AccountExists(account.name)));
                }
                if let Some((hash, key)) = &first_key {
                    self.check_new(*hash, key)?;
                }
                let mut rows = Rows { accounts: vec![self.write_account(account)?], keys: Vec::new() };
                if let Some((hash, key)) = first_key {
                    rows.keys.push(self.write_key(hash, key)?);
                }
                Ok(rows)
            }
            Change::SetPlan { account: name, plan } => {
                let account = Account { plan, ..self.account(&name)? };
                Ok(Rows { accounts: vec![self.write_account(account)?], keys: Vec::new() })
            }
            Change::CreateKey { hash, key } => {
                self.account(&key.account)?;
                self.check_new(hash, &key)?;
                Ok(Rows { accounts: Vec::new(), keys: vec![self.write_key(hash, key)?] })
            }
            Change::RevokeKey { id, at } => {
                let (hash, key) = self.key(id)?;
                let key = Key { revoked_at: key.revoked_at.or(Some(at)), ..key };
                Ok(Rows { accounts: Vec::new(), keys: vec![self.write_key(hash, key)?] })
            }
        }
    }

    fn account(&self, name: &str) -> Result<Account, Failure> {
        let row = self.accounts.get(name)?.ok_or_else(|| Failure::Refused(ChangeError::NoSuchAccount(name.into())))?;
        Ok(AccountRecord::decode(row.value()).map_err(|error| damaged("account", name, &error))?.latest())
    }

    fn key(&self, id: String) -> Result<(KeyHash, Key), Failure> {
        let Some(hash) = self.key_ids.get(id.as_str())?.map(|row| *row.value()) else {
            return Err(Failure::Refused(ChangeError::NoSuchKey(id)));
        };
        let Some(row) = self.keys.get(&hash)? else {
            return Err(Failure::Storage(format!("key {id} is in the index and not in the table")));
        };
        Ok((KeyHash(hash), KeyRecord::decode(row.value()).map_err(|error| damaged("key", &id, &error))?.latest()))
    }

    fn check_new(&self, hash: KeyHash, key: &Key) -> Result<(), Failure> {
        if self.keys.get(&hash.0)?.is_some() || self.key_ids.get(key.id.as_str())?.is_some() {
            return Err(Failure::Refused(ChangeError::KeyExists));
        }
        Ok(())
    }

    fn write_account(&mut self, account: Account) -> Result<Account, Failure> {
        self.accounts.insert(account.name.as_str(), AccountRecord::from_latest(account.clone()).encode().as_slice())?;
        Ok(account)
    }

    fn write_key(&mut self, hash: KeyHash, key: Key) -> Result<(KeyHash, Key), Failure> {
        self.keys.insert(&hash.0, KeyRecord::from_latest(key.clone()).encode().as_slice())?;
        self.key_ids.insert(key.id.as_str(), &hash.0)?;
        Ok((hash, key))
    }
}

fn damaged(kind: &str, name: &str, error: &RecordError) -> Failure {
    Failure::Storage(format!("{kind} {name}: {error}"))
}
