//! `backdrop store check|export|import`: output, exit codes, refusals.

use std::fs;
use std::path::Path;
use std::process::Output;

use backdrop::store::{self, Bill, Change, Day, KeyChange, KeyHash, KeyUse, Month, RedbStore, Request, UnixSeconds};
use redb::{Database, ReadableTable as _, TableDefinition, WriteTransaction};
use tempfile::TempDir;

use crate::store::support::{account, apply_all, key, preset};
use crate::support::command::{backdrop, fed, json, stderr, stdout};

fn run(data_dir: &Path, words: &[&str]) -> Output {
    run_with(data_dir, words, b"")
}

fn run_with(data_dir: &Path, words: &[&str], input: &[u8]) -> Output {
    fed(backdrop().arg("store").args(words).arg("--data-dir").arg(data_dir), input)
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

/// A store with rows of every kind, some older than those that are loaded.
fn filled() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = RedbStore::open(&store::file_in(folder.path())).expect("a new store");
    let bill = |month, at| {
        Change::Bill(Bill {
            account: "acme".into(),
            month: Month(month),
            images: 2,
            microdollars: 10_000,
            request: Some((
                format!("request-{at}"),
                Request { fingerprint: [9; 32], images: 2, at: UnixSeconds(at), pictures: vec![Some([8; 32]), None] },
            )),
            by: (month == 202_611).then(|| KeyUse { key_id: "key_1".into(), day: Day(20_775), milliseconds: 0 }),
        })
    };
    let changes = [
        account("acme"),
        Change::CreateKey { hash: KeyHash([1; 32]), key: key("acme", "key_1") },
        Change::CreateKey { hash: KeyHash([2; 32]), key: key("acme", "key_2") },
        Change::Key { id: "key_2".into(), change: KeyChange::Revoke { at: UnixSeconds(3) } },
        Change::PutPreset { preset: preset("acme", "preset_1", "weiß \"1\""), replaces: false },
        Change::PutPreset { preset: preset("acme", "preset_2", "2"), replaces: false },
        bill(202_001, 5),
        bill(202_611, 1_795_000_000),
    ];
    assert!(apply_all(&store, changes).iter().all(Result::is_ok));
    folder
}

#[test]
fn a_sound_store_passes_the_check() {
    let folder = filled();
    let output = run(folder.path(), &["check"]);
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    let expected =
        "sound (1 accounts, 2 keys, 2 presets, 2 months of use, 1 days of use by key, 2 billed requests and 0 jobs)\n";
    assert!(stdout(&output).ends_with(expected), "{}", stdout(&output));
    let report = json(&run(folder.path(), &["check", "--json"]));
    assert_eq!((&report["sound"], &report["rows"]["keys"], &report["wrong"]), (&true.into(), &2.into(), &0.into()));
}

const PRESETS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("presets");
const PRESET_NAMES: TableDefinition<'_, (&str, &str), &str> = TableDefinition::new("preset_names");
const KEYS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("keys");
const KEY_IDS: TableDefinition<'_, &str, &[u8; 32]> = TableDefinition::new("key_ids");
const ACCOUNTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("accounts");
const USAGE: TableDefinition<'_, (u32, &str), &[u8]> = TableDefinition::new("usage");
const REQUESTS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("requests");
const REQUEST_TIMES: TableDefinition<'_, (i64, &str, &str), ()> = TableDefinition::new("request_times");

/// Damages a store.
type Damage = fn(&WriteTransaction);

