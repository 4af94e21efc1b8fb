//! The daemon of the soak and its disturbances: kills, a replaced key, a full disk, a clock that is set.

use crate::cli::serve::{Daemon, key_in};
use crate::soak::traffic::Traffic;
use crate::support::command::{backdrop, stderr, stdout};
use crate::support::small_disk;
use backdrop::store::UnixSeconds;
use jiff::fmt::rfc2822::DateTimeParser;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Duration of a full disk.
const FULL: Duration = Duration::from_secs(5);
/// Successive offsets of the daemon's clock in seconds, within the life of an `Idempotency-Key`.
const CLOCKS: [i64; 4] = [7200, -5400, 1800, 0];
/// Wait until the daemon has read the offset and its answers show the time.
const CLOCK_READ: Duration = Duration::from_secs(3);

/// A daemon that is restarted on its port and data.
pub(super) struct Machine {
    port: u16,
    /// The small disk.
    data: PathBuf,
    /// The file from which libfaketime reads the offset of its clock.
    clock: PathBuf,
    settings: Vec<(String, String)>,
    daemon: Daemon,
    /// Address of its admin interface.
    admin: String,
    pub(super) key_id: Option<String>,
    /// Revoked secrets.
    pub(super) revoked: Vec<String>,
    pub(super) kills: usize,
    pub(super) full_disks: usize,
    pub(super) set_clocks: usize,
}

/// The library that shows a process another time.
fn libfaketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("it is readable").flatten();
    let libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.into_iter().find(|library| library.exists()).expect("libfaketime: `apt-get install faketime`")
}

impl Machine {
    /// Starts a daemon with `settings` and its data in `data`. The test's files are in `beside`.
    pub(super) fn start(port: u16, data: &Path, beside: &Path, settings: &[(&str, &str)]) -> Self {
        let clock = beside.join("clock");
        fs::write(&clock, "+0").expect("a writable folder");
        let time = [
            ("LD_PRELOAD", libfaketime().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("FAKETIME_DISABLE_SHM", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ];
        let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned())).chain(time);
        let settings: Vec<_> = settings.map(|(name, value)| (name.to_owned(), value)).collect();
        let (daemon, admin) = Self::daemon(port, data, &settings);
        Self {
            port,
            data: data.to_owned(),
            clock,
            settings,
            daemon,
            admin,
            key_id: None,
            revoked: Vec::new(),
            kills: 0,
            full_disks: 0,
            set_clocks: 0,
        }
    }

    /// A listening daemon, and the address of its admin interface.
    fn daemon(port: u16, data: &Path, settings: &[(String, String)]) -> (Daemon, String) {
        let mut daemon = Daemon::start_at(&format!("127.0.0.1:{port}"), data, settings.iter().cloned());
        let (_, admin) = daemon.addresses();
        (daemon, admin)
    }

    /// Runs a command on the daemon's accounts; its standard output.
    fn administer(&self, arguments: &[&str]) -> String {
        let output = backdrop().args(arguments).arg("--data-dir").arg(&self.data).output().expect("the binary runs");
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    }

    /// Puts an account on the allow-list of generated backdrops.
    pub(super) fn allow_backdrops(&self, account: &str) {
        self.administer(&["accounts", "set", account, "--generates", "on"]);
    }

    /// The metrics of the running daemon.
    pub(super) async fn metrics(&self, traffic: &Traffic) -> String {
        let page = traffic.client.get(format!("http://{}/metrics", self.admin)).send().await.expect("an answer");
        page.text().await.expect("text")
    }

    /// Ends the daemon with SIGKILL and starts the next one.
    pub(super) fn kill(&mut self) {
        self.daemon.0.kill().expect("it runs");
        self.daemon.0.wait().expect("it ends");
        (self.daemon, self.admin) = Self::daemon(self.port, &self.data, &self.settings);
        self.kills += 1;
    }

    /// The disturbance of this number; the kinds take turns.
    pub(super) async fn disturb(&mut self, number: usize, traffic: &Traffic) {
        match number % 3 {
            0 => self.rotate_key(traffic, number.is_multiple_of(2)).await,
            1 => self.fill_disk(traffic).await,
            _ => self.set_clock(traffic, CLOCKS[number / 3 % CLOCKS.len()]).await,
        }
    }

    /// Replaces the key's secret. The old secret stays valid for a minute if `keep`.
    async fn rotate_key(&mut self, traffic: &Traffic, keep: bool) {
        let id = self.key_id.as_deref().expect("the key is known");
        let kept = if keep { &["--keep-old-for", "1m"][..] } else { &[] };
        let printed = self.administer(&[&["keys", "rotate", id], kept].concat());
        let secret = key_in(&printed).expect("a secret").to_owned();
        let old = traffic.key();
        traffic.set_key(secret);
        assert_eq!(traffic.status_of(&old).await, if keep { 200 } else { 401 }, "the replaced key");
        if !keep {
            self.revoked.push(old);
        }
    }

    /// Fills the disk, and makes room after [`FULL`].
    async fn fill_disk(&mut self, traffic: &Traffic) {
        let filler = self.data.join("filler");
        traffic.disk_is_full();
        let full = filler.clone();
        tokio::task::spawn_blocking(move || small_disk::fill(&full)).await.expect("the disk can be filled");
        traffic.disk_is_full();
        tokio::time::sleep(FULL).await;
        traffic.disk_is_full();
        fs::remove_file(filler).expect("it is there");
        self.full_disks += 1;
    }

    /// Sets the daemon's clock to the true time plus `offset` seconds.
    pub(super) async fn set_clock(&mut self, traffic: &Traffic, offset: i64) {
        fs::write(&self.clock, format!("{offset:+}")).expect("a writable folder");
        tokio::time::sleep(CLOCK_READ).await;
        let answer = traffic.client.get(traffic.url("/account")).send().await.expect("an answer");
        let date = answer.headers()["date"].to_str().expect("ASCII");
        let shown = DateTimeParser::new().parse_timestamp(date).expect("an HTTP date").as_second();
        let off = shown - UnixSeconds::now().0 - offset;
        assert!(off.abs() < 10, "the daemon's clock shows {date} and not {offset} s from now");
        self.set_clocks += 1;
    }

    /// Resident memory in bytes, and the number of descriptors.
    pub(super) fn resources(&self) -> (f64, usize) {
        let process = format!("/proc/{}", self.daemon.0.id());
        let status = fs::read_to_string(format!("{process}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        (kilobytes * 1024.0, fs::read_dir(format!("{process}/fd")).expect("it runs").count())
    }
}
