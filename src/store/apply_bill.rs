//! The rules of a bill: another request under its `Idempotency-Key` and images beyond a quota are refused, then the sums of account
//! and key and the request are written.

use super::quota_check::check_quota;
use super::storage_fault::ApplyError;
use super::write_tables::BillTables;
use super::{Bill, BillCheck, ChangeError, KeyDay, KeyUse, Month, REQUEST_SECONDS, Request, Rows, UnixSeconds, Usage};

/// Applies a bill; returns the written rows. A refused one has changed nothing.
pub(super) fn apply_bill(tables: &mut dyn BillTables, bill: Bill) -> Result<Rows, ApplyError> {
    let Bill { account, month, images, microdollars, request, by, check } = bill;
    let mut lease = None;
    if let Some(BillCheck { quota, earlier, lease: share }) = check {
        check_request(tables, &account, request.as_ref(), earlier)?;
        let key_id = by.as_ref().map(|by| by.key_id.as_str());
        // Last: a refusal must leave the lease as it is.
        lease = check_quota(tables, (&account, key_id, month), images, quota, share)?;
    }
    let rows = add_bill(tables, account, month, Usage { images, microdollars }, request, by)?;
    Ok(Rows { leases: lease.into_iter().collect(), ..rows })
}

/// Adds to the sums of account and key, without the checks of [`apply_bill`].
pub(super) fn add_bill(
    tables: &mut dyn BillTables,
    account: String,
    month: Month,
    more: Usage,
    request: Option<(String, Request)>,
    by: Option<KeyUse>,
) -> Result<Rows, ApplyError> {
    if !tables.has_account(&account)? {
        return Err(ChangeError::NoSuchAccount(account).into());
    }
    let usage = tables.add_usage(&account, month, more)?;
    let mut rows = Rows::default();
    if let Some((key, request)) = request {
        tables.put_request(&account, &key, &request)?;
        rows.requests.push((account.clone(), key, request));
    }
    // A sandbox key bills nothing, and leaves no row.
    if let Some(KeyUse { key_id, day, milliseconds }) = by
        && more != Usage::default()
    {
        let more = KeyDay { images: more.images, milliseconds, microdollars: more.microdollars };
        let sum = tables.add_key_day(&account, day, &key_id, more)?;
        rows.key_days.push((account.clone(), day, key_id, sum));
    }
    rows.usage.push((account, month, usage));
    Ok(rows)
}

/// Refuses a request whose `Idempotency-Key` has another record than the `earlier` one that it continues.
fn check_request(
    tables: &mut dyn BillTables,
    account: &str,
    request: Option<&(String, Request)>,
    earlier: Option<(UnixSeconds, u64)>,
) -> Result<(), ApplyError> {
    let Some((key, request)) = request else { return Ok(()) };
    let oldest = UnixSeconds(request.at.0.saturating_sub(REQUEST_SECONDS));
    match tables.request(account, key)?.filter(|stored| stored.at >= oldest) {
        Some(stored) if earlier != Some((stored.at, stored.images)) => {
            Err(ChangeError::RequestBilled(Box::new(stored)).into())
        }
        Some(_) | None => Ok(()),
    }
}
