//! Calls by key, exchanged between processes for their rate limits.

use super::connect::{Connection, Server};
use crate::store::storage_fault::Fault;

/// How long calls are kept; a limit is for a minute.
const KEPT: &str = "2 minutes";

/// The exchange of one process, with a connection of its own: it must not wait for commits.
#[derive(Debug, Default)]
pub(super) struct CallExchange {
    /// `None` after an error.
    connection: Option<Connection>,
    /// The last row that was read; `None` before the first connection, which leaves out earlier ones.
    last: Option<i64>,
}

impl CallExchange {
    /// Publishes `own` calls and returns those of others, each since the previous exchange.
    pub(super) fn exchange(
        &mut self,
        server: &Server,
        process: i64,
        own: &[(String, u32)],
    ) -> Result<Vec<(String, u32)>, Fault> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = server.connect()?;
                // Calls are of the last minute: they need no disk.
                connection.batch("SET synchronous_commit = off")?;
                let newest = newest_number(&mut connection)?;
                self.last = Some(self.last.map_or(newest, |last| last.min(newest)));
                connection
            }
        };
        let found = self.exchange_on(&mut connection, process, own)?;
        self.connection = Some(connection);
        Ok(found)
    }

    fn exchange_on(
        &mut self,
        connection: &mut Connection,
        process: i64,
        own: &[(String, u32)],
    ) -> Result<Vec<(String, u32)>, Fault> {
        let mut queries = connection.writing()?;
        // Only rows of others move the place, and they are read before an own one is written: a row with a smaller number can
        // be committed later. Of three and more processes one can be missed that way: the limits are approximate.
        let text = "SELECT number, keys, counts FROM calls WHERE number > $1 AND process <> $2 ORDER BY number";
        let mut found = Vec::new();
        let mut newest = self.last.unwrap_or(0);
        for row in queries.rows(text, &[&newest, &process])? {
            newest = row.get(0);
            let (keys, counts): (Vec<String>, Vec<i32>) = (row.get(1), row.get(2));
            found.extend(keys.into_iter().zip(counts.into_iter().map(i32::unsigned_abs)));
        }
        if !own.is_empty() {
            let keys: Vec<&str> = own.iter().map(|(key, _)| key.as_str()).collect();
            let counts: Vec<i32> = own.iter().map(|(_, count)| i32::try_from(*count).unwrap_or(i32::MAX)).collect();
            let text = "INSERT INTO calls (process, keys, counts) VALUES ($1, $2, $3)";
            queries.execute(text, &[&process, &keys, &counts])?;
            queries.execute("DELETE FROM calls WHERE at < now() - $1::text::interval", &[&KEPT])?;
        }
        queries.commit()?;
        self.last = Some(newest);
        Ok(found)
    }
}

/// The number of the newest row: after a crash of the server the numbers begin again.
fn newest_number(connection: &mut Connection) -> Result<i64, Fault> {
    let mut queries = connection.snapshot()?;
    let row = queries.row("SELECT coalesce(max(number), 0) FROM calls", &[])?;
    queries.roll_back()?;
    Ok(row.map_or(0, |row| row.get(0)))
}
