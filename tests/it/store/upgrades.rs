//! Schemas N and N + 1 side by side on one PostgreSQL database. N is this version; N + 1 is this version with a further migration.

use std::collections::BTreeSet;
use std::io;

use backdrop::store::{BulkRun, ImportError, OpenError, PostgresServer};

use crate::store::backend::{Backend, ContractStore, Postgres, PostgresStore, export, import, runtime};
use crate::store::support::{account, apply, wait_until};

const MIGRATION: &str = "CREATE TABLE regions (account text PRIMARY KEY REFERENCES accounts, name text NOT NULL); \
    ALTER TABLE accounts ADD COLUMN region text NOT NULL DEFAULT 'eu'; \
    CREATE INDEX accounts_by_region ON accounts (region)";

fn next_version(database: &Postgres, is_additive: bool) -> PostgresServer {
    database.configured().for_next_version(MIGRATION, is_additive)
}

fn schema(database: &Postgres) -> u64 {
    let number = database.sql("SELECT number FROM meta WHERE name = 'schema'");
    number.trim().parse().expect("a number")
}

#[test]
fn an_additive_migration_happens_beside_the_version_before_which_goes_on_and_starts_again() {
    let Some(database) = Postgres::create() else { return };
    let old = database.open();
    let own = schema(&database);
    apply(&old, account("one")).expect("a new name");
    let new = PostgresStore::open(next_version(&database, true)).expect("it waits for nothing");
    assert_eq!(schema(&database), own + 1);
    apply(&new, account("two")).expect("a new name");
    apply(&old, account("three")).expect("a new name");

    // The version before connects again, and starts while the new one runs.
    database.server.cut_connections();
    wait_until(|| apply(&old, account("four")).is_ok());
    let another = database.open();
    apply(&another, account("five")).expect("a new name");
    assert_eq!(another.accounts(), 5);
    assert_eq!(new.accounts(), 5);
    assert_eq!(database.sql("SELECT count(*) FROM accounts WHERE region = 'eu'").trim(), "5", "all rows are complete");

    // The update is rolled back, and done again.
    drop((old, new, another));
    apply(&database.open(), account("six")).expect("a new name");
    let again = PostgresStore::open(next_version(&database, true)).expect("nothing is missing");
    assert_eq!(again.accounts(), 6);
    assert_eq!(schema(&database), own + 1);
}

#[test]
fn an_additive_migration_that_would_wait_for_a_reader_is_left_to_a_later_start_and_delays_no_commit() {
    let Some(database) = Postgres::create() else { return };
    let old = database.open();
    let own = schema(&database);
    // As an export does.
    let reader = database.sleeping_session("TABLE accounts");
    for name in ["one", "two", "three"] {
        let refused = PostgresStore::open(next_version(&database, true)).expect_err("the table is read");
        assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
        apply(&old, account(name)).expect("nothing holds it up");
    }
    assert_eq!(schema(&database), own, "a part of a migration is none");
    drop(reader);
    wait_until(|| PostgresStore::open(next_version(&database, true)).is_ok());
    assert_eq!(schema(&database), own + 1);
    apply(&old, account("four")).expect("it goes on");
}

#[test]
fn a_breaking_migration_waits_for_the_version_before_which_is_refused_afterwards() {
    let Some(database) = Postgres::create() else { return };
    let old = database.open();
    let own = schema(&database);
    let next = next_version(&database, false);
    let waits = PostgresStore::open(next.clone()).expect_err("the version before uses the tables");
    assert!(matches!(waits, OpenError::Locked { .. }), "{waits}");
    let refused = runtime().block_on(next.bulk_queue()).expect_err("it does not work on these tables").to_string();
    assert!(refused.contains("is upgraded"), "{refused}");
    apply(&old, account("one")).expect("it goes on");
    drop(old);
    // The server releases the lock when it has noticed the end of the connection.
    let mut new = None;
    wait_until(|| {
        new = match PostgresStore::open(next.clone()) {
            Err(OpenError::Locked { .. }) => None,
            opened => Some(opened.expect("no process uses the tables")),
        };
        new.is_some()
    });
    let new = new.expect("the loop ended");
    apply(&new, account("two")).expect("a new name");
    let before = database.configured();
    let queue = runtime().block_on(before.bulk_queue()).map(drop);
    for refused in [PostgresStore::open(before.clone()).map(drop), queue] {
        let error = refused.expect_err("the tables are of a newer version");
        let OpenError::Newer { found, supported, .. } = error else { panic!("{error}") };
        assert_eq!((found, supported), (own + 1, own));
    }
}

#[test]
fn a_process_that_was_cut_off_during_a_breaking_migration_makes_no_change_any_more() {
    let Some(database) = Postgres::create() else { return };
    let old = database.open();
    apply(&old, account("one")).expect("a new name");
    let next = schema(&database) + 1;
    database.sql(&format!("UPDATE meta SET number = {next} WHERE name IN ('schema', 'oldest_compatible')"));
    database.server.cut_connections();
    // The first calls only find that their connection is gone.
    wait_until(|| {
        assert!(apply(&old, account("two")).is_err());
        old.store.fault().is_some_and(|reason| reason.contains("another version"))
    });
    assert!(apply(&old, account("two")).is_err());
}

#[test]
fn queues_and_imports_work_on_additive_tables_of_the_next_version_and_an_export_is_refused() {
    let Some(database) = Postgres::create() else { return };
    let source = database.another();
    let store = source.open();
    apply(&store, account("acme")).expect("a new name");
    let exported = store.exported().0;
    drop(PostgresStore::open(next_version(&database, true)).expect("the database is empty"));
    // The server releases the lock when it has noticed the end of the connection.
    wait_until(|| match import(&database.configured(), &exported) {
        Err(ImportError::Store(OpenError::Locked { .. })) => false,
        imported => imported.expect("it was just exported").accounts == 1,
    });
    assert_eq!(database.sql("SELECT region FROM accounts").trim(), "eu");
    runtime().block_on(async {
        let queue = database.configured().bulk_queue().await.expect("it works on these tables");
        let run = BulkRun { id: "run".into(), spec: "{}".into(), ..BulkRun::default() };
        queue.begin(&run, 1).await.expect("it writes");
        assert_eq!(queue.status(None).await.expect("it reads").len(), 1);
    });
    // It would lack the tables that this version does not know.
    let refused =
        export(&database.configured(), io::sink(), &BTreeSet::new()).expect_err("it would not be complete").to_string();
    assert!(refused.contains("newer version"), "{refused}");
}
