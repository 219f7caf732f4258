//! The indexes behind what must hold over valid time, made of what is stored.

use model::Table;
use rusqlite::Connection;

use crate::StoreError;
use crate::batch::Constraint;
use crate::laws::constrain::is_of;
use crate::sqlite::schema::constraints::stored;
use crate::stored::keys_over_time::create_index;

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

#[cfg(test)]
mod tests {
    use model::ColumnKind;
    use testing::{plain_column, plain_table};

    use super::*;
    use crate::sqlite::schema::tables::{END, create_table};
    use crate::sqlite::write::period_search::key_sql;
    use crate::stored::keys_over_time::held;
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
