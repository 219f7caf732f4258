//! What PostgreSQL does of a batch next to rows, and the record of its commit.

use super::records::RecordToSend;
use super::rows::PostgresRows;
use crate::StoreError;
use crate::batch::CatalogueOp;
use crate::laws::halt::{Halt, Step};
use crate::laws::perform::{BatchStore, RecordToWrite};
use crate::laws::run::Run;
use crate::laws::working_set::WorkingSet;

impl BatchStore for WorkingSet<PostgresRows<'_>> {
    fn catalogue_op(run: &mut Run<'_, Self>, op: &CatalogueOp) -> Step<()> {
        match op {
            CatalogueOp::CreateFunction(name, definition) => run.create_function(name, definition),
            CatalogueOp::UpdateFunction(name, change) => run.update_function(name, change),
            CatalogueOp::DeleteFunction(name) => run.delete_function(name),
            _ => Err(not_yet("This of the catalogue")),
        }
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
        };
        run.rows.database().records.borrow_mut().add(record);
        Ok(())
    }
}

fn not_yet(what: &str) -> Halt {
    let detail = format!("{what} cannot be written to PostgreSQL yet.");
    Halt::Failed(StoreError::Io { detail })
}
