//! What a request needs of the database: its admission, its claim of an `Idempotency-Key`, and its bill. Each is a function of
//! the schema (`migrations/6.sql`, `7.sql`) and one round trip.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::database::Database;
use super::error::DatabaseError;
use super::rows::{Parameters, account, count, record, row, stored};
use crate::store::claim::Hold;
use crate::store::quota::plan_quota;
use crate::store::records::{KeyRecord, Record, RequestRecord};
use crate::store::{
    Admission, Admitted, Bill, ChangeError, Claim, Credential, Day, ImagesLeft, KeyUse, Month, OpenError, QuotaKind,
    REQUEST_SECONDS, RateKind, RateRule, RateStatus, UnixSeconds, Usage,
};

/// How much longer than its request a claim lasts, where its daemon dies.
const CLAIM_MARGIN: Duration = Duration::from_secs(5);

/// A claimed key. Dropped, the claim ends.
#[derive(Debug)]
pub(in crate::store) struct RowClaim {
    database: Database,
    account: String,
    key: String,
    /// Identifies the claim.
    owner: i64,
    /// The record of what is billed.
    billed: Mutex<Option<Vec<u8>>>,
    is_over: AtomicBool,
}

/// The first and the last day of a month.
pub(super) fn days_of(month: Month) -> (i64, i64) {
    let first_of_next = Day::of(month.ends());
    (i64::from(Day::first_of(month).0), i64::from(first_of_next.0) - 1)
}

impl Database {
    pub(in crate::store) async fn admit(
        &self,
        credential: Credential<'_>,
        rule: &RateRule,
    ) -> Result<Admission, OpenError> {
        let now = UnixSeconds::now();
        let month = Month::of(now);
        let (first, last) = days_of(month);
        let (hash, name) = match &credential {
            Credential::Key(hash) => (Some(hash.0.as_slice()), None),
            Credential::Account(name) => (None, Some(*name)),
        };
        let is_service = rule.kind == RateKind::Services;
        let limits = rule.limits.map(i64::from).to_vec();
        let text = "SELECT * FROM admit($1, $2, $3, $4, $5, $6, $7, $8)";
        let admitted = self
            .read(text, &[&hash, &name, &is_service, &limits, &now.0, &i64::from(month.0), &first, &last], |row| {
                let key = row.get::<_, Option<&[u8]>>(1).is_some().then(|| record::<KeyRecord>(row, 1, "a key"));
                let key = key.transpose()?;
                if row.get::<_, Option<&[u8]>>(0).is_none() {
                    return Ok(key.and_then(|key| key.expires_at).map_or(Admission::Unknown, Admission::Expired));
                }
                let account = account(row, 0)?;
                let left = |quota: Option<u64>, used: Option<i64>| {
                    quota.map(|quota| quota.saturating_sub(used.unwrap_or(0).unsigned_abs()))
                };
                let plan = plan_quota(account.plan, self.free_images_per_month());
                let key_quota = key.as_ref().and_then(|key| key.images_per_month);
                let left = ImagesLeft { plan: left(plan, row.get(5)), key: left(key_quota, row.get(6)) };
                let rate =
                    RateStatus { allowed: row.get(2), ..rate(rule.limit(account.plan), count(row, 3), count(row, 4)) };
                Ok(Admission::Admitted(Box::new(Admitted { account, key, rate, left })))
            })
            .await?;
        Ok(admitted.into_iter().next().unwrap_or(Admission::Unknown))
    }

    pub(in crate::store) async fn count_work(&self, key_id: &str, more: u32) -> Result<(), OpenError> {
        let more = i32::try_from(more).unwrap_or(i32::MAX);
        let counted = self.read("SELECT count_calls($1, false, 0, $2, true)", &[&key_id, &more], |_| Ok(())).await;
        counted.map(drop)
    }

    pub(in crate::store) async fn rate(&self, key_id: &str, limit: u32) -> Result<RateStatus, OpenError> {
        let text = "SELECT used, reset_seconds FROM count_calls($1, false, $2, 0, false)";
        let status = |row: &_| Ok(rate(limit, count(row, 0), count(row, 1)));
        Ok(self.read(text, &[&key_id, &i64::from(limit)], status).await?.pop().unwrap_or(rate(limit, 0, 0)))
    }

    pub(in crate::store) async fn usage(&self, account: &str, month: Month) -> Result<Usage, OpenError> {
        let text = "SELECT images, microdollars FROM usage WHERE account = $1 AND month = $2";
        let usage = |row: &_| Ok(Usage { images: count(row, 0), microdollars: count(row, 1) });
        Ok(self.read(text, &[&account, &i64::from(month.0)], usage).await?.pop().unwrap_or_default())
    }

