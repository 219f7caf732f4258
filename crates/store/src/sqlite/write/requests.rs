//! Requests that have run, and their answers, as SQLite keeps them: how many bytes of answers stand
//! for each API key, and which of them give way.
//!
//! A key that is known stays known for its time: only what was answered goes, so that no request
//! runs twice.

use model::{Mark, Timestamp};
use rusqlite::params;
use rusqlite::types::Value as Stored;

use super::stored_rows::SqliteRows;
use crate::StoreError;
use crate::laws::requests::{FORGOTTEN_MAX, RanRequest, RequestStore, RequestToKeep, owner_of};
use crate::sqlite::disk::keys;
use crate::staged::{Once, request_text};
use crate::vault::Place;

/// Most answers that give way to a new one: others wait for the commit.
const EVICTED_MAX: usize = 500;

/// Keeps a request, also in the place of one whose time is over.
const KEEP_REQUEST: &str = "
INSERT INTO request_key (project, key, part, request, mark, at, answer, bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (project, key, part) DO UPDATE SET request = excluded.request, mark = excluded.mark,
  at = excluded.at, answer = excluded.answer, bytes = excluded.bytes";

/// The answers of an owner, from the oldest on, but for that of one key.
const OLDEST: &str = "
SELECT key, part, bytes FROM request_key WHERE project = ?1
AND substr(key, 1, instr(key, ' ')) = ?2 AND bytes > 0 AND key <> ?3 ORDER BY at";

impl RequestStore for SqliteRows<'_> {
    fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError> {
        self.statement(
            "DELETE FROM request_key WHERE (project, key, part) IN \
             (SELECT project, key, part FROM request_key WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute(params![before.0, FORGOTTEN_MAX])?;
        Ok(())
    }

    fn ran(&self, once: &Once) -> Result<Option<RanRequest>, StoreError> {
        let (project, key, part) = (once.project.as_str(), &*once.key, once.part);
        let mut known = self.statement(
            "SELECT request, mark, at FROM request_key \
             WHERE project = ?1 AND key = ?2 AND part = ?3 AND at >= ?4",
        )?;
        let mut rows = known.query(params![project, key, part, once.kept_from().0])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let place = Place::Request(project, key, part);
        Ok(Some(RanRequest {
            request: keys::open_text(&self.coding.vault, row.get_ref(0)?, place)?,
            mark: row.get::<_, Option<i64>>(1)?.map(Mark),
            at: Timestamp(row.get(2)?),
        }))
    }

    fn keep_request(&self, request: RequestToKeep<'_>) -> Result<(), StoreError> {
        let once = request.once;
        let (project, key, part) = (once.project.as_str(), &*once.key, once.part);
        let text = request_text(once.request);
        let (mut stands, mut answer) = (Stored::Text(text), request.answer);
        if let (true, Stored::Text(text)) = (request.is_sealed, &stands) {
            let vault = &self.coding.vault;
            let place = Place::Request(project, key, part);
            stands = Stored::Blob(vault.seal(place, text.as_bytes())?);
            let place = Place::Answer(project, key, part);
            answer = answer.map(|plain| vault.seal(place, &plain)).transpose()?;
        }
        let bytes = answer.as_ref().map_or(0, Vec::len) as i64;
        self.statement(KEEP_REQUEST)?.execute(params![
            project,
            key,
            part,
            stands,
            request.mark.map(|mark| mark.0),
            once.now.0,
            answer,
            bytes
        ])?;
        Ok(())
    }

    fn bound_answers(&self, once: &Once) -> Result<(), StoreError> {
        let (project, key) = (once.project.as_str(), &*once.key);
        let owner = owner_of(key);
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

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::sqlite::schema::format_steps::{ANSWER_BYTES, REQUEST_ANSWERS, STAGED_TABLES};

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
        let owners = (owner_of("key:a@1 k"), owner_of("none"));
        assert_eq!(owners, ("key:a@1 ", ""));
    }
}