#[test]
fn the_check_finds_every_inconsistency() {
    // The damage and the expected lines of the check.
    let cases: [(Damage, &[&str]); 11] = [
        (
            |t| drop(t.open_table(ACCOUNTS).expect("a table").remove("acme").expect("it writes")),
            &[
                "a key: no such account, or a wrong key",
                "a key: no such account, or a wrong key",
                "preset preset_1 of account acme: no such account, or a wrong key",
                "preset preset_2 of account acme: no such account, or a wrong key",
                "use of account acme in 2020-01: no such account, or a wrong key",
                "use of account acme in 2026-11: no such account, or a wrong key",
                "use of key key_1 on 2026-11-18: no such account, or a wrong key",
                "request request-1795000000 of account acme: no such account, or a wrong key",
                "request request-5 of account acme: no such account, or a wrong key",
            ],
        ),
        (
            |t| drop(t.open_table(KEY_IDS).expect("a table").remove("key_1").expect("it writes")),
            &["a key is not in the index key_ids", "the index key_ids has 1 rows, and 2 belong there"],
        ),
        (
            |t| drop(t.open_table(KEYS).expect("a table").remove(&[1; 32]).expect("it writes")),
            &["the index key_ids has 2 rows, and 1 belong there"],
        ),
        (
            |t| drop(t.open_table(KEY_IDS).expect("a table").insert("key_7", &[1; 32]).expect("it writes")),
            &["the index key_ids has 3 rows, and 2 belong there"],
        ),
        (
            |t| drop(t.open_table(KEYS).expect("a table").insert(&[1; 32], [9].as_slice()).expect("it writes")),
            &["a key: "],
        ),
        (
            |t| drop(t.open_table(PRESET_NAMES).expect("a table").remove(("acme", "2")).expect("it writes")),
            &[
                "preset preset_2 of account acme is not in the index preset_names",
                "the index preset_names has 1 rows, and 2 belong there",
            ],
        ),
        (
            |t| drop(t.open_table(PRESETS).expect("a table").remove(("acme", "preset_2")).expect("it writes")),
            &["the index preset_names has 2 rows, and 1 belong there"],
        ),
        (
            |t| {
                drop(t.open_table(PRESET_NAMES).expect("a table").insert(("acme", "3"), "preset_2").expect("it writes"))
            },
            &["the index preset_names has 3 rows, and 2 belong there"],
        ),
        (
            |t| {
                let mut usage = t.open_table(USAGE).expect("a table");
                let record = usage.get((202_611, "acme")).expect("it reads").expect("a row").value().to_vec();
                drop(usage.insert((202_613, "acme"), record.as_slice()).expect("it writes"));
            },
            &["use of account acme in 2026-13: no such account, or a wrong key"],
        ),
        (
            |t| {
                drop(t.open_table(REQUEST_TIMES).expect("a table").remove((5, "acme", "request-5")).expect("it writes"))
            },
            &[
                "request request-5 of account acme is not in the index request_times",
                "the index request_times has 1 rows, and 2 belong there",
            ],
        ),
        (
            |t| drop(t.open_table(REQUESTS).expect("a table").remove(("acme", "request-5")).expect("it writes")),
            &["the index request_times has 2 rows, and 1 belong there"],
        ),
    ];
    for (damage, expected) in cases {
        let folder = filled();
        {
            let database = Database::open(store::file_in(folder.path())).expect("a redb file");
            let transaction = database.begin_write().expect("it is ours");
            damage(&transaction);
            transaction.commit().expect("the disk writes");
        }
        let output = run(folder.path(), &["check"]);
        assert_eq!(code(&output), 1, "{expected:?}: {}", stderr(&output));
        let printed = stdout(&output);
        let mut lines: Vec<&str> = printed.lines().collect();
        assert!(lines.pop().is_some_and(|last| last.contains("inconsistencies")), "{printed}");
        assert_eq!(lines.len(), expected.len(), "{printed}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line} is not {expected}");
        }
    }
}

