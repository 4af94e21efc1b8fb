//! Presets: request parameters that an account saved under a name; saves, finds, lists and deletes them.

use serde_json::{Map, Value};

use super::InvalidText;
use super::api_key::random_text;
use super::names::check_preset_name;
use crate::recipe::FieldError;
pub use crate::store::LookupBy;
use crate::store::{Change, ChangeError, OpenError, Preset, Store, UnixSeconds, written};

/// Characters of a preset's id after `preset_`.
const ID_LENGTH: usize = 12;

/// Bytes of a preset's parameters as JSON.
pub const MAX_PARAMS_BYTES: usize = 16 * 1024;

/// Presets on one page of a listing.
pub const MAX_PAGE: usize = 100;

/// The accounts' presets. Clones share one store.
#[derive(Clone, Debug)]
pub struct Presets {
    store: Store,
}

/// A preset to save.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The preset to overwrite; `None` for a new one.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// The path of the endpoint that it is for.
    pub endpoint: Option<String>,
    /// Parameters by name.
    pub params: Map<String, Value>,
}

/// Some of an account's presets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// By id.
    pub presets: Vec<Preset>,
    /// Cursor of the next page; `None` on the last one.
    pub next: Option<String>,
}

/// Why a preset was not saved, read or deleted.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// A member of the draft is invalid.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The store refused or failed.
    #[error(transparent)]
    Write(#[from] ChangeError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] OpenError),
}

impl Presets {
    /// The presets of a store.
    #[must_use]
    pub const fn new(store: Store) -> Self {
        Self { store }
    }

    /// Saves a preset: a new one, or over the one whose id the draft has. It is durable when this returns.
    ///
    /// `check` validates endpoint and parameters, after the rest of the draft and before the store is used.
    ///
    /// # Errors
    /// When the draft is invalid, there is no preset with its id, the name is taken, the account has too many, or the store
    /// fails.
    pub async fn save(
        &self,
        account: &str,
        mut draft: Draft,
        now: UnixSeconds,
        check: impl FnOnce(&Draft) -> Result<(), FieldError>,
    ) -> Result<Preset, PresetError> {
        check_preset_name(&draft.name)
            .map_err(|InvalidText(expected)| FieldError::invalid("name", &draft.name, &expected))?;
        let params = serde_json::to_string(&draft.params).expect("JSON values are JSON");
        if params.len() > MAX_PARAMS_BYTES {
            return Err(FieldError::invalid("params", &params, "at most 16 KB of JSON").into());
        }
        check(&draft)?;
        if let Some(id) = draft.id.take_if(|id| !may_refer(id)) {
            return Err(ChangeError::NoSuchPreset(id).into());
        }
        let is_new = draft.id.is_none();
        let id = draft.id.unwrap_or_else(|| format!("preset_{}", random_text(ID_LENGTH)));
        let preset = Preset {
            id,
            account: account.to_owned(),
            name: draft.name,
            endpoint: draft.endpoint,
            params,
            // An overwritten preset keeps its time of creation.
            created_at: now,
            updated_at: now,
        };
        let change = Change::PutPreset { preset, replaces: !is_new };
        Ok(written(self.store.change(change).await?.presets)?)
    }

    /// Deletes a preset.
    ///
    /// # Errors
    /// When the account has no such preset, or the store cannot write.
    pub async fn delete(&self, account: &str, id: &str) -> Result<(), PresetError> {
        if !may_refer(id) {
            return Err(ChangeError::NoSuchPreset(id.to_owned()).into());
        }
        let change = Change::DeletePreset { account: account.to_owned(), id: id.to_owned() };
        self.store.change(change).await?;
        Ok(())
    }

    /// A preset of the account by its id or its name, tried as `first` first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find(&self, account: &str, id_or_name: &str, first: LookupBy) -> Result<Option<Preset>, PresetError> {
        if !may_refer(id_or_name) {
            return Ok(None);
        }
        Ok(self.store.preset(account, id_or_name, first).await?)
    }

    /// The account's presets by id, up to `limit` (1 to [`MAX_PAGE`]) of those after `cursor`, the `next` of another
    /// page.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, account: &str, cursor: Option<&str>, limit: usize) -> Result<Page, PresetError> {
        if cursor.is_some_and(|id| !may_refer(id)) {
            return Ok(Page::default());
        }
        let limit = limit.clamp(1, MAX_PAGE);
        // One more shows whether there is another page.
        let mut presets = self.store.presets(account, cursor, limit + 1).await?;
        let is_last = presets.len() <= limit;
        presets.truncate(limit);
        let next = if is_last { None } else { presets.last().map(|preset| preset.id.clone()) };
        Ok(Page { presets, next })
    }
}

