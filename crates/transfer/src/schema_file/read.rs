//! What a server answers about its schema, in the form of the file.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::file::{
    FORMAT, FileColumn, FileConstraints, FileDatabase, FileIndex, FileTable, RELATIONSHIP,
    SchemaFile,
};
use crate::definition::text;
use crate::remote::Remote;

/// Reads the schema of databases; of all where none is named.
///
/// # Errors
/// When the server refuses, or a database that was named is not there and `must_exist`.
pub async fn schema(
    remote: &mut Remote,
    wanted: &[String],
    must_exist: bool,
) -> Result<SchemaFile> {
    let answers = remote.databases().await?;
    if must_exist {
        for id in wanted {
            let is_there = answers.iter().any(|answer| text(&answer["$id"]) == id);
            ensure!(is_there, "the server has no database `{id}`");
        }
    }
    let mut databases = Vec::new();
    for answer in answers {
        let id = text(&answer["$id"]).to_owned();
        if wanted.is_empty() || wanted.contains(&id) {
            databases.push(database(remote, &answer, id).await?);
        }
    }
    databases.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(SchemaFile {
        format: FORMAT.to_owned(),
        databases,
    })
}

async fn database(remote: &mut Remote, answer: &Value, id: String) -> Result<FileDatabase> {
    let mut tables = Vec::new();
    for answer in remote.tables(&id).await? {
        let mut table = table(&answer);
        if let Some(options) = remote.options(&id, &table.id).await? {
            table.options = Some(shown(&options, "options")?);
            if let Some(constraints) = remote.constraints(&id, &table.id).await? {
                table.constraints = shown::<FileConstraints>(&constraints, "constraints")?;
            }
        }
        tables.push(table);
    }
    tables.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(FileDatabase {
        name: text(&answer["name"]).to_owned(),
        enabled: answer["enabled"] != false,
        id,
        tables,
    })
}

/// Reads what our own routes answer; members that the file does not have are left out.
fn shown<T: serde::de::DeserializeOwned>(answer: &Value, what: &str) -> Result<T> {
    let mut answer = answer.clone();
    if let Some(members) = answer.as_object_mut() {
        // It follows from the others and the time.
        members.remove("keptFrom");
    }
    serde_json::from_value(answer)
        .with_context(|| format!("the server's {what} are not understood"))
}

/// A table as either route family shows it, without options.
pub(super) fn table(answer: &Value) -> FileTable {
    let either = |one: &str, other: &str| match &answer[one] {
        Value::Null => answer[other].clone(),
        value => value.clone(),
    };
    let columns = either("columns", "attributes");
    let columns = columns.as_array().into_iter().flatten();
    let indexes = answer["indexes"].as_array().into_iter().flatten();
    FileTable {
        id: text(&answer["$id"]).to_owned(),
        name: text(&answer["name"]).to_owned(),
        enabled: answer["enabled"] != false,
        permissions: texts(&answer["$permissions"]),
        row_security: either("rowSecurity", "documentSecurity") == true,
        options: None,
        constraints: FileConstraints::default(),
        columns: columns
            .filter(|column| column["side"] != "child")
            .map(column)
            .collect(),
        indexes: indexes.map(index).collect(),
    }
}

