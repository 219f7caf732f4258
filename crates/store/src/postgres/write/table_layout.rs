//! The tables of rows as PostgreSQL has them. What changes them waits but shortly for those who
//! read them: all that write wait behind it.

use model::{Index, Table};
use query::{Dialect, names};

use super::rows::PostgresRows;
use crate::StoreError;
use crate::laws::table_layout::{IndexBuilt, IndexPace, TableLayout, TablesChange};
use crate::postgres::row_tables::{
    UserIndex, add_column, create_indexes, create_links_index, create_tables, drop_index,
    drop_tables, user_indexes,
};
use crate::stored::keys_over_time;

impl TableLayout for PostgresRows<'_> {
    const DIALECT: Dialect = Dialect::Postgres;
    const BEGINS_WORDS: bool = false;

    fn reshape(&self, change: TablesChange<'_>) -> Result<(), StoreError> {
        let (of, statements) = match change {
            TablesChange::Make(table) => (
                table.number,
                create_tables(table.number, &table.columns) + &create_indexes(table),
            ),
            TablesChange::Drop(table) => (table, drop_tables(table)),
            TablesChange::AddColumn(table, column) => (table, add_column(table, column)),
            TablesChange::AddLinks(table, position) => {
                let relation = table.columns[position].relation();
                let relation = relation.expect("only relationships have links");
                let links = create_links_index(table, position, relation.kind);
                (table.number, links)
            }
            TablesChange::DropLinks(table, column) => {
                let links = names::links(table, column);
                (table, format!("DROP INDEX IF EXISTS {links};"))
            }
            TablesChange::AddConstraint(table, key, place) => (
                table.number,
                keys_over_time::create_index(table, key, place),
            ),
            TablesChange::DropConstraint(table, place) => {
                (table, keys_over_time::drop_index(table, place))
            }
            TablesChange::DropIndex(table, index) => (table, drop_index(table, index.number)),
        };
        self.session.reshape(of, &statements)
    }

    /// One that was built outside of any commit is there already.
    fn build_index(
        &self,
        table: &Table,
        index: &Index,
        pace: IndexPace,
    ) -> Result<IndexBuilt, StoreError> {
        let both = user_indexes(table, index);
        if both.is_empty() {
            return Ok(IndexBuilt::Whole);
        }
        if pace == IndexPace::InParts {
            self.remove_half_built(table, &both)?;
        }
        let missing = both.iter().map(|one| one.create("IF NOT EXISTS "));
        let missing: String = missing.collect();
        let is_free = self.session.reshape_if_free(table.number, &missing)?;
        Ok(if is_free {
            IndexBuilt::Whole
        } else {
            IndexBuilt::NotUnique
        })
    }

    /// The server has bounds of its own.
    fn sorting<T>(&self, search: impl FnOnce() -> T) -> Result<T, StoreError> {
        Ok(self.session.patiently(search))
    }

    fn sealing_key(&self) -> Result<String, StoreError> {
        self.keys.values.ready().map(str::to_owned)
    }
}

impl PostgresRows<'_> {
    /// Removes what a build outside of any commit has left half-way: it is there, but no read uses
    /// it, and it does not keep values apart.
    fn remove_half_built(&self, table: &Table, indexes: &[UserIndex]) -> Result<(), StoreError> {
        let names: Vec<String> = indexes.iter().map(|one| one.name.clone()).collect();
        let sql = "SELECT n FROM unnest($1::text[]) AS n \
                   JOIN pg_index ON indexrelid = to_regclass(n) WHERE NOT indisvalid";
        for row in self.session.once(sql, &[Box::new(names)])? {
            let name: String = row.try_get(0)?;
            let drop = format!("DROP INDEX {name};");
            self.session.reshape(table.number, &drop)?;
        }
        Ok(())
    }
}
