//! Integrity check of a store: checksums, every row, and every index against its table in both directions.

use std::collections::{HashMap, HashSet};

use redb::{Database, ReadTransaction, TableHandle};

use super::storage_fault::Fault;
use super::tables::{self, INDEXES, Reading};
use super::{
    Account, Day, Job, Key, KeyHash, Month, OpenError, PRESETS_PER_ACCOUNT, Preset, RedbStore, Request, UnixSeconds,
};

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

    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.add(otherwise());
        }
    }

    /// Checks a row of an index: `found` is the row of the table, and `wrong` what does not fit in it.
    fn indexed<T>(
        &mut self,
        what: &str,
        found: Result<Option<T>, Fault>,
        wrong: impl FnOnce(&T) -> Option<String>,
    ) -> Result<(), Fault> {
        match found {
            Ok(Some(row)) => wrong(&row).into_iter().for_each(|finding| self.add(finding)),
            Ok(None) => self.add(format_args!("{what} is in the index and not in the table")),
            // Reported with its row.
            Err(Fault::Damaged(_)) => {}
            Err(fault @ (Fault::Storage(_) | Fault::Panicked | Fault::Closed)) => return Err(fault),
        }
        Ok(())
    }

    /// The row, or a finding where it cannot be read.
    fn row<T>(&mut self, row: Result<T, Fault>) -> Option<T> {
        row.map_err(|fault| self.add(fault)).ok()
    }
}

impl RedbStore {
    /// Checks the checksums of the file, every row, and every index against its table. Waits for exclusive access.
    ///
    /// # Errors
    /// When the file cannot be read, or its pages are damaged. Damaged rows are in the report.
    pub fn check(&self) -> Result<IntegrityReport, OpenError> {
        let mut report = IntegrityReport::default();
        let intact = self.exclusively(|database: &mut Database| {
            database.check_integrity().map_err(|error| Fault::Storage(error.into()))
        })?;
        report.expect(intact, || "the list of free pages was wrong and was rebuilt".into());
        self.read(|transaction| {
            check_tables(transaction, &mut report)?;
            let tables = Reading::open(transaction)?;
            let accounts = check_accounts(&tables, &mut report)?;
            check_keys(&tables, &accounts, &mut report)?;
            check_presets(&tables, &accounts, &mut report)?;
            check_usage(&tables, &accounts, &mut report)?;
            check_requests(&tables, &accounts, &mut report)?;
            check_jobs(&tables, &accounts, &mut report)
        })?;
        Ok(report)
    }
}

/// Names of the accounts.
type Names = HashSet<String>;

fn check_tables(transaction: &ReadTransaction, report: &mut IntegrityReport) -> Result<(), Fault> {
    for table in transaction.list_tables()? {
        report.expect(tables::NAMES.contains(&table.name()), || format!("table {} is unknown", table.name()));
    }
    Ok(())
}

fn check_accounts(tables: &Reading<'_>, report: &mut IntegrityReport) -> Result<Names, Fault> {
    let mut names = Names::new();
    for row in tables.accounts.all()? {
        let (name, account) = row?;
        let name = name.value();
        report.rows.accounts += 1;
        if let Some(Account { name: own, .. }) = report.row(account) {
            report.expect(own == name, || format!("account {own} has the key {name}"));
        }
        names.insert(name.to_owned());
    }
    Ok(names)
}

fn check_keys(tables: &Reading<'_>, accounts: &Names, report: &mut IntegrityReport) -> Result<(), Fault> {
    for row in tables.keys.rows.all()? {
        let (hash, key) = row?;
        report.rows.keys += 1;
        let Some(Key { id, account, .. }) = report.row(key) else { continue };
        report.expect(accounts.contains(&account), || format!("key {id} belongs to no account: {account}"));
        let is_indexed = tables.keys.hash_of(&id)? == Some(KeyHash(*hash.value()));
        report.expect(is_indexed, || format!("key {id} is not in the index"));
    }
    for row in tables.keys.ids()? {
        let (id, hash) = row?;
        report.indexed(&format!("key {id}"), tables.keys.rows.get(&hash.0), |key| {
            (key.id != id).then(|| format!("the index has key {} as {id}", key.id))
        })?;
    }
    Ok(())
}

