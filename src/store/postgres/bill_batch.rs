//! Rows of consecutive bills: loaded by one round trip for all of them, changed in memory, and written by another.
//!
//! Each bill reads and writes up to five rows. With a statement for each, the round trips to the server would limit the bills of all
//! processes together, since commits have one order. Sums saturate at the largest number of a column.
//!
//! The rows of a key are selected by a subquery of its own (`OFFSET 0` keeps it one): joined with the keys, a table without statistics
//! is read as a whole, and the connection keeps that plan when the table has grown.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::reads::{LARGEST, Queries, Query, count, key_day, request, stored, usage};
use crate::store::records::{Record, RequestRecord};
use crate::store::storage_fault::Fault;
use crate::store::write_tables::{BillTables, ImagesInMonth};
use crate::store::{Bill, Day, KeyDay, Month, Request, Usage};

/// Account and month.
type UsageKey = (String, Month);
/// Account, day and key.
type KeyDayKey = (String, Day, String);
/// Account and `Idempotency-Key`.
type RequestKey = (String, String);
/// Account, key and month.
type ImagesKey = (String, Option<String>, Month);

/// The keys of rows.
#[derive(Default)]
struct RowKeys {
    accounts: HashSet<String>,
    usage: HashSet<UsageKey>,
    key_days: HashSet<KeyDayKey>,
    requests: HashSet<RequestKey>,
    images: HashSet<ImagesKey>,
}

impl RowKeys {
    /// Of the rows that bills read. One that is missing here is loaded when it is used.
    fn of<'b>(bills: impl IntoIterator<Item = &'b Bill>) -> Self {
        let mut keys = Self::default();
        for Bill { account, month, images, request, by, check, .. } in bills {
            keys.accounts.insert(account.clone());
            keys.usage.insert((account.clone(), *month));
            if let Some(by) = by {
                keys.key_days.insert((account.clone(), by.day, by.key_id.clone()));
            }
            if let Some((key, _)) = request.as_ref().filter(|_| check.is_some()) {
                keys.requests.insert((account.clone(), key.clone()));
            }
            if check.is_some_and(|check| *images > 0 && !check.quota.is_unlimited()) {
                let key_id = by.as_ref().map(|by| by.key_id.clone());
                keys.images.insert((account.clone(), key_id, *month));
            }
        }
        keys
    }
}

/// A row in memory.
#[derive(Clone, Default)]
struct Cached<T> {
    row: T,
    is_changed: bool,
}

impl<T> Cached<T> {
    const fn loaded(row: T) -> Self {
        Self { row, is_changed: false }
    }

    const fn changed(row: T) -> Self {
        Self { row, is_changed: true }
    }
}

/// The rows in memory. One that is not stored has zeros, or is `None`.
#[derive(Default)]
struct CachedRows {
    accounts: HashMap<String, bool>,
    usage: HashMap<UsageKey, Cached<Usage>>,
    key_days: HashMap<KeyDayKey, Cached<KeyDay>>,
    requests: HashMap<RequestKey, Cached<Option<Request>>>,
    images: HashMap<(String, Month), HashMap<Option<String>, ImagesInMonth>>,
}

/// The tables with the rows of some bills in memory. Changes are lost without [`BillBatch::write`].
pub(super) struct BillBatch<'q, 'a> {
    queries: &'q mut Queries<'a>,
    rows: CachedRows,
    has_dropped_leases: bool,
}

impl<'q, 'a> BillBatch<'q, 'a> {
    /// Without a row: each is loaded when it is used.
    pub(super) fn new(queries: &'q mut Queries<'a>) -> Self {
        Self { queries, rows: CachedRows::default(), has_dropped_leases: false }
    }

