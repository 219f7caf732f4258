//! Operations on databases, tables, columns and indexes.

use super::{AnswerBody, Answers, CONTAINERS, PARTS, RouteDescription, deletion, read, sent};
use crate::http::head::route::Action;

use AnswerBody::Json;

const TAKEN: &[u16] = &[409];

/// What a kind of column is called: its routes, and the schemas of what they take.
#[derive(Clone, Copy, Debug)]
pub struct KindNames {
    /// The last part of its route.
    pub kind: &'static str,
    create: &'static str,
    update: &'static str,
    /// The schema of a new column.
    pub new: &'static str,
    /// The schema of a change.
    pub change: &'static str,
}

macro_rules! kinds {
    ($($kind:literal $word:literal),*) => {
        /// In the order of `COLUMN_KINDS`; the words are those of the official SDKs' methods.
        pub const KINDS: &[KindNames] = &[$(KindNames {
            kind: $kind,
            create: concat!("create", $word, "Column"),
            update: concat!("update", $word, "Column"),
            new: concat!("New", $word, "Column"),
            change: concat!($word, "ColumnChange"),
        }),*];
    };
}

kinds! {
    "boolean" "Boolean", "bigint" "BigInt", "datetime" "Datetime", "email" "Email", "enum" "Enum",
    "float" "Float", "integer" "Integer", "ip" "Ip", "longtext" "Longtext",
    "mediumtext" "Mediumtext", "string" "String", "text" "Text", "url" "Url", "varchar" "Varchar"
}

/// The names of a kind that has routes.
fn names(kind: &str) -> &'static KindNames {
    let found = KINDS.iter().find(|names| names.kind == kind);
    found.expect("a test compares this list with the kinds that have routes")
}

pub(super) fn of_databases(action: Action) -> RouteDescription {
    const ONE: Answers = &[(200, Json("Database"))];
    match action {
        Action::ListDatabases => RouteDescription {
            parameters: CONTAINERS,
            ..read(
                "listDatabases",
                "Lists databases.",
                &[(200, Json("Databases"))],
            )
        },
        Action::CreateDatabase => RouteDescription {
            refusals: TAKEN,
            ..sent(
                "createDatabase",
                "Creates a database.",
                "NewDatabase",
                &[(201, Json("Database"))],
            )
        },
        Action::GetDatabase => read("getDatabase", "Shows a database.", ONE),
        Action::UpdateDatabase => RouteDescription {
            needs_body: false,
            ..sent(
                "updateDatabase",
                "Changes a database; what is not named stays.",
                "DatabaseChange",
                ONE,
            )
        },
        Action::DeleteDatabase => deletion(
            "deleteDatabase",
            "Deletes a database with its tables and rows.",
        ),
        other => unreachable!("{other:?} is no route of databases"),
    }
}

pub(super) fn of_tables(action: Action) -> RouteDescription {
    const ONE: Answers = &[(200, Json("Table"))];
    match action {
        Action::ListTables => RouteDescription {
            parameters: CONTAINERS,
            ..read(
                "listTables",
                "Lists tables of a database.",
                &[(200, Json("Tables"))],
            )
        },
        Action::CreateTable => RouteDescription {
            refusals: TAKEN,
            ..sent(
                "createTable",
                "Creates a table, with columns and indexes if any are named.",
                "NewTable",
                &[(201, Json("Table"))],
            )
        },
        Action::GetTable => read(
            "getTable",
            "Shows a table with its columns and indexes.",
            ONE,
        ),
        Action::UpdateTable => RouteDescription {
            needs_body: false,
            ..sent(
                "updateTable",
                "Changes a table; what is not named stays.",
                "TableChange",
                ONE,
            )
        },
        Action::DeleteTable => RouteDescription {
            refusals: TAKEN,
            ..deletion("deleteTable", "Deletes a table with its rows.")
        },
        other => unreachable!("{other:?} is no route of tables"),
    }
}

pub(super) fn of_columns(action: Action) -> RouteDescription {
    const ONE: Answers = &[(200, Json("Column"))];
    const MADE: Answers = &[(202, Json("Column"))];
    match action {
        Action::ListColumns => RouteDescription {
            parameters: PARTS,
            ..read(
                "listColumns",
                "Lists columns of a table.",
                &[(200, Json("Columns"))],
            )
        },
        Action::CreateColumn(kind) => RouteDescription {
            refusals: TAKEN,
            ..sent(
                names(kind).create,
                "Adds a column of this type.",
                names(kind).new,
                MADE,
            )
        },
        Action::GetColumn => read("getColumn", "Shows a column.", ONE),
        Action::UpdateColumn(kind) => RouteDescription {
            refusals: TAKEN,
            ..sent(
                names(kind).update,
                "Changes a column of this type.",
                names(kind).change,
                ONE,
            )
        },
        Action::DeleteColumn => RouteDescription {
            refusals: TAKEN,
            ..deletion("deleteColumn", "Deletes a column with its values.")
        },
        Action::CreateRelationship => RouteDescription {
            refusals: TAKEN,
            ..sent(
                "createRelationshipColumn",
                "Adds a relationship: a column here, and one in the related table.",
                "NewRelationship",
                MADE,
            )
        },
        Action::UpdateRelationship => RouteDescription {
            needs_body: false,
            refusals: TAKEN,
            ..sent(
                "updateRelationshipColumn",
                "Changes a relationship; what is not named stays.",
                "RelationshipChange",
                ONE,
            )
        },
        other => unreachable!("{other:?} is no route of columns"),
    }
}

pub(super) fn of_indexes(action: Action) -> RouteDescription {
    match action {
        Action::ListIndexes => RouteDescription {
            parameters: PARTS,
            ..read(
                "listIndexes",
                "Lists indexes of a table.",
                &[(200, Json("Indexes"))],
            )
        },
        Action::CreateIndex => RouteDescription {
            refusals: TAKEN,
            ..sent(
                "createIndex",
                "Adds an index, which is built in the background.",
                "NewIndex",
                &[(202, Json("Index"))],
            )
        },
        Action::GetIndex => read("getIndex", "Shows an index.", &[(200, Json("Index"))]),
        Action::DeleteIndex => deletion("deleteIndex", "Deletes an index."),
        other => unreachable!("{other:?} is no route of indexes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::route::COLUMN_KINDS;

    #[test]
    fn kinds_are_those_of_the_routes() {
        let named: Vec<&str> = KINDS.iter().map(|names| names.kind).collect();
        assert_eq!(named, COLUMN_KINDS);
    }
}
