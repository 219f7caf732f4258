//! SQL functions that statements and triggers call, in place of what SQLite does not have.

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

/// Gives the functions to a connection that need no limit.
pub(super) fn provide(connection: &Connection) -> rusqlite::Result<()> {
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
    })
}

/// Gives a connection what the operator REGEXP calls, with its operands turned around. One long
/// text takes no step of SQLite's machine, so whoever limits these asks `is_over`, too.
pub(super) fn provide_patterns(
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
