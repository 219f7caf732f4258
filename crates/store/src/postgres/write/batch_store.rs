//! The record of a commit in PostgreSQL.

use super::records::RecordToSend;
use super::rows::PostgresRows;
use crate::laws::halt::Step;
use crate::laws::perform::{BatchStore, RecordToWrite};
use crate::laws::run::Run;
use crate::laws::working_set::WorkingSet;
use crate::vault::Place;

impl BatchStore for WorkingSet<PostgresRows<'_>> {
    /// It is sent with what is left of the group, as is the stamp of snapshots.
    fn record(run: &mut Run<'_, Self>, record: &RecordToWrite<'_>) -> Step<()> {
        let rows = run.touched.ids();
        let vault = &run.rows.database().keys.values;
        let meta = match record.meta {
            Some(meta) if run.state.is_sealing => {
                Some(vault.seal_text(Place::Note(run.mark.0), meta)?)
            }
            meta => meta.map(str::to_owned),
        };
        let record = RecordToSend {
            mark: run.mark,
            number: run.state.number,
            previous: record.previous,
            author: record.author.map(str::to_owned),
            meta,
            erased: (record.erased > 0).then_some(record.erased as i64),
            noted_in: record.noted_in,
            rows: rows.map(|(table, id)| (table, id.clone())).collect(),
            schema: run.noted.clone(),
        };
        run.rows.database().records.borrow_mut().add(record);
        Ok(())
    }
}