    /// With the rows of these bills.
    pub(super) fn of<'b>(
        queries: &'q mut Queries<'a>,
        bills: impl IntoIterator<Item = &'b Bill>,
    ) -> Result<Self, Fault> {
        let mut batch = Self::new(queries);
        batch.load(RowKeys::of(bills))?;
        Ok(batch)
    }

    /// Loads rows that are not changed in memory.
    fn load(&mut self, keys: RowKeys) -> Result<(), Fault> {
        let names: Vec<&str> = keys.accounts.iter().map(String::as_str).collect();
        let (usage_accounts, months) = usage_columns(&keys.usage);
        let (day_accounts, days, day_keys) = key_day_columns(&keys.key_days);
        let (request_accounts, request_keys) = request_columns(&keys.requests);
        let images: Vec<ImagesKey> = keys.images.into_iter().collect();
        let (image_accounts, image_keys): (Vec<_>, Vec<_>) =
            images.iter().map(|(account, key, _)| (account.as_str(), key.as_deref())).unzip();
        let image_months: Vec<i64> = images.iter().map(|(_, _, month)| i64::from(month.0)).collect();
        let (firsts, nexts): (Vec<_>, Vec<_>) = images.iter().map(|(_, _, month)| days_of(*month)).unzip();
        let loaded = self.queries.rows_of_all([
            Query {
                elements: names.len(),
                text: "SELECT found.name FROM unnest($1::text[]) AS k (name) CROSS JOIN LATERAL \
                     (SELECT a.name FROM accounts a WHERE a.name = k.name OFFSET 0) AS found",
                parameters: &[&names],
            },
            Query {
                elements: months.len(),
                text: "SELECT found.* FROM unnest($1::text[], $2::bigint[]) AS k (account, month) CROSS JOIN LATERAL \
                     (SELECT u.account, u.month, u.images, u.microdollars FROM usage u \
                      WHERE u.account = k.account AND u.month = k.month OFFSET 0) AS found",
                parameters: &[&usage_accounts, &months],
            },
            Query {
                elements: days.len(),
                text: "SELECT found.* FROM unnest($1::text[], $2::bigint[], $3::text[]) AS k (account, day, key_id) \
                     CROSS JOIN LATERAL \
                     (SELECT d.account, d.day, d.key_id, d.images, d.milliseconds, d.microdollars FROM key_days d \
                      WHERE d.account = k.account AND d.day = k.day AND d.key_id = k.key_id OFFSET 0) AS found",
                parameters: &[&day_accounts, &days, &day_keys],
            },
            Query {
                elements: request_keys.len(),
                text: "SELECT found.* FROM unnest($1::text[], $2::text[]) AS k (account, key) CROSS JOIN LATERAL \
                     (SELECT r.account, r.key, r.record FROM requests r \
                      WHERE r.account = k.account AND r.key = k.key OFFSET 0) AS found",
                parameters: &[&request_accounts, &request_keys],
            },
            Query {
                elements: images.len(),
                text: IMAGES_IN_MONTH,
                parameters: &[&image_accounts, &image_keys, &image_months, &firsts, &nexts],
            },
        ]);
        let [of_accounts, of_usage, of_days, of_requests, of_images] = loaded?;

        let rows = &mut self.rows;
        rows.accounts.extend(keys.accounts.iter().map(|name| (name.clone(), false)));
        rows.accounts.extend(of_accounts.iter().map(|row| (row.get(0), true)));
        rows.usage.extend(keys.usage.into_iter().map(|key| (key, Cached::default())));
        for row in &of_usage {
            let (account, month, used) = usage(row)?;
            rows.usage.insert((account, month), Cached::loaded(used));
        }
        rows.key_days.extend(keys.key_days.into_iter().map(|key| (key, Cached::default())));
        for row in &of_days {
            let (account, day, key, used) = key_day(row)?;
            rows.key_days.insert((account, day, key), Cached::loaded(used));
        }
        rows.requests.extend(keys.requests.into_iter().map(|key| (key, Cached::default())));
        for row in &of_requests {
            let (account, key, request) = request(row)?;
            rows.requests.insert((account, key), Cached::loaded(Some(request)));
        }
        // In the order of the parameters.
        for (row, (account, key, month)) in of_images.iter().zip(images) {
            let [account_images, key_images, leased, leased_by_key] = [0, 1, 2, 3].map(|column| count(row, column));
            let images = ImagesInMonth { account: account_images, key: key_images, leased, leased_by_key };
            rows.images.entry((account, month)).or_default().insert(key, images);
        }
        Ok(())
    }

    /// Loads the images of months again, after leases have changed.
    fn reload_images(&mut self) -> Result<(), Fault> {
        // The server counts what it has.
        self.write()?;
        let loaded = std::mem::take(&mut self.rows.images).into_iter();
        let images = loaded.flat_map(|((account, month), keys)| {
            keys.into_keys().map(move |key_id| (account.clone(), key_id, month)).collect::<Vec<_>>()
        });
        self.load(RowKeys { images: images.collect(), ..RowKeys::default() })
    }

    /// Writes the changed rows.
    pub(super) fn write(&mut self) -> Result<(), Fault> {
        let usage = take_changed(&mut self.rows.usage);
        let key_days = take_changed(&mut self.rows.key_days);
        let requests = take_changed(&mut self.rows.requests);
        let (usage_accounts, months) = usage_columns(usage.iter().map(|(key, _)| key));
        let (usage_images, usage_prices): (Vec<_>, Vec<_>) =
            usage.iter().map(|(_, sum)| (stored(sum.images), stored(sum.microdollars))).unzip();
        let (day_accounts, days, day_keys) = key_day_columns(key_days.iter().map(|(key, _)| key));
        let (day_images, day_times, day_prices): (Vec<_>, Vec<_>, Vec<_>) = key_days
            .iter()
            .map(|(_, sum)| (stored(sum.images), stored(sum.milliseconds), stored(sum.microdollars)))
            .collect();
        let (request_accounts, request_keys) = request_columns(requests.iter().map(|(key, _)| key));
        let encoded = |request: &Request| (request.at.0, RequestRecord::from_latest(request.clone()).encode());
        let (times, records): (Vec<_>, Vec<_>) =
            requests.iter().map(|(_, request)| request.as_ref().map(encoded).unzip()).unzip();
        let written = self.queries.rows_of_all([
            Query {
                elements: months.len(),
                text: "INSERT INTO usage (account, month, images, microdollars) \
                     SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) \
                     ON CONFLICT (month, account) DO UPDATE SET \
                     images = excluded.images, microdollars = excluded.microdollars",
                parameters: &[&usage_accounts, &months, &usage_images, &usage_prices],
            },
            Query {
                elements: days.len(),
                text: "INSERT INTO key_days (account, day, key_id, images, milliseconds, microdollars) \
                     SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) \
                     ON CONFLICT (account, day, key_id) DO UPDATE SET images = excluded.images, \
                     milliseconds = excluded.milliseconds, microdollars = excluded.microdollars",
                parameters: &[&day_accounts, &days, &day_keys, &day_images, &day_times, &day_prices],
            },
            Query {
                elements: request_keys.len(),
                text: "INSERT INTO requests (account, key, at, record) \
                     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) \
                     ON CONFLICT (account, key) DO UPDATE SET at = excluded.at, record = excluded.record",
                parameters: &[&request_accounts, &request_keys, &times, &records],
            },
        ]);
        written.map(drop)
    }
}

