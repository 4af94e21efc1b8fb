//! The integration tests: one binary, a module per behaviour.

mod cli_config;
mod cli_eval;
mod cli_remove;
mod cli_serve;
mod codec_decode;
mod codec_encode;
#[cfg(feature = "heic")]
mod codec_heic;
mod codec_hostile;
mod codec_support;
mod command;
mod daemon_memory;
mod endpoints;
mod engine_device;
mod engine_fake;
mod engine_pipeline;
mod engine_queue;
#[cfg(feature = "gpu")]
mod gpu_network;
mod halo;
mod http_admin;
mod http_batches;
mod http_connections;
mod http_daemon;
mod http_forms;
mod http_replies;
mod http_urls;
mod keys_admin;
mod keys_commands;
mod keys_model;
mod keys_service;
mod matting;
mod network_parity;
mod openapi;
mod origin;
mod source_address;
mod source_fetch;
mod store_crash;
mod store_open;
mod store_queue;
mod store_records;
mod store_support;
