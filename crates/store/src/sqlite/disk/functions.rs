//! SQL functions that statements and triggers call, in place of what SQLite does not have.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use query::{Matcher, Search, Unmatched, names, search};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ffi};

use super::fault::PATTERN_TOO_HARD;

/// Innocuous: triggers may call nothing else while the schema is not trusted.
const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8
    .union(FunctionFlags::SQLITE_DETERMINISTIC)
    .union(FunctionFlags::SQLITE_INNOCUOUS);

/// Texts of so many bytes are searched for a part between two looks at the clock, some hundredths
/// of a millisecond.
const BYTES_PER_LOOK: usize = 64 << 10;

/// Gives the functions to a connection that need no limit.
pub(crate) fn provide(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FLAGS;
    connection.create_scalar_function(names::INDEXED_WORDS, 1, flags, |call| {
        Ok(text(call, 0)?.map(search::indexed))
    })?;
    connection.create_scalar_function(names::FINDS, 2, flags, |call| {
        let wanted = call.get_or_create_aux(1, |value| -> Result<Search, Error> {
            let search = Search::parse(value.as_str()?);
            search.ok_or_else(|| Error::UserFunctionError("the search has too many words".into()))
        })?;
        Ok(text(call, 0)?.map(|text| wanted.finds(text)))
    })?;
    connection.create_scalar_function(names::ENDS_WITH, 2, flags, |call| {
        let end = call.get_raw(1).as_bytes()?;
        match call.get_raw(0) {
            ValueRef::Null => Ok(None),
            value => Ok(Some(value.as_bytes()?.ends_with(end))),
        }
    })
}

/// Gives a connection the functions that look through a text: one long text takes no step of
/// SQLite's machine, so they ask `is_over` themselves.
pub(crate) fn provide_searches(
    connection: &Connection,
    is_over: impl Fn() -> bool + Clone + Send + 'static,
) -> rusqlite::Result<()> {
    provide_parts(connection, is_over.clone())?;
    provide_patterns(connection, is_over)
}

fn provide_parts(
    connection: &Connection,
    is_over: impl Fn() -> bool + Send + 'static,
) -> rusqlite::Result<()> {
    let unlooked = Cell::new(0);
    connection.create_scalar_function(names::HAS_PART, 2, FLAGS, move |call| {
        let part = call.get_raw(1).as_str()?;
        let Some(text) = text(call, 0)? else {
            return Ok(None);
        };
        let goes_on = |bytes: usize| {
            unlooked.set(unlooked.get() + bytes);
            unlooked.get() < BYTES_PER_LOOK || {
                unlooked.set(0);
                !is_over()
            }
        };
        has_part(text, part, goes_on)
            .map(Some)
            .ok_or_else(|| Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None))
    })
}

/// Whether `part` stands in `text`; `None` where `goes_on`, which learns how many bytes are looked
/// at next, said that it is over. The time is linear in both lengths.
fn has_part(text: &str, part: &str, goes_on: impl Fn(usize) -> bool) -> Option<bool> {
    let mut from = 0;
    loop {
        let end = text.floor_char_boundary(from + BYTES_PER_LOOK + part.len());
        if !goes_on(end - from) {
            return None;
        }
        if text[from..end].contains(part) {
            return Some(true);
        }
        if end == text.len() {
            return Some(false);
        }
        // A part that is cut by the end of this slice stands whole in the next one.
        from = text.floor_char_boundary(from + BYTES_PER_LOOK);
    }
}

/// What the operator REGEXP calls, with its operands turned around.
fn provide_patterns(
    connection: &Connection,
    is_over: impl Fn() -> bool + Send + 'static,
) -> rusqlite::Result<()> {
    connection.create_scalar_function("regexp", 2, FLAGS, move |call| {
        let matcher = call.get_or_create_aux(0, |value| -> Result<Mutex<Matcher>, Error> {
            let matcher = Matcher::parse(value.as_str()?);
            let matcher = matcher.map_err(|why| Error::UserFunctionError(why.into()))?;
            Ok(Mutex::new(matcher))
        })?;
        let Some(text) = text(call, 1)? else {
            return Ok(None);
        };
        // One thread at a time uses the connection; a panic would have ended the statement.
        let mut matcher = matcher.lock().unwrap_or_else(PoisonError::into_inner);
        matcher.finds(text, &is_over).map(Some).map_err(|why| {
            let code = match why {
                Unmatched::Over => ffi::SQLITE_INTERRUPT,
                Unmatched::TooHard => PATTERN_TOO_HARD,
            };
            Error::SqliteFailure(ffi::Error::new(code), None)
        })
    })
}

fn text<'a>(call: &'a Context<'_>, at: usize) -> rusqlite::Result<Option<&'a str>> {
    match call.get_raw(at) {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_wherever_it_stands_and_across_slices() {
        let text = format!(
            "{}é{}",
            "x".repeat(BYTES_PER_LOOK - 1),
            "y".repeat(BYTES_PER_LOOK * 2)
        );
        for (part, wanted) in [
            ("xéy", true),
            ("é", true),
            ("", true),
            (&text, true),
            ("éx", false),
            ("z", false),
        ] {
            let beginning: String = part.chars().take(5).collect();
            assert_eq!(has_part(&text, part, |_| true), Some(wanted), "{beginning}");
        }
        let longer = text.clone() + "y";
        assert_eq!(has_part(&text, &longer, |_| true), Some(false));
        assert_eq!(has_part("", "", |_| true), Some(true));
    }

    #[test]
    fn a_long_text_is_looked_through_in_slices_between_which_it_may_end() {
        let (text, part) = ("a".repeat(1 << 20), "a".repeat(4_095) + "b");
        let slices = Cell::new(0);
        let goes_on = |bytes| {
            assert!(bytes <= BYTES_PER_LOOK + part.len());
            slices.set(slices.get() + 1);
            slices.get() < 5
        };
        assert_eq!(has_part(&text, &part, goes_on), None);
        slices.set(i32::MIN);
        assert_eq!(has_part(&text, &part, goes_on), Some(false));
    }

    #[test]
    fn short_texts_count_together_until_the_clock_is_looked_at() {
        let connection = Connection::open_in_memory().unwrap();
        provide(&connection).unwrap();
        provide_searches(&connection, || true).unwrap();
        let found = |texts: i64| {
            let sql = format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
                 SELECT sum({}(printf('%.1000c', 'a') || i, 'b')) FROM n",
                names::HAS_PART
            );
            connection.query_row(&sql, [texts], |row| row.get::<_, i64>(0))
        };
        assert_eq!(found(20).unwrap(), 0);
        assert!(
            found(100).is_err(),
            "100 KB were looked through without a look at the clock"
        );
    }

    #[test]
    fn the_end_of_a_text_is_compared_and_null_stays_null() {
        let connection = Connection::open_in_memory().unwrap();
        provide(&connection).unwrap();
        let ends = |text: Option<&str>, end: &str| -> Option<bool> {
            let sql = format!("SELECT {}(?1, ?2)", names::ENDS_WITH);
            connection
                .query_row(&sql, (text, end), |row| row.get(0))
                .unwrap()
        };
        assert_eq!(ends(Some("café"), "fé"), Some(true));
        assert_eq!(ends(Some("café"), "caf"), Some(false));
        assert_eq!(ends(Some("é"), "café"), Some(false));
        assert_eq!(ends(Some(""), ""), Some(true));
        assert_eq!(ends(None, ""), None);
    }
}
