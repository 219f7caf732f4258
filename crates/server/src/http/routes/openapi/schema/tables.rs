//! Databases, tables, columns and indexes: what defines them, and how answers show them.

use engine::limits::{
    DEFINITIONS_MAX, ELEMENT_CHARS_MAX, ELEMENTS_MAX, NAME_CHARS_MAX, STRING_CHARS_MAX,
    VARCHAR_CHARS_MAX,
};
use model::permission::PERMISSIONS_MAX;
use model::{OnDelete, RelationKind};
use serde_json::{Map, Value, json};

use super::{
    Named, Words, flag, id, instant, integer, list_of, listed, name, new_id, object, reference,
    text, texts, whole,
};
use crate::http::head::route::COLUMN_KINDS;
use crate::http::routes::openapi::operation::KINDS;

/// The forms of texts that are a kind of column each.
const FORMATS: [&str; 4] = ["email", "url", "ip", "enum"];
const INDEX_TYPES: [&str; 3] = ["key", "unique", "fulltext"];

pub(super) fn container_name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX})
}

fn grants() -> Value {
    json!({"type": "array", "items": text(), "maxItems": PERMISSIONS_MAX,
        "description": "Each like `read(\"any\")`."})
}

fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// What is said in the same words by both families.
pub(super) fn of_own() -> Vec<Named> {
    let database = whole(&[
        (text(), &["$id", "name", "description"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (flag(), &["enabled"]),
        (json!({"enum": ["tablesdb", "legacy"]}), &["type"]),
        (json!({"const": "ready"}), &["status"]),
        (list_of(json!({})), &["policies", "archives"]),
    ]);
    let new = json!({"databaseId": new_id(), "name": container_name(), "enabled": flag()});
    let change = json!({"name": container_name(), "enabled": flag()});
    let mut all = vec![
        ("Database", database),
        ("Databases", listed("databases", reference("Database"))),
        ("NewDatabase", object(&["databaseId", "name"], new)),
        ("DatabaseChange", object(&[], change)),
        ("ColumnDefinition", column_definition()),
        ("IndexDefinition", index_definition(None)),
        (
            "RelationshipChange",
            object(&[], json!({"newKey": id(), "onDelete": on_delete()})),
        ),
    ];
    for names in KINDS {
        all.push((names.new, new_column(names.kind)));
        all.push((names.change, column_change(names.kind)));
    }
    all
}

/// What is said in the words of each family.
pub(super) fn of_family(words: &'static Words) -> Vec<Named> {
    let shown = |schema: &str| reference(&name(schema, words));
    let (table, change) = definition_of_table(words);
    let mut related = Map::new();
    related.insert(words.related_table_id.to_owned(), id());
    let mut relationship = json!({
        "type": {"enum": RelationKind::WORDS}, "twoWay": flag(), "key": id(), "twoWayKey": id(),
        "onDelete": on_delete(),
    });
    extend(&mut relationship, related);
    vec![
        ("Table", shown_table(words)),
        ("Tables", listed(words.tables, shown("Table"))),
        ("NewTable", table),
        ("TableChange", change),
        ("Column", shown_column(words)),
        ("Columns", listed(words.columns, shown("Column"))),
        (
            "NewRelationship",
            object(&[words.related_table_id, "type"], relationship),
        ),
        ("Index", shown_index(words)),
        ("Indexes", listed("indexes", shown("Index"))),
        ("NewIndex", index_definition(Some(words.columns))),
    ]
}

fn extend(object: &mut Value, further: Map<String, Value>) {
    let members = object.as_object_mut();
    members.expect("it is an object").extend(further);
}

fn definition_of_table(words: &Words) -> (Value, Value) {
    let definitions = |name: &str| {
        let items = reference(name);
        json!({"type": "array", "maxItems": DEFINITIONS_MAX, "items": items})
    };
    let named = |more: Value| {
        let mut named = json!({
            "name": container_name(), "permissions": grants(), "enabled": flag(),
            (words.row_security): flag(),
        });
        let Value::Object(more) = more else {
            unreachable!("members are an object")
        };
        extend(&mut named, more);
        named
    };
    let new = named(json!({
        (words.table_id): new_id(),
        (words.columns): definitions("ColumnDefinition"),
        "indexes": definitions("IndexDefinition"),
    }));
    let change = named(json!({"purge": flag()}));
    (object(&[words.table_id, "name"], new), object(&[], change))
}

fn shown_table(words: &Words) -> Value {
    whole(&[
        (text(), &["$id", "databaseId", "name", "description"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (texts(), &["$permissions"]),
        (flag(), &["enabled", words.row_security]),
        (list_of(reference(&name("Column", words))), &[words.columns]),
        (list_of(reference(&name("Index", words))), &["indexes"]),
        (integer(), &["bytesMax", "bytesUsed"]),
    ])
}

fn shown_column(words: &Words) -> Value {
    let formats = [&FORMATS[..], &[""]].concat();
    let mut column = whole(&[
        (text(), &["key", "description", "type", "error"]),
        (json!({"const": "available"}), &["status"]),
        (flag(), &["required", "array"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (json!({}), &["default"]),
    ]);
    let number = json!({"type": "number"});
    let by_kind = json!({
        "size": integer(), "encrypt": flag(), "min": number, "max": number,
        "format": {"enum": formats}, "elements": texts(),
        (words.related_table): text(), "relationType": {"enum": RelationKind::WORDS},
        "twoWay": flag(), "twoWayKey": text(), "onDelete": on_delete(),
        "side": {"enum": model::Side::WORDS},
    });
    let Value::Object(by_kind) = by_kind else {
        unreachable!("members are an object")
    };
    extend(&mut column["properties"], by_kind);
    column
}

fn on_delete() -> Value {
    json!({"enum": OnDelete::WORDS})
}

/// What a kind of column takes beside what all take.
fn limits_of(kind: &str) -> Map<String, Value> {
    let size = |chars_max: i64| json!({"type": "integer", "minimum": 1, "maximum": chars_max});
    let number = json!({"type": "number"});
    let limits = match kind {
        "string" => json!({"size": size(STRING_CHARS_MAX)}),
        "varchar" => json!({"size": size(VARCHAR_CHARS_MAX)}),
        "integer" | "bigint" => json!({"min": integer(), "max": integer()}),
        "float" => json!({"min": number, "max": number}),
        "enum" => json!({"elements": elements()}),
        _ => json!({}),
    };
    limits.as_object().cloned().unwrap_or_default()
}

fn elements() -> Value {
    let element = json!({"type": "string", "minLength": 1, "maxLength": ELEMENT_CHARS_MAX});
    json!({"type": "array", "minItems": 1, "maxItems": ELEMENTS_MAX, "items": element})
}

fn default_of(kind: &str) -> Value {
    or_null(match kind {
        "boolean" => flag(),
        "integer" | "bigint" => integer(),
        "float" => json!({"type": "number"}),
        "datetime" => instant(),
        _ => text(),
    })
}

fn new_column(kind: &str) -> Value {
    let mut members = json!({
        "key": id(), "required": flag(), "default": default_of(kind), "array": flag(),
        "description": text(),
    });
    match kind {
        "string" | "varchar" | "text" | "mediumtext" | "longtext" => members["encrypt"] = flag(),
        "integer" | "bigint" => members["signed"] = flag(),
        _ => {}
    }
    extend(&mut members, limits_of(kind));
    let needs = match kind {
        "string" | "varchar" => &["key", "required", "size"][..],
        "enum" => &["key", "required", "elements"],
        _ => &["key", "required"],
    };
    object(needs, members)
}

fn column_change(kind: &str) -> Value {
    let mut members = json!({
        "required": flag(), "default": default_of(kind), "newKey": id(), "description": text(),
    });
    extend(&mut members, limits_of(kind));
    let needs = match kind {
        "enum" => &["required", "default", "elements"][..],
        _ => &["required", "default"],
    };
    object(needs, members)
}

/// A column in the creation of its table: every kind by the same members.
fn column_definition() -> Value {
    let kinds = [&COLUMN_KINDS[..], &["double"]].concat();
    let number = json!({"type": "number"});
    let size = json!({"type": "integer", "minimum": 1, "maximum": STRING_CHARS_MAX});
    object(
        &["key", "type"],
        json!({
            "key": id(), "type": {"enum": kinds}, "required": flag(), "default": {},
            "array": flag(), "size": size, "elements": elements(), "min": number, "max": number,
            "signed": flag(), "format": {"enum": FORMATS}, "encrypt": flag(),
        }),
    )
}

/// An index alone, which names its columns by this word, or in the creation of its table by either.
fn index_definition(word: Option<&str>) -> Value {
    let keys = json!({"type": "array", "minItems": 1, "items": text()});
    let orders = json!({"enum": ["ASC", "DESC", "asc", "desc", null]});
    let mut members = json!({
        "key": id(), "type": {"enum": INDEX_TYPES}, "orders": list_of(orders),
        "lengths": list_of(or_null(integer())),
    });
    if let Some(word) = word {
        members[word] = keys;
        members["description"] = text();
        object(&["key", "type", word], members)
    } else {
        members["columns"] = keys.clone();
        members["attributes"] = keys;
        object(&["key", "type"], members)
    }
}

fn shown_index(words: &Words) -> Value {
    let statuses = ["available", "processing", "failed"];
    whole(&[
        (id(), &["$id", "key"]),
        (instant(), &["$createdAt", "$updatedAt"]),
        (text(), &["description", "error"]),
        (json!({"enum": INDEX_TYPES}), &["type"]),
        (json!({"enum": statuses}), &["status"]),
        (texts(), &[words.columns]),
        (list_of(integer()), &["lengths"]),
        (list_of(json!({"enum": ["ASC", "DESC"]})), &["orders"]),
    ])
}
