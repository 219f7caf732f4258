//! What the record of a commit says of a change of databases, tables, columns or indexes.

/// What kind of change it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaAct {
    /// A database came.
    DatabaseCreated,
    /// Its name, or whether it is enabled.
    DatabaseUpdated,
    /// A table came, with its first columns and indexes.
    TableCreated,
    /// Its name, its grants, or whether it is enabled.
    TableUpdated,
    /// A table went, with all it held.
    TableDeleted,
    /// What its owner decides about its past and its lists.
    OptionsChanged,
    /// What must hold of it over valid time.
    ConstraintsChanged,
    /// A column came.
    ColumnCreated,
    /// Its name or its limits.
    ColumnUpdated,
    /// A column went; of a relationship, both ends.
    ColumnDeleted,
    /// A relationship came.
    RelationshipCreated,
    /// The name of its column, or what becomes of related rows.
    RelationshipUpdated,
    /// An index came.
    IndexCreated,
    /// An index that was large is whole, or can never be.
    IndexBuilt,
    /// An index went.
    IndexDeleted,
}

impl SchemaAct {
    /// All of them.
    pub const ALL: [SchemaAct; 15] = [
        SchemaAct::DatabaseCreated,
        SchemaAct::DatabaseUpdated,
        SchemaAct::TableCreated,
        SchemaAct::TableUpdated,
        SchemaAct::TableDeleted,
        SchemaAct::OptionsChanged,
        SchemaAct::ConstraintsChanged,
        SchemaAct::ColumnCreated,
        SchemaAct::ColumnUpdated,
        SchemaAct::ColumnDeleted,
        SchemaAct::RelationshipCreated,
        SchemaAct::RelationshipUpdated,
        SchemaAct::IndexCreated,
        SchemaAct::IndexBuilt,
        SchemaAct::IndexDeleted,
    ];

    /// Its word, as records hold and show it.
    pub fn as_str(self) -> &'static str {
        match self {
            SchemaAct::DatabaseCreated => "database_created",
            SchemaAct::DatabaseUpdated => "database_updated",
            SchemaAct::TableCreated => "table_created",
            SchemaAct::TableUpdated => "table_updated",
            SchemaAct::TableDeleted => "table_deleted",
            SchemaAct::OptionsChanged => "options_changed",
            SchemaAct::ConstraintsChanged => "constraints_changed",
            SchemaAct::ColumnCreated => "column_created",
            SchemaAct::ColumnUpdated => "column_updated",
            SchemaAct::ColumnDeleted => "column_deleted",
            SchemaAct::RelationshipCreated => "relationship_created",
            SchemaAct::RelationshipUpdated => "relationship_updated",
            SchemaAct::IndexCreated => "index_created",
            SchemaAct::IndexBuilt => "index_built",
            SchemaAct::IndexDeleted => "index_deleted",
        }
    }

    /// The act of this word.
    pub fn named(word: &str) -> Option<SchemaAct> {
        Self::ALL.into_iter().find(|act| act.as_str() == word)
    }
}

/// One change of a database or of what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaRecord {
    /// What happened.
    pub act: SchemaAct,
    /// The id of the table, if it is about one; it may be gone since.
    pub table: Option<String>,
    /// The key of the column or index, if it is about one, as it was called afterwards.
    pub key: Option<String>,
}
