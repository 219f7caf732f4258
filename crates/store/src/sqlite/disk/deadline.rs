//! How long a connection may go on with one search.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::functions;

/// Steps of SQLite's machine between two looks at the clock, some tenths of a millisecond.
const STEPS_PER_LOOK: i32 = 4_000;

/// Interrupts what a connection does after an instant that is set before it.
///
/// Only searches are given one, and previews, which leave nothing behind. SQLite ends the whole
/// transaction over a writing statement that is interrupted, but not over a reading one (SQLite
/// manual, `sqlite3_interrupt`).
pub(crate) struct Deadline {
    since: Instant,
    /// In microseconds from `since` on.
    at_us: Arc<AtomicU64>,
}

impl Deadline {
    /// Watches over `connection`, without a limit at first.
    pub(crate) fn watch(connection: &mut Connection) -> rusqlite::Result<Deadline> {
        let (since, at_us) = (Instant::now(), Arc::new(AtomicU64::new(u64::MAX)));
        let at = at_us.clone();
        let is_past = move || elapsed_us(since) >= at.load(Ordering::Relaxed);
        functions::provide_searches(connection, is_past.clone())?;
        connection.progress_handler(STEPS_PER_LOOK, Some(is_past))?;
        Ok(Deadline { since, at_us })
    }

    /// Runs `search` with this limit, or with one that stands already and is nearer.
    pub(crate) fn within<T>(&self, limit: Duration, search: impl FnOnce() -> T) -> T {
        let before_us = self.at_us.load(Ordering::Relaxed);
        let at_us = self.instant_us(limit).min(before_us);
        self.at_us.store(at_us, Ordering::Relaxed);
        let found = search();
        self.at_us.store(before_us, Ordering::Relaxed);
        found
    }

    /// From now on everything has this limit, writing statements as well; `None` lifts it.
    pub(crate) fn limit(&self, limit: Option<Duration>) {
        let at_us = limit.map_or(u64::MAX, |limit| self.instant_us(limit));
        self.at_us.store(at_us, Ordering::Relaxed);
    }

    /// Whether the limit has passed. To be asked where work goes on without steps of SQLite's
    /// machine, such as between statements.
    pub(crate) fn is_past(&self) -> bool {
        elapsed_us(self.since) >= self.at_us.load(Ordering::Relaxed)
    }

    fn instant_us(&self, limit: Duration) -> u64 {
        let limit_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        elapsed_us(self.since).saturating_add(limit_us)
    }
}

fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreError;

    const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                           SELECT max(i) FROM n";
    const LONG: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                        WHERE i < 100000) SELECT max(i) FROM n";

    #[test]
    fn a_pattern_over_one_long_text_is_stopped() {
        let mut connection = Connection::open_in_memory().unwrap();
        let deadline = Deadline::watch(&mut connection).unwrap();
        let matches = |text: &str, pattern: &str| {
            let matched = connection.query_row("SELECT ?1 REGEXP ?2", (text, pattern), |row| {
                row.get::<_, bool>(0)
            });
            matched.map_err(StoreError::from)
        };
        let text = "x".repeat(10_000);
        let stopped = deadline.within(Duration::ZERO, || matches(&text, "y"));
        assert_eq!(stopped, Err(StoreError::Interrupted));
        assert_eq!(matches(&text, "y"), Ok(false));
        assert_eq!(matches(&text, "x$"), Ok(true));
    }

    #[test]
    fn a_search_that_is_stopped_ends_nothing_but_itself() {
        let mut connection = Connection::open_in_memory().unwrap();
        let deadline = Deadline::watch(&mut connection).unwrap();
        let number = |sql| connection.query_row(sql, (), |row| row.get::<_, i64>(0));
        connection
            .execute_batch("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (7);")
            .unwrap();
        let stopped = deadline.within(Duration::ZERO, || number(ENDLESS));
        let stopped = stopped.map_err(StoreError::from);
        assert_eq!(stopped, Err(StoreError::Interrupted));
        assert!(!connection.is_autocommit(), "the transaction goes on");
        // What comes after is under no limit.
        assert_eq!(number(LONG).unwrap(), 100_000);
        connection.execute_batch("COMMIT").unwrap();
        assert_eq!(number("SELECT a FROM t").unwrap(), 7);
    }
}
