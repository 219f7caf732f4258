//! Which prepared statements a reading connection keeps: those that come again, within a bound of
//! bytes.
//!
//! A statement of one test takes some kilobytes and one of a hundred a few hundred, so a bound on
//! their number bounds little. The shapes of queries are the clients': one that is sent once is
//! prepared, run and forgotten, so that shapes without end drive out none that is in use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::{Deref, DerefMut};
use std::thread::available_parallelism;

use rusqlite::{CachedStatement, Connection, Statement, StatementStatus};

/// Bytes for the prepared statements of all reading connections …
const BYTES_MAX: usize = 64 << 20;
/// … and the least that each has for itself, on machines where those are many.
const BYTES_OF_EACH_MIN: usize = 2 << 20;
/// Longest text of a statement that is kept: one of some hundred tests, which takes up to half a
/// megabyte, or of all columns of a very wide table.
const KEPT_SQL_MAX: usize = 16 << 10;
/// Places for shapes seen once, 8 bytes each; a place that is taken is taken over.
const SEEN_PLACES: usize = 1_024;

/// What one connection keeps.
pub(super) struct Statements {
    state: RefCell<State>,
    hasher: RandomState,
    bytes_max: usize,
}

struct State {
    /// The bytes of each one that was kept since all were last let go.
    kept: HashMap<u64, usize>,
    bytes: usize,
    seen_once: Box<[u64]>,
}

/// A statement that is to be kept, or is not.
pub(super) enum Prepared<'c> {
    Kept(CachedStatement<'c>),
    Once(Statement<'c>),
}

impl Statements {
    /// For one connection of a store that has so many threads for long reads. Each core has a
    /// thread for short ones.
    pub(super) fn new(long_threads: usize) -> Statements {
        let connections = available_parallelism().map_or(1, usize::from) + long_threads;
        Statements::within((BYTES_MAX / connections).max(BYTES_OF_EACH_MIN))
    }

    fn within(bytes_max: usize) -> Statements {
        Statements {
            state: RefCell::new(State {
                kept: HashMap::new(),
                bytes: 0,
                seen_once: vec![0; SEEN_PLACES].into(),
            }),
            hasher: RandomState::new(),
            bytes_max,
        }
    }

    /// Prepares a statement whose text a client decides about. It is kept from its second time on.
    pub(super) fn prepare<'c>(
        &self,
        connection: &'c Connection,
        sql: &str,
    ) -> rusqlite::Result<Prepared<'c>> {
        if sql.len() > KEPT_SQL_MAX {
            return connection.prepare(sql).map(Prepared::Once);
        }
        let name = self.hasher.hash_one(sql);
        let mut state = self.state.borrow_mut();
        if state.kept.contains_key(&name) {
            return connection.prepare_cached(sql).map(Prepared::Kept);
        }
        let place = &mut state.seen_once[name as usize % SEEN_PLACES];
        if *place != name {
            *place = name;
            return connection.prepare(sql).map(Prepared::Once);
        }
        let statement = connection.prepare_cached(sql)?;
        let bytes = statement.get_status(StatementStatus::MemUsed);
        let bytes = sql.len() + usize::try_from(bytes).unwrap_or_default();
        if state.bytes + bytes > self.bytes_max {
            // All at once: the driver tells of none that it lets go. Those in use come again.
            connection.flush_prepared_statement_cache();
            state.kept.clear();
            state.bytes = 0;
        }
        state.bytes += bytes;
        state.kept.insert(name, bytes);
        Ok(Prepared::Kept(statement))
    }
}

impl<'c> Deref for Prepared<'c> {
    type Target = Statement<'c>;

    fn deref(&self) -> &Statement<'c> {
        match self {
            Prepared::Kept(statement) => statement,
            Prepared::Once(statement) => statement,
        }
    }
}

impl DerefMut for Prepared<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Prepared::Kept(statement) => &mut *statement,
            Prepared::Once(statement) => statement,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement of as many terms.
    fn sql(terms: usize, nth: usize) -> String {
        let terms: Vec<String> = (0..terms).map(|term| format!("a > {term}")).collect();
        format!("SELECT {nth} FROM t WHERE {}", terms.join(" AND "))
    }

    fn is_kept(statements: &Statements, connection: &Connection, sql: &str) -> bool {
        let prepared = statements.prepare(connection, sql).unwrap();
        matches!(prepared, Prepared::Kept(_))
    }

    fn connection() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a)").unwrap();
        connection.set_prepared_statement_cache_capacity(10_000);
        connection
    }

    #[test]
    fn a_shape_is_kept_from_its_second_time_on() {
        let (statements, connection) = (Statements::within(1 << 20), connection());
        let often = sql(3, 0);
        assert!(!is_kept(&statements, &connection, &often));
        assert!(is_kept(&statements, &connection, &often));
        for nth in 1..5_000 {
            assert!(!is_kept(&statements, &connection, &sql(3, nth)));
        }
        assert!(is_kept(&statements, &connection, &often));
        assert_eq!(statements.state.borrow().kept.len(), 1);
    }

    #[test]
    fn the_bytes_of_all_are_bounded_and_a_large_one_is_not_kept() {
        let (statements, connection) = (Statements::within(200_000), connection());
        for nth in 0..500 {
            let sql = sql(10, nth);
            for _ in 0..2 {
                is_kept(&statements, &connection, &sql);
            }
            let state = statements.state.borrow();
            let sum: usize = state.kept.values().sum();
            assert!(state.bytes <= 200_000 && sum == state.bytes);
        }
        assert!(statements.state.borrow().kept.len() > 1);
        let large = format!("{} /* {} */", sql(10, 0), "x".repeat(KEPT_SQL_MAX));
        for _ in 0..3 {
            assert!(!is_kept(&statements, &connection, &large));
        }
    }
}
