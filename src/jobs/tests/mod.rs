//! Tests of the job service on a real store, with fake workers, result stores and webhook receivers.

mod cancellation;
mod creation;
mod disk_space;
mod dying_store;
mod expiry;
mod failures;
mod lifecycle;
mod recovery;
mod support;
mod unreadable_records;
mod visibility;
mod webhooks;

pub(super) use support::job;
