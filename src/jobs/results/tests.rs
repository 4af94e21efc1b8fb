//! Tests of stored results, signed URLs and uploads.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::memory::InMemory;
use object_store::signer::Signer;
use object_store::{Attribute, ObjectStoreExt};
use tempfile::TempDir;
use url::Url;

use super::folder::PIECE_BYTES;
use super::service::{FOLDER, Place};
use super::upload::PART_BYTES;
use super::*;
use crate::jobs::secret::DaemonSecret;
use crate::source::StorageLocation;
use crate::store::UnixSeconds;

const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
const LATER: UnixSeconds = UnixSeconds(NOW.0 + 3600);

fn new_folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The results of a daemon with this data directory, in the place of its configuration.
fn open_in(folder: &TempDir, place: Option<&str>) -> Result<Results, ResultsError> {
    Results::open(place, folder.path(), &DaemonSecret::open(folder.path()).expect("a secret"))
}

fn opened() -> (TempDir, Results) {
    let folder = new_folder();
    let results = open_in(&folder, None).expect("a new folder");
    (folder, results)
}

/// The names of the files in a folder.
fn names_in(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a name").file_name()).collect()
}

/// Whether only the owner of a file can read it.
#[cfg(unix)]
fn is_private(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).expect("it is there").permissions().mode() & 0o777 == 0o600
}

/// Bytes that differ from piece to piece.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

async fn put(folder: &TempDir, results: &Results, content: &[u8]) -> String {
    let file = folder.path().join("finished");
    fs::write(&file, content).expect("written");
    results.put("job_1", &file, "video/webm").await.expect("kept")
}

async fn address(results: &Results, object: &str) -> String {
    match results.url(object, NOW, LATER).await.expect("signed") {
        ResultUrl::Path(path) => path.strip_prefix("/results/").expect("our path").to_owned(),
        ResultUrl::Absolute(url) => panic!("{url}"),
    }
}

async fn read(results: &Results, address: &str, now: UnixSeconds) -> Option<Vec<u8>> {
    let (object, query) = address.split_once('?')?;
    let result = results.open_signed(object, query, now).await.expect("readable")?;
    let bytes = result.bytes;
    let pieces: Vec<Bytes> = result.read(0, bytes).try_collect().await.expect("readable");
    Some(pieces.concat())
}

#[tokio::test]
async fn a_result_opens_with_its_address_until_it_expires() {
    let (folder, results) = opened();
    let content = vec![7; 3 * PIECE_BYTES + 5];
    let object = put(&folder, &results, &content).await;
    assert_eq!(object, "job_1.webm");
    let address = address(&results, &object).await;
    assert_eq!(read(&results, &address, NOW).await.as_deref(), Some(content.as_slice()));
    assert!(read(&results, &address, UnixSeconds(LATER.0 - 1)).await.is_some());
    assert_eq!(read(&results, &address, LATER).await, None);
    results.delete(&object).await.expect("deleted");
    assert_eq!(read(&results, &address, NOW).await, None);
    results.delete(&object).await.expect("nothing to delete");
}

