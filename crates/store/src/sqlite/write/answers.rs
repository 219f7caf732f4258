//! The answers that are kept for requests which may be sent again: how many bytes of them stand for
//! each API key, and which of them give way.
//!
//! A key that is known stays known for its time: only what was answered goes, so that no request
//! runs twice.

use rusqlite::params;

use super::run::SqliteRun;
use crate::laws::halt::Step;
use crate::staged::Once;

/// Most answers that give way to a new one: others wait for the commit.
const EVICTED_MAX: usize = 500;

/// The answers of an owner, from the oldest on, but for that of one key.
const OLDEST: &str = "
SELECT key, part, bytes FROM request_key WHERE project = ?1
AND substr(key, 1, instr(key, ' ')) = ?2 AND bytes > 0 AND key <> ?3 ORDER BY at";

impl SqliteRun<'_, '_> {
    /// Keeps the bytes of an owner's answers within their bound: those of the oldest requests go,
    /// and where that makes too little room, the new one.
    pub(crate) fn bound_answers(&self, once: &Once) -> Step<()> {
        let (project, key) = (once.project.as_str(), &*once.key);
        let owner = owner(key);
        let held: i64 = self
            .statement(
                "SELECT coalesce(sum(bytes), 0) FROM kept_bytes \
                 WHERE project = ?1 AND owner = ?2",
            )?
            .query_row(params![project, owner], |row| row.get(0))?;
        let mut over = held - i64::try_from(once.answers_bytes_max).unwrap_or(i64::MAX);
        if over <= 0 {
            return Ok(());
        }
        let mut evicted = Vec::new();
        let mut oldest = self.statement(OLDEST)?;
        let mut rows = oldest.query(params![project, owner, key])?;
        while over > 0
            && evicted.len() < EVICTED_MAX
            && let Some(row) = rows.next()?
        {
            over -= row.get::<_, i64>(2)?;
            evicted.push((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
        }
        drop(rows);
        drop(oldest);
        if over > 0 {
            evicted.push((key.to_owned(), i64::from(once.part)));
        }
        let mut evict = self.statement(
            "UPDATE request_key SET answer = NULL, bytes = 0 \
             WHERE project = ?1 AND key = ?2 AND part = ?3",
        )?;
        for (key, part) in evicted {
            evict.execute(params![project, key, part])?;
        }
        Ok(())
    }
}

/// Whose a key is, as its index has it: up to its first space.
fn owner(key: &str) -> &str {
    key.find(' ').map_or("", |end| &key[..=end])
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::sqlite::schema::format_steps::{ANSWER_BYTES, REQUEST_ANSWERS, STAGED_TABLES};
    use crate::sqlite::write::staged::KEEP_REQUEST;

    fn held(connection: &Connection) -> Vec<(String, i64)> {
        let sql = "SELECT owner, bytes FROM kept_bytes ORDER BY owner";
        let mut statement = connection.prepare(sql).unwrap();
        let held = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
        held.unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn bytes_are_counted_whatever_becomes_of_an_answer() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(STAGED_TABLES).unwrap();
        connection.execute_batch(REQUEST_ANSWERS).unwrap();
        let older = "INSERT INTO request_key (project, key, part, request, at, answer) \
                     VALUES ('p', 'key:a@1 k', 0, 'x', 1, x'010203'), \
                     ('p', 'key:a@1 l', 0, 'x', 2, x'04'), ('p', 'guest m', 0, 'x', 3, NULL)";
        connection.execute_batch(older).unwrap();
        connection.execute_batch(ANSWER_BYTES).unwrap();
        let a = |bytes: i64| vec![("key:a@1 ".to_owned(), bytes)];
        assert_eq!(held(&connection), a(4), "what was kept before counts");
        let keep = |key: &str, answer: Option<&[u8]>| {
            let bytes = answer.map_or(0, <[u8]>::len) as i64;
            let row = params!["p", key, 0, "x", 1, 9, answer, bytes];
            connection.execute(KEEP_REQUEST, row).unwrap();
        };
        keep("key:a@1 n", Some(&[0; 10]));
        keep("key:a@1 o", None);
        assert_eq!(held(&connection), a(14));
        keep("key:a@1 n", Some(&[0; 7]));
        assert_eq!(
            held(&connection),
            a(11),
            "the one in its place counts alone"
        );
        let run = |sql: &str| connection.execute_batch(sql).unwrap();
        run("UPDATE request_key SET answer = NULL, bytes = 0 WHERE key = 'key:a@1 n'");
        assert_eq!(held(&connection), a(4));
        // The oldest ones are found by their index alone, however many there are.
        let explain = format!("EXPLAIN QUERY PLAN {OLDEST}");
        let mut explained = connection.prepare(&explain).unwrap();
        let steps = explained.query_map(["", "", ""], |row| row.get::<_, String>(3));
        let steps: Vec<String> = steps.unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(steps.len(), 1, "nothing is sorted: {steps:?}");
        assert!(
            steps[0].contains("COVERING INDEX request_key_kept"),
            "{steps:?}"
        );
        run("DELETE FROM request_key");
        assert_eq!(held(&connection), []);
        assert_eq!((owner("key:a@1 k"), owner("none")), ("key:a@1 ", ""));
    }
}
