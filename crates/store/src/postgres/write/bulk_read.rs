//! How PostgreSQL reads all rows that a group names: five statements a table, in one round trip.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use model::history::VersionNumber;
use model::{Image, IndexKind, Mark, Table, Timestamp, Value};
use query::field;
use query::names::{self, LIFE};
use tokio_postgres::Row;

use super::rows::{END, PostgresRows, columns_of, row_id, stored_period, version_of};
use super::session::SqlCall;
use super::user_values::values_found;
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::bulk_rows::{RowsRead, RowsWanted, TableCounts};
use crate::laws::held_row::{HeldGrant, HeldNow, HeldRow};
use crate::postgres::cells::{self, SqlParameter};
use crate::postgres::row_tables::index_tests;
use crate::vault::StoreKeys;

/// So many of the versions known now are held of a row, the last ones: that of an everyday change,
/// and the one before it.
const HELD_MAX: usize = 2;
/// Statements a table.
const CALLS: usize = 5;
/// The columns of a row of now, before those of the user.
const NOW: &str = "x.id, x.seq, x.rid, x.sf, x.created, x.updated, x.perms, x.vf, x.vt, x.origin, \
                   x.twin";
const NOW_COLUMNS: usize = 11;

impl PostgresRows<'_> {
    /// See [`crate::laws::bulk_rows::BulkRows::read`].
    pub(super) fn read_all(&self, wanted: &[RowsWanted<'_>]) -> Result<Vec<RowsRead>, StoreError> {
        let mut calls = Vec::with_capacity(CALLS * wanted.len());
        for of_table in wanted {
            let columns = self.version_columns(of_table.table)?;
            let named = NamedIds::new(of_table);
            calls.extend(calls_of(of_table, &named, &columns));
        }
        let found = self.session.burst(&calls)?;
        let of_tables = wanted.iter().zip(found.chunks_exact(CALLS));
        of_tables
            .map(|(wanted, found)| rows_read(wanted, found, self.keys))
            .collect()
    }
}

/// The ids that are wanted, and those of the holders of values, as the rows `w` of a statement.
struct NamedIds {
    sql: String,
    ids: Vec<String>,
    holders: Vec<Vec<Value>>,
    storages: Vec<model::Storage>,
}

impl NamedIds {
    fn new(wanted: &RowsWanted<'_>) -> NamedIds {
        let table = wanted.table;
        let ids: BTreeSet<&str> = wanted.ids.iter().copied().collect();
        let mut named = NamedIds {
            sql: "WITH w AS (SELECT unnest($1::text[]) AS id".to_owned(),
            ids: ids.into_iter().map(str::to_owned).collect(),
            holders: Vec::new(),
            storages: Vec::new(),
        };
        // In every statement alike, so that one text stands for each schema of the table.
        let unique =
            |index: &&model::Index| index.kind == IndexKind::Unique && index.is_available();
        for index in table.indexes.iter().filter(unique) {
            let mine = wanted
                .holders
                .iter()
                .filter(|(one, _)| one.number == index.number);
            let rows: Vec<&Vec<Value>> = mine.map(|(_, values)| values).collect();
            let first = 2 + named.holders.len();
            let types = index.columns.iter().zip(first..);
            let lists: Vec<String> = types
                .map(|(part, number)| format!("${number}::{}[]", cells::type_of(table, part.field)))
                .collect();
            let values: Vec<String> = (0..index.columns.len())
                .map(|nth| format!("v{nth}"))
                .collect();
            let tests = index_tests(table, index, "x", |nth| format!("u.v{nth}"));
            write!(
                named.sql,
                " UNION SELECT x.id FROM unnest({}) AS u({}) JOIN {} x ON {tests}",
                lists.join(", "),
                values.join(", "),
                names::now(table.number)
            )
            .expect("a string takes all that is written to it");
            for (nth, part) in index.columns.iter().enumerate() {
                named
                    .holders
                    .push(rows.iter().map(|values| values[nth].clone()).collect());
                named.storages.push(field::storage(table, part.field));
            }
        }
        named.sql.push_str(") ");
        named
    }

    fn parameters(&self) -> Vec<SqlParameter> {
        let mut all: Vec<SqlParameter> = vec![Box::new(self.ids.clone())];
        let lists = self.holders.iter().zip(&self.storages);
        all.extend(lists.map(|(values, storage)| cells::list_parameter(*storage, values.iter())));
        all
    }