#[test]
fn the_exports_of_all_accounts_have_the_rows_of_one_export_and_are_imported_apart() {
    let from = filled();
    {
        let store = RedbStore::open(&store::file_in(from.path())).expect("a store");
        let changes = [
            account("other"),
            account("third"),
            Change::CreateKey { hash: KeyHash([3; 32]), key: key("other", "key_3") },
            Change::PutPreset { preset: preset("other", "preset_1", "1"), replaces: false },
        ];
        assert!(apply_all(&store, changes).iter().all(Result::is_ok));
    }
    let rows = |arguments: &[&str]| {
        let output = run(from.path(), &[&["export"], arguments].concat());
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
        let lines = stdout(&output);
        let to = tempfile::tempdir().expect("a temporary folder");
        let imported = run_with(to.path(), &["import"], lines.as_bytes());
        assert_eq!(code(&imported), 0, "{}", stderr(&imported));
        assert_eq!(code(&run(to.path(), &["check"])), 0);
        let again = stdout(&run(to.path(), &["export"]));
        assert!(lines.lines().skip(1).eq(again.lines().skip(1)), "{again}");
        let mut rows: Vec<String> = lines.lines().skip(1).map(str::to_owned).collect();
        assert_eq!(rows.pop(), Some(format!(r#"{{"row":"end","rows":{}}}"#, rows.len())));
        rows
    };
    let all = rows(&[]);
    let first = rows(&["--account", "acme"]);
    let others = rows(&["--account", "third", "--account", "other"]);
    assert_eq!((all.len(), first.len(), others.len()), (14, 10, 4));
    let mut together = [first, others].concat();
    let mut expected = all;
    together.sort();
    expected.sort();
    assert_eq!(together, expected);

    let file = from.path().join("export.jsonl");
    let refused = run(from.path(), &["export", file.to_str().expect("a plain path"), "--account", "absent"]);
    assert_eq!((code(&refused), file.exists()), (2, false));
    assert!(stderr(&refused).contains("no account `absent`"), "{}", stderr(&refused));
}

#[test]
fn an_export_file_is_private_and_overwrites_nothing() {
    let folder = filled();
    let file = folder.path().join("export.jsonl");
    let name = file.to_str().expect("a plain path");
    let output = run(folder.path(), &["export", name]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, ""), "{}", stderr(&output));
    let content = fs::read_to_string(&file).expect("it was written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    }
    let refused = run(folder.path(), &["export", name]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains(name), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), content);

    let to = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(code(&run(to.path(), &["import", name])), 0);
    // Into a store that has rows: refused.
    let refused = run(to.path(), &["import", name]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("only an empty one takes an import"), "{}", stderr(&refused));
}

#[test]
fn an_invalid_line_is_named_and_nothing_is_imported() {
    let folder = filled();
    let good = stdout(&run(folder.path(), &["export"]));
    let lines: Vec<&str> = good.lines().collect();
    let without = |number: usize| {
        let kept = lines.iter().enumerate().filter(|&(at, _)| at + 1 != number);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let with = |number: usize, line: &str| {
        let mut lines = lines.clone();
        lines.insert(number - 1, line);
        lines.join("\n")
    };
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "line 1: the end is missing"),
        (without(12), "line 12: the end is missing"),
        (good[..good.len() / 2].to_owned(), ""),
        (without(1), "line 1: the first line does not say that this is an export"),
        (good.replace(r#""schema":7"#, r#""schema":8"#), "line 1: schema 8 is from a newer version"),
        (without(2), "line 2: no account `acme`"),
        (without(5), "line 11: 10 rows were exported and 9 are here"),
        (with(3, lines[1]), "line 3: account `acme` exists already"),
        (with(4, lines[2]), "line 4: this key exists already"),
        (with(6, lines[4]), "line 6: this preset is there already"),
        (with(8, lines[6]), "line 8: this month of the account is there already"),
        (with(10, lines[8]), "line 10: this day of the key is there already"),
        (with(11, lines[9]), "line 11: this request is there already"),
        (good.replace(r#","scopes":[]"#, ""), "line 3: no row of a store: missing field `scopes`"),
        (with(2, "{"), "line 2: no JSON"),
        (with(2, r#"{"row":"cake"}"#), "line 2: no row of a store"),
        (with(2, &format!("\"{}\"", "x".repeat(1 << 20))), "line 2: longer than any row"),
        (good.replace(r#""generates":false"#, r#""generates":false,"more":1"#), "line 2: it has fields"),
        (good.replace(r#","last_used_at":null"#, ""), "line 3: it has fields"),
        (good.replace(r#","model":null"#, ""), "line 2: it has fields"),
        (good.replace(r#""month":202611"#, r#""month":202613"#), "line 8: there is no month 2026-13"),
        (good.replace("0101010101", "010101010x"), "line 3: no row of a store: expected 64 hexadecimal digits"),
    ];
    let to = tempfile::tempdir().expect("a temporary folder");
    for (content, expected) in &cases {
        let output = run_with(to.path(), &["import"], content.as_bytes());
        assert_eq!(code(&output), 2, "{expected}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{} is not {expected}", stderr(&output));
    }
    // An export of a version before models of accounts, pictures of requests and restrictions of keys.
    let pictures = format!(r#","pictures":["{}",null]"#, "08".repeat(32));
    assert!(good.contains(&pictures) && good.contains(r#","model":null"#));
    let older = good.replace(&pictures, "").replace(r#","model":null"#, "");
    let bounds = r#","expires_at":null,"images_per_month":null,"scopes":[],"previous":null"#;
    assert!(good.contains(bounds));
    let older = older.replace(bounds, "").replace(r#""schema":7"#, r#""schema":3"#);
    let from_older = tempfile::tempdir().expect("a temporary folder");
    let output = run_with(from_older.path(), &["import"], older.as_bytes());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // The refused imports wrote nothing: the valid one is accepted.
    let output = run_with(to.path(), &["import"], good.as_bytes());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_missing_locked_or_damaged_store_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store::file_in(folder.path());
    let refusal = |words: &[&str], expected: &str| {
        let output = run(folder.path(), words);
        let printed = stderr(&output);
        assert_eq!((code(&output), stdout(&output).as_str()), (2, ""), "{printed}");
        assert!(printed.contains(expected) && printed.contains(&file.display().to_string()), "{printed}");
    };
    for words in [["check"], ["export"]] {
        refusal(&words, "check the data directory");
    }
    assert!(!file.exists(), "the check created a store");

    let open = RedbStore::open(&file).expect("a new store");
    for words in [["check"], ["export"], ["import"]] {
        refusal(&words, "stop it first");
    }
    drop(open);
    fs::write(&file, "this is not a database\n".repeat(1000)).expect("writable");
    for words in [["check"], ["export"], ["import"]] {
        refusal(&words, "damaged");
    }
}
