//! Forgetting that anything was ever committed, for tests that set the clock.

use super::commit::Writer;
use crate::StoreError;

impl Writer {
    /// See [`crate::Store::rewind`].
    pub(super) fn rewind(&mut self) -> Result<(), StoreError> {
        self.aside(|writer| {
            writer
                .connection
                .execute_batch("DELETE FROM tx; DELETE FROM tx_row; UPDATE meta SET x_at = 0;")?;
            writer.forget_marks()
        })
    }
}
