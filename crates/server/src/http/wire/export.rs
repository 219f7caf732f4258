//! Rows as an export writes them.

use model::{Content, Page, Row};

use super::object::Object;
use super::value;

/// Appends one row of an export: the system fields that an import can set, then every column.
///
/// A column without a value is null here even where it holds lists: lists in answers show an
/// empty one then, and an import could not tell the two apart. A relationship stands here as the
/// ids that its column holds.
pub fn encode_export_row(page: &Page, row: &Row, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.plain("$id", row.id.as_str());
    object.instant("$createdAt", row.created);
    object.instant("$updatedAt", row.updated);
    object.raw("$permissions", row.permissions.as_bytes());
    object.close_with(|out| match &row.content {
        Content::Body(body) => out.extend_from_slice(body),
        Content::Values(values) => {
            assert_eq!(values.len(), page.table.columns.len(), "all were asked for");
            let columns = page.table.columns.iter().zip(values);
            let seen = columns.filter(|(column, _)| !column.is_hidden());
            for (nth, (column, content)) in seen.enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                out.push(b'"');
                out.extend_from_slice(column.key.as_str().as_bytes());
                out.extend_from_slice(b"\":");
                value(out, content);
            }
        }
    });
}
