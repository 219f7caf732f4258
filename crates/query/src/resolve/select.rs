//! `select`: which fields an answer shows.

use std::collections::HashSet;

use model::{Field, Json, Selection, Table};

use crate::error::QueryError;
use crate::parse::echo;

use super::{SELECTED_TOTAL_MAX, VALUES_MAX, not_found, refuse};

/// System fields that a selection may name, in the order in which it keeps them.
const FIELDS: [(&str, Field); 4] = [
    ("$id", Field::Id),
    ("$sequence", Field::Sequence),
    ("$createdAt", Field::Created),
    ("$updatedAt", Field::Updated),
];
/// Where a row stands in time: shown whole as soon as one of them is named.
const SPAN: [&str; 5] = [
    "$validFrom",
    "$validTo",
    "$systemFrom",
    "$systemTo",
    "$version",
];
/// Shown whether or not they are named; the last one is the older word for the second.
const ALWAYS_SHOWN: [&str; 3] = ["$databaseId", "$tableId", "$collectionId"];

/// What was selected so far. Several selections add up.
#[derive(Default)]
pub(super) struct Chosen {
    any: bool,
    everything: bool,
    columns: Vec<usize>,
    fields: Vec<Field>,
    permissions: bool,
    /// Which of [`SPAN`] was named, if any.
    span: Option<&'static str>,
    related: Vec<RelatedNames>,
    /// Names so far, in all selections.
    count: usize,
}

/// What is selected of the rows related through one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedNames {
    /// The position of the column, an end of a relationship.
    pub column: usize,
    /// Names as the related table has them; `*` for all of its own columns.
    pub names: Vec<String>,
}

impl Chosen {
    pub(super) fn take(&mut self, table: &Table, values: &[Json]) -> Result<(), QueryError> {
        if values.is_empty() {
            return Err(refuse("`select` needs at least one attribute"));
        }
        if values.len() > VALUES_MAX {
            return Err(refuse(format!(
                "`select` has greater than {VALUES_MAX} values"
            )));
        }
        self.count += values.len();
        if self.count > SELECTED_TOTAL_MAX {
            return Err(refuse(format!(
                "The queries of one request may select at most {SELECTED_TOTAL_MAX} attributes"
            )));
        }
        self.any = true;
        let mut names = HashSet::with_capacity(values.len());
        for value in values {
            let Json::Text(name) = value else {
                return Err(refuse(format!(
                    "`select` needs names of attributes, got {}",
                    value.kind()
                )));
            };
            if !names.insert(name) {
                return Err(refuse(format!("`select` names {} twice", echo(name))));
            }
            self.take_name(table, name)?;
        }
        Ok(())
    }

    fn take_name(&mut self, table: &Table, name: &str) -> Result<(), QueryError> {
        let field = FIELDS.iter().find(|(known, _)| *known == name);
        if let Some((_, field)) = field {
            self.fields.push(*field);
        } else if name == "*" {
            self.everything = true;
        } else if name == "$permissions" {
            self.permissions = true;
        } else if let Some(of_span) = SPAN.iter().find(|known| **known == name) {
            self.span = Some(*of_span);
        } else if !ALWAYS_SHOWN.contains(&name) {
            match table.position(name) {
                Some(column) if table.columns[column].relation().is_some() => {
                    self.relate(column, "*");
                }
                Some(column) => self.columns.push(column),
                None => self.take_path(table, name)?,
            }
        }
        Ok(())
    }

    /// A name behind the key of a relationship and a period. Keys may hold periods, too.
    fn take_path(&mut self, table: &Table, path: &str) -> Result<(), QueryError> {
        for (at, _) in path.match_indices('.') {
            let (key, name) = (&path[..at], &path[at + 1..]);
            if let Some(column) = table.position(key)
                && table.columns[column].relation().is_some()
            {
                self.relate(column, name);
                return Ok(());
            }
        }
        Err(not_found(path))
    }

    fn relate(&mut self, column: usize, name: &str) {
        let name = name.to_owned();
        match self.related.iter_mut().find(|known| known.column == column) {
            Some(known) => known.names.push(name),
            None => self.related.push(RelatedNames {
                column,
                names: vec![name],
            }),
        }
    }

    /// Takes one more name.
    pub(super) fn take_one(&mut self, table: &Table, name: &str) -> Result<(), QueryError> {
        self.any = true;
        self.take_name(table, name)
    }

    /// Whether it is to be shown where rows stand in time.
    pub(super) fn shows_span(&self) -> bool {
        self.span.is_some()
    }

    /// # Errors
    /// [`QueryError::Invalid`] where it is to be shown, of what is read as of now only.
    pub(super) fn need_no_span(&self) -> Result<(), QueryError> {
        match self.span {
            None => Ok(()),
            Some(name) => Err(refuse(format!(
                "`select` shows \"{name}\" in lists, and of one row beside `asOf` or `validAt`"
            ))),
        }
    }

    /// What was selected of related rows.
    pub(super) fn related(&mut self) -> Vec<RelatedNames> {
        std::mem::take(&mut self.related)
    }

    /// The selection in one form, however it was put: each field once, in a fixed order.
    pub(super) fn selection(mut self) -> Selection {
        if !self.any || self.everything {
            return Selection::All;
        }
        self.columns.sort_unstable();
        self.columns.dedup();
        let named = |(_, field): &(&str, Field)| self.fields.contains(field).then_some(*field);
        Selection::Some {
            columns: self.columns,
            fields: FIELDS.iter().filter_map(named).collect(),
            permissions: self.permissions,
        }
    }
}
