//! Records that were stored once can be read for ever: `schemas/records/` holds every version that was released.

use backdrop::store::{AccountRecord, KeyRecord, Record};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits are a byte")).collect()
}

/// The stored bytes mean the expected JSON.
fn assert_reads<R: Record + Serialize>(golden: &str, expected: &str) {
    let record = R::decode(&bytes(golden)).expect("a released version is read");
    let expected: serde_json::Value = serde_json::from_str(expected).expect("the golden file is JSON");
    assert_eq!(serde_json::to_value(&record).expect("records are plain"), expected);
}

/// What this program writes for the expected JSON is exactly the stored bytes.
fn assert_writes<R: Record + DeserializeOwned>(golden: &str, expected: &str) {
    let record: R = serde_json::from_str(expected).expect("the golden file is JSON");
    assert_eq!(hex(&record.encode()), hex(&bytes(golden)), "the newest version's stored form changed");
}

#[test]
fn account_version_1_still_loads() {
    let golden = include_str!("../../schemas/records/account.v1.hex");
    assert_reads::<AccountRecord>(golden, include_str!("../../schemas/records/account.v1.json"));
}

#[test]
fn account_version_1_is_written_byte_for_byte() {
    let golden = include_str!("../../schemas/records/account.v1.hex");
    assert_writes::<AccountRecord>(golden, include_str!("../../schemas/records/account.v1.json"));
}

#[test]
fn key_version_1_still_loads() {
    let golden = include_str!("../../schemas/records/key.v1.hex");
    assert_reads::<KeyRecord>(golden, include_str!("../../schemas/records/key.v1.json"));
}

#[test]
fn key_version_1_is_written_byte_for_byte() {
    let golden = include_str!("../../schemas/records/key.v1.hex");
    assert_writes::<KeyRecord>(golden, include_str!("../../schemas/records/key.v1.json"));
}

#[test]
fn a_record_cut_short_or_too_long_or_of_an_unknown_version_is_refused() {
    let whole = bytes(include_str!("../../schemas/records/key.v1.hex"));
    for length in 0..whole.len() {
        assert!(KeyRecord::decode(&whole[..length]).is_err(), "{length} bytes");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(KeyRecord::decode(&longer).is_err());
    let mut newer = whole;
    newer[0] = 0x7f;
    assert!(KeyRecord::decode(&newer).is_err());
}
