//! Columns of the seeded rows as they come, to be written again as lists.

use std::sync::Arc;

use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use crate::Outcome;

/// A list of values, one for each row that is written.
pub type SqlList = Arc<dyn ToSql + Sync + Send>;

/// The lists of a statement: the name of each, the type of its elements, and what makes a value of
/// one.
#[derive(Default)]
pub struct SqlLists(Vec<(String, &'static str, &'static str)>);

/// A column with its value in each seeded row.
pub struct SeededColumn {
    pub name: String,
    values: ColumnValues,
}

enum ColumnValues {
    Number(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Truth(Vec<Option<bool>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
    /// Each list of texts as one text: a list of lists would lose its inner bounds.
    Texts(Vec<Option<String>>),
}

/// Reads these columns of a table, in the order of its rows.
pub async fn read(client: &Client, table: &str, names: &[&str]) -> Outcome<Vec<SeededColumn>> {
    let every = client.prepare(&format!("SELECT * FROM {table}")).await?;
    let kind_of = |name: &str| {
        let found = every.columns().iter().find(|column| column.name() == name);
        let found = found.map(|column| column.type_().clone());
        found.ok_or_else(|| format!("{table} has no column {name}"))
    };
    let kinds: Vec<Type> = names
        .iter()
        .map(|name| kind_of(name))
        .collect::<Result<_, _>>()?;
    let text = |(name, kind): (&&str, &Type)| match *kind {
        Type::TEXT_ARRAY => format!("{name}::text"),
        _ => (*name).to_owned(),
    };
    let texts: Vec<String> = names.iter().zip(&kinds).map(text).collect();
    let sql = format!("SELECT {} FROM {table} ORDER BY seq", texts.join(", "));
    let rows = client.query(&sql, &[]).await?;
    let columns = names.iter().zip(kinds).enumerate();
    columns
        .map(|(at, (name, kind))| {
            Ok(SeededColumn {
                name: (*name).to_owned(),
                values: ColumnValues::of(&rows, at, &kind)?,
            })
        })
        .collect()
}

impl SeededColumn {
    /// The type of an element of its list.
    pub fn element(&self) -> &'static str {
        match self.values {
            ColumnValues::Number(_) => "bigint",
            ColumnValues::Real(_) => "double precision",
            ColumnValues::Truth(_) => "boolean",
            ColumnValues::Text(_) | ColumnValues::Texts(_) => "text",
            ColumnValues::Bytes(_) => "bytea",
        }
    }

    /// What makes a value of it from an element.
    pub fn cast(&self) -> &'static str {
        match self.values {
            ColumnValues::Texts(_) => "::text[]",
            _ => "",
        }
    }

    /// Its values in these seeded rows.
    pub fn list(&self, rows: &[usize]) -> SqlList {
        match &self.values {
            ColumnValues::Number(values) => picked(values, rows),
            ColumnValues::Real(values) => picked(values, rows),
            ColumnValues::Truth(values) => picked(values, rows),
            ColumnValues::Text(values) | ColumnValues::Texts(values) => picked(values, rows),
            ColumnValues::Bytes(values) => picked(values, rows),
        }
    }

    /// Its numbers; none where it holds others.
    pub fn numbers(&self) -> Vec<i64> {
        match &self.values {
            ColumnValues::Number(values) => values.iter().flatten().copied().collect(),
            _ => Vec::new(),
        }
    }
}

impl ColumnValues {
    fn of(rows: &[Row], at: usize, kind: &Type) -> Outcome<ColumnValues> {
        Ok(match *kind {
            Type::INT8 => ColumnValues::Number(all(rows, at)),
            Type::FLOAT8 => ColumnValues::Real(all(rows, at)),
            Type::BOOL => ColumnValues::Truth(all(rows, at)),
            Type::TEXT => ColumnValues::Text(all(rows, at)),
            Type::TEXT_ARRAY => ColumnValues::Texts(all(rows, at)),
            Type::BYTEA => ColumnValues::Bytes(all(rows, at)),
            _ => return Err(format!("a column of the type {kind} is not copied").into()),
        })
    }
}

fn all<'r, T: FromSql<'r>>(rows: &'r [Row], at: usize) -> Vec<Option<T>> {
    rows.iter().map(|row| row.get(at)).collect()
}

fn picked<T>(values: &[Option<T>], rows: &[usize]) -> SqlList
where
    T: ToSql + Sync + Send + Clone + 'static,
{
    let picked: Vec<Option<T>> = rows.iter().map(|row| values[*row].clone()).collect();
    Arc::new(picked)
}

impl SqlLists {
    /// One of whole numbers for each of these, then one of texts for each of those.
    pub fn own(numbers: &[&str], texts: &[&str]) -> SqlLists {
        let numbers = numbers
            .iter()
            .map(|name| ((*name).to_owned(), "bigint", ""));
        let texts = texts.iter().map(|name| ((*name).to_owned(), "text", ""));
        SqlLists(numbers.chain(texts).collect())
    }

    /// These, and one for each of the columns.
    pub fn and(mut self, columns: &[SeededColumn]) -> SqlLists {
        let columns = columns.iter();
        let lists = columns.map(|one| (one.name.clone(), one.element(), one.cast()));
        self.0.extend(lists);
        self
    }

    /// Adds their rows to the table.
    pub async fn insertion(&self, client: &Client, table: &str) -> Result<Statement, Error> {
        let values = self
            .0
            .iter()
            .map(|(name, _, cast)| format!("u.{name}{cast}"));
        let values: Vec<String> = values.collect();
        let (names, rows) = (self.names(), self.rows());
        let sql = format!(
            "INSERT INTO {table} ({names}) SELECT {} FROM {rows}",
            values.join(", ")
        );
        client.prepare(&sql).await
    }

    /// Sets all but the first of them, which finds the row.
    pub async fn change(&self, client: &Client, table: &str) -> Result<Statement, Error> {
        let (key, set) = (&self.0[0].0, self.0[1..].iter());
        let set = set.map(|(name, _, cast)| format!("{name} = u.{name}{cast}"));
        let set: Vec<String> = set.collect();
        let sql = format!(
            "UPDATE {table} AS t SET {} FROM {} WHERE t.{key} = u.{key}",
            set.join(", "),
            self.rows()
        );
        client.prepare(&sql).await
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|(name, _, _)| name.as_str()).collect();
        names.join(", ")
    }

    fn rows(&self) -> String {
        let lists = (1..).zip(&self.0);
        let lists = lists.map(|(number, (_, element, _))| format!("${number}::{element}[]"));
        let lists: Vec<String> = lists.collect();
        format!("unnest({}) AS u({})", lists.join(", "), self.names())
    }
}
