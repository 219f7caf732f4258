//! The parts of a history that are rows of the store's own tables, and what their members are.
//! The names are those of the file: they never change, members may be added.

use super::fields::MemberShape;

/// A member of an entry, and the column that holds it.
pub(super) struct PartMember {
    pub(super) name: &'static str,
    pub(super) column: &'static str,
    pub(super) shape: MemberShape,
    /// Whether it may be absent, which stands for null.
    pub(super) is_optional: bool,
}

/// A kind of entries: the rows of one table.
pub(super) struct HistoryPart {
    pub(super) name: &'static str,
    pub(super) table: &'static str,
    /// In which order its rows are written.
    pub(super) order: &'static str,
    /// No entry of a part follows one of a part with a higher stage.
    pub(super) stage: u8,
    pub(super) fields: &'static [PartMember],
}

const fn must(name: &'static str, column: &'static str, shape: MemberShape) -> PartMember {
    PartMember {
        name,
        column,
        shape,
        is_optional: false,
    }
}

const fn may(name: &'static str, column: &'static str, shape: MemberShape) -> PartMember {
    PartMember {
        name,
        column,
        shape,
        is_optional: true,
    }
}

const FROM: PartMember = must("knownFrom", "sf", MemberShape::Mark);
const TO: PartMember = must("knownTo", "st", MemberShape::End);
const CREATED: PartMember = must("createdAt", "created", MemberShape::Int);
const UPDATED: PartMember = must("updatedAt", "updated", MemberShape::Int);

/// The stage of the catalogue and of constraints.
pub(super) const CATALOGUE: u8 = 1;
pub(super) const COMMITS: u8 = 2;
pub(super) const CHANGES: u8 = 3;
/// What tables hold.
pub(super) const ROWS: u8 = 4;

pub(super) const PARTS: [HistoryPart; 11] = [
    HistoryPart {
        name: "project",
        table: "project",
        order: "rowid",
        stage: CATALOGUE,
        fields: &[
            must("id", "id", MemberShape::Text),
            must("name", "name", MemberShape::Text),
            CREATED,
            FROM,
            TO,
        ],
    },
    HistoryPart {
        name: "key",
        table: "api_key",
        order: "rowid",
        stage: CATALOGUE,
        fields: &[
            must("project", "project", MemberShape::Text),
            must("id", "id", MemberShape::Text),
            must("name", "name", MemberShape::Text),
            must("scopes", "scopes", MemberShape::Json),
            may("expires", "expires", MemberShape::Int),
            must("sha256", "hash", MemberShape::Digest),
            CREATED,
            FROM,
            TO,
        ],
    },
    HistoryPart {
        name: "database",
        table: "database_",
        order: "rowid",
        stage: CATALOGUE,
        fields: &[
            must("number", "seq", MemberShape::Int),
            must("project", "project", MemberShape::Text),
            must("id", "id", MemberShape::Text),
            must("name", "name", MemberShape::Text),
            must("kind", "kind", MemberShape::Text),
            must("enabled", "enabled", MemberShape::Bool),
            CREATED,
            UPDATED,
            FROM,
            TO,
        ],
    },
    HistoryPart {
        name: "table",
        table: "table_",
        order: "rowid",
        stage: CATALOGUE,
        fields: &[
            must("number", "number", MemberShape::Int),
            must("project", "project", MemberShape::Text),
            must("database", "database_", MemberShape::Text),
            must("id", "id", MemberShape::Text),
            must("name", "name", MemberShape::Text),
            must("enabled", "enabled", MemberShape::Bool),
            must("rowSecurity", "row_security", MemberShape::Bool),
            must("permissions", "permissions", MemberShape::Json),
            must("schemaEpoch", "schema_epoch", MemberShape::Int),
            must("permissionEpoch", "permission_epoch", MemberShape::Int),
            must("pinnedMaxAge", "pinned_max_age", MemberShape::Int),
            may("historyDays", "history", MemberShape::Int),
            must("keptFrom", "kept_from", MemberShape::Start),
            must("past", "past", MemberShape::Int),
            must("ttlMax", "ttl_max", MemberShape::Int),
            CREATED,
            UPDATED,
            FROM,
            TO,
        ],
    },
    HistoryPart {
        name: "column",
        table: "column_",
        order: "rowid",
        stage: CATALOGUE,
        fields: &[
            must("table", "tab", MemberShape::Int),
            must("number", "number", MemberShape::Int),
            must("key", "key", MemberShape::Text),
            must("type", "kind", MemberShape::Text),
            may("size", "chars_max", MemberShape::Int),
            may("min", "low", MemberShape::Number),
            may("max", "high", MemberShape::Number),
            may("elements", "elements", MemberShape::Json),
            must("required", "required", MemberShape::Bool),
            must("array", "is_array", MemberShape::Bool),
            may("default", "default_", MemberShape::Json),
            must("encrypt", "encrypt", MemberShape::Bool),
            CREATED,
            UPDATED,
            FROM,
            TO,
        ],
    },
    HistoryPart {
        name: "index",
        table: "index_",
        order: "rowid",
        stage: CATALOGUE,
        fields: &[
            must("table", "tab", MemberShape::Int),
            must("number", "number", MemberShape::Int),
            must("key", "key", MemberShape::Text),
            must("type", "kind", MemberShape::Text),
            must("columns", "columns", MemberShape::Json),
            must("status", "status", MemberShape::Text),
            must("error", "error", MemberShape::Text),
            CREATED,
            UPDATED,
            FROM,
            TO,
        ],
    },
    HistoryPart {
        name: "constraint",
        table: "over_time",
        order: "tab, place",
        stage: CATALOGUE,
        fields: &[
            must("table", "tab", MemberShape::Int),
            must("type", "kind", MemberShape::Text),
            must("place", "place", MemberShape::Int),
            must("columns", "columns", MemberShape::Text),
            may("related", "related", MemberShape::Int),
        ],
    },
    HistoryPart {
        name: "commit",
        table: "tx",
        order: "tt",
        stage: COMMITS,
        fields: &[
            must("mark", "tt", MemberShape::Mark),
            must("number", "n", MemberShape::Int),
            may("author", "user", MemberShape::Text),
            may("meta", "meta", MemberShape::Note),
            may("erased", "erased", MemberShape::Int),
            may("database", "noted_in", MemberShape::Int),
        ],
    },
    HistoryPart {
        name: "change",
        table: "tx_row",
        order: "tt, tab, id",
        stage: CHANGES,
        fields: &[
            must("mark", "tt", MemberShape::Mark),
            must("table", "tab", MemberShape::Int),
            must("row", "id", MemberShape::Text),
        ],
    },
    HistoryPart {
        name: "schemaChange",
        table: "tx_schema",
        order: "tt, n",
        stage: CHANGES,
        fields: &[
            must("mark", "tt", MemberShape::Mark),
            must("number", "n", MemberShape::Int),
            must("database", "database", MemberShape::Int),
            may("tableId", "tab", MemberShape::Text),
            must("act", "act", MemberShape::Text),
            may("key", "key", MemberShape::Text),
        ],
    },
    HistoryPart {
        name: "erasure",
        table: "erasure",
        order: "tab",
        stage: CHANGES,
        fields: &[
            must("table", "tab", MemberShape::Int),
            must("mark", "tt", MemberShape::Mark),
        ],
    },
];

