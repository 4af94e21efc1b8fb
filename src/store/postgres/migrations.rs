//! The migrations that create and upgrade the tables, and the schemas on which this version works (`schema.rs` applies them).
//!
//! A migration that was released is never edited; a new one is a new file, which raises the schema.
//!
//! An additive one is applied while processes of the version before work on the tables, and they may start again afterwards:
//! it adds, within moments, tables, columns with defaults and indexes that they can ignore without doing anything wrong, or
//! replaces a function by one whose result they read without error. Every other migration is breaking and waits until no
//! process uses the database, also if it changes no table but their contents: a new version of a record, a new value of a
//! column, a reservation that a bill has to respect.

use std::sync::Arc;

/// The migrations in their order; the number of applied ones is the schema.
const MIGRATIONS: &[Migration] = &[
    Migration { text: include_str!("migrations/1.sql"), is_additive: false },
    Migration { text: include_str!("migrations/2.sql"), is_additive: false },
    Migration { text: include_str!("migrations/3.sql"), is_additive: false },
    Migration { text: include_str!("migrations/4.sql"), is_additive: false },
    Migration { text: include_str!("migrations/5.sql"), is_additive: false },
    Migration { text: include_str!("migrations/6.sql"), is_additive: false },
    Migration { text: include_str!("migrations/7.sql"), is_additive: true },
];

/// One step from a schema to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// Its statements.
    pub(super) text: &'static str,
    /// Whether processes of the version before may use the tables meanwhile and afterwards.
    pub(super) is_additive: bool,
}

/// The schema of a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// The number of applied migrations; 0 where there are no tables.
    pub(super) version: i64,
    /// The oldest version whose programs work on the tables.
    pub(super) oldest_compatible: i64,
}

/// The migrations of a version of this program. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Migrations(Arc<[Migration]>);

impl Default for Migrations {
    fn default() -> Self {
        Self(MIGRATIONS.into())
    }
}

impl Migrations {
    /// These, and a further one.
    pub(super) fn with(&self, next: Migration) -> Self {
        Self(self.0.iter().copied().chain([next]).collect())
    }

    /// The schema after all of them.
    pub(super) fn schema(&self) -> Schema {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let last_breaking = self.0.iter().rposition(|migration| !migration.is_additive);
        Schema { version: number(self.0.len()), oldest_compatible: number(last_breaking.map_or(0, |index| index + 1)) }
    }

    /// Those that a database lacks.
    pub(super) fn missing(&self, found: Schema) -> &[Migration] {
        let applied = usize::try_from(found.version).unwrap_or_default();
        self.0.get(applied..).unwrap_or_default()
    }

    /// Whether this version works on the tables of a database.
    pub(super) fn work_on(&self, found: Schema) -> bool {
        self.missing(found).is_empty() && found.oldest_compatible <= self.schema().version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_works_on_tables_that_later_additive_migrations_changed_and_on_no_others() {
        let of = |kinds: &[bool]| {
            let migrations = kinds.iter().map(|&is_additive| Migration { text: "", is_additive });
            Migrations(migrations.collect())
        };
        let versions = [of(&[false]), of(&[false, true]), of(&[false, true, true]), of(&[false, true, true, false])];
        let oldest: Vec<i64> = versions.iter().map(|version| version.schema().oldest_compatible).collect();
        assert_eq!(oldest, [1, 1, 1, 4]);
        for (number, version) in versions.iter().enumerate() {
            for (found, other) in versions.iter().enumerate() {
                let works = found == number || (number < found && found < 3);
                assert_eq!(version.work_on(other.schema()), works, "version {number} on the tables of {found}");
                assert_eq!(version.missing(other.schema()).len(), number.saturating_sub(found));
            }
        }
    }
}