#[tokio::test]
async fn an_address_with_any_changed_byte_opens_nothing() {
    let (folder, results) = opened();
    let object = put(&folder, &results, b"a clip").await;
    fs::write(folder.path().join("results/job_2.webm"), b"another").expect("written");
    let right = address(&results, &object).await;
    assert!(read(&results, &right, NOW).await.is_some());
    for at in 0..right.len() {
        for byte in [b'A', b'0', b'&'] {
            let mut wrong = right.clone().into_bytes();
            if wrong[at] != byte {
                wrong[at] = byte;
                let wrong = String::from_utf8(wrong).expect("ASCII");
                assert_eq!(read(&results, &wrong, NOW).await, None, "{wrong}");
            }
        }
    }
    let (_, query) = right.split_once('?').expect("a query");
    let signature = query.split_once("&signature=").expect("a signature").1;
    for wrong in [
        format!("job_2.webm?{query}"),
        format!("job_1.webm?expires={}&signature={signature}", LATER.0 + 1),
        format!("job_1.webm?expires=+{}&signature={signature}", LATER.0),
        format!("job_1.webm?expires=0{}&signature={signature}", LATER.0),
        format!("job_1.webm?{query}&expires={}", LATER.0),
        format!("job_1.webm?{query}="),
        "job_1.webm?".to_owned(),
        format!("../secret?{query}"),
    ] {
        assert_eq!(read(&results, &wrong, NOW).await, None, "{wrong}");
    }
    for same in [format!("job_1.webm?signature={signature}&expires={}", LATER.0), format!("job_1.webm?{query}&x=1")] {
        assert_eq!(read(&results, &same, NOW).await.as_deref(), Some(&b"a clip"[..]), "{same}");
    }
    let (_other, others) = opened();
    assert_eq!(read(&others, &right, NOW).await, None, "another daemon's");
}

#[tokio::test]
async fn a_finished_file_stays_where_it_is_and_its_private_copy_may_be_replaced() {
    let (folder, results) = opened();
    put(&folder, &results, b"first").await;
    let object = put(&folder, &results, b"second").await;
    assert_eq!(fs::read(folder.path().join("finished")).expect("there"), b"second");
    assert_eq!(read(&results, &address(&results, &object).await, NOW).await.as_deref(), Some(&b"second"[..]));
    let within = folder.path().join(FOLDER);
    assert_eq!(names_in(&within), [object.as_str()], "no temporary file is left");
    #[cfg(unix)]
    assert!(is_private(&within.join(object)));
}

