//! The rows that each change writes, and its refusals.

use backdrop::recipe::InferenceMode;
use backdrop::store::{
    AccountModel, Bill, Change, ChangeError, Day, Key, KeyChange, KeyDay, KeyHash, KeyUpdate, KeyUse, LookupBy, Month,
    PRESETS_PER_ACCOUNT, Plan, Preset, PreviousSecret, REQUEST_SECONDS, RedbStore, Request, UnixSeconds, Usage,
};

use crate::store::support::{account, apply, apply_all, key, preset, with_account};

/// 2026-01-01T00:00:00Z.
const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

fn bill(month: Month, images: u64, request: Option<(&str, Request)>) -> Change {
    let request = request.map(|(key, request)| (key.to_owned(), request));
    Change::Bill(Bill { account: "acme".into(), month, images, microdollars: images * 5000, request, by: None })
}

fn request(fingerprint: u8, at: i64) -> Request {
    Request { fingerprint: [fingerprint; 32], images: 1, at: UnixSeconds(at), pictures: vec![Some([8; 32])] }
}

#[test]
fn plan_and_allow_list_of_an_account_change_together_or_separately() {
    let (_folder, store) = with_account();
    let steps = [
        (Some(Plan::Paid), Some(true), (Plan::Paid, true)),
        (None, Some(false), (Plan::Paid, false)),
        (Some(Plan::Free), None, (Plan::Free, false)),
        (None, None, (Plan::Free, false)),
    ];
    let quality = AccountModel(Some(InferenceMode::Quality.into()));
    let set = |plan, generates, model| Change::SetAccount { account: "acme".into(), plan, generates, model };
    apply(&store, set(None, None, Some(quality.clone()))).expect("it is there");
    for (plan, generates, expected) in steps {
        let rows = apply(&store, set(plan, generates, None)).expect("it is there");
        assert_eq!((rows.accounts[0].plan, rows.accounts[0].generates), expected);
        assert_eq!(rows.accounts[0].model, quality, "fields that are not set are kept");
        assert_eq!(store.load_at(UnixSeconds::now()).expect("the store reads").accounts, rows.accounts);
    }
    let unknown = Change::SetAccount { account: "other".into(), plan: None, generates: Some(true), model: None };
    assert_eq!(apply(&store, unknown), Err(ChangeError::NoSuchAccount("other".into())));
}

#[test]
fn a_rotation_replaces_the_secret_and_keeps_all_other_fields() {
    let (_folder, store) = with_account();
    let first = Key { scopes: vec!["remove".into()], images_per_month: Some(7), ..key("acme", "key_1") };
    apply(&store, Change::CreateKey { hash: KeyHash([1; 32]), key: first.clone() }).expect("a new key");
    apply(&store, Change::CreateKey { hash: KeyHash([9; 32]), key: key("acme", "key_9") }).expect("a new key");
    let rotate = |id: &str, from, to, keep_until| Change::Key {
        id: id.into(),
        change: KeyChange::Rotate { from: KeyHash([from; 32]), to: KeyHash([to; 32]), keep_until },
    };
    // With and without a grace period of the old secret; the last rotation drops the old one.
    for (from, to, keep_until) in [(1, 2, None), (2, 3, Some(UnixSeconds(9))), (3, 4, None)] {
        let rows = apply(&store, rotate("key_1", from, to, keep_until)).expect("it works");
        let previous = keep_until.map(|until| PreviousSecret { hash: [from; 32], until });
        assert_eq!(rows.keys, [(KeyHash([to; 32]), Key { previous, ..first.clone() })]);
        let stored = store.load_at(UnixSeconds::now()).expect("the store reads").keys;
        assert!(stored.len() == 2 && stored.contains(&rows.keys[0]), "{stored:?}");
        assert!(store.check().expect("the store reads").is_sound());
    }
    let before = store.load_at(UnixSeconds::now()).expect("the store reads").keys;
    let rotated = |id: &str| Err(ChangeError::KeyRotated(id.into()));
    assert_eq!(apply(&store, rotate("key_1", 3, 5, None)), rotated("key_1"));
    assert_eq!(apply(&store, rotate("key_2", 4, 5, None)), Err(ChangeError::NoSuchKey("key_2".into())));
    assert_eq!(apply(&store, rotate("key_1", 4, 9, None)), Err(ChangeError::KeyExists));
    assert_eq!(
        store.load_at(UnixSeconds::now()).expect("the store reads").keys,
        before,
        "a refused change wrote something"
    );
    apply(&store, Change::Key { id: "key_1".into(), change: KeyChange::Revoke { at: UnixSeconds(9) } })
        .expect("it is there");
    let revoked = || Err(ChangeError::KeyRevoked("key_1".into()));
    assert_eq!(apply(&store, rotate("key_1", 4, 5, None)), revoked());
    let set = Change::Key {
        id: "key_1".into(),
        change: KeyChange::Set(KeyUpdate { expires_at: Some(None), images_per_month: None, scopes: None }),
    };
    assert_eq!(apply(&store, set), revoked());
}

