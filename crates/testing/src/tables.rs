//! Tables and columns with nothing special about them: a test names what it is about.

use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, DatabaseId, ProjectId, Table, TableId,
    TableNumber, TableOptions, Timestamp,
};

/// Table 1 with this id and these columns, in the database `d` of the project `p`; without indexes,
/// permissions and row security.
///
/// # Panics
/// When the id is no legal one.
pub fn plain_table(id: &str, columns: Vec<Column>) -> Table {
    Table {
        number: TableNumber(1),
        project: ProjectId::new("p").expect("a legal id"),
        database: DatabaseId::new("d").expect("a legal id"),
        id: TableId::new(id).expect("a legal id"),
        name: id.to_owned(),
        enabled: true,
        row_security: false,
        permissions: Vec::new(),
        columns,
        indexes: Vec::new(),
        created: Timestamp(0),
        updated: Timestamp(0),
        schema_epoch: 1,
        permission_epoch: 1,
        options: TableOptions::default(),
    }
}

/// A column of single values that may be null.
///
/// # Panics
/// When the key is no legal one.
pub fn plain_column(number: u32, key: &str, kind: ColumnKind) -> Column {
    Column {
        number: ColumnNumber(number),
        key: ColumnKey::new(key).expect("a legal key"),
        kind,
        required: false,
        array: false,
        encrypt: false,
        default: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}
