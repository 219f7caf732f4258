//! How far a read that takes many steps goes on where it runs.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Row;
use store::StoreError;

use crate::error::EngineError;

/// No further step of a read is taken on the caller's thread after so many bytes of rows:
/// some tenths of a millisecond.
const BYTES_HERE_MAX: usize = 128 << 10;

/// How far a read that takes many steps may go on where it runs.
pub(crate) struct Turn<'a> {
    bytes_left: Cell<usize>,
    /// Whether it was to go on, and may not.
    is_over: Cell<bool>,
    /// Raised when no caller waits for it any more.
    stop: Option<&'a AtomicBool>,
}

impl<'a> Turn<'a> {
    /// On the caller's thread.
    pub(crate) fn here() -> Turn<'a> {
        Turn {
            bytes_left: Cell::new(BYTES_HERE_MAX),
            is_over: Cell::new(false),
            stop: None,
        }
    }

    /// On a thread for long reads.
    pub(crate) fn apart(stop: &'a AtomicBool) -> Turn<'a> {
        Turn {
            bytes_left: Cell::new(usize::MAX),
            is_over: Cell::new(false),
            stop: Some(stop),
        }
    }

    /// Whether it was to go on, and may not: it begins again on a thread for long reads.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Asked before each step.
    pub(crate) fn goes_on(&self) -> Result<(), EngineError> {
        let is_stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if is_stopped || self.bytes_left.get() == 0 {
            self.is_over.set(true);
            return Err(StoreError::Interrupted.into());
        }
        Ok(())
    }

    /// Bytes of rows after which a step that reads many ends, so that it is asked again whether
    /// the read goes on.
    pub(crate) fn bytes_of_step(&self) -> usize {
        self.bytes_left.get().min(BYTES_HERE_MAX)
    }

    pub(crate) fn count(&self, row: Option<&Row>) {
        let bytes = row.map_or(0, Row::size_bytes);
        let left = self.bytes_left.get();
        self.bytes_left.set(left.saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use model::{Content, RowId, Timestamp};

    use super::*;

    fn row(bytes: usize) -> Row {
        Row {
            id: RowId::new("r").unwrap(),
            seq: 1,
            created: Timestamp(0),
            updated: Timestamp(0),
            permissions: "[]".into(),
            content: Content::Body(vec![b'x'; bytes].into()),
            span: None,
        }
    }

    #[test]
    fn a_read_goes_on_where_it_is_asked_for_until_it_has_its_bytes() {
        let turn = Turn::here();
        turn.count(Some(&row(BYTES_HERE_MAX - 100)));
        turn.count(None);
        assert!(turn.goes_on().is_ok() && !turn.is_over());
        turn.count(Some(&row(100)));
        assert!(!turn.is_over(), "that may have been all");
        assert!(turn.goes_on().is_err() && turn.is_over());
    }

    #[test]
    fn apart_it_goes_on_until_nobody_waits_for_it() {
        let stop = AtomicBool::new(false);
        let turn = Turn::apart(&stop);
        turn.count(Some(&row(BYTES_HERE_MAX)));
        assert!(turn.goes_on().is_ok());
        stop.store(true, Ordering::Relaxed);
        assert!(turn.goes_on().is_err());
    }
}
