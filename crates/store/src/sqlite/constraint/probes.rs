//! Constraints over valid time, checked at the end of a batch against everything known then.
//!
//! With one writer this is exact, and costs a probe of an index for each piece that was written
//! and each key. Belief in the past needs no check: what was consistent at its own mark stays so.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::history::VersionNumber;
use model::{
    Field, Index, IndexColumn, IndexKind, Period, RowId, Table, TableNumber, Timestamp, Value,
};
use query::names;
use rusqlite::{Connection, OptionalExtension};

use crate::error::corrupt;
use crate::laws::halt::{Halt, Step};
use crate::laws::ledger::StoredRows as _;
use crate::laws::versions::{Stored, VersionsWanted};
use crate::refusal::Refusal;
use crate::sqlite::schema::bind::Bound;
use crate::sqlite::schema::columns::physical_field;
use crate::sqlite::schema::constraints::key_tests;
use crate::sqlite::schema::tables::END;
use crate::sqlite::write::run::Run;
use crate::sqlite::write::stored_rows::stored_period;

/// The end of a version as it is believed now.
pub(crate) const BELIEVED_END: &str =
    "CASE cut_tt WHEN 9223372036854775807 THEN vt ELSE cut_vt END";

impl Run<'_> {
    /// Judges every row that the batch wrote, where something may stand in its way at another
    /// instant than that of the batch: unique values first, then references.
    ///
    /// # Errors
    /// The row over which it halts.
    pub(crate) fn check_over_time(&mut self) -> Result<(), (TableNumber, RowId, Halt)> {
        let rows = self.rows_to_check();
        let uniques = rows
            .iter()
            .map(|row| (row, self.check_unique(&row.0, &row.1)));
        let references = rows
            .iter()
            .map(|row| (row, self.check_references(&row.0, &row.1)));
        for ((table, id), checked) in uniques.chain(references) {
            checked.map_err(|halt| (table.number, id.clone(), halt))?;
        }
        Ok(())
    }

    /// Rows erased, or written over periods, and all others of tables in which something is
    /// scheduled or constrained over time.
    fn rows_to_check(&self) -> Vec<(Arc<Table>, RowId)> {
        let mut known = BTreeSet::new();
        let mut rows = Vec::new();
        let written = self.timed.rows().iter().filter(|row| row.is_changed());
        let written = written.map(|row| (&row.table, &row.id));
        // Something may refer to a row that was erased.
        let erased = self.erased.iter().map(|(table, id)| (table, id));
        for (table, id) in written.chain(erased) {
            if known.insert((table.number, id.as_str())) {
                rows.push((Arc::clone(table), id.clone()));
            }
        }
        if self.state.boundaries.is_empty() && self.state.constraints.is_empty() {
            return rows;
        }
        for (number, id) in self.touched.ids() {
            let Some(table) = self.state.catalogue.table_by_number(number) else {
                continue;
            };
            let is_watched = self.may_change_by_itself(table)
                || self.state.constraints.concern(number)
                || self.watches_links(table);
            if is_watched && known.insert((number, id.as_str())) {
                rows.push((Arc::clone(table), id.clone()));
            }
        }
        rows
    }

    fn check_unique(&self, table: &Table, id: &RowId) -> Step<()> {
        // The one link of a pair is unique before its index is built.
        let is_link = |index: &Index| match index.columns[..] {
            [
                IndexColumn {
                    field: Field::Column(position),
                    ..
                },
            ] => table.columns[position].relation().is_some(),
            _ => false,
        };
        let unique = |index: &&Index| {
            index.kind == IndexKind::Unique && (index.is_available() || is_link(index))
        };
        let mut indexes = table.indexes.iter().filter(unique).peekable();
        let keys = self.state.constraints.unique_of(table);
        if indexes.peek().is_none() && keys.is_empty() {
            return Ok(());
        }
        let pieces = self.pieces_written(table, id)?;
        for index in indexes {
            let fields: Vec<Field> = index.columns.iter().map(|part| part.field).collect();
            let shown = if fields.contains(&Field::Updated) {
                self.as_shown(table, id)?
            } else {
                None
            };
            for piece in pieces.iter().chain(&shown) {
                let clash = clash(self.connection, table, id, &fields, piece)?;
                if clash.is_some() {
                    return Err(Refusal::unique(index.key.as_str(), clash).into());
                }
            }
        }
        for key in keys {
            let fields: Vec<Field> = key
                .iter()
                .map(|position| Field::Column(*position))
                .collect();
            let sql = key_sql(table, &key);
            for piece in &pieces {
                if let Some((other, shared)) = clash_by(self.connection, &sql, id, &fields, piece)?
                {
                    let columns = key.iter();
                    let columns = columns.map(|position| table.columns[*position].key.to_string());
                    return Err(Refusal::UniqueOverTime {
                        columns: columns.collect(),
                        other,
                        shared,
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    /// The piece that the row of now shows, with `$updatedAt` as it is shown: a change of
    /// permissions moves that alone.
    fn as_shown(&self, table: &Table, id: &RowId) -> Step<Option<Stored>> {
        let now = names::now(table.number);
        let sql = format!("SELECT rid, updated FROM {now} WHERE id = ?1");
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found = self.statement(&sql)?.query_row([id.as_str()], read);
        let Some::<(i64, i64)>((rid, updated)) = found.optional()? else {
            return Ok(None);
        };
        let shown = VersionsWanted::Numbered(VersionNumber(rid));
        let shown = self.rows().versions(table, id.as_str(), shown)?.pop();
        Ok(shown.map(|mut shown| {
            Arc::make_mut(&mut shown.value).updated = Timestamp(updated);
            shown
        }))
    }

    /// What this batch made known of a row.
    fn pieces_written(&self, table: &Table, id: &RowId) -> Step<Vec<Stored>> {
        let written = VersionsWanted::WrittenAt(self.mark);
        self.rows().versions(table, id.as_str(), written)
    }

    fn check_references(&self, table: &Table, id: &RowId) -> Step<()> {
        if table.has_relationships() {
            self.check_links(table, &self.pieces_written(table, id)?)?;
        }
        for (position, related) in self.state.constraints.references_of(table) {
            let related = self.table_numbered(related)?;
            for piece in self.pieces_written(table, id)? {
                let Value::Text(target) = &piece.value.values[position] else {
                    continue;
                };
                let valid = piece.valid;
                self.need_covered(&related, target, valid, table, position)?;
            }
        }
        for (holder, column) in self.state.constraints.references_to(table.number) {
            let holder = self.table_numbered(holder)?;
            let Some(position) = holder.columns.iter().position(|c| c.number == column) else {
                continue;
            };
            let referring = self.periods_referring(&holder, position, id)?;
            let from = referring.iter().map(Period::from).min();
            let end = referring.iter().map(Period::end).max();
            let (Some(from), Some(end)) = (from, end) else {
                continue;
            };
            let covered = self.covered(table, id.as_str(), stored_period(from.0, end.0)?)?;
            for valid in referring {
                self.need_within(&covered, table, id.as_str(), valid, (&holder, position))?;
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`Refusal::ReferenceOverTime`] when the row `target` is not there at each instant of
    /// `valid`.
    pub(crate) fn need_covered(
        &self,
        related: &Table,
        target: &str,
        valid: Period,
        holder: &Table,
        position: usize,
    ) -> Step<()> {
        let covered = self.covered(related, target, valid)?;
        self.need_within(&covered, related, target, valid, (holder, position))
    }

    /// Where a row is there, as known now, of what is valid in the period: what is joined is given
    /// as one.
    fn covered(&self, table: &Table, id: &str, within: Period) -> Step<Vec<Period>> {
        let (versions, now) = (names::versions(table.number), names::now(table.number));
        let known = format!(
            "FROM {versions} INDEXED BY {} WHERE id = ?1 AND st = {END} AND twin = 0",
            names::known_index(table.number)
        );
        let sql = format!(
            "SELECT vf, {BELIEVED_END} {known} AND vf < ?3 AND vf >= \
             coalesce((SELECT max(vf) {known} AND vf <= ?2), ?2) \
             UNION ALL SELECT vf, vt FROM {now} WHERE id = ?1 AND twin = 1 ORDER BY 1"
        );
        let mut statement = self.statement(&sql)?;
        let mut rows = statement.query((id, within.from().0, within.end().0))?;
        let mut found: Vec<(i64, i64)> = Vec::new();
        while let Some(row) = rows.next()? {
            let (from, end): (i64, i64) = (row.get(0)?, row.get(1)?);
            match found.last_mut() {
                Some((_, last)) if *last >= from => *last = end.max(*last),
                _ => found.push((from, end)),
            }
        }
        let periods = found
            .into_iter()
            .map(|(from, end)| Ok(stored_period(from, end)?));
        periods.collect()
    }

    fn need_within(
        &self,
        covered: &[Period],
        related: &Table,
        target: &str,
        valid: Period,
        (holder, position): (&Table, usize),
    ) -> Step<()> {
        // Of what lies below its line nothing is known.
        let line = related.options.line(self.mark.timestamp());
        let Ok(valid) = Period::new(valid.from().max(line), valid.to()) else {
            return Ok(());
        };
        let Some(missing) = valid.uncovered(covered).first().copied() else {
            return Ok(());
        };
        let column = holder.columns[position].key.to_string();
        let Ok(target) = RowId::new(target) else {
            return Err(Refusal::Invalid(model::ModelError::InvalidValue {
                column,
                why: "holds no id of a row".to_owned(),
            })
            .into());
        };
        Err(Refusal::ReferenceOverTime {
            column,
            related: related.id.clone(),
            target,
            missing,
        }
        .into())
    }

    pub(crate) fn table_numbered(&self, number: TableNumber) -> Step<Arc<Table>> {
        let table = self.state.catalogue.table_by_number(number);
        Ok(Arc::clone(table.ok_or_else(|| {
            corrupt(format!(
                "a constraint names table {}, which is gone",
                number.0
            ))
        })?))
    }

    /// What is known now to be valid with this link in its column.
    fn periods_referring(&self, holder: &Table, position: usize, id: &RowId) -> Step<Vec<Period>> {
        let sql = format!(
            "SELECT vf, {BELIEVED_END} FROM {} WHERE st = {END}{}",
            names::versions(holder.number),
            key_tests(holder, &[position], 1),
        );
        let mut statement = self.statement(&sql)?;
        let mut rows = statement.query([id.as_str()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(stored_period(row.get(0)?, row.get(1)?)?);
        }
        Ok(found)
    }
}

/// The number of the parameter that holds the first value of a key: the row and the period come
/// before it.
const FIRST_KEY: usize = 4;

/// Another row with the same values in `fields` as `piece` of the row `id` has, at an instant
/// that both share. Null equals nothing.
fn clash(
    connection: &Connection,
    table: &Table,
    id: &RowId,
    fields: &[Field],
    piece: &Stored,
) -> Step<Option<(RowId, Period)>> {
    clash_by(connection, &fields_sql(table, fields), id, fields, piece)
}

/// Looks for a row with equal values in the fields of a user's unique index. Two sources: pieces
/// with a twin stand in no user index of versions, and `$updatedAt` of a row of now may be later
/// than that of its piece.
fn fields_sql(table: &Table, fields: &[Field]) -> String {
    let tests = fields.iter().zip(FIRST_KEY..).flat_map(|(field, number)| {
        let name = physical_field(table, *field);
        [
            " AND ".to_owned(),
            name,
            " = ?".to_owned(),
            number.to_string(),
        ]
    });
    let test: String = tests.collect();
    format!(
        "SELECT id, vf, e FROM (\
           SELECT id, vf, {BELIEVED_END} AS e FROM {versions} \
             WHERE twin = 0 AND st = {END} AND id <> ?1 AND vf < ?3{test} \
           UNION ALL SELECT id, vf, vt FROM {now} \
             WHERE id <> ?1 AND vf < ?3{test}) WHERE e > ?2 LIMIT 1",
        versions = names::versions(table.number),
        now = names::now(table.number),
    )
}

/// The same for the columns of a key over valid time, whose own index has all pieces that are
/// known now. The rows of now have none for it.
pub(crate) fn key_sql(table: &Table, key: &[usize]) -> String {
    format!(
        "SELECT id, vf, {BELIEVED_END} AS e FROM {} \
         WHERE st = {END} AND id <> ?1 AND vf < ?3 AND {BELIEVED_END} > ?2{} LIMIT 1",
        names::versions(table.number),
        key_tests(table, key, FIRST_KEY),
    )
}

pub(crate) fn clash_by(
    connection: &Connection,
    sql: &str,
    id: &RowId,
    fields: &[Field],
    piece: &Stored,
) -> Step<Option<(RowId, Period)>> {
    let value = |field: &Field| match field {
        Field::Column(position) => piece.value.values[*position].clone(),
        Field::Created => Value::Instant(piece.value.created),
        Field::Updated => Value::Instant(piece.value.updated),
        Field::Id => Value::Text(id.to_string()),
        // It belongs to one id for ever; and no index is of the ends of rows.
        Field::Sequence | Field::Span(_) => Value::Null,
    };
    let values: Vec<Value> = fields.iter().map(value).collect();
    if values.contains(&Value::Null) {
        return Ok(None);
    }
    let valid = piece.piece_now().map_or(piece.valid, |piece| piece.valid);
    let bounds = [
        Value::Text(id.to_string()),
        Value::Int(valid.from().0),
        Value::Int(valid.end().0),
    ];
    let parameters: Vec<&Value> = bounds.iter().chain(&values).collect();
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(
        parameters.into_iter().map(Bound),
    ))?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let other: String = row.get(0)?;
    let other = RowId::new(&other).map_err(|error| corrupt(error.to_string()))?;
    let shared = stored_period(row.get(1)?, row.get(2)?)?.intersect(&valid);
    Ok(shared.map(|shared| (other, shared)))
}
