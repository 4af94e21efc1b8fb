//! Bulk runs in a daemon that ends when it is idle (`server.idle_exit`).

use super::cluster::{Scene, fill_with_failures};
use super::support::assert_exit;
use crate::cli::serve::Daemon;
use crate::cli::socket_activation::activated;
use crate::support::hang_guard::within_a_minute;
use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;

/// The exit code of a daemon that processes and may lead bulk runs, once it ends by itself. It is never connected to.
fn exit_code_when_idle(scene: &Scene) -> Option<i32> {
    let config = scene.path("backdrop.toml");
    fs::write(&config, "[jobs.bulk_places]\ndefault = ['s3://shop/photos']\n").unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = activated("&0", &scene.path("data"));
    command.arg("--config").arg(config).stdin(Stdio::from(OwnedFd::from(socket)));
    let variables = scene.command(&[]);
    command.envs(variables.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("BACKDROP_SERVER_IDLE_EXIT", "200ms").env("BACKDROP_JOBS_BULK_PICTURES", "1");
    // Longer than the test: nothing may wait for its end.
    command.env("BACKDROP_SERVER_SHUTDOWN_GRACE", "10m");
    let mut daemon = Daemon(command.spawn().expect("the binary runs"));
    daemon.address();
    within_a_minute("an idle daemon", move || daemon.0.wait().unwrap().code())
}

#[test]
fn a_daemon_without_bulk_runs_ends_at_once() {
    let Some(scene) = Scene::new() else { return };
    assert_eq!(exit_code_when_idle(&scene), Some(0));
}

#[test]
fn a_daemon_processes_the_queued_runs_before_it_ends() {
    let Some(scene) = Scene::new() else { return };
    // Two chunks: between them it has none.
    fill_with_failures(&scene.path("in"), 120);
    assert_exit(&scene.bulk("out", &["--detach"]).output().unwrap(), 0);
    assert_eq!(exit_code_when_idle(&scene), Some(0));
    assert_eq!(scene.sql("SELECT count(*) FROM bulk_chunks WHERE state <> 'done'"), "0");
}