#[test]
fn restrictions_of_a_key_change_together_or_separately() {
    let (_folder, store) = with_account();
    apply(&store, Change::CreateKey { hash: KeyHash([1; 32]), key: key("acme", "key_1") }).expect("a new key");
    let (at, remove) = (UnixSeconds(9), vec!["remove".to_owned()]);
    // The change and the result: expiry, images per month, scopes.
    let steps = [
        ((Some(Some(at)), Some(Some(5)), Some(remove.clone())), (Some(at), Some(5), remove.clone())),
        ((None, None, None), (Some(at), Some(5), remove.clone())),
        ((Some(None), None, None), (None, Some(5), remove.clone())),
        ((None, Some(None), None), (None, None, remove)),
        ((None, None, Some(Vec::new())), (None, None, Vec::new())),
    ];
    for ((expires_at, images_per_month, scopes), expected) in steps {
        let set = Change::Key {
            id: "key_1".into(),
            change: KeyChange::Set(KeyUpdate { expires_at, images_per_month, scopes }),
        };
        apply(&store, set).expect("it is there");
        let (_, key) = store.load_at(UnixSeconds::now()).expect("the store reads").keys.remove(0);
        assert_eq!((key.expires_at, key.images_per_month, key.scopes), expected);
    }
}

#[test]
fn bills_add_up_by_key_and_day_until_they_are_forgotten() {
    let (_folder, store) = with_account();
    apply(&store, account("acme-")).expect("a new name");
    let bill = |account: &str, key_id: &str, day, images, milliseconds| {
        Change::Bill(Bill {
            account: account.into(),
            month: Day(day).month(),
            images,
            microdollars: images * 5000,
            request: None,
            by: Some(KeyUse { key_id: key_id.into(), day: Day(day), milliseconds }),
        })
    };
    // 2025-12-31, 2026-01-01 and 2026-01-02.
    for change in [
        bill("acme", "key_2", 20_454, 1, 0),
        bill("acme", "key_1", 20_454, 2, 0),
        bill("acme", "key_1", 20_454, 3, 1500),
        bill("acme-", "key_3", 20_454, 9, 0),
        bill("acme", "key_1", 20_453, 4, 0),
        bill("acme", "key_1", 20_455, 5, 0),
        bill("acme", "key_1", 20_455, 0, 0),
    ] {
        apply(&store, change).expect("the account is there");
    }
    let used = |images, milliseconds| KeyDay { images, milliseconds, microdollars: images * 5000 };
    let row = |day, key_id: &str, used| (Day(day), key_id.to_owned(), used);
    let all = [
        row(20_453, "key_1", used(4, 0)),
        row(20_454, "key_1", used(5, 1500)),
        row(20_454, "key_2", used(1, 0)),
        row(20_455, "key_1", used(5, 0)),
    ];
    let found = |from, to, limit| store.key_days("acme", Day(from), Day(to), limit).expect("the store reads");
    for (from, to, limit, expected) in [
        (0, u32::MAX, 99, &all[..]),
        (20_454, 20_454, 99, &all[1..3]),
        (20_454, 20_455, 2, &all[1..3]),
        (20_455, 20_454, 99, &[]),
        (20_456, u32::MAX, 99, &[]),
    ] {
        assert_eq!(found(from, to, limit), expected, "{from} to {to}, {limit} at most");
    }
    assert_eq!(store.load_at(NOW).expect("the store reads").key_days.len(), 5, "of both accounts, two months");
    let refused = apply(&store, bill("missing", "key_1", 20_454, 1, 0));
    assert_eq!(refused, Err(ChangeError::NoSuchAccount("missing".into())));
    apply(&store, bill("acme", "key_4", 20_454, 0, 0)).expect("it bills nothing");
    assert_eq!(found(0, u32::MAX, 99), all, "a bill of nothing writes no row");

    apply(&store, Change::ForgetKeyDays { before: Day(20_454) }).expect("the store writes");
    assert_eq!(found(0, u32::MAX, 99), all[1..]);
    apply(&store, Change::ForgetKeyDays { before: Day(20_456) }).expect("the store writes");
    assert_eq!(found(0, u32::MAX, 99), []);
    assert_eq!(store.key_days("acme-", Day(0), Day(u32::MAX), 9).expect("the store reads"), []);
}

