//! How PostgreSQL changes rows one by one that a working set does not hold.

use model::history::{Ending, VersionNumber};
use model::{Mark, RowId, Table, Value};
use query::names::{self, LIFE};

use super::rows::{END, PostgresRows};
use super::session::SqlCall;
use crate::StoreError;
use crate::laws::ledger::{GrantsChange, RowAmends, RowChange, VersionEnding};
use crate::postgres::cells::{self, SqlParameter};
use crate::staged::TransactionStatus;

/// Takes answers away that may show a row: those of the commits that changed it, and of requests
/// that changed nothing, which belong to no commit. Their bytes count no more.
const FORGET_ANSWERS: &str = "
WITH old AS (
  SELECT project, key, part, bytes FROM request_key AS k
  WHERE k.answer IS NOT NULL AND (k.mark IS NULL
    OR EXISTS (SELECT 1 FROM tx_row r WHERE r.tt = k.mark AND r.tab = $1 AND r.id = $2))),
cut AS (
  UPDATE request_key AS k SET answer = NULL, bytes = 0 FROM old
  WHERE k.project = old.project AND k.key = old.key AND k.part = old.part)
UPDATE kept_bytes AS b SET bytes = b.bytes - o.bytes
FROM (SELECT project, substr(key, 1, strpos(key, ' ')) AS owner, sum(bytes)::bigint AS bytes
      FROM old GROUP BY 1, 2) AS o
WHERE b.project = o.project AND b.owner = o.owner";

/// Fails the open transactions of a project with an operation on a row, or with one on many rows of
/// its table that names it, and forgets their operations. One that is sealed is not looked into.
const FAIL_TRANSACTIONS: &str = "
WITH failed AS (
  UPDATE staged AS s SET status = $1, updated = $2, keep = s.expires, bytes = 0
  WHERE s.project = $3 AND s.status = $4 AND EXISTS (
    SELECT 1 FROM staged_op o WHERE o.tx = s.seq AND o.place = $5
    AND (o.id = $6 OR (o.id IS NULL
      AND (starts_with(o.body, chr(1)) OR strpos(o.body, $6) > 0))))
  RETURNING s.seq)
DELETE FROM staged_op AS o USING failed WHERE o.tx = failed.seq";

impl RowAmends for PostgresRows<'_> {
    fn end(
        &self,
        table: &Table,
        version: VersionNumber,
        mark: Mark,
        ending: VersionEnding,
    ) -> Result<Option<i64>, StoreError> {
        let versions = names::versions(table.number);
        let bytes = self.bytes_of_version(table)?;
        let removed = |test: &str| {
            format!(
                "DELETE FROM {versions} v WHERE v.rid = $1 AND v.sf = $2 AND {test} \
                 RETURNING {bytes}"
            )
        };
        let cut = |set: &str, test: &str| {
            format!("UPDATE {versions} v SET {set} WHERE v.rid = $1 AND {test} RETURNING 0::bigint")
        };
        let mut all: Vec<SqlParameter> = vec![Box::new(version.0), Box::new(mark.0)];
        let sql = match ending {
            VersionEnding::Now => cut(
                "cut_tt = $2, cut_vt = $2, twin = 0",
                &format!("v.st = {END} AND v.cut_tt = {END}"),
            ),
            VersionEnding::Never => removed(&format!("v.st = {END}")),
            VersionEnding::Planned(Ending::Remove) => removed("v.twin = 0"),
            VersionEnding::Planned(Ending::Cut(valid_to)) => {
                all.push(Box::new(valid_to.0));
                cut("cut_tt = $2, cut_vt = $3", "v.twin = 0")
            }
            VersionEnding::Planned(Ending::Close) => cut("st = $2", "v.twin = 0"),
            VersionEnding::Planned(Ending::UncutAndClose) => cut(
                &format!("cut_tt = {END}, cut_vt = {END}, st = $2"),
                "v.twin = 0",
            ),
        };
        let ended = self.session.call(SqlCall::new(sql, all))?;
        Ok(ended.first().map(|row| row.try_get(0)).transpose()?)
    }

    fn fill(&self, table: &Table, seq: i64, values: &[(usize, Value)]) -> Result<bool, StoreError> {
        let mut all: Vec<SqlParameter> = vec![Box::new(seq)];
        let mut set = Vec::new();
        for (position, value) in values {
            let column = &table.columns[*position];
            let list = cells::value_list(column, std::iter::once(value))?;
            all.push(list.values);
            let (name, number) = (names::column(column.number), all.len());
            set.push(format!(
                "{name} = (${number}::{}[])[1]{}",
                list.element, list.cast
            ));
        }
        let now = names::now(table.number);
        let sql = format!("UPDATE {now} SET {} WHERE seq = $1", set.join(", "));
        self.session.call_if_free(SqlCall::new(sql, all))
    }

    fn change(&self, table: &Table, change: RowChange<'_>) -> Result<(), StoreError> {
        self.session.call(change_of(table, change)).map(drop)
    }

    fn erase(
        &self,
        table: &Table,
        (id, seq): (&RowId, Option<i64>),
        mark: Mark,
    ) -> Result<Vec<(VersionNumber, i64)>, StoreError> {
        let number = table.number;
        let bytes = self.bytes_of_version(table)?;
        let id = || -> SqlParameter { Box::new(id.to_string()) };
        let removed = format!(
            "DELETE FROM {} v WHERE v.id = $1 AND v.twin = 0 RETURNING v.rid, {bytes}",
            names::versions(number)
        );
        let unscheduled = format!("DELETE FROM {} WHERE id = $1", names::schedule(number));
        let of_row = || -> Vec<SqlParameter> { vec![Box::new(number.0), id()] };
        let mut calls = vec![
            SqlCall::new(removed, vec![id()]),
            SqlCall::new(unscheduled, vec![id()]),
            SqlCall::new(FORGET_ANSWERS, of_row()),
            SqlCall::new("DELETE FROM tx_row WHERE tab = $1 AND id = $2", of_row()),
            SqlCall::new(
                FAIL_TRANSACTIONS,
                vec![
                    Box::new(TransactionStatus::Failed.as_str()),
                    Box::new(mark.timestamp().cut_to_ms().0),
                    Box::new(table.project.to_string()),
                    Box::new(TransactionStatus::Pending.as_str()),
                    Box::new(format!("{}/{}", table.database, table.id)),
                    id(),
                ],
            ),
        ];
        if let Some(seq) = seq {
            let sql = format!("DELETE FROM {} WHERE seq = $1", names::grants(number));
            calls.push(SqlCall::new(sql, vec![Box::new(seq)]));
        }
        // Neither kept answers nor entries of transactions have an index by the row.
        let found = self.session.patiently(|| self.session.burst(&calls))?;
        let mut erased = Vec::new();
        for row in &found[0] {
            erased.push((VersionNumber(row.try_get(0)?), row.try_get(1)?));
        }
        if !erased.is_empty() {
            let sql = "INSERT INTO erasure (tab, tt) VALUES ($1, $2) \
                       ON CONFLICT (tab) DO UPDATE SET tt = excluded.tt";
            let all: Vec<SqlParameter> = vec![Box::new(number.0), Box::new(mark.0)];
            self.session.call(SqlCall::new(sql, all))?;
        }
        Ok(erased)
    }
}

