//! An in-memory `StateStore` for tests: committed state outlives the services on it, as on a disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::store::{
    Bill, Change, ChangeError, Day, GeneratedCount, Job, KeyDay, KeyUse, Month, OnCommit, OpenError, Preset,
    REQUEST_SECONDS, Request, Rows, StateStore, Store, UnixSeconds, Usage,
};

/// Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryStore {
    state: Arc<Mutex<State>>,
    /// Held from a commit to the end of its callback: callbacks run in the order of commits.
    commits: Arc<Mutex<()>>,
}

#[derive(Default)]
struct State {
    usage: BTreeMap<(String, Month), Usage>,
    key_days: BTreeMap<(String, Day, String), KeyDay>,
    requests: BTreeMap<(String, String), Request>,
    presets: BTreeMap<(String, String), Preset>,
    generated: GeneratedCount,
    /// When the process loads that starts; `None` for the system's time.
    now: Option<UnixSeconds>,
    mode: CommitMode,
    is_away: bool,
    held: Vec<(Change, OnCommit)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// How changes are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CommitMode {
    /// At once.
    #[default]
    Immediate,
    /// Held until [`MemoryStore::release`].
    Held,
    /// Refused.
    Busy,
}

impl MemoryStore {
    pub(crate) fn set_mode(&self, mode: CommitMode) {
        self.lock().mode = mode;
    }

    /// Whether the disk is away.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    /// Commits held changes.
    pub(crate) fn release(&self) {
        let held = std::mem::take(&mut self.lock().held);
        for (change, done) in held {
            let result = self.lock().apply(change);
            done(result);
        }
    }

    /// Drops held changes, as a store that is closed meanwhile.
    pub(crate) fn drop_held(&self) {
        drop(std::mem::take(&mut self.lock().held));
    }

    /// What an account used in all its months, oldest first.
    pub(crate) fn usage(&self, account: &str) -> Vec<(Month, Usage)> {
        let of = |((name, month), usage): (&(String, Month), &Usage)| (name == account).then_some((*month, *usage));
        self.lock().usage.iter().filter_map(of).collect()
    }

    pub(crate) fn requests(&self) -> usize {
        self.lock().requests.len()
    }

    /// The store as a process loads it that starts at `now`.
    pub(crate) fn start(&self, quota: u64, now: UnixSeconds) -> Store {
        self.lock().now = Some(now);
        Store::file(self.clone(), quota).expect("it reads")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics in here")
    }
}

impl State {
    fn rows(&self, now: UnixSeconds) -> Rows {
        let usage = self.usage.iter().filter(|((_, month), _)| *month >= Month::of(now).previous());
        let requests = self.requests.iter().filter(|(_, request)| request.at.0 >= now.0 - REQUEST_SECONDS);
        let mut requests: Vec<_> = requests.collect();
        requests.sort_by_key(|(_, request)| request.at);
        Rows {
            usage: usage.map(|((account, month), usage)| (account.clone(), *month, *usage)).collect(),
            key_days: self.key_days.iter().map(|((a, day, key), used)| (a.clone(), *day, key.clone(), *used)).collect(),
            requests: requests
                .into_iter()
                .map(|((account, key), request)| (account.clone(), key.clone(), request.clone()))
                .collect(),
            ..Rows::default()
        }
    }