/// Images of months that were billed, that unfinished jobs reserve, and that daemons lease, in the order of the parameters: accounts,
/// keys, months, their first days and those of the months after them.
const IMAGES_IN_MONTH: &str = "SELECT \
     least((SELECT coalesce(sum(images), 0) FROM usage WHERE account = k.account AND month = k.month) \
       + (SELECT coalesce(sum(reserved), 0) FROM jobs WHERE account = k.account AND month = k.month \
          AND state IN ('queued', 'processing') AND reserved > 0), 9223372036854775807)::bigint, \
     least((SELECT coalesce(sum(images), 0) FROM key_days \
          WHERE account = k.account AND day >= k.first AND day < k.next AND key_id = k.key_id) \
       + (SELECT coalesce(sum(reserved), 0) FROM jobs WHERE account = k.account AND month = k.month \
          AND state IN ('queued', 'processing') AND reserved > 0 AND key_id = k.key_id), 9223372036854775807)::bigint, \
     leased.of_account, leased.of_key \
     FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY \
       AS k (account, key_id, month, first, next, place) \
     CROSS JOIN LATERAL (SELECT coalesce(sum(images), 0)::bigint AS of_account, \
       coalesce(sum(images) FILTER (WHERE key_id = k.key_id), 0)::bigint AS of_key \
       FROM leases WHERE account = k.account AND month = k.month) AS leased ORDER BY k.place";

/// The first days of a month and of the one after it.
fn days_of(month: Month) -> (i64, i64) {
    (i64::from(Day::first_of(month).0), i64::from(Day::of(month.ends()).0))
}

fn usage_columns<'k>(keys: impl IntoIterator<Item = &'k UsageKey>) -> (Vec<&'k str>, Vec<i64>) {
    keys.into_iter().map(|(account, month)| (account.as_str(), i64::from(month.0))).unzip()
}

fn key_day_columns<'k>(keys: impl IntoIterator<Item = &'k KeyDayKey>) -> (Vec<&'k str>, Vec<i64>, Vec<&'k str>) {
    keys.into_iter().map(|(account, day, key)| (account.as_str(), i64::from(day.0), key.as_str())).collect()
}

