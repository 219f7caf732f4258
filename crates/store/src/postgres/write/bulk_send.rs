//! What is left of a group, as one array statement for each kind and table.

use model::Mark;
use model::history::{Cut, VersionNumber};
use query::names;

use super::array_lists::ArrayLists;
use super::rows::END;
use super::session::SqlCall;
use super::user_values::ValuesOfRow;
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::held_row::{HeldNow, WrittenBody};
use crate::laws::unsent::UnsentTable;
use crate::postgres::cells::SqlParameter;
use crate::vault::Vault;

/// The statements that write it, in their order.
pub(super) fn calls_of(unsent: &UnsentTable, vault: &Vault) -> Result<Vec<SqlCall>, StoreError> {
    let mut calls = Vec::new();
    add_versions(unsent, vault, &mut calls)?;
    add_rows(unsent, vault, &mut calls)?;
    add_schedule(unsent, &mut calls);
    add_grants(unsent, &mut calls);
    Ok(calls)
}

/// Each of these rows goes.
fn removal(table: &str, key: &str, gone: &[i64]) -> Option<SqlCall> {
    if gone.is_empty() {
        return None;
    }
    let sql = format!("DELETE FROM {table} WHERE {key} = ANY($1::bigint[])");
    let all: Vec<SqlParameter> = vec![Box::new(gone.to_vec())];
    Some(SqlCall::checked(&sql, all, gone.len()))
}

fn insertion(table: &str, lists: ArrayLists) -> SqlCall {
    let (names, values, rows) = (lists.names(), lists.values(), lists.rows());
    let sql = format!("INSERT INTO {table} ({names}) SELECT {values} FROM {rows}");
    SqlCall::new(sql, lists.into_parameters())
}

/// The first column of the lists finds the row.
fn change(table: &str, key: &str, lists: ArrayLists, count: usize) -> SqlCall {
    let sql = format!(
        "UPDATE {table} AS t SET {} FROM {} WHERE t.{key} = u.{key}",
        lists.assignments(),
        lists.rows()
    );
    // `RETURNING 1` names no column, so nothing in it is ambiguous.
    SqlCall::checked(&sql, lists.into_parameters(), count)
}

fn end_of(mark: Option<Mark>) -> i64 {
    mark.map_or(END, |mark| mark.0)
}

fn add_versions(
    unsent: &UnsentTable,
    vault: &Vault,
    calls: &mut Vec<SqlCall>,
) -> Result<(), StoreError> {
    let versions = names::versions(unsent.table.number);
    let number = |number: &VersionNumber| number.0;
    let removed: Vec<i64> = unsent.versions_removed.iter().map(number).collect();
    calls.extend(removal(&versions, "rid", &removed));
    let cut_at = |cut: Option<Cut>| cut.map_or(END, |cut| cut.mark.0);
    let cut_to = |cut: Option<Cut>| cut.map_or(END, |cut| cut.valid_to.0);
    let changed = &unsent.versions_changed;
    if !changed.is_empty() {
        let mut lists = ArrayLists::default();
        lists.numbers("rid", changed.iter().map(|one| one.number.0));
        lists.numbers("cut_tt", changed.iter().map(|one| cut_at(one.cut)));
        lists.numbers("cut_vt", changed.iter().map(|one| cut_to(one.cut)));
        lists.numbers("st", changed.iter().map(|one| end_of(one.gone)));
        lists.numbers("twin", changed.iter().map(|one| i64::from(one.is_twin)));
        calls.push(change(&versions, "rid", lists, changed.len()));
    }
    let added = &unsent.versions_added;
    if added.is_empty() {
        return Ok(());
    }
    let version = || added.iter().map(|one| &one.held.version);
    let mut lists = ArrayLists::default();
    lists.numbers("rid", version().map(|one| one.number.0));
    lists.texts("id", added.iter().map(|one| one.id.to_string()));
    lists.numbers("vf", version().map(|one| one.valid.from().0));
    lists.numbers("vt", version().map(|one| one.valid.end().0));
    lists.numbers("sf", version().map(|one| one.sys_from.0));
    lists.numbers("cut_tt", version().map(|one| cut_at(one.cut)));
    lists.numbers("cut_vt", version().map(|one| cut_to(one.cut)));
    lists.numbers("st", version().map(|one| end_of(one.gone)));
    lists.numbers("origin", version().map(|one| one.origin.0));
    lists.numbers("seq", added.iter().map(|one| one.seq));
    lists.numbers("created", version().map(|one| one.value.created.0));
    lists.numbers("updated", version().map(|one| one.value.updated.0));
    lists.numbers("twin", added.iter().map(|one| i64::from(one.held.is_twin)));
    let values = added.iter().map(|one| ValuesOfRow {
        id: one.id.as_str(),
        values: &one.held.version.value.values,
        left: &one.held.version.value.damaged,
    });
    lists.user_columns(&unsent.table, &values.collect::<Vec<_>>(), vault)?;
    calls.push(insertion(&versions, lists));
    Ok(())
}

