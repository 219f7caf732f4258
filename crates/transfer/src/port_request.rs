//! What an export or import asks of a store, and how it travels over `admin.sock`.
//!
//! A request is one line of JSON, then lines of rows; so is an answer. Rows travel as the text
//! that stands in the export, because a value tree would cost their order and their time.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::Part;
use crate::refusal::Refusal;

/// The route of these requests.
pub const ROUTE: &str = "/port";
/// Most bytes of a request: one row is at most a body of the wire (20 MiB), and batches are
/// closed at [`BATCH_BYTES`].
pub const REQUEST_BYTES_MAX: usize = 64 << 20;
/// A batch of [`PortRequest::PutRows`] is closed at so many bytes of rows, or …
pub const BATCH_BYTES: usize = 4 << 20;
/// … so many rows: beyond them a commit stands alone and is reported without images.
pub const BATCH_ROWS: usize = 500;

/// A table inside a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePath {
    /// The project's id.
    pub project: String,
    /// The database's id.
    pub database: String,
    /// The table's id.
    pub table: String,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PortRequest {
    /// The database with its tables, and the mark to read all of its rows at: [`Start`].
    BeginExport {
        /// The project's id.
        project: String,
        /// The database's id.
        database: String,
    },
    /// The next rows of a table: [`PageEnd`], and the rows.
    ExportPage {
        /// The table.
        path: TablePath,
        /// As [`Start`] gave it.
        mark: i64,
        /// As [`Start`] gave it; another one means that the schema changed.
        schema: String,
        /// The `$sequence` after which to begin.
        after: i64,
        /// Most rows.
        rows_max: u32,
        /// Whether rows of which an encrypted value is damaged are left out and named; otherwise
        /// such a row refuses the page.
        #[serde(default)]
        leaves_out_damaged: bool,
    },
    /// The definition of a table as it is now.
    DescribeTable {
        /// The table.
        path: TablePath,
    },
    /// Creates a database, closed to callers without a key until the import is complete.
    PutDatabase {
        /// The project's id.
        project: String,
        /// Its id.
        database: String,
        /// What people call it.
        name: String,
        /// Whether one that exists is taken as it is.
        may_exist: bool,
    },
    /// Creates a table: [`TablePut`].
    PutTable {
        /// The project's id.
        project: String,
        /// The database's id.
        database: String,
        /// As [`super::definition`] writes it.
        definition: Value,
        /// Whether one that exists with the same columns is taken as it is.
        may_exist: bool,
        /// Whether that one may have further columns, because this is only the table's beginning.
        may_have_more: bool,
    },
    /// Adds a part to a table: [`PartPut`].
    PutPart {
        /// The table.
        path: TablePath,
        /// What is added.
        part: Part,
        /// Whether one that exists and is the same is taken as it is.
        may_exist: bool,
    },
    /// Writes the rows that follow, without links: [`RowsPut`]. Those that are not there yet are
    /// created all or none; of those that are, each that differs is changed by itself.
    PutRows {
        /// The table.
        path: TablePath,
        /// Whether rows that exist are brought to the same content; otherwise they are refused.
        may_exist: bool,
    },
    /// Sets the links of the rows that follow, all or none. Each line holds a row's `$id` and its
    /// links.
    PutLinks {
        /// The table of the rows.
        path: TablePath,
    },
    /// Takes links of relationships from one to one away from those of the rows that follow that
    /// hold others, all or none; lines as for [`PortRequest::PutLinks`].
    FreeLinks {
        /// The table of the rows.
        path: TablePath,
    },
    /// Every version of a row: [`RowHistory`].
    RowHistory {
        /// The table.
        path: TablePath,
        /// The row's id.
        row: String,
    },
    /// Erases every version of a row: whether there was any.
    EraseRow {
        /// The table.
        path: TablePath,
        /// The row's id.
        row: String,
    },
    /// Opens or closes a database to callers without a key.
    EnableDatabase {
        /// The project's id.
        project: String,
        /// The database's id.
        database: String,
        /// Whether it is open.
        enabled: bool,
    },
}

/// The beginning of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// Where all rows are read.
    pub mark: i64,
    /// The database, as [`super::definition`] writes it.
    pub database: Value,
    /// Its tables in the order of their creation.
    pub tables: Vec<StartTable>,
}

/// A table of a [`Start`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartTable {
    /// As [`super::definition`] writes it.
    pub definition: Value,
    /// Names the table and its schema at this moment.
    pub schema: String,
}

/// A row on both axes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowHistory {
    /// As known at this mark.
    pub tt: i64,
    /// As a read of the kind `history` answers with the axis `both`.
    pub versions: Vec<Version>,
}

/// A version of a row. Instants are microseconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Version {
    /// Valid from then on; `"min"` for always.
    pub valid_from: Value,
    /// Valid until then; null for no end.
    pub valid_to: Option<i64>,
    /// Known from this mark on.
    pub sys_from: i64,
    /// Known until this mark; null where it still is.
    pub sys_to: Option<i64>,
    /// The mark of the commit that wrote it.
    pub origin: i64,
    /// Its values.
    pub doc: Value,
    /// The columns that it lacks because their encrypted value is damaged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// What stands before the rows of a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageEnd {
    /// How many rows were read: those that follow and those that were left out.
    pub rows: u64,
    /// The `$sequence` of the last one; the next page begins after it.
    pub last: i64,
    /// The ids of those that were left out, because an encrypted value of theirs is damaged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// What became of a table to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TablePut {
    /// Whether it was created now.
    pub created: bool,
    /// What could not be created, in words.
    pub left_out: Vec<String>,
}

/// What became of a part to add.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartPut {
    /// What could not be created, in words.
    pub left_out: Vec<String>,
}

/// What became of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsPut {
    /// Rows that were not there.
    pub created: u64,
    /// Rows that were there with other content.
    pub changed: u64,
    /// Rows that were there already.
    pub same: u64,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct PortResponse {
    /// The first line.
    pub head: Value,
    /// The rows after it, each with its line end.
    pub rows: Vec<u8>,
}

/// One line of JSON, then the rows.
pub fn frame(head: &impl Serialize, rows: &[u8]) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(head).expect("these types are plain");
    bytes.push(b'\n');
    bytes.extend_from_slice(rows);
    bytes
}

/// The first line, and what follows it.
///
/// # Errors
/// When the first line is not what is expected.
pub fn unframe<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<(T, &[u8]), Refusal> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (head, rows) = bytes.split_at(end.unwrap_or(bytes.len()));
    let head = serde_json::from_slice(head)
        .map_err(|error| Refusal::bad(format!("Unreadable first line: {error}.")))?;
    Ok((head, rows.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_travels_unchanged_with_its_rows() {
        let ask = PortRequest::ExportPage {
            path: TablePath {
                project: "p".to_owned(),
                database: "d".to_owned(),
                table: "t".to_owned(),
            },
            mark: 5,
            schema: "1.2".to_owned(),
            after: 7,
            rows_max: 100,
            leaves_out_damaged: true,
        };
        let bytes = frame(&ask, b"{}\n{}\n");
        let (read, rows) = unframe::<PortRequest>(&bytes).unwrap();
        assert_eq!((read, rows), (ask, &b"{}\n{}\n"[..]));
        let refusal = unframe::<PortRequest>(b"{\"ask\":\"other\"}").unwrap_err();
        assert_eq!(refusal.status.as_u16(), 400);
    }
}