    /// Claims a key for a request. `None` while another claim holds the key: try again.
    ///
    /// In a task, so that a caller who leaves during the statement drops a claim that deletes its row.
    pub(in crate::store) async fn claim(
        &self,
        account: &str,
        key: &str,
        fingerprint: [u8; 32],
        now: UnixSeconds,
        lasts: Duration,
    ) -> Result<Option<Claim>, OpenError> {
        let (database, account, key) = (self.clone(), account.to_owned(), key.to_owned());
        let claimed = tokio::spawn(async move {
            let owner: i64 = rand::random();
            let (oldest, seconds) = (now.0.saturating_sub(REQUEST_SECONDS), (lasts + CLAIM_MARGIN).as_secs_f64());
            let text = "SELECT state, billed FROM claim($1, $2, $3, $4, $5, $6)";
            let parameters: Parameters<'_> = &[&account, &key, &fingerprint.as_slice(), &owner, &seconds, &oldest];
            let row = |row: &Row| Ok((row.get::<_, String>(0), row.get::<_, Option<Vec<u8>>>(1)));
            let (state, record) = database.read(text, parameters, row).await?.pop().unwrap_or_default();
            let billed = record.as_deref().map(RequestRecord::decode).transpose();
            // Dropped where the key is not needed.
            let hold = (state == "taken").then(|| {
                Hold::Row(RowClaim {
                    database: database.clone(),
                    account,
                    key: key.clone(),
                    owner,
                    billed: Mutex::new(record),
                    is_over: AtomicBool::new(false),
                })
            });
            let unreadable = |error| DatabaseError::unreadable("a request", &error).into_open_error(database.name());
            let billed = billed.map_err(unreadable)?.map(Record::latest);
            Ok(Claim::of_attempt(&key, fingerprint, now, billed, hold, state == "other"))
        });
        claimed.await.expect("the statement does not panic, and nothing aborts it")
    }

    /// Bills pictures of a request.
    pub(in crate::store) async fn bill(&self, new: &Bill, claim: Option<&RowClaim>) -> Result<(), ChangeError> {
        self.run(async { bill(&self.client().await?, new, claim, self.free_images_per_month()).await }).await?;
        Ok(())
    }
}

/// Bills pictures of a request, and ends its claim if all of its pictures are billed then.
pub(super) async fn bill(
    on: &impl GenericClient,
    bill: &Bill,
    claim: Option<&RowClaim>,
    free_images_per_month: u64,
) -> Result<(), DatabaseError> {
    let Bill { account, month, images, microdollars, request, by } = bill;
    let (first, last) = days_of(*month);
    let (key_id, day, milliseconds) = match by {
        Some(KeyUse { key_id, day, milliseconds }) => (Some(key_id), i64::from(day.0), stored(*milliseconds)),
        None => (None, 0, 0),
    };
    let (key, request) = request.as_ref().map(|(key, request)| (key, request)).unzip();
    let at = request.map_or(0, |request| request.at.0);
    let record = request.map(|request| RequestRecord::from_latest(request.clone()).encode());
    let earlier = claim.and_then(|claim| claim.billed().clone());
    let is_complete = request.is_some_and(|request| request.pictures.iter().all(Option::is_some));
    let owner = claim.filter(|_| is_complete).map(|claim| claim.owner);
    let text =
        "SELECT refusal, billed FROM bill($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
    let parameters: Parameters<'_> = &[
        account,
        &i64::from(month.0),
        &first,
        &last,
        &key_id,
        &day,
        &stored(*images),
        &milliseconds,
        &stored(*microdollars),
        &stored(free_images_per_month),
        &key,
        &at,
        &record,
        &earlier,
        &at.saturating_sub(REQUEST_SECONDS),
        &owner,
    ];
    let row = row(on, text, parameters).await?;
    let Some((row, refusal)) = row.as_ref().and_then(|row| Some((row, row.get::<_, Option<&str>>(0)?))) else {
        if let Some(claim) = claim {
            *claim.billed() = record;
            claim.is_over.store(owner.is_some(), Ordering::Relaxed);
        }
        return Ok(());
    };
    let later = row.get::<_, Option<&[u8]>>(1).and_then(|bytes| RequestRecord::decode(bytes).ok());
    Err(match (refusal, later) {
        ("request", Some(later)) => ChangeError::RequestBilled(Box::new(later.latest())).into(),
        _ => refused(refusal, account).into(),
    })
}

/// The refusal of `check_quota`.
pub(super) fn refused(refusal: &str, account: &str) -> ChangeError {
    match refusal {
        "account" => ChangeError::NoSuchAccount(account.to_owned()),
        "key" => ChangeError::QuotaExceeded(QuotaKind::Key),
        _ => ChangeError::QuotaExceeded(QuotaKind::Plan),
    }
}

fn rate(limit: u32, used: u64, reset_seconds: u64) -> RateStatus {
    let used = u32::try_from(used).unwrap_or(u32::MAX);
    let remaining = limit.saturating_sub(used);
    RateStatus { allowed: remaining > 0, limit, remaining, reset: Duration::from_secs(reset_seconds) }
}

impl RowClaim {
    /// Never held across an await. A panic under the lock leaves a whole value, so poison is no reason to stop.
    fn billed(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.billed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RowClaim {
    fn drop(&mut self) {
        if *self.is_over.get_mut() {
            return;
        }
        let (database, account, key) = (self.database.clone(), self.account.clone(), self.key.clone());
        let owner = self.owner;
        // Where this fails the claim ends by its time.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let text = "DELETE FROM claims WHERE account = $1 AND key = $2 AND owner = $3";
                drop(database.execute(text, &[&account, &key, &owner]).await);
            });
        }
    }
}
