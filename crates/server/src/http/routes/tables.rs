//! Tables: list, create, get, update, purge, delete.

use engine::limits::DEFINITIONS_MAX;
use engine::{NewColumn, NewIndex, NewTable, TableChange};
use model::{Json, TableId};

use super::columns::least;
use crate::http::input::context::RequestContext;
use crate::http::input::fields::Fields;
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `GET /v1/tablesdb/{database}/tables`
pub fn list(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let listed = engine.list_tables(&caller, &context.ids.database, context.containers()?)?;
    Ok(Reply::ok(wire::tables(
        listed.total,
        &listed.items,
        context.words,
    )))
}

/// `POST /v1/tablesdb/{database}/tables`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let words = context.words;
    let id = fields.required_text(words.table_id)?;
    let table = NewTable {
        id: context.id(words.table_id, &id, TableId::new)?,
        name: fields.required_text("name")?,
        permissions: fields.texts("permissions")?.unwrap_or_default(),
        row_security: fields.flag(words.row_security)?.unwrap_or(false),
        enabled: fields.flag("enabled")?.unwrap_or(true),
        columns: definitions(&mut fields, words.columns, new_column)?,
        indexes: definitions(&mut fields, "indexes", new_index)?,
    };
    let made = context
        .app
        .shared
        .engine
        .create_table(&caller, &context.ids.database, table)
        .await?;
    Ok(Reply::created(wire::table(&made, words)))
}

fn definitions<T>(
    fields: &mut Fields,
    name: &'static str,
    read: impl Fn(Fields) -> Result<T, ApiError>,
) -> Result<Vec<T>, ApiError> {
    fields
        .objects(name, DEFINITIONS_MAX)?
        .into_iter()
        .map(read)
        .collect()
}

fn new_column(mut fields: Fields) -> Result<NewColumn, ApiError> {
    let (key, kind) = (fields.required_text("key")?, fields.required_text("type")?);
    let min = least(&mut fields, &kind)?;
    Ok(NewColumn {
        key,
        kind,
        size: fields.integer("size")?,
        required: fields.flag("required")?.unwrap_or(false),
        default: fields.take("default"),
        array: fields.flag("array")?.unwrap_or(false),
        elements: fields.texts("elements")?,
        min,
        max: fields.take("max"),
        format: fields.text("format")?,
        encrypt: fields.flag("encrypt")?.unwrap_or(false),
    })
}

pub(in crate::http) fn new_index(mut fields: Fields) -> Result<NewIndex, ApiError> {
    let key = fields.required_text("key")?;
    let kind = fields.required_text("type")?;
    // Inline definitions say `attributes` in both families; `columns` is taken as well.
    let columns = match fields.texts("attributes")? {
        Some(columns) => columns,
        None => fields.texts("columns")?.unwrap_or_default(),
    };
    let orders = optional(
        &mut fields,
        "orders",
        "an array of strings",
        |json| match json {
            Json::Text(order) => Some(order.clone()),
            _ => None,
        },
    )?;
    let lengths = optional(
        &mut fields,
        "lengths",
        "an array of integers",
        |json| match json {
            Json::Int(length) => Some(*length),
            _ => None,
        },
    )?;
    Ok(NewIndex {
        key,
        kind,
        columns,
        orders,
        lengths,
    })
}

/// An array whose elements may be null.
fn optional<T>(
    fields: &mut Fields,
    name: &'static str,
    wanted: &str,
    read: impl Fn(&Json) -> Option<T>,
) -> Result<Vec<Option<T>>, ApiError> {
    let elements = fields.list(name)?.unwrap_or_default();
    let one = |json: &Json| match json {
        Json::Null => Ok(None),
        json => {
            let value = read(json);
            value
                .map(Some)
                .ok_or_else(|| fields.refuse(name, wanted, json))
        }
    };
    elements.iter().map(one).collect()
}

/// `GET /v1/tablesdb/{database}/tables/{table}`
pub fn get(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let table = context
        .app
        .shared
        .engine
        .get_table(&*context.caller()?, context.place())?;
    Ok(Reply::ok(wire::table(&table, context.words)))
}

/// `PUT /v1/tablesdb/{database}/tables/{table}`, which also purges the table's cached lists.
pub async fn update(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let change = TableChange {
        name: fields.text("name")?,
        permissions: fields.texts("permissions")?,
        row_security: fields.flag(context.words.row_security)?,
        enabled: fields.flag("enabled")?,
        purge: fields.flag("purge")?.unwrap_or(false),
    };
    let changed = context
        .app
        .shared
        .engine
        .update_table(&caller, context.place(), change)
        .await?;
    Ok(Reply::ok(wire::table(&changed, context.words)))
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}`
pub async fn delete(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    context
        .app
        .shared
        .engine
        .delete_table(&caller, context.place())
        .await?;
    Ok(Reply::empty())
}

#[cfg(test)]
mod tests {
    use engine::Family;

    use super::*;

    fn inner(body: &str) -> Fields {
        Fields::within("indexes", engine::read_json(body.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_column_keeps_what_was_sent_for_the_engine_to_judge() {
        let body = r#"{"key":"k","type":"integer","required":true,"min":1,"max":2.5,"array":null}"#;
        let column = new_column(inner(body)).unwrap();
        assert_eq!(
            (column.key.as_str(), column.kind.as_str()),
            ("k", "integer")
        );
        assert_eq!((column.required, column.array), (true, false));
        assert_eq!(
            (column.min, column.max),
            (Some(Json::Int(1)), Some(Json::Float(2.5)))
        );
        assert_eq!((column.default, column.size), (None, None));
    }

    #[test]
    fn an_index_names_its_columns_by_either_word() {
        for word in ["attributes", "columns"] {
            let body = format!(
                r#"{{"key":"k","type":"key","{word}":["a","b"],"orders":["asc",null],"lengths":[5,null]}}"#
            );
            let index = new_index(inner(&body)).unwrap();
            assert_eq!(index.columns, ["a", "b"]);
            assert_eq!(index.orders, [Some("asc".to_owned()), None]);
            assert_eq!(index.lengths, [Some(5), None]);
        }
    }

    #[test]
    fn a_definition_without_key_or_with_nonsense_is_refused() {
        for body in [
            r#"{"type":"key"}"#,
            r#"{"key":"k"}"#,
            r#"{"key":"k","type":"key","orders":[5]}"#,
            r#"{"key":"k","type":"key","lengths":["5"]}"#,
            r#"{"key":"k","type":"key","attributes":[5]}"#,
        ] {
            let error = new_index(inner(body)).unwrap_err();
            let said = error.message(Family::Tables);
            assert!(
                said.starts_with("Invalid `indexes` param: "),
                "{body}: {said}"
            );
        }
    }
}