#[tokio::test]
async fn ranges_are_read_and_a_truncated_file_is_an_error() {
    let (folder, results) = opened();
    let content = content(2 * PIECE_BYTES + 9);
    let object = put(&folder, &results, &content).await;
    let address = address(&results, &object).await;
    let (_, query) = address.split_once('?').expect("a query");
    let open = async || results.open_signed(&object, query, NOW).await.expect("readable").expect("there");
    for (first, count) in [(0, 1), (5, PIECE_BYTES), (PIECE_BYTES - 1, 2), (content.len() - 3, 3), (9, 0)] {
        let pieces: Vec<Bytes> = open().await.read(first as u64, count as u64).try_collect().await.expect("readable");
        assert_eq!(pieces.concat(), content[first..first + count], "{first} {count}");
    }
    let beyond: Result<Vec<Bytes>, _> = open().await.read(0, content.len() as u64 + 1).try_collect().await;
    assert_eq!(beyond.expect_err("it ends").kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn an_invalid_object_name_is_refused() {
    let (folder, results) = opened();
    for object in ["", "job_1", "job_1.exe", "../secret", "a/b.webm", ".webm", "job-1.webm", "job_1.webm.webm"] {
        assert!(matches!(results.delete(object).await, Err(ResultsError::Name(_))), "{object}");
        assert!(matches!(results.url(object, NOW, LATER).await, Err(ResultsError::Name(_))), "{object}");
    }
    let file = folder.path().join("x");
    fs::write(&file, b"x").expect("written");
    assert!(results.put("job_1", &file, "text/html").await.is_err());
    assert!(results.put("../job", &file, "video/webm").await.is_err());
    let missing = results.put("job_1", &folder.path().join("missing"), "video/webm").await;
    assert!(matches!(missing, Err(ResultsError::Io { .. })), "{missing:?}");
}

/// A store in memory with the URL signer of S3, which needs no network.
fn remote() -> (Arc<InMemory>, Results) {
    // It may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = Arc::new(InMemory::new());
    let signer = AmazonS3Builder::new()
        .with_bucket_name("clips")
        .with_region("eu-central-1")
        .with_access_key_id("AKIAEXAMPLE")
        .with_secret_access_key("secret")
        .build()
        .expect("a store");
    let signer: Arc<dyn Signer> = Arc::new(signer);
    let objects = StorageLocation {
        store: store.clone(),
        prefix: "made/here".into(),
        signer: Some(signer.clone()),
        root: "s3://clips".into(),
        has_attributes: true,
    };
    (store, Results(Arc::new(Place::Store { objects, signer })))
}

#[tokio::test]
async fn a_provider_signs_for_the_rest_of_the_hour() {
    let (_, results) = remote();
    let url = results.url("job_1.webm", UnixSeconds(LATER.0 - 90), LATER).await.expect("signed");
    let ResultUrl::Absolute(url) = url else { panic!("{url:?}") };
    assert!(url.contains("/made/here/job_1.webm?") && url.contains("X-Amz-Expires=90"), "{url}");
    let address = "job_1.webm?expires=1&signature=x";
    assert_eq!(read(&results, address, UnixSeconds(0)).await, None, "the daemon does not serve it");
}

#[tokio::test]
async fn a_file_is_uploaded_in_parts_with_its_media_type_and_name() {
    let (store, results) = remote();
    let folder = new_folder();
    let content = content(PART_BYTES + PIECE_BYTES + 9);
    let object = put(&folder, &results, &content).await;
    let there = store.get(&"made/here/job_1.webm".into()).await.expect("it is there");
    assert_eq!(there.attributes.get(&Attribute::ContentType).expect("a type").as_ref(), "video/webm");
    let saved = there.attributes.get(&Attribute::ContentDisposition).expect("a name");
    assert_eq!(saved.as_ref(), "attachment; filename=\"job_1.webm\"");
    assert!(there.bytes().await.expect("readable") == content);
    results.delete(&object).await.expect("deleted");
    assert!(store.head(&"made/here/job_1.webm".into()).await.is_err());
    results.delete(&object).await.expect("nothing to delete");
}

#[tokio::test]
async fn a_folder_may_be_elsewhere_and_an_unsupported_url_is_refused() {
    let folder = new_folder();
    let place = Url::from_file_path(folder.path().join("elsewhere")).expect("a path");
    let results = open_in(&folder, Some(place.as_str())).expect("a folder");
    let object = put(&folder, &results, b"a clip").await;
    assert!(folder.path().join("elsewhere").join(&object).is_file());
    assert!(open_in(&folder, Some("ftp://example.org")).is_err());
}

#[tokio::test]
async fn what_a_killed_daemon_had_not_stored_to_the_end_is_deleted_at_the_next_start() {
    let (folder, results) = opened();
    let object = put(&folder, &results, b"a clip").await;
    let within = folder.path().join(FOLDER);
    fs::write(within.join(".unfinished-x1"), "half a clip").expect("written");
    open_in(&folder, None).expect("it is there");
    assert_eq!(names_in(&within), [object.as_str()]);
}

#[tokio::test]
async fn a_clip_is_stored_fetched_and_deleted_in_a_folder_and_in_a_store() {
    let (folder, local) = opened();
    let (store, remote) = remote();
    let clip = folder.path().join("input");
    let content = content(PART_BYTES + 9);
    fs::write(&clip, &content).expect("written");
    for results in [&local, &remote] {
        let fetched = new_folder();
        let to = fetched.path().join("input");
        assert!(!results.fetch_input("job_1", &to).await.expect("it is missing") && !to.exists());
        results.delete_input("job_1").await.expect("nothing to delete");
        for _ in 0..2 {
            results.put_input("job_1", &clip).await.expect("stored");
        }
        assert!(results.fetch_input("job_1", &to).await.expect("fetched"));
        assert!(fs::read(&to).expect("it is there") == content);
        assert_eq!(names_in(fetched.path()), ["input"], "no temporary file is left");
        #[cfg(unix)]
        assert!(is_private(&to));
        results.delete_input("job_1").await.expect("deleted");
        assert!(!results.fetch_input("job_1", &to).await.expect("it is gone"));
        assert!(clip.exists() && to.exists(), "other names of the file stay");
        let no_folder = fetched.path().join("missing").join("input");
        results.put_input("job_1", &clip).await.expect("stored");
        assert!(results.fetch_input("job_1", &no_folder).await.is_err(), "another error than a missing clip");
    }
    assert!(folder.path().join("results/job_1.input").is_file());
    assert!(store.head(&"made/here/job_1.input".into()).await.is_ok());
}

#[tokio::test]
async fn a_checkpoint_is_stored_fetched_and_deleted_in_a_folder_and_in_a_store() {
    let (folder, local) = opened();
    let (store, remote) = remote();
    let names = ["plan", "segment-0000.webm", "segment-0000.webm.state"];
    for results in [&local, &remote] {
        let fetched = new_folder();
        results.fetch_checkpoint("job_1", fetched.path()).await.expect("there is none");
        results.delete_checkpoint("job_1").await.expect("nothing to delete");
        for (job, text) in [("job_1", "old"), ("job_10", "other"), ("job_1", "new")] {
            for name in names {
                let file = folder.path().join(name);
                fs::write(&file, format!("{text} {name}")).expect("written");
                results.put_checkpoint(job, &file).await.expect("stored");
            }
        }
        results.fetch_checkpoint("job_1", fetched.path()).await.expect("fetched");
        assert_eq!(names_in(fetched.path()).len(), names.len());
        for name in names {
            assert_eq!(fs::read_to_string(fetched.path().join(name)).expect("there"), format!("new {name}"));
        }
        results.delete_checkpoint("job_1").await.expect("deleted");
        let (again, other) = (new_folder(), new_folder());
        results.fetch_checkpoint("job_1", again.path()).await.expect("there is none");
        results.fetch_checkpoint("job_10", other.path()).await.expect("it is another job's");
        assert_eq!((names_in(again.path()).len(), names_in(other.path()).len()), (0, names.len()));
    }
    assert!(!folder.path().join("results/job_1.checkpoint").exists(), "its folder is deleted with it");
    assert!(store.head(&"made/here/job_10.checkpoint/plan".into()).await.is_ok());
}

#[tokio::test]
async fn a_clip_has_no_address_and_neither_clip_nor_checkpoint_a_name_beyond_its_folder() {
    let (folder, results) = opened();
    let clip = folder.path().join("input");
    fs::write(&clip, b"a clip").expect("written");
    results.put_input("job_1", &clip).await.expect("stored");
    assert!(matches!(results.url("job_1.input", NOW, LATER).await, Err(ResultsError::Name(_))));
    assert!(matches!(results.delete("job_1.input").await, Err(ResultsError::Name(_))));
    let secret = DaemonSecret::open(folder.path()).expect("it is there");
    let signed = super::signed_path::PathSigner::new(&secret).sign("job_1.input", LATER);
    assert_eq!(read(&results, signed.strip_prefix("/results/").expect("our path"), NOW).await, None);
    for id in ["", "../secret", "a/b", "job_1.webm", "job-1"] {
        assert!(matches!(results.put_input(id, &clip).await, Err(ResultsError::Name(_))), "{id}");
        assert!(matches!(results.fetch_input(id, &clip).await, Err(ResultsError::Name(_))), "{id}");
        assert!(matches!(results.delete_input(id).await, Err(ResultsError::Name(_))), "{id}");
        assert!(matches!(results.put_checkpoint(id, &clip).await, Err(ResultsError::Name(_))), "{id}");
        assert!(matches!(results.fetch_checkpoint(id, folder.path()).await, Err(ResultsError::Name(_))), "{id}");
        assert!(matches!(results.delete_checkpoint(id).await, Err(ResultsError::Name(_))), "{id}");
    }
}
