//! References that no preset can have: an unknown preset on every store, not an error of the database.

use backdrop::account::Presets;
use backdrop::account::presets::{Draft, LookupBy, Page, PresetError};
use backdrop::store::{ChangeError, Preset, Store, UnixSeconds};

use crate::store::backend::{Backend, ContractStore, Postgres, Redb, runtime};
use crate::store::support::account;

/// A control character of each kind; PostgreSQL refuses the first one in a text.
const REFERENCES: [&str; 3] = ["\0", "sho\u{1b}p", "preset_\u{85}"];

async fn save(presets: &Presets, id: Option<&str>) -> Result<Preset, PresetError> {
    let draft = Draft { id: id.map(str::to_owned), name: "shop".into(), ..Draft::default() };
    presets.save("acme", draft, UnixSeconds(1), |_| Ok(())).await
}

async fn check(store: Store) {
    store.change(account("acme")).await.expect("a new name");
    let presets = &Presets::new(store);
    save(presets, None).await.expect("a new name");
    for reference in REFERENCES {
        for first in [LookupBy::Id, LookupBy::Name] {
            assert_eq!(presets.find("acme", reference, first).await.expect("it reads"), None);
        }
        assert_eq!(presets.list("acme", Some(reference), 10).await.expect("it reads"), Page::default());
        let is_unknown =
            |error: PresetError| matches!(error, PresetError::Write(ChangeError::NoSuchPreset(id)) if id == reference);
        assert!(is_unknown(presets.delete("acme", reference).await.expect_err("it is unknown")));
        assert!(is_unknown(save(presets, Some(reference)).await.expect_err("it is unknown")));
    }
    assert_eq!(presets.list("acme", None, 10).await.expect("it reads").presets.len(), 1);
}

#[test]
fn a_reference_with_a_control_character_is_of_no_preset_in_a_file_and_in_a_database() {
    runtime().block_on(check(Redb::new().open().store().clone()));
    let Some(database) = Postgres::create() else { return };
    runtime().block_on(async {
        check(Store::Database(database.configured().open(50).await.expect("it opens"))).await;
    });
}
