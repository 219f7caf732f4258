//! SQL functions that statements and triggers call, in place of what SQLite does not have.

use query::{Pattern, Search, names, search};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};

/// Gives the functions to a connection.
pub(super) fn provide(connection: &Connection) -> rusqlite::Result<()> {
    // Innocuous: triggers may call nothing else while the schema is not trusted.
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(names::INDEXED_WORDS, 1, flags, |call| {
        Ok(text(call, 0)?.map(search::indexed))
    })?;
    // What the operator REGEXP calls, with its operands turned around.
    connection.create_scalar_function("regexp", 2, flags, |call| {
        let pattern = call.get_or_create_aux(0, |value| -> Result<Pattern, Error> {
            Pattern::parse(value.as_str()?).map_err(|why| Error::UserFunctionError(why.into()))
        })?;
        Ok(text(call, 1)?.map(|text| pattern.finds(text)))
    })?;
    connection.create_scalar_function(names::FINDS, 2, flags, |call| {
        let wanted = call.get_or_create_aux(1, |value| -> Result<Search, Error> {
            let search = Search::parse(value.as_str()?);
            search.ok_or_else(|| Error::UserFunctionError("the search has too many words".into()))
        })?;
        Ok(text(call, 0)?.map(|text| wanted.finds(text)))
    })
}

fn text<'a>(call: &'a Context<'_>, at: usize) -> rusqlite::Result<Option<&'a str>> {
    match call.get_raw(at) {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str()?)),
    }
}