fn check_presets(tables: &Reading<'_>, accounts: &Names, report: &mut IntegrityReport) -> Result<(), Fault> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for row in tables.presets.rows.all()? {
        let (key, preset) = row?;
        let (account, id) = key.value();
        report.rows.presets += 1;
        let what = format!("preset {id} of account {account}");
        report.expect(accounts.contains(account), || format!("{what}: there is no such account"));
        if let Some(preset) = report.row(preset) {
            let Preset { id: own, account: of, name, params, .. } = &preset;
            let is_in_place = of == account && own == id;
            report.expect(is_in_place, || format!("preset {own} of account {of} has the key {id} of {account}"));
            let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(params).is_ok();
            report.expect(is_object, || format!("{what}: its parameters are no JSON object"));
            let indexed = tables.presets.id_of(account, name)?;
            report.expect(indexed.as_deref() == Some(id), || format!("{what} is not in the index"));
        }
        *counts.entry(account.to_owned()).or_default() += 1;
    }
    for (account, count) in counts.into_iter().filter(|&(_, count)| count > PRESETS_PER_ACCOUNT) {
        report.add(format_args!("account {account} has {count} presets"));
    }
    for row in tables.presets.names()? {
        let [account, name, id] = row?;
        let what = format!("preset {id} of account {account}");
        report.indexed(&what, tables.presets.rows.get((&account, &id)), |preset| {
            (preset.name != name).then(|| format!("the index has {what} as {name}"))
        })?;
    }
    Ok(())
}

fn check_usage(tables: &Reading<'_>, accounts: &Names, report: &mut IntegrityReport) -> Result<(), Fault> {
    for row in tables.usage.all()? {
        let (key, usage) = row?;
        let (month, account) = key.value();
        let month = Month(month);
        report.rows.usage += 1;
        report.row(usage);
        let what = format!("use of account {account} in {month}");
        report.expect(accounts.contains(account), || format!("{what}: there is no such account"));
        report.expect(month.is_valid(), || format!("{what}: there is no such month"));
    }
    for row in tables.key_days.all()? {
        let (key, used) = row?;
        let (account, day, key_id) = key.value();
        report.rows.key_days += 1;
        report.row(used);
        report.expect(accounts.contains(account), || {
            format!("use of key {key_id} of account {account} on {}: there is no such account", Day(day).date())
        });
    }
    Ok(())
}

fn check_requests(tables: &Reading<'_>, accounts: &Names, report: &mut IntegrityReport) -> Result<(), Fault> {
    for row in tables.requests.rows.all()? {
        let (names, request) = row?;
        let (account, key) = names.value();
        report.rows.requests += 1;
        let what = format!("request {key} of account {account}");
        report.expect(accounts.contains(account), || format!("{what}: there is no such account"));
        if let Some(Request { at, .. }) = report.row(request) {
            report.expect(tables.requests.is_indexed(account, key, at)?, || format!("{what} is not in the index"));
        }
    }
    for row in tables.requests.times(UnixSeconds(i64::MIN))? {
        let (at, [account, key]) = row?;
        let what = format!("request {key} of account {account}");
        report.indexed(&what, tables.requests.rows.get((&account, &key)), |request| {
            (request.at != at).then(|| format!("the index has {what} at {at}"))
        })?;
    }
    Ok(())
}

fn check_jobs(tables: &Reading<'_>, accounts: &Names, report: &mut IntegrityReport) -> Result<(), Fault> {
    let (mut expected, mut is_readable) = ([0; INDEXES], true);
    for row in tables.jobs.rows.all()? {
        let (id, job) = row?;
        let id = id.value();
        report.rows.jobs += 1;
        let Some(job) = report.row(job) else {
            is_readable = false;
            continue;
        };
        report.expect(job.id == id, || format!("job {} has the key {id}", job.id));
        report.expect(accounts.contains(&job.account), || format!("job {id} belongs to no account: {}", job.account));
        check_job(&job, report);
        for ((index, belongs, is_there), expected) in tables.jobs.in_indexes(&job)?.into_iter().zip(&mut expected) {
            report.expect(is_there || !belongs, || format!("job {id} is not in the index: {index}"));
            *expected += u64::from(belongs);
        }
    }
    // An unreadable job may be in any index.
    let lengths = tables.jobs.index_lengths()?;
    report.expect(lengths == expected || !is_readable, || {
        format!("the indexes of jobs have {lengths:?} rows, and {expected:?} belong there")
    });
    Ok(())
}

/// Checks that a job's fields fit its state.
fn check_job(job: &Job, report: &mut IntegrityReport) {
    use super::JobState::{Done, Failed, Processing, Queued};
    let expected = match job.state {
        Queued | Processing => (false, false),
        Done => (true, false),
        Failed => (false, true),
    };
    let has = (job.result.is_some(), job.error.is_some());
    report.expect(has == expected, || {
        format!("job {} is {} with a result or an error missing or superfluous", job.id, job.state.name())
    });
    report.expect(Job::is_id(&job.id), || format!("no job can be called {}", job.id));
    report.expect(job.progress <= 100, || format!("job {} is done to {} of 100", job.id, job.progress));
    let early_webhook = !job.state.is_final() && job.webhook_at().is_some();
    report.expect(!early_webhook, || format!("the webhook of job {} is due before its end", job.id));
}