#[test]
fn the_last_use_of_a_key_only_moves_forward() {
    let (_folder, store) = with_account();
    apply(&store, Change::CreateKey { hash: KeyHash([1; 32]), key: key("acme", "key_1") }).expect("a new key");
    let touch = |id: &str, at| (id.to_owned(), UnixSeconds(at));
    let used = vec![touch("key_1", 5), touch("key_9", 9), touch("key_1", 3)];
    let rows = apply(&store, Change::TouchKeys { used }).expect("unknown keys are ignored");
    assert_eq!(rows.keys.len(), 1);
    let last_used =
        |store: &RedbStore| store.load_at(UnixSeconds::now()).expect("the store reads").keys[0].1.last_used_at;
    assert_eq!(last_used(&store), Some(UnixSeconds(5)));
    // A revocation keeps it.
    apply(&store, Change::Key { id: "key_1".into(), change: KeyChange::Revoke { at: UnixSeconds(7) } })
        .expect("it is there");
    assert_eq!(last_used(&store), Some(UnixSeconds(5)));
}

#[test]
fn bills_add_up_by_month_and_the_last_two_months_are_loaded() {
    let (_folder, store) = with_account();
    let months = [202_511, 202_512, 202_601].map(Month);
    for month in months.into_iter().chain(months) {
        apply(&store, bill(month, 3, None)).expect("the account is there");
    }
    let rows = store.load_at(NOW).expect("the store reads");
    let expected = |month| ("acme".to_owned(), month, Usage { images: 6, microdollars: 30_000 });
    assert_eq!(rows.usage, [expected(months[1]), expected(months[2])]);
    assert_eq!(rows.requests, []);

    let huge = apply(&store, bill(months[2], u64::MAX / 5000, None)).expect("it is a number");
    assert_eq!(huge.usage[0].2.images, u64::MAX / 5000 + 6);
    let more = apply(&store, bill(months[2], u64::MAX / 5000, None)).expect("the sum saturates");
    assert_eq!(more.usage[0].2.microdollars, u64::MAX);

    let missing = Change::Bill(Bill {
        account: "x".into(),
        month: months[0],
        images: 1,
        microdollars: 1,
        request: None,
        by: None,
    });
    assert_eq!(apply(&store, missing), Err(ChangeError::NoSuchAccount("x".into())));
}

#[test]
fn a_billed_request_is_kept_for_a_day() {
    let (_folder, store) = with_account();
    let month = Month::of(NOW);
    let day_ago = NOW.0 - REQUEST_SECONDS;
    for (key, at) in [("old", day_ago - 1), ("edge", day_ago), ("new", NOW.0)] {
        let rows = apply(&store, bill(month, 1, Some((key, request(1, at))))).expect("the account is there");
        assert_eq!(rows.requests, [("acme".to_owned(), key.to_owned(), request(1, at))]);
    }
    let keys = |store: &RedbStore| -> Vec<String> {
        store.load_at(NOW).expect("the store reads").requests.into_iter().map(|(_, key, _)| key).collect()
    };
    assert_eq!(keys(&store), ["edge", "new"]);
    // Billed again after its day: one row, with the new time.
    apply(&store, bill(month, 1, Some(("old", request(2, NOW.0 - 5))))).expect("the account is there");
    assert_eq!(keys(&store), ["edge", "old", "new"]);
    let forget = || {
        let rows = apply(&store, Change::ForgetRequests { before: NOW, at_most: 1 }).expect("the disk writes");
        (rows.forgotten_requests.len(), keys(&store).join(" "))
    };
    assert_eq!(forget(), (1, "old new".into()), "the oldest first");
    assert_eq!(forget(), (1, "new".into()));
    assert_eq!(forget(), (0, "new".into()));
    let report = store.check().expect("the store reads");
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.rows.requests, report.rows.usage), (1, 1));
}

