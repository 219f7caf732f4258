//! The record of a commit in SQLite.

use model::TableNumber;
use rusqlite::{ToSql, params};

use crate::laws::halt::Step;
use crate::laws::perform::{BatchStore, RecordToWrite};
use crate::laws::run::Run;
use crate::schema_record::SchemaRecord;
use crate::sqlite::write::run::SqliteRun;
use crate::sqlite::write::stored_rows::SqliteRows;
use crate::vault::Place;

impl BatchStore for SqliteRows<'_> {
    fn record(run: &mut Run<'_, Self>, record: &RecordToWrite<'_>) -> Step<()> {
        run.write_record(record)
    }
}

impl SqliteRun<'_, '_> {
    /// Writes the commit's own row, and the rows it touched. Snapshots are stamped once for all
    /// batches of the transaction, at its end (`Writer::stamp`).
    fn write_record(&mut self, record: &RecordToWrite<'_>) -> Step<()> {
        let mark = self.mark.0;
        let vault = &self.rows.coding.vault;
        let sealed = record.meta.filter(|_| self.state.is_sealing);
        let sealed = sealed.map(|meta| vault.seal(Place::Note(mark), meta.as_bytes()));
        let sealed = sealed.transpose()?;
        let meta: &dyn ToSql = match &sealed {
            Some(sealed) => sealed,
            None => &record.meta,
        };
        let erased = (record.erased > 0).then_some(record.erased as i64);
        self.statement(
            "INSERT INTO tx (tt, n, prev, user, meta, erased, noted_in) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            mark,
            self.state.number,
            record.previous.0,
            record.author,
            meta,
            erased,
            record.noted_in
        ])?;
        let mut row = self.statement("INSERT INTO tx_row (tt, tab, id) VALUES (?1, ?2, ?3)")?;
        for (TableNumber(table), id) in self.touched.ids() {
            row.execute(params![mark, table, id.as_str()])?;
        }
        drop(row);
        self.record_schema()?;
        Ok(())
    }

    /// Writes what was noted beside the commit's own row.
    fn record_schema(&self) -> Step<()> {
        if self.noted.is_empty() {
            return Ok(());
        }
        let mut insert = self.statement(
            "INSERT INTO tx_schema (tt, n, database, tab, act, key) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for (nth, (database, record)) in self.noted.iter().enumerate() {
            let SchemaRecord { act, table, key } = record;
            let act = act.as_str();
            insert.execute(params![self.mark.0, nth as i64, database, table, act, key])?;
        }
        Ok(())
    }
}