    fn call(&self, sql: &str) -> SqlCall {
        SqlCall::new(format!("{}{sql}", self.sql), self.parameters())
    }

    /// With a further parameter, which `sql` gets the number of.
    fn call_with(&self, sql: impl FnOnce(usize) -> String, further: i64) -> SqlCall {
        let mut all = self.parameters();
        all.push(Box::new(further));
        let number = all.len();
        SqlCall::new(format!("{}{}", self.sql, sql(number)), all)
    }
}

fn calls_of(wanted: &RowsWanted<'_>, named: &NamedIds, version: &str) -> [SqlCall; CALLS] {
    let table = wanted.table;
    let (now, versions) = (names::now(table.number), names::versions(table.number));
    let (grants, schedule) = (names::grants(table.number), names::schedule(table.number));
    let seq = format!(
        "CROSS JOIN LATERAL (SELECT coalesce((SELECT x.seq FROM {now} x WHERE x.id = w.id), \
         (SELECT v.seq FROM {versions} v WHERE v.id = w.id AND v.twin = 0 LIMIT 1)) AS seq) s"
    );
    let known = format!(
        "FROM {versions} v WHERE v.id = w.id AND v.st = {END} AND v.twin = 0 ORDER BY v.vf DESC"
    );
    let last = format!("greatest(g.sf, CASE g.st WHEN {END} THEN g.sf ELSE g.st END)");
    let rows = format!(
        "SELECT {NOW}{} FROM w JOIN {now} x ON x.id = w.id",
        columns_of(table, "x")
    );
    let held = format!(
        "SELECT f.* FROM w CROSS JOIN LATERAL ((SELECT {version} {known} LIMIT {HELD_MAX}) \
         UNION ALL SELECT {version} FROM {versions} v \
         WHERE v.rid = (SELECT x.rid FROM {now} x WHERE x.id = w.id)) f"
    );
    let counts = format!(
        "SELECT greatest(coalesce((SELECT max(seq) FROM {now}), 0), \
         coalesce((SELECT max(seq) FROM {versions} WHERE twin = 0), 0)), \
         coalesce((SELECT max(rid) FROM {versions}), 0), \
         coalesce((SELECT max(nth) FROM {grants}), 0), f.at, f.id \
         FROM (SELECT 1) one LEFT JOIN \
         LATERAL (SELECT at, id FROM {schedule} ORDER BY at LIMIT 1) f ON true"
    );
    let changed = if wanted.asks_changes {
        let known =
            |column: &str| format!("CASE v.{column} WHEN {END} THEN v.sf ELSE v.{column} END");
        let last = format!("greatest(v.sf, {}, {})", known("cut_tt"), known("st"));
        format!("SELECT max({last}) FROM {versions} v WHERE v.id = w.id AND v.twin = 0")
    } else {
        "SELECT NULL::bigint".to_owned()
    };
    let beside = |since: usize| {
        format!(
            "SELECT w.id, s.seq, \
             EXISTS (SELECT 1 {known} OFFSET {HELD_MAX} LIMIT 1), \
             EXISTS (SELECT 1 FROM {versions} v WHERE v.id = w.id AND v.twin = 0 \
             AND v.sf < ${since}), \
             (SELECT max({last}) FROM {grants} g WHERE g.seq = s.seq), \
             (SELECT max(g.st) FROM {grants} g WHERE g.seq = s.seq AND g.role = '{LIFE}'), \
             (SELECT d.at FROM {schedule} d WHERE d.id = w.id), ({changed}) FROM w {seq}"
        )
    };
    let open = |since: usize| {
        format!(
            "SELECT w.id, g.nth, g.role, g.actions, g.sf, g.st FROM w {seq} \
             JOIN {grants} g ON g.seq = s.seq AND g.st >= ${since} ORDER BY g.nth"
        )
    };
    [
        named.call_with(beside, wanted.since.0),
        named.call(&rows),
        named.call(&held),
        named.call_with(open, wanted.since.0),
        SqlCall::plain(counts),
    ]
}

