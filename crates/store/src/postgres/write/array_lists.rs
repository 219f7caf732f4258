//! Rows of one statement as lists, a list for each column.

use model::Table;
use query::names;

use super::user_values::{ValuesOfRow, sealed_values};
use crate::StoreError;
use crate::postgres::cells::{self, SqlParameter};
use crate::vault::Vault;

/// The columns of the rows that a statement is given.
#[derive(Default)]
pub(super) struct ArrayLists {
    columns: Vec<ListedColumn>,
    parameters: Vec<SqlParameter>,
}

struct ListedColumn {
    name: String,
    element: &'static str,
    cast: &'static str,
}

impl ArrayLists {
    fn add(&mut self, name: &str, element: &'static str, values: SqlParameter) {
        self.columns.push(ListedColumn {
            name: name.to_owned(),
            element,
            cast: "",
        });
        self.parameters.push(values);
    }

    pub(super) fn numbers(&mut self, name: &str, values: impl Iterator<Item = i64>) {
        self.add(name, "bigint", Box::new(values.collect::<Vec<_>>()));
    }

    pub(super) fn maybe_numbers(&mut self, name: &str, values: impl Iterator<Item = Option<i64>>) {
        self.add(name, "bigint", Box::new(values.collect::<Vec<_>>()));
    }

    pub(super) fn texts(&mut self, name: &str, values: impl Iterator<Item = String>) {
        self.add(name, "text", Box::new(values.collect::<Vec<_>>()));
    }

    pub(super) fn maybe_texts(&mut self, name: &str, values: impl Iterator<Item = Option<String>>) {
        self.add(name, "text", Box::new(values.collect::<Vec<_>>()));
    }

    pub(super) fn maybe_bytes(
        &mut self,
        name: &str,
        values: impl Iterator<Item = Option<Vec<u8>>>,
    ) {
        self.add(name, "bytea", Box::new(values.collect::<Vec<_>>()));
    }

    /// The columns of the user, of which each row has all.
    pub(super) fn user_columns(
        &mut self,
        table: &Table,
        rows: &[ValuesOfRow<'_>],
        vault: &Vault,
    ) -> Result<(), StoreError> {
        for (position, column) in table.columns.iter().enumerate() {
            let name = names::column(column.number);
            if column.encrypt {
                let sealed = sealed_values(vault, (table.number, column, position), rows)?;
                self.maybe_bytes(&name, sealed.into_iter());
                continue;
            }
            let values = rows.iter().map(|row| &row.values[position]);
            let list = cells::value_list(column, values)?;
            self.columns.push(ListedColumn {
                name,
                element: list.element,
                cast: list.cast,
            });
            self.parameters.push(list.values);
        }
        Ok(())
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        names.join(", ")
    }

    /// Their values in the rows `u`.
    pub(super) fn values(&self) -> String {
        let value = |column: &ListedColumn| format!("u.{}{}", column.name, column.cast);
        self.columns
            .iter()
            .map(value)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Each set to its value in the row `u`, but the first, which finds the row.
    pub(super) fn assignments(&self) -> String {
        let further = self.columns.iter().skip(1);
        let set = |column: &ListedColumn| format!("{0} = u.{0}{1}", column.name, column.cast);
        further.map(set).collect::<Vec<_>>().join(", ")
    }

    /// The rows, as `u`.
    pub(super) fn rows(&self) -> String {
        let lists = self.columns.iter().zip(1..);
        let lists = lists.map(|(column, number)| format!("${number}::{}[]", column.element));
        let lists: Vec<String> = lists.collect();
        format!("unnest({}) AS u({})", lists.join(", "), self.names())
    }

    pub(super) fn into_parameters(self) -> Vec<SqlParameter> {
        self.parameters
    }
}