fn request_columns<'k>(keys: impl IntoIterator<Item = &'k RequestKey>) -> (Vec<&'k str>, Vec<&'k str>) {
    keys.into_iter().map(|(account, key)| (account.as_str(), key.as_str())).unzip()
}

/// The changed rows, which count as unchanged from now on.
fn take_changed<K: Clone + Eq + Hash, T: Clone>(rows: &mut HashMap<K, Cached<T>>) -> Vec<(K, T)> {
    let changed = |(key, cached): (&K, &mut Cached<T>)| {
        std::mem::take(&mut cached.is_changed).then(|| (key.clone(), cached.row.clone()))
    };
    rows.iter_mut().filter_map(changed).collect()
}

impl BillTables for BillBatch<'_, '_> {
    fn has_account(&mut self, name: &str) -> Result<bool, Fault> {
        if !self.rows.accounts.contains_key(name) {
            self.load(RowKeys { accounts: [name.to_owned()].into(), ..RowKeys::default() })?;
        }
        Ok(self.rows.accounts.get(name).copied().unwrap_or_default())
    }

    fn request(&mut self, account: &str, key: &str) -> Result<Option<Request>, Fault> {
        let key = (account.to_owned(), key.to_owned());
        if !self.rows.requests.contains_key(&key) {
            self.load(RowKeys { requests: [key.clone()].into(), ..RowKeys::default() })?;
        }
        Ok(self.rows.requests.get(&key).and_then(|cached| cached.row.clone()))
    }

    fn images_in_month(&mut self, account: &str, key_id: Option<&str>, month: Month) -> Result<ImagesInMonth, Fault> {
        let (of_account, key_id) = ((account.to_owned(), month), key_id.map(str::to_owned));
        let cached = |rows: &CachedRows| rows.images.get(&of_account).and_then(|keys| keys.get(&key_id)).copied();
        if let Some(images) = cached(&self.rows) {
            return Ok(images);
        }
        self.write()?;
        let key = (account.to_owned(), key_id.clone(), month);
        self.load(RowKeys { images: [key].into(), ..RowKeys::default() })?;
        cached(&self.rows).ok_or_else(|| Fault::Damaged("a sum was not returned".into()))
    }

    fn spend_lease(&mut self, id: i64, images: u64) -> Result<bool, Fault> {
        let is_spent = self.queries.spend_lease(id, images)?;
        if is_spent {
            self.reload_images()?;
        }
        Ok(is_spent)
    }

    fn drop_ended_leases(&mut self) -> Result<(), Fault> {
        if !std::mem::replace(&mut self.has_dropped_leases, true) {
            self.queries.drop_ended_leases()?;
            self.reload_images()?;
        }
        Ok(())
    }

    fn add_usage(&mut self, account: &str, month: Month, more: Usage) -> Result<Usage, Fault> {
        let key = (account.to_owned(), month);
        if !self.rows.usage.contains_key(&key) {
            self.load(RowKeys { usage: [key.clone()].into(), ..RowKeys::default() })?;
        }
        for images in self.rows.images.get_mut(&key).into_iter().flat_map(HashMap::values_mut) {
            images.account = images.account.saturating_add(more.images);
        }
        let cached = self.rows.usage.entry(key).or_default();
        *cached = Cached::changed(cached.row.plus(more).at_most(LARGEST));
        Ok(cached.row)
    }

    fn put_request(&mut self, account: &str, key: &str, request: &Request) -> Result<(), Fault> {
        let key = (account.to_owned(), key.to_owned());
        self.rows.requests.insert(key, Cached::changed(Some(request.clone())));
        Ok(())
    }

    fn add_key_day(&mut self, account: &str, day: Day, key_id: &str, more: KeyDay) -> Result<KeyDay, Fault> {
        let key = (account.to_owned(), day, key_id.to_owned());
        if !self.rows.key_days.contains_key(&key) {
            self.load(RowKeys { key_days: [key.clone()].into(), ..RowKeys::default() })?;
        }
        let of_month = self.rows.images.get_mut(&(account.to_owned(), day.month()));
        if let Some(images) = of_month.and_then(|keys| keys.get_mut(&Some(key_id.to_owned()))) {
            images.key = images.key.saturating_add(more.images);
        }
        let cached = self.rows.key_days.entry(key).or_default();
        *cached = Cached::changed(cached.row.plus(more).at_most(LARGEST));
        Ok(cached.row)
    }
}