/// A part that stands for a table's rows.
const fn of_rows(name: &'static str, fields: &'static [PartMember]) -> HistoryPart {
    HistoryPart {
        name,
        table: "",
        order: "rowid",
        stage: ROWS,
        fields,
    }
}

/// Who may do what with a row; `table` stands before these.
pub(super) const GRANT: HistoryPart = of_rows(
    "grant",
    &[
        must("sequence", "seq", MemberShape::Int),
        must("role", "role", MemberShape::Text),
        must("actions", "actions", MemberShape::Int),
        FROM,
        TO,
    ],
);

/// A version of a row; `table` stands before these, and `values` behind.
pub(super) const VERSION: HistoryPart = of_rows(
    "version",
    &[
        must("id", "id", MemberShape::Text),
        must("validFrom", "vf", MemberShape::Start),
        must("validTo", "vt", MemberShape::End),
        FROM,
        must("cutAt", "cut_tt", MemberShape::End),
        must("cutTo", "cut_vt", MemberShape::End),
        must("goneAt", "st", MemberShape::End),
        must("assertedAt", "origin", MemberShape::Mark),
        must("sequence", "seq", MemberShape::Int),
        CREATED,
        UPDATED,
    ],
);

/// What a row of now shows and neither its version nor its grants tell: the order in which its
/// permissions were given, and when they were changed last.
pub(super) const SHOWN: &str = "row";
/// Where the store stands.
pub(super) const STORE: &str = "store";
pub(super) const STORE_FIELDS: [(&str, &str); 6] = [
    ("mark", "mark"),
    ("shownAt", "x_at"),
    ("horizon", "horizon"),
    ("catalogueEpoch", "catalogue_epoch"),
    ("nextTable", "next_table"),
    ("nextDatabase", "next_database"),
];

impl HistoryPart {
    /// The names of its columns, with commas.
    pub(super) fn columns(&self) -> String {
        let columns: Vec<&str> = self.fields.iter().map(|field| field.column).collect();
        columns.join(", ")
    }
}
