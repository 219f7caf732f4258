//! Rows as an export writes them.

use model::{Content, Page, Relation, Row, Value};

use super::object::Object;
use super::value;

/// Appends one row of an export: the system fields that an import can set, then every column.
///
/// A column without a value is null here even where it holds lists: lists in answers show an
/// empty one then, and an import could not tell the two apart. Of a relationship the end that
/// holds links stands here, as their ids; without `links`, neither does.
pub fn encode_export_row(page: &Page, row: &Row, links: bool, out: &mut Vec<u8>) {
    let Content::Values(values) = &row.content else {
        unreachable!("an export reads every column as a value");
    };
    assert_eq!(values.len(), page.table.columns.len(), "all were asked for");
    let mut object = Object::open(out);
    object.plain("$id", row.id.as_str());
    object.instant("$createdAt", row.created);
    object.instant("$updatedAt", row.updated);
    object.raw("$permissions", row.permissions.as_bytes());
    let mut hidden: Vec<(&Relation, &Value)> = Vec::new();
    for (column, content) in page.table.columns.iter().zip(values) {
        match column.relation() {
            Some(relation) if !links || !relation.holds_links() => {}
            Some(relation) if relation.is_hidden() => hidden.push((relation, content)),
            _ => object.with(column.key.as_str(), |out| value(out, content)),
        }
    }
    if !hidden.is_empty() {
        object.with("$links", |out| hidden_links(hidden, out));
    }
    object.close();
}

/// The links of relationships that only the other table shows: by that table's id and the key that
/// the relationship has there, because their own keys may be those of other columns. They stand
/// in the order of these names: the order in which they came is not shown.
fn hidden_links(mut hidden: Vec<(&Relation, &Value)>, out: &mut Vec<u8>) {
    hidden.sort_by_key(|(relation, _)| (&relation.related, &relation.partner_key));
    let mut tables = Object::open(out);
    for of_table in hidden.chunk_by(|(one, _), (other, _)| one.related == other.related) {
        tables.with(of_table[0].0.related.as_str(), |out| {
            let mut columns = Object::open(out);
            for (relation, content) in of_table {
                columns.with(relation.partner_key.as_str(), |out| value(out, content));
            }
            columns.close();
        });
    }
    tables.close();
}
