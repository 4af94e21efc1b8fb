//! Creates a job from an incoming clip: the folder first, then the record, once per `Idempotency-Key`.
//!
//! On a database the clip is stored in the location of results before the record, for whichever daemon claims the job, and the folder is
//! deleted. The stored clip is deleted again where the record is refused. Of a crash in between it remains: see `results`.

use std::sync::atomic::Ordering;

use super::error::JobsError;
use super::job_folders::IncomingClip;
use super::job_view::JobView;
use super::new_job::{Created, NewJob};
use super::shared::Shared;
use super::{Job, JobState, RECORD_SECONDS, UnixSeconds, Webhook, input_in};
use crate::account::random_text;
use crate::store::{ChangeError, Month, QuotaExhausted, Reservation};

/// Characters of a job's id after `job_`.
const ID_LENGTH: usize = 24;

/// Attempts to record a job whose name belongs to an expired job that is about to be deleted.
const NAME_ATTEMPTS: u32 = 3;

pub(super) async fn create(shared: &Shared, new: NewJob, incoming: IncomingClip) -> Result<Created, JobsError> {
    let id = format!("job_{}", random_text(ID_LENGTH));
    shared.folders.adopt(incoming, &id).await?;
    let outcome = match store_input(shared, &id).await {
        Ok(()) => create_record(shared, &id, new).await,
        Err(error) => Err(error),
    };
    match &outcome {
        // A store that failed may have recorded it: the next start deletes the folder if it has not.
        Ok(Created::New(_))
        | Err(JobsError::Write(ChangeError::Closed | ChangeError::Storage(_) | ChangeError::Interrupted(_))) => {
            if shared.deps.store.is_shared() {
                shared.folders.remove(&id).await;
            }
        }
        Ok(Created::Same(_) | Created::Conflict) | Err(_) => shared.clear_input(&id).await,
    }
    outcome
}

/// Stores the clip for other daemons, if there may be any.
async fn store_input(shared: &Shared, id: &str) -> Result<(), JobsError> {
    if shared.deps.store.is_shared() {
        shared.deps.results.put_input(id, &input_in(&shared.folders.of(id))).await?;
    }
    Ok(())
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
    let created = submit(shared, job, reservation).await;
    if matches!(created, Ok(Created::New(_))) {
        shared.queued.notify_one();
    }
    created
}

async fn submit(shared: &Shared, job: Job, mut reservation: Option<Reservation>) -> Result<Created, JobsError> {
    let at_most = shared.tuning.max_queued_per_key;
    // More than one attempt only where the first job of the name expires at this moment.
    for _ in 0..NAME_ATTEMPTS {
        let first = match shared.deps.store.create_job(job.clone(), at_most, &mut reservation).await {
            Ok(()) => return Ok(Created::New(JobView { job, progress: 0 })),
            Err(ChangeError::TooManyJobs) => return Err(JobsError::TooMany(at_most)),
            Err(ChangeError::QuotaExceeded(kind)) => {
                return Err(QuotaExhausted { kind, resets_at: job.month.ends() }.into());
            }
            Err(ChangeError::JobNameTaken(id)) => id,
            Err(error) => return Err(error.into()),
        };
        match shared.view(&job.key_id, shared.deps.store.job(&first)).await? {
            Some(found) if found.job.fingerprint == job.fingerprint => return Ok(Created::Same(found)),
            Some(_) => return Ok(Created::Conflict),
            // It has expired and is not deleted yet, here or by another daemon.
            None => {
                if let Some(expired) = shared.deps.store.job(&first).await? {
                    shared.delete(&expired).await?;
                }
            }
        }
    }
    Err(ChangeError::Busy.into())
}

/// A place behind all earlier ones, also when the clock runs backwards.
fn next_place(shared: &Shared) -> i64 {
    let now = shared.tuning.clock.0();
    let next = |newest: i64| Some(now.max(newest.saturating_add(1)));
    let before = shared.place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(now);
    now.max(before.saturating_add(1))
}
