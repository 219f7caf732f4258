//! Variables of functions, as they are stored: each value is sealed.

use model::VariableId;

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
