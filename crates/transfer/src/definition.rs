//! Definitions of databases and tables as exports hold them: what a table answers over the wire,
//! without what only that server can know (times, states).
//!
//! Members stand in the order of their names, so equal definitions are equal texts. The tables of
//! any compatible server come into the same form, whichever route family they were read by.

use engine::{NewColumn, NewIndex, NewRelationship, NewTable, OptionsChange, read_json};
use model::{Json, TableId};
use serde_json::{Map, Value, json};

use crate::refusal::Refusal;

/// Members of columns and indexes that are left out: what only the answering server knows.
const LEFT_OUT: &[&str] = &[
    "$id",
    "$createdAt",
    "$updatedAt",
    "status",
    "error",
    "description",
];

/// Members of a column that rows depend on.
const SHAPE: [&str; 9] = [
    "key",
    "type",
    "format",
    "array",
    "relatedTable",
    "relationType",
    "twoWay",
    "side",
    "encrypt",
];

/// A database: its id, name, and whether callers without a key see it.
pub fn database(answer: &Value) -> Value {
    json!({
        "id": answer["$id"],
        "name": answer["name"],
        "enabled": answer["enabled"].as_bool().unwrap_or(true),
    })
}

/// A table, from what the wire shows of it in either route family.
pub fn table(answer: &Value) -> Value {
    let either = |tables: &str, documents: &str| match &answer[tables] {
        Value::Null => answer[documents].clone(),
        value => value.clone(),
    };
    json!({
        "id": answer["$id"],
        "name": answer["name"],
        "enabled": answer["enabled"].as_bool().unwrap_or(true),
        "rowSecurity": either("rowSecurity", "documentSecurity").as_bool().unwrap_or(false),
        "permissions": answer["$permissions"],
        "columns": list(&either("columns", "attributes"), column),
        "indexes": list(&answer["indexes"], index),
    })
}

/// Adds to a table what its owner decided about its past, where that is not what a new table has
/// everywhere.
pub fn add_options(definition: &mut Value, options: &Value) {
    if options["history"]
        .as_str()
        .is_some_and(|history| history != "keep")
    {
        definition["history"] = options["history"].clone();
    }
    if options["pinnedMaxAge"]
        .as_u64()
        .is_some_and(|age_s| age_s > 0)
    {
        definition["pinnedMaxAge"] = options["pinnedMaxAge"].clone();
    }
    // Always: what a new table has is another thing where `--table-past` says so.
    if options["past"].is_string() {
        definition["past"] = options["past"].clone();
    }
    let ttl_max = options["ttlMax"].as_u64();
    if ttl_max.is_some_and(|age_s| age_s < u64::from(model::options::TTL_S_MAX)) {
        definition["ttlMax"] = options["ttlMax"].clone();
    }
}

/// What such a definition decides about the past of the table; `None` if it leaves that alone.
pub fn options(definition: &Value) -> Option<OptionsChange> {
    let change = OptionsChange {
        pinned_max_age_s: definition["pinnedMaxAge"].as_i64(),
        history: definition["history"].as_str().map(str::to_owned),
        past: definition["past"].as_str().map(str::to_owned),
        ttl_max_s: definition["ttlMax"].as_i64(),
    };
    let names_any = change.pinned_max_age_s.is_some()
        || change.history.is_some()
        || change.past.is_some()
        || change.ttl_max_s.is_some();
    names_any.then_some(change)
}

/// Those that are or will be there: what failed guards and finds nothing.
fn list(items: &Value, one: impl Fn(&Map<String, Value>) -> Value) -> Value {
    let items = items.as_array().into_iter().flatten();
    let is_there = |item: &&Map<String, Value>| {
        let status = item.get("status").and_then(Value::as_str);
        !matches!(status, Some("failed" | "stuck" | "deleting"))
    };
    let items = items.filter_map(Value::as_object).filter(is_there);
    items.map(one).collect()
}

