//! Property test: any sequence of changes, in bursts that share commits, with restarts, agrees with a model in maps.

use std::collections::BTreeMap;

use backdrop::store::{
    Bill, Change, ChangeError, Day, KeyDay, KeyUse, LookupBy, Month, Preset, REQUEST_SECONDS, Request, UnixSeconds,
    Usage,
};
use proptest::prelude::*;

use crate::store::backend::{Backend, ContractStore, Redb, rows_of};
use crate::store::support::{account, apply_all, preset};

/// 2026-01-01T00:00:00Z: this month is 202601, the one before 202512.
const NOW: i64 = 1_767_225_600;

const MONTHS: [Month; 4] = [Month(202_511), Month(202_512), Month(202_601), Month(202_602)];

/// The last one is never created. The first is a prefix of the second, its neighbour in every table.
const ACCOUNTS: [&str; 3] = ["a", "a-", "missing"];

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Bill { account: usize, month: usize, images: u64, request: Option<(u8, u8, i64)> },
    Forget { before: i64, at_most: usize },
    Put { account: usize, id: u8, name: u8, params: String, replace: bool },
    Delete { account: usize, id: u8 },
    Count { day: u32 },
    ForgetDays { month: usize },
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Burst(Vec<Op>),
    Query { account: usize, after: Option<u8>, limit: usize },
    Reopen,
}

fn seconds() -> impl Strategy<Value = i64> {
    prop_oneof![NOW - 3..NOW + 3, NOW - REQUEST_SECONDS - 3..NOW - REQUEST_SECONDS + 3]
}

