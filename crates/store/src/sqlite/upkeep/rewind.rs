//! Forgetting that anything was ever committed, for tests that set the clock.

use crate::StoreError;
use crate::sqlite::commit::writer::Writer;

impl Writer {
    /// See [`crate::StoreUpkeep::rewind`].
    pub(crate) fn rewind(&mut self) -> Result<(), StoreError> {
        self.in_own_transaction(|writer| {
            writer.connection.execute_batch(
                "DELETE FROM tx; DELETE FROM tx_row; DELETE FROM tx_schema; DELETE FROM erasure;
                 UPDATE meta SET x_at = 0;",
            )?;
            writer.forget_marks()
        })
    }
}
