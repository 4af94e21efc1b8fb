//! The durable stores: changes, records, crashes, full disks, its commands.

pub(crate) mod backend;
pub(crate) mod changes;
pub(crate) mod commands;
pub(crate) mod full_disk;
pub(crate) mod jobs;
pub(crate) mod model;
pub(crate) mod open;
pub(crate) mod postgres;
pub(crate) mod preset_references;
pub(crate) mod private_files;
pub(crate) mod queue;
pub(crate) mod records;
pub(crate) mod several_processes;
pub(crate) mod support;
pub(crate) mod upgrades;