    fn apply(&mut self, change: Change) -> Result<Rows, ChangeError> {
        let mut rows = Rows::default();
        match change {
            Change::Bill(Bill { account, month, images, microdollars, request, by }) => {
                let usage = self.usage.entry((account.clone(), month)).or_default();
                usage.images += images;
                usage.microdollars += microdollars;
                rows.usage.push((account.clone(), month, *usage));
                if let Some(KeyUse { key_id, day, milliseconds }) = by {
                    let used = self.key_days.entry((account.clone(), day, key_id.clone())).or_default();
                    used.images += images;
                    used.milliseconds += milliseconds;
                    used.microdollars += microdollars;
                    rows.key_days.push((account.clone(), day, key_id, *used));
                }
                if let Some((key, request)) = request {
                    self.requests.insert((account.clone(), key.clone()), request.clone());
                    rows.requests.push((account, key, request));
                }
            }
            Change::CountGenerated { day, at_most } => self.generated = self.generated.taken(day, at_most)?,
            Change::ReturnGenerated { day } => self.generated = self.generated.returned(day),
            Change::ForgetKeyDays { before } => self.key_days.retain(|(_, day, _), _| *day >= before),
            Change::ForgetRequests { before, at_most } => {
                let old = self.requests.iter().filter(|(_, request)| request.at < before);
                let old: Vec<_> = old.take(at_most).map(|(place, _)| place.clone()).collect();
                old.iter().for_each(|place| drop(self.requests.remove(place)));
                rows.forgotten_requests = old;
            }
            Change::ReplacePreset { preset } => {
                if !self.presets.contains_key(&(preset.account.clone(), preset.id.clone())) {
                    return Err(ChangeError::NoSuchPreset(preset.id));
                }
                return self.apply(Change::PutPreset { preset });
            }
            Change::PutPreset { preset } => {
                let taken = |other: &Preset| other.account == preset.account && other.name == preset.name;
                if self.presets.values().any(|other| taken(other) && other.id != preset.id) {
                    return Err(ChangeError::PresetNameTaken(preset.name));
                }
                let place = (preset.account.clone(), preset.id.clone());
                let created_at = self.presets.get(&place).map_or(preset.created_at, |before| before.created_at);
                let preset = Preset { created_at, ..preset };
                self.presets.insert(place, preset.clone());
                rows.presets.push(preset);
            }
            Change::DeletePreset { account, id } => {
                let removed = self.presets.remove(&(account, id.clone()));
                removed.ok_or(ChangeError::NoSuchPreset(id))?;
            }
            Change::CreateAccount { .. }
            | Change::SetAccount { .. }
            | Change::CreateKey { .. }
            | Change::Key { .. }
            | Change::TouchKeys { .. }
            | Change::CreateJob { .. }
            | Change::Job { .. } => unimplemented!("keys and jobs are tested on the store itself"),
        }
        Ok(rows)
    }
}

impl StateStore for MemoryStore {
    fn load(&self) -> Result<Rows, OpenError> {
        let state = self.lock();
        Ok(state.rows(state.now.unwrap_or_else(UnixSeconds::now)))
    }

    fn submit(&self, change: Change, done: OnCommit) {
        let _commit = self.commits.lock().expect("no callback panics");
        let mut state = self.lock();
        match state.mode {
            CommitMode::Immediate => {
                let result = state.apply(change);
                // As the store's own thread does: without a lock that the callback might take.
                drop(state);
                done(result);
            }
            CommitMode::Held => state.held.push((change, done)),
            CommitMode::Busy => {
                drop(state);
                done(Err(ChangeError::Busy));
            }
        }
    }

    fn fault(&self) -> Option<String> {
        self.lock().is_away.then(|| "the disk is away".to_owned())
    }

    fn preset(&self, account: &str, id: &str) -> Result<Option<Preset>, OpenError> {
        Ok(self.lock().presets.get(&(account.to_owned(), id.to_owned())).cloned())
    }

    fn preset_named(&self, account: &str, name: &str) -> Result<Option<Preset>, OpenError> {
        Ok(self.lock().presets.values().find(|preset| preset.account == account && preset.name == name).cloned())
    }

    fn presets(&self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, OpenError> {
        let state = self.lock();
        let of = state.presets.values().filter(|preset| preset.account == account);
        Ok(of.filter(|preset| after.is_none_or(|id| preset.id.as_str() > id)).take(limit).cloned().collect())
    }

    fn key_days(&self, _: &str, _: Day, _: Day, _: usize) -> Result<Vec<(Day, String, KeyDay)>, OpenError> {
        Ok(Vec::new())
    }

    fn job(&self, _: &str) -> Result<Option<Job>, OpenError> {
        Ok(None)
    }

    fn job_named(&self, _: &str, _: &str) -> Result<Option<Job>, OpenError> {
        Ok(None)
    }

    fn jobs(&self, _: &str, _: Option<(i64, &str)>, _: usize) -> Result<Vec<Job>, OpenError> {
        Ok(Vec::new())
    }

    fn waiting_jobs(&self, _: usize) -> Result<Vec<Job>, OpenError> {
        Ok(Vec::new())
    }

    fn next_job(&self) -> Result<Option<Job>, OpenError> {
        Ok(None)
    }

    fn expiring_jobs(&self, _: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        Ok(Vec::new())
    }

    fn webhook_jobs(&self, _: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        Ok(Vec::new())
    }
}