/// Whether a text may be the id or the name of a preset: neither has a control character. A query with U+0000 would be an error
/// of PostgreSQL.
fn may_refer(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// The parameters of a preset, which are stored as the text of a JSON object; a damaged one is empty.
#[must_use]
pub fn params(preset: &Preset) -> Map<String, Value> {
    serde_json::from_str(&preset.params).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{AccountModel, CommitMode, MemoryStore, PRESETS_PER_ACCOUNT};
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
    const LATER: UnixSeconds = UnixSeconds(NOW.0 + 60);

    fn presets(store: &MemoryStore) -> Presets {
        Presets::new(store.start(50, NOW))
    }

    fn draft(name: &str) -> Draft {
        let params = json!({"edge": "hard", "width": 800}).as_object().expect("an object").clone();
        Draft { name: name.into(), params, ..Draft::default() }
    }

    async fn save(presets: &Presets, account: &str, draft: Draft) -> Result<Preset, PresetError> {
        presets.save(account, draft, NOW, |_| Ok(())).await
    }

    #[tokio::test]
    async fn a_preset_is_found_from_its_creation_to_its_deletion() {
        let store = MemoryStore::default();
        let presets = presets(&store);
        let sent = Draft { endpoint: Some("/remove".into()), ..draft("shop") };
        let saved = save(&presets, "a", sent).await.expect("a good one");
        assert!(saved.id.starts_with("preset_") && saved.id.len() == 19, "{}", saved.id);
        assert_eq!((saved.name.as_str(), saved.endpoint.as_deref()), ("shop", Some("/remove")));
        assert_eq!((saved.created_at, saved.updated_at), (NOW, NOW));
        assert_eq!(params(&saved), draft("").params);
        let found = presets.find("a", &saved.id, LookupBy::Id).await.expect("it reads");
        assert_eq!(found.as_ref(), Some(&saved));
        assert_eq!(presets.find("a", "shop", LookupBy::Name).await.expect("it reads"), found);

        // Another one has its id as a name.
        let twin = save(&presets, "a", draft(&saved.id)).await.expect("a good one");
        for (reference, first, expected) in [
            (saved.id.as_str(), LookupBy::Id, Some(&saved.id)),
            (&saved.id, LookupBy::Name, Some(&twin.id)),
            ("shop", LookupBy::Id, Some(&saved.id)),
            ("shop", LookupBy::Name, Some(&saved.id)),
            (&twin.id, LookupBy::Name, Some(&twin.id)),
            ("Shop", LookupBy::Id, None),
        ] {
            let found = presets.find("a", reference, first).await.expect("it reads");
            assert_eq!(found.as_ref().map(|preset| &preset.id), expected, "{reference} {first:?}");
        }
        assert_eq!(presets.find("b", "shop", LookupBy::Id).await.expect("it reads"), None, "another account");

        let changed = Draft { id: Some(saved.id.clone()), ..draft("studio") };
        let changed = presets.save("a", changed, LATER, |_| Ok(())).await.expect("it is there");
        assert_eq!((&changed.id, changed.name.as_str(), changed.endpoint.as_deref()), (&saved.id, "studio", None));
        assert_eq!((changed.created_at, changed.updated_at), (NOW, LATER));
        assert_eq!(presets.find("a", "shop", LookupBy::Name).await.expect("it reads"), None);

        presets.delete("a", &saved.id).await.expect("it is there");
        assert!(
            matches!(presets.delete("a", &saved.id).await, Err(PresetError::Write(ChangeError::NoSuchPreset(id))) if id == saved.id)
        );
        let found = presets.find("a", &saved.id, LookupBy::Id).await.expect("it reads");
        assert_eq!(found.map(|preset| preset.id), Some(twin.id), "the name of the other one");
    }

    #[tokio::test]
    async fn another_accounts_preset_is_invisible() {
        let store = MemoryStore::default();
        let presets = presets(&store);
        let id = save(&presets, "a", draft("shop")).await.expect("a good one").id;
        assert_eq!(presets.find("b", &id, LookupBy::Id).await.expect("it reads"), None);
        assert_eq!(presets.find("b", "shop", LookupBy::Name).await.expect("it reads"), None);
        assert_eq!(presets.list("b", None, 10).await.expect("it reads"), Page::default());
        assert!(matches!(presets.delete("b", &id).await, Err(PresetError::Write(ChangeError::NoSuchPreset(_)))));
        let theft = Draft { id: Some(id.clone()), ..draft("mine") };
        assert!(matches!(save(&presets, "b", theft).await, Err(PresetError::Write(ChangeError::NoSuchPreset(_)))));
        save(&presets, "b", draft("shop")).await.expect("names are an account's own");
        assert!(presets.find("a", &id, LookupBy::Id).await.expect("it reads").is_some());
    }

    #[tokio::test]
    async fn an_invalid_draft_is_refused_by_its_member_and_nothing_is_saved() {
        let store = MemoryStore::default();
        let presets = presets(&store);
        save(&presets, "a", draft("shop")).await.expect("a good one");
        let refused = |outcome: Result<Preset, PresetError>| match outcome.expect_err("refused") {
            PresetError::Field(error) => error.param().to_owned(),
            other @ (PresetError::Write(_) | PresetError::Read(_)) => other.to_string(),
        };
        assert_eq!(refused(save(&presets, "a", draft("")).await), "name");
        assert_eq!(refused(save(&presets, "a", draft("two\nlines")).await), "name");
        let mut large = draft("large");
        large.params.insert("prompt".into(), "x".repeat(MAX_PARAMS_BYTES).into());
        assert_eq!(refused(save(&presets, "a", large).await), "params");
        let check = |_: &Draft| Err(FieldError::Unknown { param: "egde".into() });
        assert_eq!(refused(presets.save("a", draft("typo"), NOW, check).await), "egde");
        assert_eq!(refused(save(&presets, "a", draft("shop")).await), "a preset named `shop` exists already");
        let unknown = Draft { id: Some("preset_x".into()), ..draft("new") };
        assert_eq!(refused(save(&presets, "a", unknown).await), "no preset `preset_x`");
        store.set_mode(CommitMode::Busy);
        assert!(matches!(save(&presets, "a", draft("new")).await, Err(PresetError::Write(_))));
        assert_eq!(presets.list("a", None, 10).await.expect("it reads").presets.len(), 1);
    }

    #[tokio::test]
    async fn parameters_of_exactly_the_maximum_size_are_saved() {
        let presets = presets(&MemoryStore::default());
        let text = "x".repeat(MAX_PARAMS_BYTES - r#"{"p":""}"#.len());
        let fits = Draft { params: json!({ "p": text }).as_object().expect("an object").clone(), ..draft("fits") };
        assert_eq!(save(&presets, "a", fits).await.expect("it fits").params.len(), MAX_PARAMS_BYTES);
    }

    #[tokio::test]
    async fn pages_follow_one_another_without_gap_or_overlap() {
        let presets = presets(&MemoryStore::default());
        let mut ids = BTreeSet::new();
        for number in 0..25 {
            ids.insert(save(&presets, "a", draft(&number.to_string())).await.expect("a good one").id);
        }
        for limit in [1, 5, 24, 25, 26, MAX_PAGE] {
            let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
            loop {
                let page = presets.list("a", cursor.as_deref(), limit).await.expect("it reads");
                assert!(page.presets.len() <= limit);
                seen.extend(page.presets.into_iter().map(|preset| preset.id));
                pages += 1;
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert!(seen.iter().eq(&ids), "pages of {limit}");
            assert_eq!(pages, ids.len().div_ceil(limit));
        }
        assert_eq!(presets.list("a", Some("zzz"), 5).await.expect("it reads"), Page::default());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Create { account: usize, name: usize },
        Overwrite { account: usize, which: prop::sample::Index, name: usize },
        Delete { account: usize, which: prop::sample::Index },
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = any::<prop::sample::Index>;
        prop_oneof![
            5 => (0..2_usize, 0..6_usize).prop_map(|(account, name)| Step::Create { account, name }),
            3 => (0..2_usize, index(), 0..6_usize)
                .prop_map(|(account, which, name)| Step::Overwrite { account, which, name }),
            3 => (0..2_usize, index()).prop_map(|(account, which)| Step::Delete { account, which }),
            1 => Just(Step::Restart),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn presets_on_the_real_store_agree_with_a_map(steps in prop::collection::vec(step(), 1..40)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(run(steps))?;
        }
    }

    const ACCOUNTS: [&str; 2] = ["a", "b"];

    fn open(folder: &std::path::Path) -> crate::store::Store {
        let store = crate::store::RedbStore::open(&crate::store::file_in(folder)).expect("the store opens");
        crate::store::Store::file(store, 50).expect("the store loads")
    }

    async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut services = open(folder.path());
        for account in ACCOUNTS {
            let name = account.try_into().expect("a good name");
            crate::account::Keys::new(services.clone())
                .create_account(name, crate::store::Plan::Free, false, AccountModel::default())
                .await
                .expect("it is new");
        }
        // All ids ever made, deleted ones and other accounts' too, and what there is: account and id to name.
        let mut ids: Vec<String> = vec!["preset_none".into()];
        let mut model: BTreeMap<(&str, String), String> = BTreeMap::new();
        for step in steps {
            let taken = |model: &BTreeMap<(&str, String), String>, account, name: &str, id: Option<&str>| {
                model.iter().any(|((of, other), known)| *of == account && known == name && Some(other.as_str()) != id)
            };
            match step {
                Step::Create { account, name } => {
                    let (account, name) = (ACCOUNTS[account], name.to_string());
                    let saved = save(&Presets::new(services.clone()), account, draft(&name)).await;
                    prop_assert_eq!(saved.is_err(), taken(&model, account, &name, None));
                    if let Ok(preset) = saved {
                        ids.push(preset.id.clone());
                        model.insert((account, preset.id), name);
                    }
                }
                Step::Overwrite { account, which, name } => {
                    let (account, id, name) = (ACCOUNTS[account], which.get(&ids).clone(), name.to_string());
                    let sent = Draft { id: Some(id.clone()), ..draft(&name) };
                    let saved = save(&Presets::new(services.clone()), account, sent).await;
                    let known = model.contains_key(&(account, id.clone()));
                    prop_assert_eq!(saved.is_ok(), known && !taken(&model, account, &name, Some(&id)));
                    prop_assert_eq!(matches!(saved, Err(PresetError::Write(ChangeError::NoSuchPreset(_)))), !known);
                    if saved.is_ok() {
                        model.insert((account, id), name);
                    }
                }
                Step::Delete { account, which } => {
                    let (account, id) = (ACCOUNTS[account], which.get(&ids).clone());
                    let deleted = Presets::new(services.clone()).delete(account, &id).await;
                    prop_assert_eq!(deleted.is_ok(), model.remove(&(account, id)).is_some());
                }
                Step::Restart => {
                    drop(services);
                    services = open(folder.path());
                }
            }
            for account in ACCOUNTS {
                let listed = Presets::new(services.clone()).list(account, None, MAX_PAGE).await.expect("it reads");
                let listed: Vec<_> = listed.presets.into_iter().map(|preset| (preset.id, preset.name)).collect();
                let of = model.iter().filter(|((of, _), _)| *of == account);
                let expected: Vec<_> = of.map(|((_, id), name)| (id.clone(), name.clone())).collect();
                prop_assert_eq!(&listed, &expected);
                for (id, name) in expected {
                    let named =
                        Presets::new(services.clone()).find(account, &name, LookupBy::Name).await.expect("it reads");
                    prop_assert_eq!(named.map(|preset| preset.id), Some(id));
                }
            }
        }
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn concurrent_saves_do_not_exceed_the_maximum_of_presets() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let services = open(folder.path());
        let name = "a".try_into().expect("a good name");
        crate::account::Keys::new(services.clone())
            .create_account(name, crate::store::Plan::Free, false, AccountModel::default())
            .await
            .expect("it is new");
        let tasks: Vec<_> = (0..PRESETS_PER_ACCOUNT + 20)
            .map(|number| {
                let presets = Presets::new(services.clone());
                tokio::spawn(async move { save(&presets, "a", draft(&number.to_string())).await })
            })
            .collect();
        let mut refused = 0;
        for task in tasks {
            match task.await.expect("no panic") {
                Ok(_) => {}
                Err(PresetError::Write(ChangeError::TooManyPresets(_))) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(refused, 20);
    }
}
