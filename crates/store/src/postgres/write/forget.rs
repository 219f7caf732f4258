//! Letting go of what a batch has made past (`sqlite/write/forget.rs` says what may go).

use model::{RowId, Table, Timestamp};
use query::names;

use super::rows::{END, PostgresRows};
use super::session::SqlCall;
use crate::StoreError;
use crate::laws::growth::Growth;
use crate::laws::past::PastRows;
use crate::postgres::cells::SqlParameter;

impl PastRows for PostgresRows<'_> {
    fn forget_below(
        &self,
        table: &Table,
        ids: &[&RowId],
        line: Timestamp,
        growth: &Growth,
    ) -> Result<(), StoreError> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let which = "v.id = ANY($2::text[])";
        let all = || -> Vec<SqlParameter> { vec![Box::new(ids.clone())] };
        self.forget(table, (which, &all), line, growth)
    }
}

impl PostgresRows<'_> {
    /// Lets go of what lies below the line among the versions that `which` names, with parameters
    /// from `$2` on.
    pub(super) fn forget(
        &self,
        table: &Table,
        (which, parameters): (&str, &dyn Fn() -> Vec<SqlParameter>),
        line: Timestamp,
        growth: &Growth,
    ) -> Result<(), StoreError> {
        let bytes = self.bytes_of_version(table)?;
        let table = table.number;
        let (versions, schedule) = (names::versions(table), names::schedule(table));
        let all = || -> Vec<SqlParameter> {
            let first: SqlParameter = Box::new(line.0);
            std::iter::once(first).chain(parameters()).collect()
        };
        let gone = format!(
            "DELETE FROM {versions} v WHERE {which} AND v.twin = 0 \
             AND (v.st <= $1 OR CASE WHEN v.cut_tt <= $1 THEN v.cut_vt ELSE v.vt END <= $1) \
             AND NOT EXISTS (SELECT 1 FROM {schedule} s WHERE s.id = v.id AND s.at <= $1) \
             RETURNING v.rid, {bytes}, v.seq"
        );
        let rewritten = format!(
            "UPDATE {versions} v SET sf = cut_tt, vt = cut_vt, cut_tt = {END}, cut_vt = {END} \
             WHERE {which} AND v.twin = 0 AND v.cut_tt <= $1"
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
