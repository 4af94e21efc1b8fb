//! Accounts, keys and presets of a store, for the benches of its services.

use backdrop::account::presets::Draft;
use backdrop::account::{AccountModel, AccountName, KeyRestrictions, Keys, Label, Presets};
use backdrop::store::{Plan, Store, UnixSeconds};
use tokio::task::JoinSet;

/// Keys and presets, spread evenly over the accounts.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) accounts: usize,
    pub(crate) keys: usize,
    pub(crate) presets: usize,
}

/// The contents of a store.
pub(crate) struct Content {
    /// Hashes of the keys.
    pub(crate) tokens: Vec<String>,
    /// Account and id of each preset.
    pub(crate) presets: Vec<(String, String)>,
}

/// Fills an empty store.
pub(crate) async fn fill(store: &Store, size: Size) -> Content {
    let (keys, presets) = (Keys::new(store.clone()), Presets::new(store.clone()));
    let names: Vec<String> = (0..size.accounts).map(|number| format!("shop-{number}")).collect();
    let created = together(names.clone(), |name| {
        let keys = keys.clone();
        async move {
            let name = AccountName::try_from(name.as_str()).expect("a valid name");
            keys.create_account(name, Plan::Free, false, AccountModel::default()).await.expect("it is new");
        }
    });
    created.await;
    let owners = names.iter().cycle().take(size.keys).cloned().collect();
    let tokens = together(owners, |name| {
        let keys = keys.clone();
        async move {
            let name = AccountName::try_from(name.as_str()).expect("a valid name");
            let created = keys
                .create(&name, Label::default(), false, KeyRestrictions::default())
                .await
                .expect("the store writes");
            created.secret.expose().to_owned()
        }
    });
    let tokens = tokens.await;
    let owners = names.iter().cycle().take(size.presets).cloned().enumerate().collect();
    let presets = together(owners, |(turn, account)| {
        let presets = presets.clone();
        let params = serde_json::json!({"edge": "hard", "bg_color": "#112233", "width": 800, "quality": turn % 100});
        let params = params.as_object().expect("an object").clone();
        let draft = Draft { name: format!("preset {turn}"), params, ..Draft::default() };
        async move {
            let saved = presets.save(&account, draft, UnixSeconds::now(), |_| Ok(())).await;
            (account, saved.expect("the store writes").id)
        }
    });
    Content { tokens, presets: presets.await }
}

/// Runs one task for each item, a few hundred at a time.
pub(crate) async fn together<I, T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    items: Vec<I>,
    mut task: impl FnMut(I) -> F,
) -> Vec<T> {
    let (mut tasks, mut results) = (JoinSet::new(), Vec::new());
    for item in items {
        if tasks.len() == 200 {
            results.extend(tasks.join_next().await.map(|result| result.expect("no task panics")));
        }
        tasks.spawn(task(item));
    }
    results.extend(tasks.join_all().await);
    results
}
