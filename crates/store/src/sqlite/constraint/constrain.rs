//! Giving a table other constraints over valid time.

use std::sync::Arc;

use model::{Period, RowId, Table, TableNumber};
use query::names;
use rusqlite::params;

use super::probes::{BELIEVED_END, period};
use crate::batch::TableConstraints;
use crate::refusal::Refusal;
use crate::sqlite::disk::fault::corrupt;
use crate::sqlite::schema::constraints::{beginnings, held};
use crate::sqlite::schema::tables::END;
use crate::sqlite::write::halt::Step;
use crate::sqlite::write::run::Run;

fn create_index(table: &Table, key: &[usize], place: i64) -> String {
    let terms = held(table, key).into_iter().map(|(name, held)| match held {
        None => name,
        Some(chars) => names::beginning(&name, chars),
    });
    format!(
        "CREATE INDEX {} ON {} ({}, vf) WHERE st = {END};",
        names::constraint_index(table.number, place),
        names::versions(table.number),
        terms.collect::<Vec<_>>().join(", ")
    )
}

/// Looks for two rows that share values in these columns, and an instant. One pass along each key:
/// pieces of one row never overlap, so what begins before all that came before it has ended belongs
/// to another row.
fn overlap_sql(table: TableNumber, columns: &[String]) -> String {
    let key = columns.join(", ");
    let has_value = columns
        .iter()
        .map(|name| format!(" AND {name} IS NOT NULL"));
    let has_value: String = has_value.collect();
    format!(
        "SELECT id, vf, min(e, before) FROM (\
           SELECT id, vf, {BELIEVED_END} AS e, max({BELIEVED_END}) OVER (\
             PARTITION BY {key} ORDER BY vf \
             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
           FROM {} WHERE st = {END}{has_value}) WHERE vf < before LIMIT 1",
        names::versions(table)
    )
}

impl Run<'_> {
    /// Gives a table other constraints over valid time. What is known now must keep them.
    pub(crate) fn constrain(&mut self, table: &Table, new: &TableConstraints) -> Step<()> {
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
            let key: Vec<usize> = columns.iter().filter_map(|c| table.numbered(*c)).collect();
            self.connection
                .execute_batch(&create_index(table, &key, place))?;
        }
        Arc::make_mut(&mut self.state.constraints).set(number, new);
        self.need_kept(table, new)?;
        self.constrained = true;
        Ok(())
    }

    /// A row that shares equal values in these columns and an instant with another, as known now.
    pub(crate) fn overlap(
        &self,
        table: TableNumber,
        columns: &[String],
    ) -> Step<Option<(RowId, Period)>> {
        let sql = overlap_sql(table, columns);
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let other: String = row.get(0)?;
        let other = RowId::new(&other).map_err(|error| corrupt(error.to_string()))?;
        let shared = period(row.get(1)?, row.get(2)?)?;
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
            let key: Vec<usize> = key.iter().filter_map(|c| table.numbered(*c)).collect();
            // In the order of the index, so that no more is sorted than has one beginning.
            let mut columns = beginnings(table, &key);
            columns.extend(held(table, &key).into_iter().map(|(name, _)| name));
            if let Some((other, shared)) = self.overlap(table.number, &columns)? {
                let columns = key.iter().map(|at| table.columns[*at].key.to_string());
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
                let valid = period(row.get(1)?, row.get(2)?)?;
                self.need_covered(&related, &target, valid, table, position)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::{
        Column, ColumnKey, ColumnKind, ColumnNumber, DatabaseId, ProjectId, TableId, TableOptions,
        Timestamp,
    };
    use rusqlite::Connection;

    use super::*;
    use crate::sqlite::constraint::probes::key_sql;
    use crate::sqlite::schema::tables::create_table;

    fn table() -> Table {
        let kinds = [
            ColumnKind::Text,
            ColumnKind::Integer { min: 0, max: 9 },
            ColumnKind::Varchar { chars_max: 20 },
        ];
        let column = |(kind, number): (ColumnKind, u32)| Column {
            number: ColumnNumber(number),
            key: ColumnKey::new(&format!("k{number}")).unwrap(),
            kind,
            required: false,
            array: false,
            encrypt: false,
            default: None,
            created: Timestamp(0),
            updated: Timestamp(0),
        };
        Table {
            number: TableNumber(1),
            project: ProjectId::new("p").unwrap(),
            database: DatabaseId::new("d").unwrap(),
            id: TableId::new("t").unwrap(),
            name: String::new(),
            enabled: true,
            row_security: false,
            permissions: vec![],
            columns: kinds.into_iter().zip(1..).map(column).collect(),
            indexes: vec![],
            created: Timestamp(0),
            updated: Timestamp(0),
            schema_epoch: 1,
            permission_epoch: 1,
            options: TableOptions::default(),
        }
    }

    /// How SQLite runs `sql` where the table has this index.
    fn plan(table: &Table, index: &str, sql: &str) -> String {
        let connection = Connection::open_in_memory().unwrap();
        let schema = create_table(table) + index;
        connection.execute_batch(&schema).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {sql}");
        let mut statement = connection.prepare(&sql).unwrap();
        let mut steps = statement.raw_query();
        let mut plan = String::new();
        while let Some(step) = steps.next().unwrap() {
            plan += &step.get::<_, String>(3).unwrap();
            plan += "; ";
        }
        plan
    }

    #[test]
    fn key_is_looked_up_in_its_index_whether_that_holds_beginnings_or_whole_texts() {
        let table = table();
        for key in [&[0][..], &[1], &[1, 0], &[0, 2]] {
            let whole: Vec<String> = held(&table, key).into_iter().map(|of| of.0).collect();
            let former = format!(
                "CREATE INDEX former ON t1_v ({}, vf) WHERE st = {END};",
                whole.join(", ")
            );
            for index in [create_index(&table, key, 0), former] {
                let plan = plan(&table, &index, &key_sql(&table, key));
                assert!(!plan.contains("SCAN"), "{index}: {plan}");
                assert!(
                    plan.contains("t1_v_k0") || plan.contains("former"),
                    "{plan}"
                );
                assert_eq!(plan.matches("=?").count(), key.len(), "{plan}");
            }
        }
    }

    #[test]
    fn entries_of_the_index_stay_small() {
        let index = create_index(&table(), &[0, 1, 2], 4);
        let held = "CREATE INDEX t1_v_k4 ON t1_v \
                    (substr(c1, 1, 120), c2, substr(c3, 1, 120), vf)";
        assert!(index.starts_with(held), "{index}");
    }

    #[test]
    fn overlaps_are_looked_for_along_the_index() {
        let table = table();
        let plan = plan(
            &table,
            &create_index(&table, &[0], 0),
            &overlap_sql(
                table.number,
                &["substr(c1, 1, 240)".to_owned(), "c1".to_owned()],
            ),
        );
        assert!(plan.contains("USING INDEX t1_v_k0"), "{plan}");
        assert!(!plan.contains("B-TREE FOR ORDER BY"), "{plan}");
    }
}
