//! Indexes that wait to be built.

use model::{Catalogue, CatalogueChange, IndexStatus, Table, TableNumber};
use store::{CatalogueOp, Op, SchemaChange, WriteBatch};

/// A table and the number of an index that it waits for.
pub(crate) type Build = (TableNumber, u32);

/// The table, if this change leaves it with indexes to be built.
pub(crate) fn table_with_builds(change: &CatalogueChange) -> Option<TableNumber> {
    match change {
        CatalogueChange::TablePut(table) if waiting_indexes(table).next().is_some() => {
            Some(table.number)
        }
        _ => None,
    }
}

/// The numbers of the indexes of `table` that wait to be built.
fn waiting_indexes(table: &Table) -> impl Iterator<Item = u32> {
    let waiting = |index: &&model::Index| index.status == IndexStatus::Processing;
    table
        .indexes
        .iter()
        .filter(waiting)
        .map(|index| index.number)
}

/// An index that waits and has not failed, with the batch that builds it.
pub(crate) fn next_build(catalogue: &Catalogue, failed: &[Build]) -> Option<(Build, WriteBatch)> {
    let databases = catalogue
        .projects()
        .flat_map(|project| project.databases.values());
    let mut tables = databases.flat_map(|database| database.tables.values());
    let (table, number) = tables.find_map(|table| {
        let may_work = |number: &u32| !failed.contains(&(table.number, *number));
        let number = waiting_indexes(table).find(may_work)?;
        Some((table, number))
    })?;
    let batch = WriteBatch {
        catalogue_epoch: catalogue.epoch,
        ops: vec![Op::Catalogue(CatalogueOp::ChangeSchema {
            table: table.clone(),
            change: SchemaChange::BuildIndex(number),
        })],
        author: None,
        unchanged_since: None,
        note: None,
    };
    Some(((table.number, number), batch))
}