fn kept(item: &Map<String, Value>) -> Map<String, Value> {
    let known = |name: &String| !LEFT_OUT.contains(&name.as_str());
    let members = item.iter().filter(|(name, value)| {
        // Absent and null mean the same in a definition.
        known(name) && !value.is_null()
    });
    members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn column(item: &Map<String, Value>) -> Value {
    let mut column = kept(item);
    if let Some(related) = column.remove("relatedCollection") {
        column.insert("relatedTable".to_owned(), related);
    }
    Value::Object(column)
}

/// Whether a column is an end of a relationship.
pub fn is_relationship(column: &Value) -> bool {
    column["type"] == "relationship"
}

/// Whether a column is the end of a relationship that holds its links.
pub fn holds_links(column: &Value) -> bool {
    let is_child = column["side"] == "child";
    is_relationship(column) && is_child == (column["relationType"] == "oneToMany")
}

fn index(item: &Map<String, Value>) -> Value {
    let mut index = kept(item);
    if let Some(columns) = index.remove("attributes") {
        index.insert("columns".to_owned(), columns);
    }
    Value::Object(index)
}

/// What rows depend on in a column.
pub type Shape = [String; SHAPE.len()];

/// The shape of each column.
pub fn shapes(definition: &Value) -> Vec<Shape> {
    let columns = definition["columns"].as_array().into_iter().flatten();
    columns.map(shape).collect()
}

/// The shape of a column.
pub fn shape(column: &Value) -> Shape {
    SHAPE.map(|name| match &column[name] {
        Value::String(text) => text.clone(),
        // A column that is not encrypted may say so or not.
        Value::Null | Value::Bool(false) if name == "encrypt" => String::new(),
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

/// What a definition was stripped of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// In words.
    pub said: Vec<String>,
    /// Keys of the columns among it: rows must come without them.
    pub columns_gone: Vec<String>,
}

/// What cannot be created here is taken out of the definition; says what, in words.
///
/// Spatial columns are not there at all. Indexes over a column that was taken out go with it.
pub fn without_foreign(definition: &mut Value) -> LeftOut {
    let table = definition["id"].as_str().unwrap_or_default().to_owned();
    let LeftOut {
        mut said,
        mut columns_gone,
    } = LeftOut::default();
    if let Some(columns) = definition["columns"].as_array_mut() {
        columns.retain(|column| {
            let (key, kind) = (text(&column["key"]), text(&column["type"]));
            let foreign = matches!(kind, "point" | "linestring" | "polygon");
            if foreign {
                said.push(format!("{table}: column `{key}` of type {kind}"));
                columns_gone.push(key.to_owned());
            }
            !foreign
        });
    }
    if let Some(indexes) = definition["indexes"].as_array_mut() {
        indexes.retain(|index| {
            let columns = index["columns"].as_array().into_iter().flatten();
            let foreign = columns
                .map(text)
                .any(|key| columns_gone.iter().any(|gone| gone == key));
            if foreign {
                said.push(format!("{table}: index `{}` over it", text(&index["key"])));
            }
            !foreign
        });
    }
    LeftOut { said, columns_gone }
}

/// An index that is left out, in words.
pub fn named_index(table: &str, index: &Value) -> String {
    let (key, kind) = (text(&index["key"]), text(&index["type"]));
    format!("{table}: index `{key}` of type {kind}")
}

/// Takes out indexes that only order nothing: full text and the like. Says which.
pub fn without_search(definition: &mut Value) -> Vec<String> {
    let table = definition["id"].as_str().unwrap_or_default().to_owned();
    let mut left_out = Vec::new();
    if let Some(indexes) = definition["indexes"].as_array_mut() {
        indexes.retain(|index| {
            let kind = text(&index["type"]);
            let plain = matches!(kind, "key" | "unique");
            if !plain {
                left_out.push(named_index(&table, index));
            }
            plain
        });
    }
    left_out
}

/// Takes out the index `key`, and says which it was.
pub fn without_index(definition: &mut Value, key: &str) -> Option<String> {
    let table = definition["id"].as_str().unwrap_or_default().to_owned();
    let indexes = definition["indexes"].as_array_mut()?;
    let at = indexes.iter().position(|index| index["key"] == key)?;
    Some(named_index(&table, &indexes.remove(at)))
}

/// The text; empty for anything else.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The table to create.
///
/// # Errors
/// When a part is missing or of another type.
pub fn new_table(definition: &Value) -> Result<NewTable, Refusal> {
    let id = text(&definition["id"]);
    let wrong = |what: String| Refusal::bad(format!("The definition of table `{id}`: {what}."));
    let columns = definition["columns"].as_array().into_iter().flatten();
    let indexes = definition["indexes"].as_array().into_iter().flatten();
    Ok(NewTable {
        id: TableId::new(id).map_err(|error| wrong(error.to_string()))?,
        name: text(&definition["name"]).to_owned(),
        permissions: texts(&definition["permissions"]),
        row_security: definition["rowSecurity"] == true,
        enabled: definition["enabled"] != false,
        columns: columns.map(new_column).collect(),
        indexes: indexes.map(new_index).collect(),
    })
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| text(item).to_owned()).collect()
}

/// The relationship to create, from the end of the table it is created on.
pub fn new_relationship(column: &Value) -> NewRelationship {
    let word = |name: &str| column[name].as_str().map(str::to_owned);
    NewRelationship {
        related: word("relatedTable").unwrap_or_default(),
        kind: word("relationType").unwrap_or_default(),
        two_way: column["twoWay"] == true,
        key: word("key"),
        partner_key: word("twoWayKey"),
        on_delete: word("onDelete"),
    }
}

/// The column to create.
#[allow(clippy::needless_update, reason = "definitions gain members over time")]
pub fn new_column(column: &Value) -> NewColumn {
    let json = |name: &str| match &column[name] {
        Value::Null => None,
        value => Some(to_json(value)),
    };
    NewColumn {
        key: text(&column["key"]).to_owned(),
        kind: text(&column["type"]).to_owned(),
        size: column["size"].as_i64(),
        required: column["required"] == true,
        default: json("default"),
        array: column["array"] == true,
        elements: column["elements"]
            .is_array()
            .then(|| texts(&column["elements"])),
        min: json("min"),
        max: json("max"),
        format: column["format"].as_str().map(str::to_owned),
        encrypt: column["encrypt"] == true,
        ..NewColumn::default()
    }
}

/// The index to create.
#[allow(clippy::needless_update, reason = "definitions gain members over time")]
pub fn new_index(index: &Value) -> NewIndex {
    let columns = texts(&index["columns"]);
    let orders = index["orders"].as_array().into_iter().flatten();
    let lengths = index["lengths"].as_array().into_iter().flatten();
    // Servers may give fewer orders or lengths than columns; what is missing is the default.
    let orders: Vec<Option<String>> = orders.map(|o| o.as_str().map(str::to_owned)).collect();
    let lengths: Vec<Option<i64>> = lengths
        .map(|length| length.as_i64().filter(|length| *length > 0))
        .collect();
    NewIndex {
        key: text(&index["key"]).to_owned(),
        kind: text(&index["type"]).to_owned(),
        orders: if orders.len() == columns.len() {
            orders
        } else {
            vec![]
        },
        lengths: if lengths.len() == columns.len() {
            lengths
        } else {
            vec![]
        },
        columns,
        ..NewIndex::default()
    }
}

/// By its text, so that the one reader of numbers decides what each is.
fn to_json(value: &Value) -> Json {
    read_json(value.to_string().as_bytes()).expect("a JSON value's own text is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents() -> Value {
        json!({
            "$id": "t", "name": "T", "$permissions": ["read(\"any\")"], "documentSecurity": true,
            "attributes": [
                {"key": "a", "type": "integer", "required": false, "min": -9_223_372_036_854_775_808_i64,
                 "max": 5, "status": "available", "error": "", "$createdAt": "x", "default": null},
                {"key": "r", "type": "relationship", "relatedCollection": "u"},
            ],
            "indexes": [
                {"key": "i", "type": "key", "attributes": ["a"], "orders": ["DESC"], "lengths": [0]},
                {"key": "j", "type": "key", "attributes": ["r"], "orders": []},
            ],
        })
    }

    #[test]
    fn both_families_come_into_one_form() {
        let written = table(&documents()).to_string();
        assert_eq!(
            written,
            "{\"columns\":[{\"key\":\"a\",\"max\":5,\"min\":-9223372036854775808,\
             \"required\":false,\"type\":\"integer\"},{\"key\":\"r\",\
             \"relatedTable\":\"u\",\"type\":\"relationship\"}],\"enabled\":true,\
             \"id\":\"t\",\"indexes\":[{\"columns\":[\"a\"],\"key\":\"i\",\"lengths\":[0],\
             \"orders\":[\"DESC\"],\"type\":\"key\"},{\"columns\":[\"r\"],\"key\":\"j\",\
             \"orders\":[],\"type\":\"key\"}],\"name\":\"T\",\
             \"permissions\":[\"read(\\\"any\\\")\"],\"rowSecurity\":true}"
        );
    }

    #[test]
    fn a_column_that_is_encrypted_is_another_than_one_that_is_not() {
        let plain = json!({"key": "a", "type": "text"});
        let with = |encrypt: Value| {
            let mut column = plain.clone();
            column["encrypt"] = encrypt;
            shape(&column)
        };
        assert_eq!(with(json!(false)), shape(&plain));
        assert_eq!(with(Value::Null), shape(&plain));
        assert_ne!(with(json!(true)), shape(&plain));
    }

    #[test]
    fn parts_that_cannot_be_created_are_left_out_and_named() {
        let mut answer = documents();
        answer["attributes"][1]["type"] = json!("point");
        let mut definition = table(&answer);
        let left_out = without_foreign(&mut definition);
        assert_eq!(left_out.columns_gone, ["r"]);
        assert_eq!(
            left_out.said,
            ["t: column `r` of type point", "t: index `j` over it"]
        );
        let new = new_table(&definition).unwrap();
        assert_eq!((new.columns.len(), new.indexes.len()), (1, 1));
        assert_eq!(new.columns[0].min, Some(Json::Int(i64::MIN)));
        assert_eq!(new.indexes[0].lengths, [None]);
        assert!(new.row_security && new.enabled);
    }

    #[test]
    fn options_stand_in_a_definition_where_they_are_not_those_of_a_new_table() {
        let mut plain = json!({"id": "t"});
        add_options(
            &mut plain,
            &json!({"pinnedMaxAge": 0, "history": "keep", "past": "keys", "ttlMax": 86_400,
                "keptFrom": null}),
        );
        assert_eq!(plain, json!({"id": "t", "past": "keys"}));
        assert_eq!(options(&plain).unwrap().past.as_deref(), Some("keys"));
        assert!(options(&json!({"id": "t"})).is_none());
        add_options(
            &mut plain,
            &json!({"pinnedMaxAge": 60, "history": "days(7)", "past": "both", "ttlMax": 0}),
        );
        assert_eq!(
            plain,
            json!({"id": "t", "history": "days(7)", "pinnedMaxAge": 60, "past": "both", "ttlMax": 0})
        );
        let change = options(&plain).unwrap();
        assert_eq!(
            (
                change.pinned_max_age_s,
                change.history.as_deref(),
                change.past.as_deref(),
                change.ttl_max_s,
            ),
            (Some(60), Some("days(7)"), Some("both"), Some(0))
        );
    }

    #[test]
    fn a_table_without_an_id_is_refused() {
        let refusal = new_table(&json!({"name": "x"})).unwrap_err();
        assert!(refusal.message.contains("table ``"), "{}", refusal.message);
    }
}
