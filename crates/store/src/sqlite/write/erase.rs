//! Erasure: no change of a belief, but the end of every version at every mark.
//!
//! What is deleted is overwritten (`secure_delete`), here and in the full-text indexes. The bytes
//! leave the log with a checkpoint that cuts it to nothing, which follows (`checkpoint.rs`). Open
//! transactions of clients may hold what the row was, or is to be: they fail.

use std::sync::Arc;

use model::{RowId, Table};
use query::names;
use rusqlite::params;

use super::row_write::Target;
use super::run::Run;
use crate::laws::halt::Step;
use crate::laws::ledger::{RowChange, RowLedger as _};
use crate::sqlite::schema::sizes;
use crate::written::TimedDone;

impl Run<'_> {
    /// Erases a row: versions, grants, schedule, and its place in the records of commits.
    pub(crate) fn erase(&mut self, table: &Arc<Table>, id: &RowId) -> Step<TimedDone> {
        let target = Target::new(table, id);
        self.part_twin(&target)?;
        let seq = self.known_seq(&target)?;
        if let Some(row) = self.current_to_go(&target)? {
            self.withdraw_now(&target, row.seq)?;
            self.touched
                .record(table, id, row.seq, Some(row.image), None);
        }
        let number = table.number;
        let sql = format!(
            "DELETE FROM {} WHERE id = ?1 AND twin = 0{}",
            names::versions(number),
            sizes::returning(&self.texts.bytes_of_all(self.connection, table)?)
        );
        let (growth, sql) = (&self.state.growth, (number, &*sql));
        let erased = sizes::remove(self.connection, growth, sql, params![id.as_str()])?.len();
        let unscheduled = RowChange::Schedule {
            id: id.as_str(),
            at: None,
        };
        self.rows().change(table, unscheduled)?;
        if let Some(seq) = seq {
            let grants = names::grants(number);
            self.statement(&format!("DELETE FROM {grants} WHERE seq = ?1"))?
                .execute(params![seq])?;
        }
        self.forget_answers(number, id)?;
        self.statement("DELETE FROM tx_row WHERE tab = ?1 AND id = ?2")?
            .execute(params![number.0, id.as_str()])?;
        self.fail_transactions_on(table, id)?;
        self.timed.forget(number, id);
        self.touched.erase(table, id);
        self.past_changed.add(number);
        self.take_in_boundary(number)?;
        if erased > 0 {
            self.erased_in.add(number);
            self.statement(
                "INSERT INTO erasure (tab, tt) VALUES (?1, ?2) \
                 ON CONFLICT (tab) DO UPDATE SET tt = excluded.tt",
            )?
            .execute(params![number.0, self.mark.0])?;
            self.erased.push((Arc::clone(table), id.clone()));
        }
        Ok(TimedDone {
            is_affected: erased > 0,
            row: None,
        })
    }
}
