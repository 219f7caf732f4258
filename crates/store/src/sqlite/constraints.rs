//! Constraints over valid time, as tables declare them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ColumnNumber, Period, RowId, Table, TableNumber};
use query::names;
use rusqlite::{Connection, params};

use super::fault::corrupt;
use super::probes::BELIEVED_END;
use super::run::{Run, Step};
use super::schema::END;
use crate::StoreError;
use crate::batch::{Refusal, TableConstraints};

/// The constraints of all tables that have some.
#[derive(Clone, Debug, Default)]
pub(super) struct Constraints(BTreeMap<TableNumber, TableConstraints>);

impl Constraints {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a write to this table may break one.
    pub(super) fn concern(&self, table: TableNumber) -> bool {
        self.0.contains_key(&table)
            || self
                .0
                .values()
                .any(|of| of.refs.iter().any(|(_, to)| *to == table))
    }

    /// The unique keys of a table, by the positions of their columns. One whose column is gone
    /// holds no more.
    pub(super) fn unique_of(&self, table: &Table) -> Vec<Vec<usize>> {
        let keys = self.0.get(&table.number).map(|of| of.unique.as_slice());
        let positions =
            |key: &Vec<ColumnNumber>| key.iter().map(|number| table.numbered(*number)).collect();
        keys.unwrap_or_default()
            .iter()
            .filter_map(positions)
            .collect()
    }

    /// The columns of a table that refer, and the tables they refer to.
    pub(super) fn references_of(&self, table: &Table) -> Vec<(usize, TableNumber)> {
        let refs = self.0.get(&table.number).map(|of| of.refs.as_slice());
        let position =
            |(column, to): &(ColumnNumber, TableNumber)| Some((table.numbered(*column)?, *to));
        refs.unwrap_or_default()
            .iter()
            .filter_map(position)
            .collect()
    }

    /// The tables that refer to this one, and by which columns.
    pub(super) fn references_to(&self, table: TableNumber) -> Vec<(TableNumber, ColumnNumber)> {
        let all = self.0.iter().flat_map(|(holder, of)| {
            let refs = of.refs.iter().filter(|(_, to)| *to == table);
            refs.map(|(column, _)| (*holder, *column))
        });
        all.collect()
    }

    pub(super) fn forget(&mut self, table: TableNumber) {
        self.0.remove(&table);
        for of in self.0.values_mut() {
            of.refs.retain(|(_, to)| *to != table);
        }
    }
}

/// All constraints, as they are stored.
pub(super) fn load(connection: &Connection) -> Result<Constraints, StoreError> {
    let mut statement = connection
        .prepare("SELECT tab, kind, place, columns, related FROM over_time ORDER BY tab, place")?;
    let mut rows = statement.query(())?;
    let mut found = Constraints::default();
    while let Some(row) = rows.next()? {
        let of = found.0.entry(TableNumber(row.get(0)?)).or_default();
        let columns: String = row.get(3)?;
        let columns: Vec<ColumnNumber> = columns
            .split(',')
            .map(|number| number.parse().map(ColumnNumber))
            .collect::<Result<_, _>>()
            .map_err(|_| corrupt("a constraint names no column"))?;
        match row.get::<_, String>(1)?.as_str() {
            "unique" => of.unique.push(columns),
            _ => of.refs.push((columns[0], TableNumber(row.get(4)?))),
        }
    }
    Ok(found)
}

