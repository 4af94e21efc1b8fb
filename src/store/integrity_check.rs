//! Integrity check of a store: checksums, every record, and every index against the rows of its table.

use redb::ReadTransaction;

use super::storage_fault::Fault;
use super::tables::{KeyOf, Reading, Records, Row};
use super::{KeyHash, Month, OpenError, RedbStore};

/// Findings with a text; further ones are only counted.
const MAX_FINDINGS: usize = 1000;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegrityReport {
    /// Rows that were read.
    pub rows: RowCounts,
    /// The first thousand findings.
    pub findings: Vec<String>,
    /// The number of findings.
    pub wrong: usize,
}

/// How many rows there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RowCounts {
    /// Accounts.
    pub accounts: u64,
    /// Keys, revoked ones included.
    pub keys: u64,
    /// Presets of all accounts.
    pub presets: u64,
    /// Months with usage of an account.
    pub usage: u64,
    /// Days with usage of a key.
    pub key_days: u64,
    /// Billed requests that are remembered.
    pub requests: u64,
    /// Jobs of all keys.
    pub jobs: u64,
}

impl IntegrityReport {
    /// Whether there are no findings.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.wrong == 0
    }

    fn add(&mut self, finding: impl std::fmt::Display) {
        self.wrong += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding.to_string());
        }
    }

    /// Decodes every row, finds its entry in the index, and compares the number of entries with the length of the index, where
    /// the table has one. `row` returns whether a record belongs under its key, and whether its entry is there; `None` where
    /// there should be none. Returns the number of rows.
    fn check<R: Row>(
        &mut self,
        rows: &Records<&ReadTransaction, R>,
        index: Option<(&str, u64)>,
        row: impl Fn(KeyOf<'_, R>, &R::Latest) -> Result<(bool, Option<bool>), Fault>,
    ) -> Result<u64, Fault> {
        let (mut count, mut expected, mut is_readable) = (0, 0, true);
        for found in rows.all()? {
            let (key, record) = found?;
            count += 1;
            let record = match record {
                Ok(record) => record,
                Err(fault) => {
                    self.add(fault);
                    is_readable = false;
                    continue;
                }
            };
            let (belongs, entry) = row(key.value(), &record)?;
            if !belongs {
                self.add(format_args!("{}: no such account, or a wrong key", R::name(&key.value())));
            }
            expected += u64::from(entry.is_some());
            if let (Some(false), Some((index, _))) = (entry, index) {
                self.add(format_args!("{} is not in the index {index}", R::name(&key.value())));
            }
        }
        // A record that cannot be read may be in the index.
        if let Some((index, length)) = index.filter(|(_, length)| is_readable && *length != expected) {
            self.add(format_args!("the index {index} has {length} rows, and {expected} belong there"));
        }
        Ok(count)
    }
}

impl RedbStore {
    /// Checks the checksums of the file, every record, and every index against its table. Waits for exclusive access.
    ///
    /// # Errors
    /// When the file cannot be read, or its pages are damaged. Damaged rows are in the report.
    pub fn check(&self) -> Result<IntegrityReport, OpenError> {
        let mut report = IntegrityReport::default();
        let checked = self.database.exclusive(|database| Ok(database.check_integrity()?));
        let intact = checked.map_err(|fault| self.failed(fault))?;
        if !intact {
            report.add("the list of free pages was wrong and was rebuilt");
        }
        self.read(|Reading { accounts, keys, presets, usage, key_days, requests, jobs, .. }| {
            report.rows = RowCounts {
                accounts: report.check(accounts, None, |name, account| Ok((account.name == name, None)))?,
                keys: report.check(&keys.rows, Some(keys.index()?), |hash, key| {
                    let is_indexed = keys.hash_of(&key.id)? == Some(KeyHash(*hash));
                    Ok((accounts.contains(&key.account)?, Some(is_indexed)))
                })?,
                presets: report.check(&presets.rows, Some(presets.index()?), |(account, id), preset| {
                    let belongs = (&*preset.account, &*preset.id) == (account, id) && accounts.contains(account)?;
                    Ok((belongs, Some(presets.id_of(account, &preset.name)?.as_deref() == Some(id))))
                })?,
                usage: report.check(usage, None, |(month, account), _| {
                    Ok((Month(month).is_valid() && accounts.contains(account)?, None))
                })?,
                key_days: report.check(key_days, None, |(account, ..), _| Ok((accounts.contains(account)?, None)))?,
                requests: report.check(&requests.rows, Some(requests.index()?), |(account, key), request| {
                    let is_indexed = requests.is_indexed(account, key, request.at)?;
                    Ok((accounts.contains(account)?, Some(is_indexed)))
                })?,
                jobs: report.check(&jobs.rows, Some(jobs.index()?), |id, job| {
                    let of_name = job.name.as_ref().map(|name| jobs.id_of(&job.key_id, name)).transpose()?;
                    let is_indexed = of_name.map(|of_name| of_name.as_deref() == Some(id));
                    Ok((job.id == id && accounts.contains(&job.account)?, is_indexed))
                })?,
            };
            Ok(())
        })?;
        Ok(report)
    }
}
