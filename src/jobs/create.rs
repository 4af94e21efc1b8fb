//! Creates a job from an incoming clip: the folder first, then the record, once per `Idempotency-Key`.

use std::sync::atomic::Ordering;

use super::error::JobsError;
use super::job_folders::IncomingClip;
use super::job_view::JobView;
use super::new_job::{Created, NewJob};
use super::shared::Shared;
use super::{Job, JobState, RECORD_SECONDS, UnixSeconds, Webhook, expiry};
use crate::account::{WriteError, random_text, write_change};
use crate::store::{Change, ChangeError, Month};

/// Characters of a job's id after `job_`.
const ID_LENGTH: usize = 24;

/// Attempts to record a job whose name belongs to an expired job that is about to be deleted.
const NAME_ATTEMPTS: u32 = 3;

pub(super) async fn create(shared: &Shared, new: NewJob, incoming: IncomingClip) -> Result<Created, JobsError> {
    let id = format!("job_{}", random_text(ID_LENGTH));
    shared.folders.adopt(incoming, &id).await?;
    let outcome = create_record(shared, &id, new).await;
    match &outcome {
        // A store that failed may have recorded it: the next start deletes the folder if it has not.
        Ok(Created::New(_))
        | Err(JobsError::Write(WriteError::Closed | WriteError::Change(ChangeError::Storage(_)))) => {}
        Ok(Created::Same(_) | Created::Conflict) | Err(_) => shared.folders.remove(&id).await,
    }
    outcome
}

/// Records a job whose folder exists.
async fn create_record(shared: &Shared, id: &str, new: NewJob) -> Result<Created, JobsError> {
    let now = shared.now();
    let NewJob { key_id, account, test, fields, format, name, fingerprint, unit_price, webhook, reservation } = new;
    let (month, reserved) = reservation.as_ref().map_or((Month::of(now), 0), |held| (held.month(), held.images()));
    let job = Job {
        id: id.to_owned(),
        key_id,
        account,
        test,
        state: JobState::Queued,
        progress: 0,
        fields,
        format: format.to_owned(),
        name,
        fingerprint,
        unit_price,
        month,
        reserved,
        created_at: now,
        place: next_place(shared),
        updated_at: now,
        expires_at: UnixSeconds(now.0.saturating_add(RECORD_SECONDS)),
        result: None,
        warnings: Vec::new(),
        error: None,
        webhook: webhook.map(|hook| Webhook { url: hook.url, base: hook.base, attempts: 0, next_at: None }),
    };
    shared.running.insert(id, &job.key_id, 0, reservation);
    let created = submit(shared, job).await;
    if matches!(created, Ok(Created::New(_))) {
        shared.queued.notify_one();
    } else {
        // Releases its reservation.
        shared.running.remove(id);
    }
    created
}

async fn submit(shared: &Shared, job: Job) -> Result<Created, JobsError> {
    let at_most = shared.tuning.max_queued_per_key;
    // More than one attempt only where the first job of the name expires at this moment.
    for _ in 0..NAME_ATTEMPTS {
        let change = Change::CreateJob { job: Box::new(job.clone()), at_most };
        let first = match write_change(&*shared.deps.store, change, |_| ()).await {
            Ok(_) => return Ok(Created::New(JobView { job, progress: 0 })),
            Err(WriteError::Change(ChangeError::TooManyJobs { .. })) => return Err(JobsError::TooMany(at_most)),
            Err(WriteError::Change(ChangeError::JobNameTaken(id))) => id,
            Err(error) => return Err(error.into()),
        };
        match shared.view(&job.key_id, move |store| store.job(&first)).await? {
            Some(first) if first.job.fingerprint == job.fingerprint => return Ok(Created::Same(first)),
            Some(_) => return Ok(Created::Conflict),
            // It has expired and is not deleted yet.
            None => expiry::delete_expired(shared, shared.now()).await,
        }
    }
    Err(WriteError::Change(ChangeError::Busy).into())
}

/// A place behind all earlier ones, also when the clock runs backwards.
fn next_place(shared: &Shared) -> i64 {
    let now = shared.tuning.clock.0();
    let next = |newest: i64| Some(now.max(newest.saturating_add(1)));
    let before = shared.place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(now);
    now.max(before.saturating_add(1))
}