impl Run<'_> {
    /// Gives a table other constraints over valid time. What is known now must keep them.
    pub(super) fn constrain(&mut self, table: &Table, new: &TableConstraints) -> Step<()> {
        let number = table.number;
        for place in 0..self.places(number)? {
            let index = names::constraint_index(number, place);
            self.connection
                .execute_batch(&format!("DROP INDEX IF EXISTS {index};"))?;
        }
        self.statement("DELETE FROM over_time WHERE tab = ?1")?
            .execute(params![number.0])?;
        let keys = new.unique.iter().map(|key| ("unique", key.clone(), None));
        let refs = new.refs.iter();
        let refs = refs.map(|(column, to)| ("ref", vec![*column], Some(to.0)));
        for (place, (kind, columns, related)) in keys.chain(refs).enumerate() {
            let place = place as i64;
            let stored: Vec<String> = columns.iter().map(|c| c.0.to_string()).collect();
            self.statement(
                "INSERT INTO over_time (tab, kind, place, columns, related) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![number.0, kind, place, stored.join(","), related])?;
            let columns: Vec<String> = columns.iter().map(|c| names::column(*c)).collect();
            self.connection.execute_batch(&format!(
                "CREATE INDEX {} ON {} ({}, vf) WHERE st = {END};",
                names::constraint_index(number, place),
                names::versions(number),
                columns.join(", ")
            ))?;
        }
        let all = Arc::make_mut(&mut self.state.constraints);
        all.0.remove(&number);
        if !new.unique.is_empty() || !new.refs.is_empty() {
            all.0.insert(number, new.clone());
        }
        self.need_kept(table, new)?;
        self.constrained = true;
        Ok(())
    }

    /// A row that shares equal values in these columns and an instant with another, as known now.
    pub(super) fn overlap(
        &self,
        table: TableNumber,
        columns: &[String],
    ) -> Step<Option<(RowId, Period)>> {
        // One pass along each key: pieces of one row never overlap, so what begins before all
        // that came before it has ended belongs to another row.
        let key = columns.join(", ");
        let has_value = columns
            .iter()
            .map(|name| format!(" AND {name} IS NOT NULL"));
        let has_value: String = has_value.collect();
        let sql = format!(
            "SELECT id, vf, min(e, before) FROM (\
               SELECT id, vf, {BELIEVED_END} AS e, max({BELIEVED_END}) OVER (\
                 PARTITION BY {key} ORDER BY vf \
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
               FROM {} WHERE st = {END}{has_value}) WHERE vf < before LIMIT 1",
            names::versions(table)
        );
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let other: String = row.get(0)?;
        let other = RowId::new(&other).map_err(|error| corrupt(error.to_string()))?;
        let shared = super::probes::period(row.get(1)?, row.get(2)?)?;
        Ok(Some((other, shared)))
    }

    fn places(&self, table: TableNumber) -> Step<i64> {
        let sql = "SELECT coalesce(max(place) + 1, 0) FROM over_time WHERE tab = ?1";
        Ok(self
            .statement(sql)?
            .query_row(params![table.0], |row| row.get(0))?)
    }

    /// # Errors
    /// [`Refusal::UniqueOverTime`] and [`Refusal::ReferenceOverTime`] for what breaks them today.
    fn need_kept(&self, table: &Table, new: &TableConstraints) -> Step<()> {
        for key in &new.unique {
            let columns: Vec<String> = key.iter().map(|c| names::column(*c)).collect();
            if let Some((other, shared)) = self.overlap(table.number, &columns)? {
                let positions = key.iter().filter_map(|c| table.numbered(*c));
                let columns = positions.map(|at| table.columns[at].key.to_string());
                return Err(Refusal::UniqueOverTime {
                    columns: columns.collect(),
                    other,
                    shared,
                }
                .into());
            }
        }
        for (column, to) in &new.refs {
            let Some(position) = table.numbered(*column) else {
                continue;
            };
            let sql = format!(
                "SELECT {}, vf, {BELIEVED_END} FROM {} WHERE st = {END} AND {} IS NOT NULL",
                names::column(*column),
                names::versions(table.number),
                names::column(*column),
            );
            let related = self.table_numbered(*to)?;
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                let target: String = row.get(0)?;
                let valid = super::probes::period(row.get(1)?, row.get(2)?)?;
                self.need_covered(&related, &target, valid, table, position)?;
            }
        }
        Ok(())
    }
}