fn rows_read(
    wanted: &RowsWanted<'_>,
    found: &[Vec<Row>],
    keys: &StoreKeys,
) -> Result<RowsRead, StoreError> {
    let [beside, now, versions, grants, counts] = found else {
        return Err(corrupt("a burst had another number of answers"));
    };
    let mut rows: HashMap<String, HeldRow> = HashMap::with_capacity(beside.len());
    let mut has_more: HashMap<String, bool> = HashMap::with_capacity(beside.len());
    for row in beside {
        let (id, is_more): (String, bool) = (row.try_get(0)?, row.try_get(2)?);
        let mark = |position| -> Result<Option<Mark>, StoreError> {
            Ok(row.try_get::<_, Option<i64>>(position)?.map(Mark))
        };
        let held = HeldRow {
            seq: row.try_get(1)?,
            // Those from before the group are never removed.
            has_others: is_more || row.try_get(3)?,
            granted: mark(4)?,
            reborn: mark(5)?,
            changed: mark(7)?.or(wanted.asks_changes.then_some(Mark::ZERO)),
            due: row.try_get::<_, Option<i64>>(6)?.map(Timestamp),
            ..HeldRow::default()
        };
        has_more.insert(id.clone(), is_more);
        rows.insert(id, held);
    }
    for row in now {
        row_of(&mut rows, row.try_get(0)?)?.now = Some(now_of(wanted.table, row, keys)?);
    }
    for row in versions {
        let version = version_of(wanted.table, row, keys)?;
        let held = row_of(&mut rows, &version.id)?;
        if held.numbered(version.held.version.number).is_none() {
            held.versions.push(version.held);
        }
    }
    for row in grants {
        let until: i64 = row.try_get(5)?;
        row_of(&mut rows, row.try_get(0)?)?.grants.push(HeldGrant {
            number: row.try_get(1)?,
            role: row.try_get::<_, &str>(2)?.into(),
            actions: row.try_get(3)?,
            from: Mark(row.try_get(4)?),
            until: (until < END).then_some(Mark(until)),
        });
    }
    for (id, row) in &mut rows {
        if has_more[id] {
            row.held_from = held_from(row);
        }
    }
    Ok(RowsRead {
        counts: counts_of(counts)?,
        rows: rows.into_iter().map(|(id, row)| (id.into(), row)).collect(),
    })
}

/// Where the last versions that are known now begin; the one that is shown may lie before them.
fn held_from(row: &HeldRow) -> Option<Timestamp> {
    let known = row
        .versions
        .iter()
        .filter(|held| !held.is_twin && held.version.gone.is_none());
    let mut from: Vec<Timestamp> = known.map(|held| held.version.valid.from()).collect();
    from.sort_unstable();
    let first = from.len().checked_sub(HELD_MAX)?;
    Some(from[first])
}

fn row_of<'r>(
    rows: &'r mut HashMap<String, HeldRow>,
    id: &str,
) -> Result<&'r mut HeldRow, StoreError> {
    let row = rows.get_mut(id);
    row.ok_or_else(|| corrupt("a row was found that was not asked for"))
}

fn now_of(table: &Table, row: &Row, keys: &StoreKeys) -> Result<HeldNow, StoreError> {
    let id = row_id(row.try_get(0)?)?;
    let of_row = (table, id.as_str());
    let (values, damaged) = values_found(&keys.values, (row, NOW_COLUMNS), of_row)?;
    Ok(HeldNow {
        id,
        seq: row.try_get(1)?,
        version: VersionNumber(row.try_get(2)?),
        image: Arc::new(Image {
            created: Timestamp(row.try_get(4)?),
            updated: Timestamp(row.try_get(5)?),
            valid: stored_period(row.try_get(7)?, row.try_get(8)?)?,
            system_from: Mark(row.try_get(3)?),
            permissions: row.try_get::<_, &str>(6)?.into(),
            values,
        }),
        damaged,
        origin: Mark(row.try_get(9)?),
        is_twin: row.try_get::<_, i64>(10)? == 1,
        body: None,
    })
}

fn counts_of(found: &[Row]) -> Result<TableCounts, StoreError> {
    let row = found
        .first()
        .ok_or_else(|| corrupt("a count had no answer"))?;
    let first_due = match (
        row.try_get::<_, Option<i64>>(3)?,
        row.try_get::<_, Option<&str>>(4)?,
    ) {
        (Some(at), Some(id)) => Some((Timestamp(at), row_id(id)?)),
        _ => None,
    };
    Ok(TableCounts {
        highest_seq: row.try_get(0)?,
        highest_version: row.try_get(1)?,
        highest_grant: row.try_get(2)?,
        first_due,
    })
}
