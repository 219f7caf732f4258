//! The tables that entries of rows go into, made when the catalogue is read.

use std::collections::BTreeMap;

use model::{Catalogue, IndexStatus, Relation, Table};
use rusqlite::Connection;

use super::fault::HistoryFault;
use crate::sqlite::constraint::constrain;
use crate::sqlite::schema::tables::{END, create_index, create_table};
use crate::sqlite::schema::{catalogue_read, links};

/// Makes the physical tables of the catalogue, which stand there whole; each with every column it
/// ever had.
pub(crate) fn make_tables(connection: &Connection) -> Result<Vec<Table>, HistoryFault> {
    need_numbers(connection)?;
    let catalogue = &catalogue_read::load_without_rows(connection).map_err(unfit)?;
    let mut made = Vec::new();
    let tables: BTreeMap<i64, _> = catalogue.tables().map(|t| (t.number.0, t)).collect();
    need_all_in_place(connection, tables.len())?;
    for table in tables.values() {
        need_relations(catalogue, table)?;
        let mut ever = Table {
            columns: catalogue_read::columns_ever(connection, table.number).map_err(unfit)?,
            indexes: Vec::new(),
            ..Table::clone(table)
        };
        let mut sql = create_table(&ever);
        // Indexes of words are made when the store is opened, of what it shows then.
        let stands = |index: &&model::Index| {
            index.is_available() && index.kind != model::IndexKind::Fulltext
        };
        for index in table.indexes.iter().filter(stands) {
            sql.push_str(&create_index(table, index));
        }
        for (position, relation) in table.relations() {
            let column = &table.columns[position];
            if relation.holds_links() && needs_table_of_links(table, position, relation) {
                sql.push_str(&links::create(table.number, column.number, relation));
            }
        }
        connection.execute_batch(&sql)?;
        connection.execute(
            "INSERT INTO table_bytes (tab, bytes) VALUES (?1, 0)",
            [table.number.0],
        )?;
        constrain::create_indexes(connection, table).map_err(unfit)?;
        need_past_schemas(connection, table)?;
        ever.indexes.clone_from(&table.indexes);
        made.push(ever);
    }
    Ok(made)
}

/// One is there for lists, and stands in for an index that waits to be built.
fn needs_table_of_links(table: &Table, position: usize, relation: &Relation) -> bool {
    let waits = |index: &&model::Index| {
        let is_over = index
            .columns
            .iter()
            .any(|part| part.field == model::Field::Column(position));
        is_over && index.status == IndexStatus::Processing
    };
    relation.is_list() || table.indexes.iter().any(|index| waits(&index))
}

/// No number of a table or a database may be given a second time.
fn need_numbers(connection: &Connection) -> Result<(), HistoryFault> {
    let sql = "SELECT (SELECT coalesce(max(number), 0) FROM table_) < next_table \
                 AND (SELECT coalesce(max(seq), 0) FROM database_) < next_database FROM meta";
    let are_free: bool = connection.query_row(sql, (), |row| row.get(0))?;
    if are_free {
        return Ok(());
    }
    Err(HistoryFault::Unfit(
        "`nextTable` or `nextDatabase` of the store is a number that was given already".to_owned(),
    ))
}

/// Each table that is known now stands in a database, and that in a project.
fn need_all_in_place(connection: &Connection, found: usize) -> Result<(), HistoryFault> {
    let sql = format!("SELECT count(*) FROM table_ WHERE st = {END}");
    let count: i64 = connection.query_row(&sql, (), |row| row.get(0))?;
    if usize::try_from(count) == Ok(found) {
        return Ok(());
    }
    Err(HistoryFault::Unfit(
        "a table stands in a database, or a database in a project, that is not there".to_owned(),
    ))
}

fn need_relations(catalogue: &Catalogue, table: &Table) -> Result<(), HistoryFault> {
    let project = catalogue.project(table.project.as_str());
    let database = project.and_then(|project| project.databases.get(&table.database));
    for (position, relation) in table.relations() {
        let related = database.and_then(|database| database.tables.get(&relation.related));
        let partner = related.and_then(|related| {
            let at = related.numbered(relation.partner)?;
            related.columns[at].relation()
        });
        let leads_back = partner.is_some_and(|partner| {
            partner.related == table.id && partner.partner == table.columns[position].number
        });
        if !leads_back {
            return Err(HistoryFault::Unfit(format!(
                "the relationship `{}` of table `{}` has no other end",
                table.columns[position].key, table.id
            )));
        }
    }
    Ok(())
}

/// Each schema that a read of the past may ask for can be read.
fn need_past_schemas(connection: &Connection, table: &Table) -> Result<(), HistoryFault> {
    let sql = "SELECT sf FROM table_ WHERE number = ?1 UNION SELECT sf FROM column_ WHERE tab = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let marks = statement.query_map([table.number.0], |row| row.get(0))?;
    for mark in marks {
        catalogue_read::table_at(connection, table.number, mark?).map_err(unfit)?;
    }
    Ok(())
}

/// The catalogue of a file can be wrong where that of a database would be damaged.
fn unfit(error: crate::StoreError) -> HistoryFault {
    match error {
        crate::StoreError::Corrupt { detail } => HistoryFault::Unfit(detail),
        other => other.into(),
    }
}
