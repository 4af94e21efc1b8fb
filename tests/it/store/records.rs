//! Stored records: every released version (`schemas/records/`) is readable, the newest is written byte for byte.

use backdrop::store::{
    AccountModel, AccountRecord, JobRecord, KeyDayRecord, KeyRecord, Plan, PresetRecord, Record, RequestRecord,
    UsageRecord,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits are a byte")).collect()
}

/// The stored bytes decode to the expected JSON.
fn assert_reads<R: Record + Serialize>((golden, expected): (&str, &str)) {
    let record = R::decode(&bytes(golden)).expect("a released version is read");
    let expected: serde_json::Value = serde_json::from_str(expected).expect("the golden file is JSON");
    assert_eq!(serde_json::to_value(&record).expect("records are plain"), expected);
}

/// The expected JSON encodes to exactly the stored bytes.
fn assert_writes<R: Record + DeserializeOwned>((golden, expected): (&str, &str)) {
    let record: R = serde_json::from_str(expected).expect("the golden file is JSON");
    assert_eq!(hex(&record.encode()), hex(&bytes(golden)), "the newest version's stored form changed");
}

/// Stored bytes and their meaning as JSON.
macro_rules! golden {
    ($name:literal) => {
        (
            include_str!(concat!("../../../schemas/records/", $name, ".hex")),
            include_str!(concat!("../../../schemas/records/", $name, ".json")),
        )
    };
}

/// Calls a check with the newest version of every record.
macro_rules! for_newest {
    ($check:ident) => {
        $check::<AccountRecord>(golden!("account.v3"));
        $check::<KeyRecord>(golden!("key.v3"));
        $check::<PresetRecord>(golden!("preset.v1"));
        $check::<UsageRecord>(golden!("usage.v1"));
        $check::<KeyDayRecord>(golden!("key_day.v1"));
        $check::<RequestRecord>(golden!("request.v2"));
        $check::<JobRecord>(golden!("job.v1"));
    };
}

#[test]
fn every_released_version_of_every_record_is_read() {
    for golden in [golden!("account.v1"), golden!("account.v2"), golden!("account.v3")] {
        assert_reads::<AccountRecord>(golden);
    }
    for golden in [golden!("key.v1"), golden!("key.v2"), golden!("key.v3")] {
        assert_reads::<KeyRecord>(golden);
    }
    assert_reads::<PresetRecord>(golden!("preset.v1"));
    assert_reads::<UsageRecord>(golden!("usage.v1"));
    assert_reads::<KeyDayRecord>(golden!("key_day.v1"));
    for golden in [golden!("request.v1"), golden!("request.v2")] {
        assert_reads::<RequestRecord>(golden);
    }
    assert_reads::<JobRecord>(golden!("job.v1"));
}

#[test]
fn the_newest_version_of_every_record_is_written_byte_for_byte() {
    for_newest!(assert_writes);
}

#[test]
fn an_older_version_is_upgraded_with_defaults_for_new_fields() {
    let account = AccountRecord::decode(&bytes(golden!("account.v1").0)).expect("a released version").latest();
    assert_eq!((account.name.as_str(), account.plan, account.generates), ("acme", Plan::Paid, false));
    assert_eq!(account.model, AccountModel(None));
    let account = AccountRecord::decode(&bytes(golden!("account.v2").0)).expect("a released version").latest();
    assert_eq!((account.generates, account.model), (true, AccountModel(None)));
    let key = KeyRecord::decode(&bytes(golden!("key.v1").0)).expect("a released version").latest();
    assert_eq!((key.id.as_str(), key.test, key.last_used_at), ("key_4fT9sQz0LmXa", true, None));
    let key = KeyRecord::decode(&bytes(golden!("key.v2").0)).expect("a released version").latest();
    assert_eq!((key.expires_at, key.images_per_month, key.scopes, key.previous), (None, None, vec![], None));
    let request = RequestRecord::decode(&bytes(golden!("request.v1").0)).expect("a released version").latest();
    assert_eq!((request.images, request.pictures), (3, vec![Some([0; 32]); 10]));
}

#[test]
#[should_panic(expected = "left == right")]
fn the_comparison_detects_a_different_record() {
    assert_reads::<UsageRecord>((golden!("usage.v1").0, r#"{"V1":{"images":1200,"microdollars":6000001}}"#));
}

#[test]
fn truncated_overlong_and_unknown_records_are_refused() {
    fn check<R: Record>((golden, _): (&str, &str)) {
        let whole = bytes(golden);
        for length in 0..whole.len() {
            assert!(R::decode(&whole[..length]).is_err(), "{length} bytes of {golden}");
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert!(R::decode(&longer).is_err(), "{golden}");
        let newer = [&[0x7f], &whole[1..]].concat();
        assert!(R::decode(&newer).is_err(), "{golden}");
    }
    for_newest!(check);
}
