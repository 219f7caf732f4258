//! What is due comes in on SQLite: by itself in slices, and before a batch that looks at it.

use model::{Mark, Timestamp};
use rusqlite::params;

use super::writer::Writer;
use crate::batch::{Applied, WriteBatch};
use crate::laws::due::DueRows;
use crate::laws::settled::{BatchEnd, SettledGroup};
use crate::laws::state::State;
use crate::sqlite::schema::state;
use crate::{DUE_ROWS_MAX, StoreError};

impl SettledGroup for Writer {
    fn state(&self) -> &State {
        &self.state
    }

    fn run(&mut self, batch: &WriteBatch, mark: Mark) -> Result<Applied, BatchEnd> {
        Writer::run(self, batch, mark)
    }

    fn show_due(&mut self, instant: Timestamp, which: DueRows<'_>) -> Result<usize, StoreError> {
        let mut run = self.run_without_batch(instant);
        let count = run.show_due(instant, which)?;
        let (state, touched) = (run.state, run.touched);
        self.include_due(state, touched);
        if count > 0 {
            // Whether or not a batch takes the mark of this instant.
            self.store_instant(instant)?;
        }
        Ok(count)
    }
}

impl Writer {
    /// Activates all that is due at `instant`.
    pub(crate) fn activate_all(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        self.activate(instant, usize::MAX)
    }

    /// Inside the open transaction: activates at most `count_max` rows that are due at `instant`.
    fn activate(&mut self, instant: Timestamp, count_max: usize) -> Result<(), StoreError> {
        if self.state.is_due(instant) {
            let only = None;
            self.show_due(instant, DueRows::First { count_max, only })?;
        }
        Ok(())
    }

    /// See [`crate::WriteTurn::activate_due`]: the transaction stays open.
    ///
    /// # Errors
    /// What the database says; then no transaction is open.
    pub(crate) fn begin_due(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        self.begin()?;
        let activated = self.activate(instant, DUE_ROWS_MAX);
        let stored = activated.and_then(|()| self.store_instant(instant));
        if stored.is_err() {
            self.rollback();
        }
        stored
    }

    /// Says of which instant the tables of now show something.
    fn store_instant(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        self.connection
            .prepare_cached("UPDATE meta SET x_at = max(x_at, ?1)")?
            .execute(params![instant.0])?;
        self.state.shows(instant);
        state::write(&self.connection, &self.state)?;
        Ok(())
    }
}