fn change_of(table: &Table, change: RowChange<'_>) -> SqlCall {
    let (now, versions) = (names::now(table.number), names::versions(table.number));
    let schedule = names::schedule(table.number);
    match change {
        RowChange::Permissions {
            seq,
            permissions,
            updated,
        } => SqlCall::new(
            format!("UPDATE {now} SET perms = $2, updated = $3, twin = 0 WHERE seq = $1"),
            vec![
                Box::new(seq),
                Box::new(permissions.to_owned()),
                Box::new(updated.0),
            ],
        ),
        RowChange::PartVersion(number) => SqlCall::new(
            format!("UPDATE {versions} SET twin = 0 WHERE rid = $1"),
            vec![Box::new(number.0)],
        ),
        RowChange::PartRow(id) => SqlCall::new(
            format!("UPDATE {now} SET twin = 0 WHERE id = $1"),
            vec![Box::new(id.to_owned())],
        ),
        RowChange::Withdraw { seq } => SqlCall::new(
            format!("DELETE FROM {now} WHERE seq = $1"),
            vec![Box::new(seq)],
        ),
        RowChange::Grant {
            seq,
            role,
            actions,
            mark,
        } => {
            let sql = added_grant(
                table,
                &format!("$1::bigint, $3::text, $4::bigint, $2::bigint, {END}"),
            );
            let role = role.to_owned();
            let all: Vec<SqlParameter> = vec![
                Box::new(seq),
                Box::new(mark.0),
                Box::new(role),
                Box::new(actions),
            ];
            SqlCall::new(sql, all)
        }
        RowChange::Grants { seq, mark, change } => grants_change(table, seq, mark, change),
        RowChange::Schedule { id, at: Some(at) } => SqlCall::new(
            format!(
                "INSERT INTO {schedule} (id, at) VALUES ($1, $2) \
                 ON CONFLICT (id) DO UPDATE SET at = excluded.at"
            ),
            vec![Box::new(id.to_owned()), Box::new(at.0)],
        ),
        RowChange::Schedule { id, at: None } => SqlCall::new(
            format!("DELETE FROM {schedule} WHERE id = $1"),
            vec![Box::new(id.to_owned())],
        ),
    }
}

/// Adds a grant behind all others of the table.
fn added_grant(table: &Table, values: &str) -> String {
    let grants = names::grants(table.number);
    format!(
        "INSERT INTO {grants} (nth, seq, role, actions, sf, st) \
         SELECT coalesce((SELECT max(nth) FROM {grants}), 0) + 1, {values}"
    )
}

fn grants_change(table: &Table, seq: i64, mark: Mark, change: GrantsChange) -> SqlCall {
    let grants = names::grants(table.number);
    let sql = match change {
        GrantsChange::Close => {
            format!("UPDATE {grants} SET st = $2 WHERE seq = $1 AND st = {END}")
        }
        GrantsChange::Drop => {
            format!("DELETE FROM {grants} WHERE seq = $1 AND st = {END} AND sf = $2")
        }
        GrantsChange::Reopen => format!(
            "UPDATE {grants} SET st = {END} WHERE seq = $1 AND st = $2 AND role <> '{LIFE}'"
        ),
        GrantsChange::EndLife => added_grant(
            table,
            &format!("$1::bigint, '{LIFE}', 0, $2::bigint, $2::bigint"),
        ),
        GrantsChange::ResumeLife => {
            format!("DELETE FROM {grants} WHERE seq = $1 AND st = $2 AND role = '{LIFE}'")
        }
    };
    SqlCall::new(sql, vec![Box::new(seq), Box::new(mark.0)])
}
