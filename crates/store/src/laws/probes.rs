//! Constraints over valid time, checked at the end of a batch against everything known then.
//!
//! With one writer this is exact, and costs a probe of an index for each piece that was written
//! and each key. Belief in the past needs no check: what was consistent at its own mark stays so.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Field, Index, IndexColumn, IndexKind, Period, RowId, Table, TableNumber, Value};

use super::halt::{Halt, Step};
use super::period_search::SharedKey;
use super::run::{RowStore, Run};
use super::versions::{Stored, VersionsWanted};
use crate::refusal::Refusal;

impl<D: RowStore> Run<'_, D> {
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
            let mut fields = index.columns.iter().map(|part| part.field);
            let shown = if fields.any(|field| field == Field::Updated) {
                self.as_shown(table, id)?
            } else {
                None
            };
            for piece in pieces.iter().chain(&shown) {
                let clash = self.clash(table, SharedKey::Index(index), id, piece)?;
                if clash.is_some() {
                    return Err(Refusal::unique(index.key.as_str(), clash).into());
                }
            }
        }
        for key in keys {
            for piece in &pieces {
                let clash = self.clash(table, SharedKey::OverTime(&key), id, piece)?;
                if let Some((other, shared)) = clash {
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
        let rows = self.rows();
        let Some(shown) = rows.shown(table, id.as_str())? else {
            return Ok(None);
        };
        let version = VersionsWanted::Numbered(shown.number);
        let version = rows.versions(table, id.as_str(), version)?.pop();
        Ok(version.map(|mut version| {
            Arc::make_mut(&mut version.value).updated = shown.updated;
            version
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
            let pieces = self.pieces_written(table, id)?;
            let refers = |piece: &Stored| match &piece.value.values[position] {
                Value::Text(target) => Some((target.clone(), piece.valid)),
                _ => None,
            };
            let referring: Vec<(String, Period)> = pieces.iter().filter_map(refers).collect();
            self.need_covered(&related, &referring, (table, position))?;
        }
        for (holder, column) in self.state.constraints.references_to(table.number) {
            let holder = self.table_numbered(holder)?;
            let Some(position) = holder.columns.iter().position(|c| c.number == column) else {
                continue;
            };
            let rows = self.rows();
            let referring = rows.periods_referring(&holder, position, id.as_str())?;
            let from = referring.iter().map(Period::from).min();
            let end = referring.iter().map(Period::end).max();
            let (Some(from), Some(end)) = (from, end) else {
                continue;
            };
            let Some(within) = Period::spanning(from, end) else {
                continue;
            };
            let covered = self.covered(table, &[(id.as_str(), within)])?.concat();
            for valid in referring {
                self.need_within(&covered, table, id.as_str(), valid, (&holder, position))?;
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`Refusal::ReferenceOverTime`] when one of these rows is not there at each instant of the
    /// period next to it.
    pub(crate) fn need_covered(
        &self,
        related: &Table,
        referring: &[(String, Period)],
        holder: (&Table, usize),
    ) -> Step<()> {
        let wanted = referring.iter().map(|(target, valid)| (&**target, *valid));
        let wanted: Vec<(&str, Period)> = wanted.collect();
        for (covered, (target, valid)) in self.covered(related, &wanted)?.iter().zip(wanted) {
            self.need_within(covered, related, target, valid, holder)?;
        }
        Ok(())
    }

    /// Where each of these rows is there, as known now, of what is valid in the period next to it:
    /// what is joined is given as one.
    pub(crate) fn covered(
        &self,
        table: &Table,
        wanted: &[(&str, Period)],
    ) -> Step<Vec<Vec<Period>>> {
        let found = self.rows().valid_periods(table, wanted)?;
        Ok(found.into_iter().map(joined).collect())
    }

    /// # Errors
    /// As [`Run::need_covered`], where the row is there in these periods and in no others.
    pub(crate) fn need_within(
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

    /// Another row with the same values in `key` as `piece` of the row `id` has, at an instant
    /// that both share. Null equals nothing.
    pub(crate) fn clash(
        &self,
        table: &Table,
        key: SharedKey<'_>,
        id: &RowId,
        piece: &Stored,
    ) -> Step<Option<(RowId, Period)>> {
        let value = |field: Field| match field {
            Field::Column(position) => piece.value.values[position].clone(),
            Field::Created => Value::Instant(piece.value.created),
            Field::Updated => Value::Instant(piece.value.updated),
            Field::Id => Value::Text(id.to_string()),
            // It belongs to one id for ever; and no index is of the ends of rows.
            Field::Sequence | Field::Span(_) => Value::Null,
        };
        let values: Vec<Value> = match key {
            SharedKey::Index(index) => {
                let fields = index.columns.iter().map(|part| part.field);
                fields.map(value).collect()
            }
            SharedKey::OverTime(columns) => {
                let columns = columns.iter();
                columns.map(|at| piece.value.values[*at].clone()).collect()
            }
        };
        if values.contains(&Value::Null) {
            return Ok(None);
        }
        let valid = piece.piece_now().map_or(piece.valid, |piece| piece.valid);
        let found = self
            .rows()
            .sharer(table, key, &values, id.as_str(), valid)?;
        let shared = found.map(|(other, period)| Some((other, period.intersect(&valid)?)));
        Ok(shared.flatten())
    }
}

/// The periods, in order, with those that meet as one.
fn joined(periods: Vec<Period>) -> Vec<Period> {
    let mut joined: Vec<Period> = Vec::new();
    for valid in periods {
        let last = joined.last_mut();
        match last.filter(|last| last.end() >= valid.from()) {
            Some(last) => {
                let end = last.end().max(valid.end());
                *last = Period::spanning(last.from(), end).unwrap_or(*last);
            }
            None => joined.push(valid),
        }
    }
    joined
}
