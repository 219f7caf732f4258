//! SQLite behind the same border, to compare the ring with. It ships with nothing.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use tiers::{
    Host, LeaseAct, LeaseAnswer, LeaseHolder, LeasingTier, Lookup, MissTicket, NEVER_MS, Stored,
    Tier, TierError, TierFault, TierHit,
};

const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = OFF;
    CREATE TABLE IF NOT EXISTS entries (
        key BLOB PRIMARY KEY, value BLOB NOT NULL, until_ms INTEGER, written_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS leases (
        key BLOB PRIMARY KEY, holder BLOB NOT NULL, until_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS deletions (id INTEGER PRIMARY KEY, count INTEGER NOT NULL);
    INSERT OR IGNORE INTO deletions VALUES (0, 0);
";
const DELETIONS: &str = "SELECT count FROM deletions";
const COUNT: &str = "UPDATE deletions SET count = count + 1";
const PUT: &str = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)";
const GET: &str = "SELECT value, written_ms, until_ms FROM entries
    WHERE key = ? AND (until_ms IS NULL OR until_ms > ?)";
const BEGIN: &str = "BEGIN IMMEDIATE";
/// As long as it takes: a comparison in which writes are dropped would say nothing of the rest.
const WAIT: Duration = Duration::from_mins(1);

pub struct SqliteTier {
    connection: Mutex<Connection>,
    now_ms: fn() -> u64,
}

fn io(error: rusqlite::Error) -> TierError {
    TierError::new(TierFault::Io, error.to_string())
}

impl SqliteTier {
    pub fn open(path: &Path, host: Host) -> SqliteTier {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(WAIT).unwrap();
        connection.execute_batch(TABLES).unwrap();
        SqliteTier {
            connection: Mutex::new(connection),
            now_ms: host.now_ms,
        }
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, TierError> {
        let connection = self.connection.lock();
        act(&connection.unwrap_or_else(PoisonError::into_inner)).map_err(io)
    }

    /// One transaction that begins as a writer.
    fn write<T>(
        &self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, TierError> {
        self.with(|connection| {
            connection.prepare_cached(BEGIN)?.execute([])?;
            let done = act(connection);
            let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
            connection.prepare_cached(end)?.execute([])?;
            done
        })
    }
}

fn deletions(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(DELETIONS)?;
    statement.query_row([], |row| row.get::<_, i64>(0).map(|count| count as u64))
}

impl LeasingTier for SqliteTier {
    fn lease(
        &self,
        key: &[u8],
        holder: &LeaseHolder,
        act: LeaseAct,
    ) -> Result<LeaseAnswer, TierError> {
        let now = (self.now_ms)();
        self.write(|connection| {
            let found = connection
                .query_row(
                    "SELECT holder, until_ms FROM leases WHERE key = ?",
                    [key],
                    |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?)),
                )
                .optional()?;
            let is_own = found.as_ref().is_some_and(|(other, _)| other == holder);
            let is_over = found
                .as_ref()
                .is_some_and(|(_, until)| now as i64 >= *until);
            let lifetime = match act {
                LeaseAct::Take { lifetime_ms } if found.is_none() || is_own || is_over => {
                    lifetime_ms
                }
                LeaseAct::Renew { lifetime_ms } if is_own => lifetime_ms,
                LeaseAct::Release if is_own => {
                    connection.execute("DELETE FROM leases WHERE key = ?", [key])?;
                    return Ok(LeaseAnswer::Own);
                }
                _ => return Ok(LeaseAnswer::Other),
            };
            if is_over && !is_own {
                connection.prepare_cached(COUNT)?.execute([])?;
            }
            let until = now.saturating_add(lifetime) as i64;
            connection.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?)",
                params![key, holder, until],
            )?;
            Ok(LeaseAnswer::Own)
        })
    }
}

impl Tier for SqliteTier {
    fn check(&self) -> Result<(), TierError> {
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Lookup, TierError> {
        let now = (self.now_ms)() as i64;
        self.with(|connection| {
            let mut statement = connection.prepare_cached(GET)?;
            let found = statement.query_row(params![key, now], |row| {
                let value: Vec<u8> = row.get(0)?;
                let range = 0..value.len();
                let until = row.get::<_, Option<i64>>(2)?;
                let until = until.map_or(NEVER_MS, |until| until as u64);
                Ok(TierHit::new(
                    value,
                    range,
                    row.get::<_, i64>(1)? as u64,
                    until,
                ))
            });
            if let Some(hit) = found.optional()? {
                return Ok(Lookup::Hit(hit));
            }
            let deletions = deletions(connection)?;
            Ok(Lookup::Miss(MissTicket {
                epoch: 0,
                deletions,
            }))
        })
    }

    fn ticket(&self, _: &[u8]) -> Result<MissTicket, TierError> {
        let deletions = self.with(deletions)?;
        Ok(MissTicket {
            epoch: 0,
            deletions,
        })
    }

    fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        let now = (self.now_ms)();
        let until = lifetime_ms.map(|life| now.saturating_add(life) as i64);
        self.write(|connection| {
            if let Some(ticket) = ticket
                && ticket.deletions != deletions(connection)?
            {
                return Ok(Stored::Overtaken);
            }
            let mut statement = connection.prepare_cached(PUT)?;
            statement.execute(params![key, value, until, now as i64])?;
            Ok(Stored::Kept)
        })
    }

    fn leases(&self) -> Option<&dyn LeasingTier> {
        Some(self)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TierError> {
        self.write(|connection| {
            connection.prepare_cached(COUNT)?.execute([])?;
            let mut statement = connection.prepare_cached("DELETE FROM entries WHERE key = ?")?;
            Ok(statement.execute([key])? > 0)
        })
    }

    fn clear(&self) -> Result<(), TierError> {
        self.write(|connection| {
            connection.prepare_cached(COUNT)?.execute([])?;
            let mut statement = connection.prepare_cached("DELETE FROM entries")?;
            statement.execute([]).map(drop)
        })
    }
}
