//! Pictures are processed in memory: no endpoint writes any part of a picture to a file.
//!
//! `strace` records every file that the daemon and its children open for writing, and what they write. Allowed are the store's
//! own files, and in these no run of the input's or the result's bytes. Without strace (or the right to trace) the tests fail,
//! or are skipped with a notice where `BACKDROP_TEST_STRACE=skip` is set. Clips are not part of this: they are stored for as
//! long as their job exists.

#![cfg(target_os = "linux")]

use crate::cli::serve::{Daemon, KEY, Running, serve};
use crate::source::origin::{Answer, Origin};
use crate::support::command::{backdrop, golden_picture, photo, stderr, with_variables};
use crate::support::pictures::encoded;
use crate::support::skipped;
use backdrop::image::{Buffer, Frame, OutputFormat, Size};
use backdrop::recipe::{BG_FILE, ENDPOINTS, Endpoint, Input};
use bytes::Bytes;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// Prefixes of the data directory's own files: the store, and the token of the admin listener.
const OWN: [&str; 2] = ["state.", "admin.token"];

/// Any run of a picture that is this long is detected.
const RUN: usize = 32;
/// Bytes of a window; a picture's windows begin at every `RUN - WINDOW` bytes, so that each run contains one.
const WINDOW: usize = 24;

/// Calls that open, name or write files. `io_uring_setup` is among them because what follows it would be invisible.
const CALLS: &str = "trace=open,openat,openat2,creat,mknod,mknodat,truncate,ftruncate,fallocate,rename,renameat,renameat2,\
    link,linkat,symlink,symlinkat,mkdir,mkdirat,write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,splice,\
    memfd_create,io_uring_setup";

/// Whether processes can be traced here.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-D", "-f", "-o", "/dev/null", "true"]).output();
    let can = traced.is_ok_and(|output| output.status.success());
    if !can {
        #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
        let may_skip = std::env::var("BACKDROP_TEST_STRACE").is_ok_and(|value| value == "skip");
        assert!(may_skip, "strace is missing or may not trace; BACKDROP_TEST_STRACE=skip skips these tests");
        skipped::notice("no strace, that pictures stay in memory was NOT tested");
    }
    can
}

/// `command` under strace, its records in `folder`. The tracer is a grandchild, so that the child is the program itself.
fn traced(command: &Command, folder: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.args("-D -ff -qq -y -xx -s 65536 --seccomp-bpf -e signal=none -e".split(' ')).args([CALLS, "-o"]);
    strace.arg(folder.join("trace")).arg(command.get_program()).args(command.get_args());
    with_variables(strace, command)
}

/// The files that a process wrote, and their bytes.
#[derive(Debug, Default)]
struct Record {
    /// Files that were opened for writing, and names that were made.
    opened: HashSet<PathBuf>,
    /// What was written to files, call by call.
    written: Vec<(PathBuf, Vec<u8>)>,
    /// Calls that a record cannot follow.
    hidden: Vec<String>,
}

impl Record {
    /// Reads strace's files, one per thread.
    fn read(folder: &Path) -> Self {
        let mut record = Self::default();
        for entry in fs::read_dir(folder).expect("a folder") {
            let text = fs::read_to_string(entry.expect("readable").path()).expect("strace writes ASCII");
            text.lines().for_each(|line| record.add(line));
        }
        record
    }

    fn add(&mut self, line: &str) {
        let Some((call, rest)) = line.split_once('(') else { return };
        let (arguments, result) = rest.rsplit_once(" = ").unwrap_or((rest, ""));
        if result.starts_with('-') {
            return;
        }
        match call {
            "open" | "openat" | "openat2" => {
                let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"];
                if writes.iter().any(|flag| arguments.contains(flag)) {
                    self.opened.extend(annotated(result));
                }
            }
            "creat" => self.opened.extend(annotated(result)),
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "ftruncate" | "fallocate" => {
                let Some(path) = annotated(arguments).filter(|path| path.is_absolute()) else { return };
                let bytes = quoted(arguments).concat();
                self.written.push((path, bytes));
            }
            "sendfile" | "copy_file_range" | "splice" | "io_uring_setup" => self.hidden.push(line.to_owned()),
            // Memory without a name: nothing of it outlives the process.
            "memfd_create" => {}
            _ => {
                let names = quoted(arguments).into_iter().map(|name| PathBuf::from(OsStr::from_bytes(&name)));
                self.opened.extend(names);
            }
        }
    }

