//! Giving a table other constraints over valid time.

use std::sync::Arc;

use model::{Table, TableNumber};
use query::names;
use rusqlite::{Connection, params};

use crate::StoreError;
use crate::batch::{CONSTRAINTS_MAX, Constraint, ConstraintChange, TableConstraints};
use crate::laws::halt::Step;
use crate::refusal::Refusal;
use crate::sqlite::schema::constraints::{held, stored};
use crate::sqlite::schema::tables::END;
use crate::sqlite::write::run::SqliteRun;

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

/// Makes the indexes behind the constraints of a table as they are stored.
pub(crate) fn create_indexes(connection: &Connection, table: &Table) -> Result<(), StoreError> {
    for index in index_texts(connection, table)? {
        connection.execute_batch(&index)?;
    }
    Ok(())
}

/// The statements that make them, which are the same for every database.
pub(crate) fn index_texts(
    connection: &Connection,
    table: &Table,
) -> Result<Vec<String>, StoreError> {
    let mut texts = Vec::new();
    for (_, place, constraint) in stored(connection, Some(table.number))? {
        let columns = match &constraint {
            Constraint::Unique(columns) => columns.clone(),
            Constraint::Ref(column, _) => vec![*column],
        };
        let key: Vec<usize> = columns.iter().filter_map(|c| table.numbered(*c)).collect();
        // One whose column is gone holds no more.
        if is_of(table, &constraint) {
            texts.push(create_index(table, &key, place));
        }
    }
    Ok(texts)
}

impl SqliteRun<'_, '_> {
    /// Changes the constraints of a table over valid time. What is known now must keep those that
    /// are new.
    pub(crate) fn constrain(&mut self, table: &Table, change: &ConstraintChange) -> Step<()> {
        let number = table.number;
        let mut before = Vec::new();
        for (_, place, constraint) in stored(self.rows.connection, Some(number))? {
            if is_of(table, &constraint) {
                before.push((place, constraint));
            } else {
                // Its column is gone.
                self.drop_constraint(number, place)?;
            }
        }
        let after = changed(before.iter().map(|(_, constraint)| constraint), change)?;
        let wanted: Vec<Constraint> = after.each().collect();
        for (place, constraint) in &before {
            if !wanted.contains(constraint) {
                self.drop_constraint(number, *place)?;
            }
        }
        let is_new = |constraint: &&Constraint| before.iter().all(|(_, old)| old != *constraint);
        let new: Vec<&Constraint> = wanted.iter().filter(is_new).collect();
        for constraint in &new {
            self.add_constraint(table, constraint)?;
        }
        Arc::make_mut(&mut self.state.constraints).set(number, &after);
        for constraint in new {
            self.need_kept(table, constraint)?;
        }
        self.constrained = true;
        Ok(())
    }

    fn drop_constraint(&self, table: TableNumber, place: i64) -> Step<()> {
        let index = names::constraint_index(table, place);
        self.rows
            .connection
            .execute_batch(&format!("DROP INDEX IF EXISTS {index};"))?;
        self.statement("DELETE FROM over_time WHERE tab = ?1 AND place = ?2")?
            .execute(params![table.0, place])?;
        Ok(())
    }

    fn add_constraint(&self, table: &Table, constraint: &Constraint) -> Step<()> {
        let (kind, columns, related) = match constraint {
            Constraint::Unique(columns) => ("unique", columns.clone(), None),
            Constraint::Ref(column, to) => ("ref", vec![*column], Some(to.0)),
        };
        let numbers: Vec<String> = columns.iter().map(|c| c.0.to_string()).collect();
        let sql = "INSERT INTO over_time (tab, kind, place, columns, related) \
                   SELECT ?1, ?2, coalesce(max(place) + 1, 0), ?3, ?4 \
                   FROM over_time WHERE tab = ?1 RETURNING place";
        let parameters = params![table.number.0, kind, numbers.join(","), related];
        let place: i64 = self
            .statement(sql)?
            .query_row(parameters, |row| row.get(0))?;
        let key: Vec<usize> = columns.iter().filter_map(|c| table.numbered(*c)).collect();
        self.rows
            .connection
            .execute_batch(&create_index(table, &key, place))?;
        Ok(())
    }
}

/// Whether the table has its columns.
fn is_of(table: &Table, constraint: &Constraint) -> bool {
    let has = |column| table.numbered(column).is_some();
    match constraint {
        Constraint::Unique(columns) => columns.iter().all(|column| has(*column)),
        Constraint::Ref(column, _) => has(*column),
    }
}

/// # Errors
/// What is to be added is there, or too much; what is to be removed is not there.
fn changed<'c>(
    before: impl Iterator<Item = &'c Constraint>,
    change: &ConstraintChange,
) -> Result<TableConstraints, Refusal> {
    let mut all: Vec<Constraint> = before.cloned().collect();
    let added = match change {
        ConstraintChange::Replace(new) => return Ok(new.clone()),
        ConstraintChange::Add(new) => new.each().collect(),
        ConstraintChange::Remove(old) => {
            for old in old.each() {
                let place = all.iter().position(|constraint| *constraint == old);
                all.remove(place.ok_or(Refusal::ConstraintNotFound)?);
            }
            Vec::new()
        }
    };
    if added.iter().any(|new| all.contains(new)) {
        return Err(Refusal::ConstraintExists);
    }
    let is_longer = !added.is_empty();
    let mut after = TableConstraints::default();
    for constraint in all.into_iter().chain(added) {
        after.add(constraint);
    }
    let constraints_max = CONSTRAINTS_MAX;
    if is_longer && after.unique.len().max(after.refs.len()) > constraints_max {
        return Err(Refusal::TooManyConstraints { constraints_max });
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use model::ColumnKind;
    use testing::{plain_column, plain_table};

    use super::*;
    use crate::sqlite::schema::tables::create_table;
    use crate::sqlite::write::period_search::key_sql;
    use crate::stored::overlaps::overlap_sql;

    fn table() -> Table {
        let kinds = [
            ColumnKind::Text,
            ColumnKind::Integer { min: 0, max: 9 },
            ColumnKind::Varchar { chars_max: 20 },
        ];
        let column =
            |(kind, number): (ColumnKind, u32)| plain_column(number, &format!("k{number}"), kind);
        plain_table("t", kinds.into_iter().zip(1..).map(column).collect())
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
                1,
            ),
        );
        assert!(plan.contains("USING INDEX t1_v_k0"), "{plan}");
        assert!(!plan.contains("B-TREE FOR ORDER BY"), "{plan}");
    }
}