fn add_rows(
    unsent: &UnsentTable,
    vault: &Vault,
    calls: &mut Vec<SqlCall>,
) -> Result<(), StoreError> {
    let now = names::now(unsent.table.number);
    calls.extend(removal(&now, "seq", &unsent.rows_removed));
    let adjusted = &unsent.rows_adjusted;
    if !adjusted.is_empty() {
        let mut lists = ArrayLists::default();
        lists.numbers("seq", adjusted.iter().map(|row| row.seq));
        lists.texts(
            "perms",
            adjusted.iter().map(|row| row.image.permissions.to_string()),
        );
        lists.numbers("updated", adjusted.iter().map(|row| row.image.updated.0));
        lists.numbers("twin", adjusted.iter().map(|row| i64::from(row.is_twin)));
        calls.push(change(&now, "seq", lists, adjusted.len()));
    }
    if !unsent.rows_changed.is_empty() {
        let lists = whole_rows(unsent, &unsent.rows_changed, vault)?;
        calls.push(change(&now, "seq", lists, unsent.rows_changed.len()));
    }
    if !unsent.rows_added.is_empty() {
        let lists = whole_rows(unsent, &unsent.rows_added, vault)?;
        calls.push(insertion(&now, lists));
    }
    Ok(())
}

fn whole_rows(
    unsent: &UnsentTable,
    rows: &[HeldNow],
    vault: &Vault,
) -> Result<ArrayLists, StoreError> {
    let written = |row: &HeldNow| row.body.clone();
    let bodies: Option<Vec<_>> = rows.iter().map(written).collect();
    let bodies = bodies.ok_or_else(|| corrupt("a row is written whose body was not"))?;
    let bytes = |body: &WrittenBody| body.body.as_deref().map(<[u8]>::to_vec);
    let mut lists = ArrayLists::default();
    lists.numbers("seq", rows.iter().map(|row| row.seq));
    lists.texts("id", rows.iter().map(|row| row.id.to_string()));
    lists.numbers("vf", rows.iter().map(|row| row.image.valid.from().0));
    lists.numbers("vt", rows.iter().map(|row| row.image.valid.end().0));
    lists.numbers("sf", rows.iter().map(|row| row.image.system_from.0));
    lists.numbers("origin", rows.iter().map(|row| row.origin.0));
    lists.numbers("created", rows.iter().map(|row| row.image.created.0));
    lists.numbers("updated", rows.iter().map(|row| row.image.updated.0));
    lists.numbers("rid", rows.iter().map(|row| row.version.0));
    lists.numbers("twin", rows.iter().map(|row| i64::from(row.is_twin)));
    lists.numbers(
        "body_epoch",
        bodies.iter().map(|body| body.schema_epoch as i64),
    );
    lists.texts(
        "perms",
        rows.iter().map(|row| row.image.permissions.to_string()),
    );
    lists.maybe_bytes("body", bodies.iter().map(|body| bytes(body)));
    let values = rows.iter().map(|row| ValuesOfRow {
        id: row.id.as_str(),
        values: &row.image.values,
        left: &row.damaged,
    });
    lists.user_columns(&unsent.table, &values.collect::<Vec<_>>(), vault)?;
    Ok(lists)
}

fn add_schedule(unsent: &UnsentTable, calls: &mut Vec<SqlCall>) {
    let schedule = names::schedule(unsent.table.number);
    let all = &unsent.schedule;
    let never = all.iter().filter(|(_, at)| at.is_none());
    let never: Vec<String> = never.map(|(id, _)| id.to_string()).collect();
    if !never.is_empty() {
        let sql = format!("DELETE FROM {schedule} WHERE id = ANY($1::text[])");
        calls.push(SqlCall::new(sql, vec![Box::new(never)]));
    }
    let due = || all.iter().filter_map(|(id, at)| Some((id, (*at)?)));
    if due().next().is_some() {
        let mut lists = ArrayLists::default();
        lists.texts("id", due().map(|(id, _)| id.to_string()));
        lists.numbers("at", due().map(|(_, at)| at.0));
        let sql = format!(
            "INSERT INTO {schedule} (id, at) SELECT u.id, u.at FROM {} \
             ON CONFLICT (id) DO UPDATE SET at = excluded.at",
            lists.rows()
        );
        calls.push(SqlCall::new(sql, lists.into_parameters()));
    }
}

fn add_grants(unsent: &UnsentTable, calls: &mut Vec<SqlCall>) {
    let grants = names::grants(unsent.table.number);
    calls.extend(removal(&grants, "nth", &unsent.grants_removed));
    let changed = &unsent.grants_changed;
    if !changed.is_empty() {
        let mut lists = ArrayLists::default();
        lists.numbers("nth", changed.iter().map(|(number, _)| *number));
        lists.numbers("st", changed.iter().map(|(_, until)| end_of(*until)));
        calls.push(change(&grants, "nth", lists, changed.len()));
    }
    let added = &unsent.grants_added;
    if !added.is_empty() {
        let mut lists = ArrayLists::default();
        lists.numbers("nth", added.iter().map(|(_, grant)| grant.number));
        lists.numbers("seq", added.iter().map(|(seq, _)| *seq));
        lists.texts(
            "role",
            added.iter().map(|(_, grant)| grant.role.to_string()),
        );
        lists.numbers("actions", added.iter().map(|(_, grant)| grant.actions));
        lists.numbers("sf", added.iter().map(|(_, grant)| grant.from.0));
        lists.numbers("st", added.iter().map(|(_, grant)| end_of(grant.until)));
        calls.push(insertion(&grants, lists));
    }
}
