//! The key of variables of functions, and whether it has sealed what is stored.

use std::path::Path;

use rusqlite::Connection;

use super::stored_reads;
use crate::StoreError;
use crate::sqlite::disk::file_format;
use crate::stored::{queue, variables};
use crate::vault::Vault;

/// The first format with variables of functions.
const FIRST_FORMAT_WITH_VARIABLES: i64 = 16;
/// Executions that wait came with this one.
const FIRST_FORMAT_WITH_CALLS: i64 = 18;

/// Whether the key opens what it has sealed; `None` where that is nothing. The key is looked for in
/// `named`, or in the data directory.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn holds_variables_key(
    directory: &Path,
    named: Option<&Path>,
    connection: &Connection,
) -> Result<Option<()>, StoreError> {
    if file_format::format(connection)? < FIRST_FORMAT_WITH_VARIABLES {
        return Ok(None);
    }
    let vault = Vault::of_variables(directory);
    if let Some(named) = named {
        vault.name(named.to_owned());
    }
    let any = need_functions_key(connection, &vault)?;
    Ok(any.then_some(()))
}

/// Whether there are variables, or executions that wait; then the key must have sealed them.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn need_functions_key(
    connection: &Connection,
    vault: &Vault,
) -> Result<bool, StoreError> {
    if vault.is_proven() {
        return Ok(true);
    }
    let values = stored_reads::all(connection, &variables::newest())?;
    let calls = match file_format::format(connection)? {
        FIRST_FORMAT_WITH_CALLS.. => stored_reads::all(connection, &queue::newest_calls())?,
        _ => Vec::new(),
    };
    variables::prove_key(vault, &values, &calls)
}
