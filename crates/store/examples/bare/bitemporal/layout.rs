//! The layout of the store without what makes it a store: versions, rows of now, commits.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::{END, Outcome, keep_plans};

/// Marks are as long on disk as those of a server: 2026-01-01, in microseconds since 1970.
pub const FIRST_MARK: i64 = 1_767_225_600_000_000;
/// From commit to commit, in microseconds.
pub const MARK_STEP: i64 = 1_000;
/// As the store's, in KiB.
const CACHE_KIB: u32 = 32 * 1_024;
/// The user's columns of every table here.
const COLUMNS: &str = "code TEXT, name TEXT, status INTEGER, price INTEGER, run INTEGER";

/// A row.
pub struct Object {
    pub id: String,
    pub code: String,
    pub name: String,
    pub status: i64,
    pub price: i64,
    pub run: i64,
}

/// The one connection that writes.
pub struct Writer {
    connection: Connection,
    /// The last commit's.
    pub mark: i64,
    commits: i64,
}

/// Opens a database as the store does: every commit waits for the disk.
pub fn open(path: &Path) -> Outcome<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.set_prepared_statement_cache_capacity(64);
    keep_plans(&connection)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA mmap_size = 0;
         PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{CACHE_KIB};"
    ))?;
    Ok(connection)
}

/// The size of the database in bytes, its log carried over.
pub fn bytes(connection: &Connection) -> Outcome<i64> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
    let pragma = |name: &str| -> rusqlite::Result<i64> {
        connection.query_row(&format!("PRAGMA {name}"), (), |row| row.get(0))
    };
    Ok(pragma("page_count")? * pragma("page_size")?)
}

impl Writer {
    /// Makes the tables. Each index is over columns of the user, and unique where it says so; it
    /// stands on the rows of now, and with both times on the versions.
    pub fn create(path: &Path, indexes: &[(&str, bool)]) -> Outcome<Writer> {
        let connection = open(path)?;
        let mut sql = format!(
            "BEGIN;
             CREATE TABLE x_v (rid INTEGER PRIMARY KEY, id TEXT NOT NULL, vf INTEGER NOT NULL,
               vt INTEGER NOT NULL DEFAULT {END}, sf INTEGER NOT NULL,
               cut_tt INTEGER NOT NULL DEFAULT {END}, cut_vt INTEGER NOT NULL DEFAULT {END},
               st INTEGER NOT NULL DEFAULT {END}, origin INTEGER NOT NULL, {COLUMNS});
             CREATE UNIQUE INDEX x_known ON x_v (id, vf) WHERE st = {END};
             CREATE INDEX x_sys ON x_v (id, sf);
             CREATE TABLE x (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
               vf INTEGER NOT NULL, vt INTEGER NOT NULL DEFAULT {END}, sf INTEGER NOT NULL,
               origin INTEGER NOT NULL, {COLUMNS});
             CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), mark INTEGER NOT NULL);
             INSERT INTO meta VALUES (1, 0);
             CREATE TABLE tx (tt INTEGER PRIMARY KEY, n INTEGER UNIQUE, prev INTEGER);
             CREATE TABLE tx_row (tt INTEGER, tab INTEGER, id TEXT, PRIMARY KEY (tt, tab, id))
               WITHOUT ROWID;"
        );
        for (place, (columns, is_unique)) in indexes.iter().enumerate() {
            let unique = if *is_unique { "UNIQUE " } else { "" };
            write!(
                sql,
                "CREATE {unique}INDEX x_{place} ON x ({columns});
                 CREATE INDEX x_v_{place} ON x_v ({columns}, sf, vf);"
            )?;
        }
        connection.execute_batch(&(sql + "COMMIT;"))?;
        Ok(Writer {
            connection,
            mark: FIRST_MARK,
            commits: 0,
        })
    }

    /// The connection, for what is not a commit.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// New objects in one commit.
    pub fn insert(&mut self, objects: &[Object]) -> Outcome<()> {
        self.commit(|connection, mark| {
            let mut version = connection.prepare_cached(
                "INSERT INTO x_v (id, vf, sf, origin, code, name, status, price, run)
                 VALUES (?1, ?2, ?2, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            let mut now = connection.prepare_cached(
                "INSERT INTO x (id, vf, sf, origin, code, name, status, price, run)
                 VALUES (?1, ?2, ?2, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for one in objects {
                let values = params![
                    one.id, mark, one.code, one.name, one.status, one.price, one.run
                ];
                version.execute(values)?;
                now.execute(values)?;
                touch(connection, mark, &one.id)?;
            }
            Ok(())
        })
    }

    /// New prices from now on in one commit, by id.
    pub fn change(&mut self, prices: &[(String, i64)]) -> Outcome<()> {
        self.commit(|connection, mark| {
            let mut cut = connection.prepare_cached(&format!(
                "UPDATE x_v SET cut_tt = ?2, cut_vt = ?2 WHERE rid =
                   (SELECT rid FROM x_v WHERE id = ?1 AND st = {END} ORDER BY vf DESC LIMIT 1)"
            ))?;
            let mut now = connection.prepare_cached(
                "UPDATE x SET price = ?3, vf = ?2, sf = ?2, origin = ?2 WHERE id = ?1",
            )?;
            let mut version = connection.prepare_cached(
                "INSERT INTO x_v (id, vf, sf, origin, code, name, status, price, run)
                 SELECT id, vf, sf, origin, code, name, status, price, run FROM x WHERE id = ?1",
            )?;
            for (id, price) in prices {
                cut.execute(params![id, mark])?;
                now.execute(params![id, mark, price])?;
                version.execute(params![id])?;
                touch(connection, mark, id)?;
            }
            Ok(())
        })
    }

    fn commit(&mut self, work: impl FnOnce(&Connection, i64) -> Outcome<()>) -> Outcome<()> {
        let mark = self.mark + MARK_STEP;
        let connection = &self.connection;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        work(connection, mark)?;
        let mut commit = connection.prepare_cached("INSERT INTO tx VALUES (?1, ?2, ?3)")?;
        commit.execute(params![mark, self.commits + 1, self.mark])?;
        let mut meta = connection.prepare_cached("UPDATE meta SET mark = ?1")?;
        meta.execute(params![mark])?;
        connection.execute_batch("COMMIT")?;
        (self.mark, self.commits) = (mark, self.commits + 1);
        Ok(())
    }
}

fn touch(connection: &Connection, mark: i64, id: &str) -> Outcome<()> {
    let mut row = connection.prepare_cached("INSERT INTO tx_row VALUES (?1, 1, ?2)")?;
    row.execute(params![mark, id])?;
    Ok(())
}
