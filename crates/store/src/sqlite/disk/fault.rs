//! What SQLite's error codes mean to a caller of the store.

use rusqlite::ffi::{self, ErrorCode};

use super::sorts::{SORT_BYTES_MAX, SORT_TOO_LARGE};
use crate::error::{SortRoom, StoreError, corrupt};
use crate::laws::halt::Halt;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        let code = match &error {
            rusqlite::Error::SqliteFailure(code, _)
            | rusqlite::Error::SqlInputError { error: code, .. } => *code,
            // The driver's own complaints: a value of another type than its column promises, a
            // row that must be there and is not.
            other => return corrupt(other.to_string()),
        };
        from_code(code, error.to_string())
    }
}

impl From<rusqlite::Error> for Halt {
    fn from(error: rusqlite::Error) -> Halt {
        Halt::Failed(error.into())
    }
}

/// The code, by an extension that SQLite does not use, of a regular expression that would take too
/// much work.
pub(crate) const PATTERN_TOO_HARD: i32 = ffi::SQLITE_ERROR | (0x7d << 8);

fn from_code(code: ffi::Error, detail: String) -> StoreError {
    if code.extended_code == ffi::SQLITE_IOERR_NOMEM {
        return StoreError::Memory;
    }
    if code.extended_code == PATTERN_TOO_HARD {
        return StoreError::PatternTooHard;
    }
    if code.extended_code == SORT_TOO_LARGE {
        return StoreError::SortTooLarge(SortRoom::Memory {
            bytes_max: SORT_BYTES_MAX,
        });
    }
    match code.code {
        ErrorCode::DiskFull => StoreError::Full,
        ErrorCode::OutOfMemory => StoreError::Memory,
        ErrorCode::OperationInterrupted => StoreError::Interrupted,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => {
            corrupt(detail)
        }
        _ => StoreError::Io { detail },
    }
}

/// Whether a unique index refused the statement.
pub(crate) fn is_unique_violation(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::SqliteFailure(code, _)
            if code.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(extended_code: i32, expected: &StoreError) {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(extended_code), None);
        let mapped = StoreError::from(error);
        assert_eq!(
            std::mem::discriminant(&mapped),
            std::mem::discriminant(expected),
            "{mapped:?}"
        );
    }

    #[test]
    fn every_way_to_fail_has_its_variant() {
        let io = StoreError::Io {
            detail: String::new(),
        };
        check(ffi::SQLITE_FULL, &StoreError::Full);
        check(ffi::SQLITE_NOMEM, &StoreError::Memory);
        check(ffi::SQLITE_IOERR_NOMEM, &StoreError::Memory);
        check(ffi::SQLITE_INTERRUPT, &StoreError::Interrupted);
        check(ffi::SQLITE_IOERR_FSYNC, &io);
        check(ffi::SQLITE_CANTOPEN, &io);
        check(ffi::SQLITE_READONLY, &io);
        check(ffi::SQLITE_BUSY, &io);
        check(ffi::SQLITE_CORRUPT, &corrupt(""));
        check(ffi::SQLITE_NOTADB, &corrupt(""));
        check(ffi::SQLITE_CONSTRAINT_UNIQUE, &corrupt(""));
    }
}