fn column(answer: &Value) -> FileColumn {
    let member = |name: &str| {
        Some(&answer[name])
            .filter(|value| !value.is_null())
            .cloned()
    };
    let word = |name: &str| answer[name].as_str().map(str::to_owned);
    let kind = match (text(&answer["type"]), text(&answer["format"])) {
        ("string", format @ ("email" | "url" | "ip" | "enum")) => format,
        ("double", _) => "float",
        (kind, _) => kind,
    };
    let mut column = FileColumn {
        key: text(&answer["key"]).to_owned(),
        kind: kind.to_owned(),
        size: answer["size"].as_i64().filter(|size| *size > 0),
        min: member("min").filter(|least| !is_bound(least)),
        max: member("max").filter(|greatest| !is_bound(greatest)),
        elements: (kind == "enum").then(|| texts(&answer["elements"])),
        array: answer["array"] == true,
        required: answer["required"] == true,
        default: member("default"),
        encrypt: answer["encrypt"] == true,
        ..FileColumn::default()
    };
    if kind == RELATIONSHIP {
        column = FileColumn {
            key: column.key,
            kind: column.kind,
            ..FileColumn::default()
        };
        let is_two_way = answer["twoWay"] == true;
        column.related_table = word("relatedTable").or_else(|| word("relatedCollection"));
        column.relation_type = word("relationType");
        column.two_way_key = word("twoWayKey").filter(|_| is_two_way);
        column.on_delete = word("onDelete");
    }
    column
}

/// Whether a number is what a column without a bound of its own shows.
fn is_bound(number: &Value) -> bool {
    match number.as_i64() {
        Some(whole) => whole == i64::MIN || whole == i64::MAX,
        None => number
            .as_f64()
            .is_some_and(|number| number.abs() >= f64::MAX),
    }
}

fn index(answer: &Value) -> FileIndex {
    let columns = match &answer["columns"] {
        Value::Null => texts(&answer["attributes"]),
        columns => texts(columns),
    };
    let lengths = answer["lengths"].as_array().into_iter().flatten();
    let lengths: Vec<i64> = lengths.map(|length| length.as_i64().unwrap_or(0)).collect();
    let index = FileIndex {
        key: text(&answer["key"]).to_owned(),
        kind: text(&answer["type"]).to_owned(),
        columns,
        orders: texts(&answer["orders"]),
        lengths,
        is_failed: matches!(text(&answer["status"]), "failed" | "stuck"),
    };
    plain(index)
}

/// An index without what it has anyway.
fn plain(mut index: FileIndex) -> FileIndex {
    for order in &mut index.orders {
        order.make_ascii_uppercase();
    }
    if index
        .orders
        .iter()
        .all(|order| order.is_empty() || order == "ASC")
    {
        index.orders.clear();
    }
    if index.lengths.iter().all(|length| *length == 0) {
        index.lengths.clear();
    }
    index
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| text(item).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn table_of_an_answer_lacks_what_a_new_one_has_anyway() {
        let answer = json!({
            "$id": "t", "name": "T", "$permissions": [], "rowSecurity": false, "enabled": true,
            "columns": [
                {"key": "i", "type": "integer", "min": i64::MIN, "max": 5, "default": null,
                 "required": false, "array": false, "status": "available"},
                {"key": "f", "type": "double", "min": -f64::MAX, "max": f64::MAX},
                {"key": "e", "type": "string", "format": "enum", "elements": ["a"], "array": true},
                {"key": "d", "type": "datetime", "format": ""},
                {"key": "r", "type": "relationship", "side": "parent", "relatedTable": "u",
                 "relationType": "oneToOne", "twoWay": false, "twoWayKey": "x", "onDelete": "cascade"},
                {"key": "c", "type": "relationship", "side": "child", "relatedTable": "u"},
            ],
            "indexes": [
                {"key": "k", "type": "key", "columns": ["i", "f"], "orders": ["ASC", "asc"],
                 "lengths": [0, 0], "status": "failed"},
            ],
        });
        let table = table(&answer);
        let shown = serde_json::to_string(&table.columns).unwrap();
        let wanted = r#"[{"key":"i","type":"integer","max":5},{"key":"f","type":"float"},{"key":"e","type":"enum","elements":["a"],"array":true},{"key":"d","type":"datetime"},{"key":"r","type":"relationship","relatedTable":"u","relationType":"oneToOne","onDelete":"cascade"}]"#;
        assert_eq!(shown, wanted);
        assert!(table.indexes[0].is_failed);
        let shown = serde_json::to_string(&table.indexes).unwrap();
        assert_eq!(shown, r#"[{"key":"k","type":"key","columns":["i","f"]}]"#);
    }
}
