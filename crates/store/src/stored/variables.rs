//! Variables of functions, as they are stored: each value is sealed.

use model::{Timestamp, VariableId};

use super::change::StoredChange;
use super::read::StoredRead;
use super::row::{Read, flag, id, instant, int, string};
use crate::StoreError;
use crate::error::corrupt;
use crate::function_op::Variable;
use crate::vault::{Place, StoredText, Vault};

/// A variable whose value was not opened.
pub(crate) struct StoredVariable {
    variable: Variable,
    value: StoredText,
}

/// Of a function, in the order of their creation.
pub(crate) fn of_function(function: i64) -> StoredRead<StoredVariable> {
    let sql = "SELECT seq, id, key, value, secret, created, updated FROM variable \
               WHERE function = $1 ORDER BY seq";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![function.into()],
        read: |row| {
            let value = StoredText::of(row, 3)?;
            Ok(StoredVariable {
                variable: Variable {
                    seq: int(row, 0)?,
                    id: id(row, 1, VariableId::new)?,
                    key: string(row, 2)?,
                    value: String::new(),
                    secret: flag(row, 4)?,
                    created: instant(row, 5)?,
                    updated: instant(row, 6)?,
                },
                value: value.ok_or_else(|| corrupt("a variable holds nothing"))?,
            })
        },
    }
}

/// The variables of a function, without the values of secret ones unless those are revealed.
pub(crate) fn opened(
    found: Vec<StoredVariable>,
    vault: &Vault,
    (function, reveals): (i64, bool),
) -> Result<Vec<Variable>, StoreError> {
    let open = |StoredVariable {
                    mut variable,
                    value,
                }: StoredVariable| {
        if reveals || !variable.secret {
            let place = Place::Variable(function, variable.id.as_str());
            variable.value = value.open(vault, place)?;
        }
        Ok(variable)
    };
    found.into_iter().map(open).collect()
}

/// Something that the key of functions has sealed: of which function, under which id.
pub(crate) struct SealedOfFunction {
    pub(crate) function: i64,
    pub(crate) id: String,
    pub(crate) sealed: Vec<u8>,
}

/// The newest values: one alone could be damaged.
pub(crate) fn newest() -> StoredRead<SealedOfFunction> {
    StoredRead {
        sql: "SELECT function, id, value FROM variable ORDER BY seq DESC LIMIT 3".to_owned(),
        parameters: Vec::new(),
        read: sealed_of_function,
    }
}

/// From a number of a function, an id and bytes.
pub(crate) fn sealed_of_function(row: &dyn super::row::StoredRow) -> Read<SealedOfFunction> {
    let sealed = match StoredText::of(row, 2)? {
        Some(StoredText::Sealed(sealed)) => sealed,
        // It opens with no key.
        _ => Vec::new(),
    };
    Ok(SealedOfFunction {
        function: int(row, 0)?,
        id: string(row, 1)?,
        sealed,
    })
}

/// Finds whether the key has sealed any of the newest values and calls; `false` where there are
/// none.
///
/// # Errors
/// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`].
pub(crate) fn prove_key(
    vault: &Vault,
    values: &[SealedOfFunction],
    calls: &[SealedOfFunction],
) -> Result<bool, StoreError> {
    let values = values.iter().map(|one| {
        let place = Place::Variable(one.function, &one.id);
        (place, one.sealed.as_slice())
    });
    let calls = calls.iter().map(|one| {
        let place = Place::Call(one.function, &one.id);
        (place, one.sealed.as_slice())
    });
    vault.prove(values.chain(calls))
}

/// How many variables a function has, and whether one of them has this id or this key: one row.
pub(crate) fn count_and_taken(
    function: i64,
    id: &VariableId,
    key: &str,
) -> StoredRead<(i64, bool)> {
    let sql = "SELECT count(*), \
               CAST(coalesce(max(CASE WHEN id = $1 OR key = $2 THEN 1 ELSE 0 END), 0) AS bigint) \
               FROM variable WHERE function = $3";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![id.as_str().into(), key.into(), function.into()],
        read: |row| Ok((int(row, 0)?, flag(row, 1)?)),
    }
}

/// The variable of a function that has this key, unless it has this id.
pub(crate) fn other_of_key(function: i64, id: &VariableId, key: &str) -> StoredRead<i64> {
    let sql = "SELECT seq FROM variable WHERE function = $1 AND key = $2 AND id <> $3";
    StoredRead {
        sql: sql.to_owned(),
        parameters: vec![function.into(), key.into(), id.as_str().into()],
        read: |row| int(row, 0),
    }
}

/// Adds a variable, whose value is sealed.
pub(crate) fn insert(
    function: i64,
    id: &VariableId,
    (key, sealed, secret): (&str, Vec<u8>, bool),
    now: Timestamp,
) -> StoredChange {
    StoredChange::new(
        "INSERT INTO variable (function, id, key, value, secret, created, updated) \
         VALUES ($1, $2, $3, $4, $5, $6, $6)",
        [
            function.into(),
            id.as_str().into(),
            key.into(),
            sealed.into(),
            secret.into(),
            now.0.into(),
        ],
    )
}

/// Changes a variable; `None` keeps, and a secret stays one.
pub(crate) fn update(
    function: i64,
    id: &VariableId,
    (key, sealed, secret): (Option<&str>, Option<Vec<u8>>, bool),
    now: Timestamp,
) -> StoredChange {
    StoredChange::new(
        "UPDATE variable SET key = coalesce($1, key), value = coalesce($2, value), \
         secret = CASE WHEN CAST($3 AS bigint) = 1 THEN 1 ELSE secret END, updated = $4 \
         WHERE function = $5 AND id = $6",
        [
            key.into(),
            sealed.into(),
            secret.into(),
            now.0.into(),
            function.into(),
            id.as_str().into(),
        ],
    )
}

/// Removes a variable.
pub(crate) fn delete(function: i64, id: &VariableId) -> StoredChange {
    let sql = "DELETE FROM variable WHERE function = $1 AND id = $2";
    StoredChange::new(sql, [function.into(), id.as_str().into()])
}

/// Removes all variables of a function.
pub(crate) fn delete_all(function: i64) -> StoredChange {
    StoredChange::new(
        "DELETE FROM variable WHERE function = $1",
        [function.into()],
    )
}