#[test]
fn a_preset_is_found_by_id_and_by_its_current_name() {
    let (_folder, store) = with_account();
    apply(&store, account("other")).expect("a new name");
    let put = |preset: Preset| apply(&store, Change::PutPreset { preset });
    put(preset("acme", "preset_1", "white")).expect("it is new");
    let changed =
        Preset { created_at: UnixSeconds(5), updated_at: UnixSeconds(5), ..preset("acme", "preset_1", "grey") };
    let expected = Preset { created_at: UnixSeconds(1), ..changed.clone() };
    assert_eq!(put(changed).expect("it is overwritten").presets, std::slice::from_ref(&expected));

    let by_name = |account: &str, name: &str| store.preset(account, name, LookupBy::Name).expect("the store reads");
    assert_eq!(store.preset("acme", "preset_1", LookupBy::Id).expect("the store reads"), Some(expected.clone()));
    assert_eq!((by_name("acme", "grey"), by_name("acme", "white")), (Some(expected), None));
    // Presets and names are per account.
    assert_eq!(store.preset("other", "preset_1", LookupBy::Id).expect("the store reads"), None);
    assert_eq!(by_name("other", "grey"), None);
    put(preset("other", "preset_1", "grey")).expect("names are per account");

    let taken = put(preset("acme", "preset_2", "grey"));
    assert_eq!(taken, Err(ChangeError::PresetNameTaken("grey".into())));
    put(preset("acme", "preset_2", "white")).expect("the name is free again");
    assert_eq!(put(preset("missing", "preset_3", "n")), Err(ChangeError::NoSuchAccount("missing".into())));

    let delete = |account: &str| Change::DeletePreset { account: account.into(), id: "preset_2".into() };
    assert_eq!(apply(&store, delete("other")), Err(ChangeError::NoSuchPreset("preset_2".into())));
    apply(&store, delete("acme")).expect("it is there");
    assert_eq!(apply(&store, delete("acme")), Err(ChangeError::NoSuchPreset("preset_2".into())));
    assert_eq!(by_name("acme", "white"), None);
}

#[test]
fn the_presets_of_an_account_are_limited_to_a_thousand() {
    let (_folder, store) = with_account();
    apply(&store, account("acme-2")).expect("a new name");
    let put = |account: &str, number: usize| Change::PutPreset {
        preset: preset(account, &format!("preset_{number:05}"), &format!("name {number}")),
    };
    // The next account in the table has some too.
    let neighbour = (0..3).map(|number| put("acme-2", number));
    let filled = apply_all(&store, neighbour.chain((0..PRESETS_PER_ACCOUNT).map(|number| put("acme", number))));
    assert!(filled.iter().all(Result::is_ok));
    assert_eq!(apply(&store, put("acme", 5000)), Err(ChangeError::TooManyPresets("acme".into())));
    apply(&store, put("acme", 7)).expect("overwriting adds none");
    apply(&store, Change::DeletePreset { account: "acme".into(), id: "preset_00000".into() }).expect("it is there");
    apply(&store, put("acme", 5000)).expect("there is room again");

    let mut found = Vec::new();
    loop {
        let page = store.presets("acme", found.last().map(String::as_str), 64).expect("the store reads");
        found.extend(page.iter().map(|preset| preset.id.clone()));
        if page.len() < 64 {
            break;
        }
    }
    assert_eq!(found.len(), PRESETS_PER_ACCOUNT);
    assert!(found.is_sorted() && found.iter().all(|id| id != "preset_00000"));
    assert_eq!(store.presets("acme", None, 0).expect("the store reads"), []);
    assert_eq!(store.presets("missing", None, 5).expect("the store reads"), []);
}
