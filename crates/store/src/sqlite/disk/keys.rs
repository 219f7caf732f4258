//! The keys of a data directory: whether they are those that its database was written with.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::file_format;
use crate::StoreError;
use crate::vault::{Place, Vault};

/// The first format whose `meta` names the key.
const FIRST_FORMAT: i64 = 8;

/// The key that the database was written with; none where it has used none.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn vault_of(directory: &Path, connection: &Connection) -> Result<Vault, StoreError> {
    Vault::of_store(directory, &known_id(connection)?)
}

/// The id of the key that the database was written with; empty where it was with none.
fn known_id(connection: &Connection) -> Result<String, StoreError> {
    if file_format::format(connection)? < FIRST_FORMAT {
        return Ok(String::new());
    }
    Ok(connection.query_row("SELECT key_id FROM meta", (), |row| row.get(0))?)
}

/// Whether the key beside a database is the one that it was written with; `None` where none was.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn holds_key(
    directory: &Path,
    connection: &Connection,
) -> Result<Option<()>, StoreError> {
    let vault = vault_of(directory, connection)?;
    Ok(vault.has_key().then_some(()))
}

/// A text that is stored as it is, or sealed since there is a key.
pub(crate) fn open_text(
    vault: &Vault,
    stored: ValueRef<'_>,
    place: Place<'_>,
) -> Result<Option<String>, StoreError> {
    match stored {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(vault.broken(place)),
        },
        ValueRef::Blob(sealed) => vault.open_text(place, sealed).map(Some),
        ValueRef::Integer(_) | ValueRef::Real(_) => Ok(Some(String::new())),
    }
}