fn op() -> impl Strategy<Value = Op> {
    let request = prop::option::of((0..4_u8, any::<u8>(), seconds()));
    prop_oneof![
        4 => (0..3_usize, 0..4_usize, 0..5_u64, request)
            .prop_map(|(account, month, images, request)| Op::Bill { account, month, images, request }),
        1 => (seconds(), 0..4_usize).prop_map(|(before, at_most)| Op::Forget { before, at_most }),
        5 => (0..3_usize, 0..5_u8, 0..5_u8, "[a-z]{0,40}", any::<bool>()).prop_map(|(account, id, name, text, replace)| {
            Op::Put { account, id, name, params: format!(r#"{{"text":"{text}"}}"#), replace }
        }),
        2 => (0..3_usize, 0..5_u8).prop_map(|(account, id)| Op::Delete { account, id }),
        1 => (0..4_u32).prop_map(|day| Op::Count { day }),
        1 => (0..4_usize).prop_map(|month| Op::ForgetDays { month }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(op(), 1..8).prop_map(Step::Burst),
        3 => (0..3_usize, prop::option::of(0..5_u8), 0..6_usize)
            .prop_map(|(account, after, limit)| Step::Query { account, after, limit }),
        1 => Just(Step::Reopen),
    ]
}

fn id(number: u8) -> String {
    format!("preset_{number}")
}

/// The first day of a month.
fn day(month: usize) -> Day {
    Day::first_of(MONTHS[month])
}

fn change(op: &Op, at: i64) -> Change {
    match op {
        Op::Bill { account, month, images, request } => Change::Bill(Bill {
            account: ACCOUNTS[*account].into(),
            month: MONTHS[*month],
            images: *images,
            microdollars: images * 7,
            request: request.map(|(key, fingerprint, at)| (key.to_string(), as_request(*images, fingerprint, at))),
            by: Some(KeyUse { key_id: format!("key_{}", images % 2), day: day(*month), milliseconds: images * 3 }),
        }),
        Op::Forget { before, at_most } => Change::ForgetRequests { before: UnixSeconds(*before), at_most: *at_most },
        Op::Put { account, id: number, name, params, replace } => {
            let preset = Preset {
                params: params.clone(),
                created_at: UnixSeconds(at),
                updated_at: UnixSeconds(at),
                ..preset(ACCOUNTS[*account], &id(*number), &name.to_string())
            };
            Change::PutPreset { preset, replaces: *replace }
        }
        Op::Delete { account, id: number } => {
            Change::DeletePreset { account: ACCOUNTS[*account].into(), id: id(*number) }
        }
        Op::Count { day } => Change::CountGenerated { day: Day(*day), at_most: u32::MAX },
        Op::ForgetDays { month } => Change::ForgetKeyDays { before: day(*month) },
    }
}

fn as_request(images: u64, fingerprint: u8, at: i64) -> Request {
    Request { fingerprint: [fingerprint; 32], images, at: UnixSeconds(at), pictures: vec![None, Some([8; 32])] }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Model {
    usage: BTreeMap<(Month, String), Usage>,
    requests: BTreeMap<(String, String), Request>,
    presets: BTreeMap<(String, String), Preset>,
    key_days: BTreeMap<(String, Day, String), KeyDay>,
    /// Whether a request is billed once, whoever claimed its key.
    refuses_repetitions: bool,
}

impl Model {
    /// The number of requests that were forgotten.
    fn apply(&mut self, change: Change) -> Result<usize, ChangeError> {
        let mut forgotten = 0;
        match change {
            Change::Bill(Bill { account, month, images, microdollars, request, by }) => {
                if account == "missing" {
                    return Err(ChangeError::NoSuchAccount(account));
                }
                if let Some((key, request)) = request.as_ref().filter(|_| self.refuses_repetitions)
                    && let Some(billed) = self.requests.get(&(account.clone(), key.clone()))
                    && billed.at.0 >= request.at.0 - REQUEST_SECONDS
                {
                    return Err(ChangeError::RequestBilled(Box::new(billed.clone())));
                }
                let usage = self.usage.entry((month, account.clone())).or_default();
                *usage = Usage { images: usage.images + images, microdollars: usage.microdollars + microdollars };
                if let Some(KeyUse { key_id, day, milliseconds }) = by.filter(|_| images > 0) {
                    let used = self.key_days.entry((account.clone(), day, key_id)).or_default();
                    used.images += images;
                    used.milliseconds += milliseconds;
                    used.microdollars += microdollars;
                }
                self.requests.extend(request.map(|(key, request)| ((account, key), request)));
            }
            Change::ForgetKeyDays { before } => self.key_days.retain(|(_, day, _), _| *day >= before),
            Change::ForgetRequests { before, at_most } => {
                let old = self.requests.iter().filter(|(_, request)| request.at < before);
                let mut old: Vec<_> = old.map(|(key, request)| (request.at, key.clone())).collect();
                old.sort_unstable();
                old.truncate(at_most);
                forgotten = old.len();
                old.iter().for_each(|(_, key)| drop(self.requests.remove(key)));
            }
            Change::PutPreset { preset, replaces } => {
                let Preset { account, id, name, .. } = &preset;
                if account == "missing" {
                    return Err(ChangeError::NoSuchAccount(account.clone()));
                }
                if replaces && !self.presets.contains_key(&(account.clone(), id.clone())) {
                    return Err(ChangeError::NoSuchPreset(id.clone()));
                }
                if self.named(account, name).is_some_and(|other| other.id != *id) {
                    return Err(ChangeError::PresetNameTaken(name.clone()));
                }
                let row = (account.clone(), id.clone());
                let created_at = self.presets.get(&row).map_or(preset.created_at, |before| before.created_at);
                self.presets.insert(row, Preset { created_at, ..preset });
            }
            Change::DeletePreset { account, id } => {
                self.presets.remove(&(account, id.clone())).ok_or(ChangeError::NoSuchPreset(id))?;
            }
            // What is counted is no row.
            Change::CountGenerated { .. } | Change::ReturnGenerated { .. } => {}
            Change::CreateAccount { .. }
            | Change::SetAccount { .. }
            | Change::CreateKey { .. }
            | Change::Key { .. }
            | Change::TouchKeys { .. }
            | Change::CreateJob { .. }
            | Change::Job { .. } => unreachable!("not among the steps"),
        }
        Ok(forgotten)
    }

    fn named(&self, account: &str, name: &str) -> Option<&Preset> {
        self.presets.values().find(|preset| preset.account == account && preset.name == name)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_agrees_with_the_model(steps in steps()) {
        run(&Redb::new(), steps)?;
    }
}

/// Any sequence of bursts, queries and restarts.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..30)
}

/// Runs the steps on an empty store and on the model.
pub(crate) fn run<B: Backend>(backend: &B, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut store = backend.open();
    for name in &ACCOUNTS[..2] {
        prop_assert!(apply_all(&store, [account(name)])[0].is_ok());
    }
    let mut model = Model { refuses_repetitions: B::REFUSES_REPETITIONS, ..Model::default() };
    for (at, step) in (100..).zip(steps) {
        match step {
            Step::Burst(ops) => {
                let results = apply_all(&store, ops.iter().map(|op| change(op, at)));
                prop_assert_eq!(results.len(), ops.len());
                for (op, result) in ops.iter().zip(results) {
                    prop_assert_eq!(
                        result.map(|rows| rows.forgotten_requests),
                        model.apply(change(op, at)),
                        "{:?}",
                        op
                    );
                }
            }
            Step::Query { account, after, limit } => query(&store, &model, ACCOUNTS[account], after, limit)?,
            Step::Reopen => {
                drop(store);
                store = backend.open();
                compare(&store, &model)?;
            }
        }
    }
    compare(&store, &model)?;
    store.assert_sound();

    // An export has all of it.
    let (exported, rows) = store.exported();
    let other = backend.another();
    prop_assert_eq!(other.import(&exported), rows);
    let imported = other.open();
    compare(&imported, &model)?;
    imported.assert_sound();
    prop_assert_eq!(rows_of(&imported.exported().0), rows_of(&exported));
    Ok(())
}

fn query(
    store: &impl ContractStore,
    model: &Model,
    account: &str,
    after: Option<u8>,
    limit: usize,
) -> Result<(), TestCaseError> {
    let after = after.map(id);
    let own = model.presets.values().filter(|preset| preset.account == account);
    let page: Vec<&Preset> =
        own.filter(|preset| after.as_ref().is_none_or(|after| preset.id > *after)).take(limit).collect();
    let found = store.wait(store.store().presets(account, after.as_deref(), limit)).expect("the store reads");
    prop_assert_eq!(found.iter().collect::<Vec<_>>(), page);
    for number in 0..5_u8 {
        let (id, name) = (id(number), number.to_string());
        let by_id = store.wait(store.store().preset(account, &id, LookupBy::Id)).expect("the store reads");
        prop_assert_eq!(by_id.as_ref(), model.presets.get(&(account.to_owned(), id)));
        let by_name = store.wait(store.store().preset(account, &name, LookupBy::Name)).expect("the store reads");
        prop_assert_eq!(by_name.as_ref(), model.named(account, &name));
    }
    Ok(())
}

/// The rows that a start loads, and all presets.
fn compare(store: &impl ContractStore, model: &Model) -> Result<(), TestCaseError> {
    let rows = store.load_at(UnixSeconds(NOW));
    let usage: BTreeMap<_, _> =
        rows.usage.into_iter().map(|(account, month, usage)| ((month, account), usage)).collect();
    let expected: BTreeMap<_, _> =
        model.usage.clone().into_iter().filter(|((month, _), _)| *month >= MONTHS[1]).collect();
    prop_assert_eq!(usage, expected);
    let requests = store.requests().into_iter().map(|(account, key, request)| ((account, key), request));
    prop_assert_eq!(&requests.collect::<BTreeMap<_, _>>(), &model.requests);
    let loaded: BTreeMap<_, _> =
        rows.key_days.into_iter().map(|(account, day, key_id, used)| ((account, day, key_id), used)).collect();
    let expected: BTreeMap<_, _> = model.key_days.clone().into_iter().filter(|((_, of, _), _)| *of >= day(1)).collect();
    prop_assert_eq!(loaded, expected);
    for account in ACCOUNTS {
        for (from, to, limit) in [
            (Day(0), Day(u32::MAX), usize::MAX),
            (day(1), day(2), usize::MAX),
            (day(2), day(1), 9),
            (day(1), day(3), 2),
        ] {
            let found = store.wait(store.store().key_days(account, (from, to), limit)).expect("the store reads");
            let of_range =
                model.key_days.iter().filter(|((owner, of, _), _)| owner == account && (from..=to).contains(of));
            let expected = of_range.map(|((_, day, key_id), used)| (*day, key_id.clone(), *used));
            prop_assert_eq!(found, expected.take(limit).collect::<Vec<_>>());
        }
        query(store, model, account, None, 100)?;
    }
    Ok(())
}
