//! What PostgreSQL does of a batch next to rows, and the record of its commit.

use model::Table;

use super::records::RecordToSend;
use super::rows::PostgresRows;
use crate::StoreError;
use crate::batch::ConstraintChange;
use crate::laws::halt::{Halt, Step};
use crate::laws::perform::{BatchStore, RecordToWrite};
use crate::laws::run::Run;
use crate::laws::working_set::WorkingSet;

impl BatchStore for WorkingSet<PostgresRows<'_>> {
    fn constrain(_: &mut Run<'_, Self>, _: &Table, _: &ConstraintChange) -> Step<()> {
        Err(not_yet("What must hold over valid time"))
    }

    /// It is sent with what is left of the group, as is the stamp of snapshots.
    fn record(run: &mut Run<'_, Self>, record: &RecordToWrite<'_>) -> Step<()> {
        let rows = run.touched.ids();
        let record = RecordToSend {
            mark: run.mark,
            number: run.state.number,
            previous: record.previous,
            author: record.author.map(str::to_owned),
            meta: record.meta.map(str::to_owned),
            erased: (record.erased > 0).then_some(record.erased as i64),
            noted_in: record.noted_in,
            rows: rows.map(|(table, id)| (table, id.clone())).collect(),
            schema: run.noted.clone(),
        };
        run.rows.database().records.borrow_mut().add(record);
        Ok(())
    }
}

fn not_yet(what: &str) -> Halt {
    let detail = format!("{what} cannot be written to PostgreSQL yet.");
    Halt::Failed(StoreError::Io { detail })
}
