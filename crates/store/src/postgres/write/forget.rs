//! Letting go of what a group has made past in tables that keep none of it
//! (`sqlite/write/forget.rs` says what may go).

use std::collections::BTreeMap;

use model::{Retention, TableNumber, Timestamp};
use query::names;

use super::rows::{END, PostgresRows};
use super::session::SqlCall;
use crate::StoreError;
use crate::laws::growth::Growth;
use crate::laws::halt::Step;
use crate::laws::run::Run;
use crate::laws::working_set::WorkingSet;
use crate::postgres::cells::SqlParameter;

/// Lets go of what the batch has made past.
pub(super) fn forget_past(run: &Run<'_, WorkingSet<PostgresRows<'_>>>) -> Step<()> {
    let mut rows: BTreeMap<TableNumber, Vec<String>> = BTreeMap::new();
    for (number, id) in run.touched.ids() {
        let table = run.state.catalogue.table_by_number(number);
        if table.is_some_and(|table| table.options.history == Retention::None) {
            rows.entry(number).or_default().push(id.to_string());
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let behind = run.rows.directly()?;
    for (number, ids) in rows {
        let Some(table) = run.state.catalogue.table_by_number(number) else {
            continue;
        };
        let bytes = behind.bytes_of_version(table)?;
        behind.forget(
            (number, &bytes),
            &ids,
            run.mark.timestamp(),
            &run.state.growth,
        )?;
    }
    Ok(())
}

impl PostgresRows<'_> {
    /// What lies below the line goes among the versions of these rows, and the grants of those of
    /// which nothing is left: their number may be given to another row.
    fn forget(
        &self,
        (table, bytes): (TableNumber, &str),
        ids: &[String],
        line: Timestamp,
        growth: &Growth,
    ) -> Result<(), StoreError> {
        let (versions, schedule) = (names::versions(table), names::schedule(table));
        let all = || -> Vec<SqlParameter> { vec![Box::new(line.0), Box::new(ids.to_vec())] };
        let gone = format!(
            "DELETE FROM {versions} v WHERE v.id = ANY($2::text[]) AND v.twin = 0 \
             AND (v.st <= $1 OR CASE WHEN v.cut_tt <= $1 THEN v.cut_vt ELSE v.vt END <= $1) \
             AND NOT EXISTS (SELECT 1 FROM {schedule} s WHERE s.id = v.id AND s.at <= $1) \
             RETURNING v.rid, {bytes}, v.seq"
        );
        let rewritten = format!(
            "UPDATE {versions} v SET sf = cut_tt, vt = cut_vt, cut_tt = {END}, cut_vt = {END} \
             WHERE v.id = ANY($2::text[]) AND v.twin = 0 AND v.cut_tt <= $1"
        );
        let found = self
            .session
            .burst(&[SqlCall::new(gone, all()), SqlCall::new(rewritten, all())])?;
        let mut seqs: Vec<i64> = Vec::new();
        for row in &found[0] {
            growth.removed(table, row.try_get(0)?, row.try_get(1)?);
            seqs.push(row.try_get(2)?);
        }
        if seqs.is_empty() {
            return Ok(());
        }
        let grants = format!(
            "DELETE FROM {} g WHERE g.seq = ANY($1::bigint[]) \
             AND NOT EXISTS (SELECT 1 FROM {} x WHERE x.seq = g.seq) \
             AND NOT EXISTS (SELECT 1 FROM {versions} v WHERE v.seq = g.seq AND v.twin = 0)",
            names::grants(table),
            names::now(table),
        );
        self.session
            .call(SqlCall::new(grants, vec![Box::new(seqs)]))?;
        Ok(())
    }
}