    /// Files that should not have been written or that contain a part of a picture, each as a sentence.
    fn violations(&self, is_own: impl Fn(&Path) -> bool, pictures: &Windows) -> Vec<String> {
        let stray = self.opened.iter().chain(self.written.iter().map(|(path, _)| path)).collect::<HashSet<_>>();
        // Memory between the daemon and its decode workers, without a name in any file system.
        let is_memory = |path: &Path| path.as_os_str().as_bytes().starts_with(b"/memfd:");
        let stray = stray.into_iter().filter(|path| !is_own(path) && !is_memory(path));
        let stray = stray.map(|path| format!("{} was opened for writing", path.display()));
        let leaks = self.written.iter().filter(|(path, bytes)| !is_memory(path) && pictures.are_in(bytes));
        let leaks = leaks.map(|(path, _)| format!("a part of a picture was written to {}", path.display()));
        let hidden = self.hidden.iter().map(|line| format!("cannot be followed: {line}"));
        stray.chain(leaks).chain(hidden).collect()
    }
}

/// The path behind the first file descriptor: `5<\x2f…>`.
fn annotated(text: &str) -> Option<PathBuf> {
    let (_, path) = text.split_once('<')?;
    let (path, _) = path.split_once('>')?;
    Some(PathBuf::from(OsStr::from_bytes(&unescaped(path))))
}

/// The strings among the arguments.
fn quoted(arguments: &str) -> Vec<Vec<u8>> {
    arguments.split('"').skip(1).step_by(2).map(unescaped).collect()
}

/// `\x2f\x74` as bytes. Outside of strings strace leaves some text as it is: `socket:[1]`.
fn unescaped(text: &str) -> Vec<u8> {
    match text.strip_prefix("\\x") {
        Some(hex) => hex.split("\\x").filter_map(|byte| u8::from_str_radix(byte.get(..2)?, 16).ok()).collect(),
        None => text.as_bytes().to_vec(),
    }
}

/// Windows of the files of pictures, without uniform ones.
#[derive(Default)]
struct Windows(HashSet<[u8; WINDOW]>);

impl Windows {
    fn add(&mut self, file: &[u8]) {
        let windows = file.windows(WINDOW).step_by(RUN - WINDOW).filter_map(|window| window.try_into().ok());
        self.0.extend(windows.filter(|window: &[u8; WINDOW]| window.iter().collect::<HashSet<_>>().len() > WINDOW / 2));
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(WINDOW).any(|window| self.0.contains(window))
    }
}

/// A traced daemon.
struct Traced {
    running: Running,
    /// Ends when daemon and tracer have closed standard error.
    log: JoinHandle<Vec<String>>,
    folders: TempDir,
    pictures: Windows,
}

impl Traced {
    fn start(settings: &[(&str, &str)]) -> Self {
        let folders = tempfile::tempdir().expect("a folder");
        for name in ["data", "tmp", "trace"] {
            fs::create_dir(folders.path().join(name)).expect("a writable folder");
        }
        // The first start creates the store, under temporary names that later starts do not need.
        let mut first = Daemon::start_with(&folders.path().join("data"), settings);
        first.address();
        first.drain();
        let mut command = serve(backdrop(), &folders.path().join("data"));
        command.env("TMPDIR", folders.path().join("tmp")).envs(settings.iter().copied());
        let mut command = traced(&command, &folders.path().join("trace"));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let (running, log) = Running::of_logged(Daemon::spawn(&mut command));
        Self { running, log, folders, pictures: Windows::default() }
    }

    fn data(&self) -> PathBuf {
        self.folders.path().join("data")
    }

    async fn send(&mut self, what: &str, request: reqwest::RequestBuilder) -> Bytes {
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let bytes = answer.bytes().await.expect("a body");
        assert_eq!(status, 200, "{what}: {}", String::from_utf8_lossy(&bytes));
        self.pictures.add(&bytes);
        bytes
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.running.post(path)
    }

    /// Stops it; reads the records and the remaining files of its folders.
    fn stop(self) -> (Record, Vec<String>) {
        let Self { running, log, folders, pictures } = self;
        running.daemon.drain();
        log.join().expect("the tracer ends");
        let record = Record::read(&folders.path().join("trace"));
        let data = folders.path().join("data");
        let is_own = |path: &Path| {
            let is_device = path.starts_with("/dev") || path.starts_with("/proc");
            let name = path.strip_prefix(&data).ok();
            let is_store = |name: &str| !name.contains('/') && OWN.iter().any(|own| name.starts_with(own));
            is_device || name.and_then(Path::to_str).is_some_and(is_store)
        };
        let mut violations = record.violations(is_own, &pictures);
        for path in files_below(folders.path()) {
            if !path.starts_with(folders.path().join("trace")) && pictures.are_in(&fs::read(&path).unwrap_or_default())
            {
                violations.push(format!("a part of a picture is in {}", path.display()));
            }
        }
        let left = files_below(&folders.path().join("tmp"));
        violations.extend(left.iter().map(|path| format!("{} was left behind", path.display())));
        (record, violations)
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("readable").path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// A PNG of two megabytes, the most likely to be spooled to disk.
fn large() -> Bytes {
    let size = Size::new(900, 800);
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let pixels = (0..size.area()).flat_map(|_| [random(), random(), random(), 255]).collect::<Vec<u8>>();
    encoded(Frame::new(size, Buffer::from(pixels)), OutputFormat::Png, 100)
}

fn golden(name: &str) -> Bytes {
    fs::read(golden_picture(name)).unwrap_or_else(|error| panic!("{name}: {error}")).into()
}

/// A request to every endpoint of pictures, with every source of a picture.
async fn call_every_endpoint(daemon: &mut Traced, origin: &Origin) {
    let portrait = golden("portrait-astronaut.jpg");
    let mark = golden("transparent-grey.png");
    let part = |bytes: &Bytes| Part::stream(bytes.clone()).file_name("a picture.jpg");
    for Endpoint { path, input, .. } in ENDPOINTS.iter() {
        let form = || {
            let form = Form::new().text("watermark", origin.url("/mark.png"));
            if path.contains("-ai") { form.text("prompt", "a sunny beach") } else { form }
        };
        let request = daemon.post(path);
        let request =
            match input {
                Input::File => request.multipart(form().part("file", part(&portrait))),
                Input::FileAndBackground => request
                    .multipart(form().part("file", part(&portrait)).part(BG_FILE, part(&golden("none-grass.jpg")))),
                Input::Files => request
                    .multipart(form().part("files", part(&portrait)).part("files", part(&golden("glass-wine.jpg")))),
                Input::Url => request.json(&json!({ "url": origin.url("/portrait.jpg"), "watermark": "of the owner" })),
                Input::Urls => request.json(&json!({ "urls": [origin.url("/portrait.jpg"), origin.url("/mark.png")] })),
            };
        daemon.send(path, request).await;
    }
    let by_address = Form::new().part("file", part(&mark)).text("bg_url", origin.url("/portrait.jpg"));
    let request = daemon.post("/replace-bg").multipart(by_address);
    daemon.send("/replace-bg with bg_url", request).await;
    let spooled = large();
    daemon.pictures.add(&spooled);
    let whole = Form::new().part("file", part(&spooled)).text("keep_alpha", "false").text("matting", "none");
    // Noise has no subject; only the files that were written count.
    let refused = daemon.post("/remove").multipart(whole).send().await.expect("an answer");
    assert!([200, 422].contains(&refused.status().as_u16()), "{}", refused.status());
    if cfg!(feature = "heic") {
        let shoe = golden("heic-shoe.heic");
        daemon.pictures.add(&shoe);
        let request = daemon.post("/remove").multipart(Form::new().part("file", part(&shoe)));
        daemon.send("/remove of a HEIC", request).await;
    }
    for picture in [&portrait, &mark, &golden("none-grass.jpg"), &golden("glass-wine.jpg")] {
        daemon.pictures.add(picture);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_endpoint_writes_a_part_of_a_picture_to_a_file() {
    if !can_trace() {
        return;
    }
    let origin = Origin::start([
        ("/portrait.jpg", Answer::Bytes(golden("portrait-astronaut.jpg"))),
        ("/mark.png", Answer::Bytes(golden("transparent-grey.png"))),
    ]);
    let (authorities, authority) = (origin.authorities_file(), origin.authority());
    let settings = [
        ("BACKDROP_BOOTSTRAP_KEY", KEY),
        ("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000"),
        ("BACKDROP_FETCH_PRIVATE_ORIGINS", authority.as_str()),
        ("BACKDROP_FETCH_EXTRA_CA", authorities.to_str().expect("text")),
    ];
    let mut daemon = Traced::start(&settings);
    let mut allow = backdrop();
    allow.args(["accounts", "set", "default", "--generates", "on", "--data-dir"]).arg(daemon.data());
    let allowed = allow.output().expect("it runs");
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    call_every_endpoint(&mut daemon, &origin).await;
    assert!(daemon.pictures.0.len() > 10_000, "the pictures have {} windows", daemon.pictures.0.len());
    let database = daemon.data().join("state.redb");
    let (record, violations) = daemon.stop();
    // The tracer recorded the daemon: each request is counted in the store.
    let writes = record.written.iter().filter(|(path, _)| *path == database).count();
    assert!(writes >= 10, "the store was written {writes} times");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn the_tracer_detects_a_command_that_writes_a_picture() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, output) = (folder.path().join("trace"), folder.path().join("cutout.png"));
    fs::create_dir(&trace).expect("writable");
    let mut command = backdrop();
    command.arg("remove").arg(photo("coffee.jpg")).arg("-o").arg(&output).args(["--set", "max_dim=200"]);
    // Its standard error ends with the tracer's.
    let ran = traced(&command, &trace).output().expect("it runs");
    assert!(ran.status.success(), "{}", stderr(&ran));
    let record = Record::read(&trace);
    let mut pictures = Windows::default();
    pictures.add(&fs::read(&output).expect("the cutout"));
    let violations = record.violations(|path| path.starts_with("/dev") || path.starts_with("/proc"), &pictures);
    let says = |text: &str| violations.iter().any(|violation| violation.contains(text));
    assert!(says("was opened for writing") && says("a part of a picture was written"), "{violations:?}");
    // The path alone is a violation, and so is the content alone.
    assert!(!record.violations(|_| false, &Windows::default()).is_empty());
    assert!(!record.violations(|_| true, &pictures).is_empty());
    assert!(record.violations(|_| true, &Windows::default()).is_empty());
}

#[test]
fn a_record_covers_every_way_of_writing_a_file() {
    let line = |text: &str| {
        let mut record = Record::default();
        record.add(text);
        record
    };
    let tmp = PathBuf::from("/a");
    let opened = line(r#"openat(AT_FDCWD<\x2f>, "\x61", O_RDWR|O_CREAT|O_CLOEXEC, 0666) = 7<\x2f\x61>"#);
    assert!(opened.opened.contains(&tmp));
    assert!(line(r#"openat(AT_FDCWD<\x2f>, "\x61", O_RDONLY|O_CLOEXEC) = 7<\x2f\x61>"#).opened.is_empty());
    assert!(line(r#"openat(AT_FDCWD<\x2f>, "\x61", O_RDWR) = -1 EACCES (Permission denied)"#).opened.is_empty());
    assert_eq!(line(r#"pwrite64(7<\x2f\x61>, "\x01\x02", 2, 4096) = 2"#).written, [(tmp.clone(), vec![1, 2])]);
    let pieces = line(r#"writev(7<\x2f\x61>, [{iov_base="\x01", iov_len=1}, {iov_base="\x02", iov_len=1}], 2) = 2"#);
    assert_eq!(pieces.written, [(tmp.clone(), vec![1, 2])]);
    assert!(line(r#"write(3<socket:[5]>, "\x01", 1) = 1"#).written.is_empty());
    assert!(line(r#"rename("\x2f\x62", "\x2f\x61") = 0"#).opened.contains(&tmp));
    assert_eq!(line("sendfile(7<\\x2f\\x61>, 8<\\x2f\\x62>, NULL, 100) = 100").hidden.len(), 1);

    let file: Vec<u8> = (0..200u32).map(|at| (at * at * 7 + at / 3) as u8).collect();
    let mut windows = Windows::default();
    windows.add(&file);
    for from in 0..file.len() - RUN {
        let around = [&[0; 9], &file[from..from + RUN], &[0; 5]].concat();
        assert!(windows.are_in(&around), "the run at {from}");
    }
    assert!(!windows.are_in(&[0; 500]));
}
