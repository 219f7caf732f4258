//! Columns of a table: list, create, get, update, delete.

use engine::{ColumnChange, NewColumn};
use model::Json;

use crate::http::input::context::RequestContext;
use crate::http::input::fields::Fields;
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `GET /v1/tablesdb/{database}/tables/{table}/columns`
pub fn list(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let listed = engine.list_columns(&caller, context.place(), context.containers()?)?;
    Ok(Reply::ok(wire::columns(
        listed.total,
        &listed.items,
        context.words,
    )))
}

/// `POST /v1/tablesdb/{database}/tables/{table}/columns/{kind}`
pub async fn create(
    mut context: RequestContext<'_>,
    kind: &'static str,
) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let new = new_column(context.fields().await?, kind)?;
    let engine = &context.app.shared.engine;
    let made = engine.create_column(&caller, context.place(), &new).await?;
    Ok(Reply::accepted(wire::column(&made, context.words)))
}

fn new_column(mut fields: Fields, kind: &str) -> Result<NewColumn, ApiError> {
    check_description(&mut fields)?;
    let min = least(&mut fields, kind)?;
    Ok(NewColumn {
        key: fields.required_text("key")?,
        kind: kind.to_owned(),
        size: fields.integer("size")?,
        required: fields.required_flag("required")?,
        default: fields.take("default"),
        array: fields.flag("array")?.unwrap_or(false),
        elements: fields.texts("elements")?,
        min,
        max: fields.take("max"),
        format: None,
        encrypt: fields.flag("encrypt")?.unwrap_or(false),
    })
}

/// The least number of a column as sent, which for `signed: false` is 0 or above.
///
/// # Errors
/// `signed: false` of a column that holds no integers, or beside a `min` below 0: it would be
/// dropped in silence, and the column would take what it must not.
pub fn least(fields: &mut Fields, kind: &str) -> Result<Option<Json>, ApiError> {
    let min = fields.take("min");
    if fields.flag("signed")?.unwrap_or(true) {
        return Ok(min);
    }
    if !["integer", "bigint"].contains(&kind) {
        let why = format!("Columns of type `{kind}` cannot have it false; those of integers can.");
        return Err(ApiError::invalid("signed", why));
    }
    match min {
        None | Some(Json::Null) => Ok(Some(Json::Int(0))),
        Some(Json::Int(least)) if least < 0 => {
            let why = format!("Value must not be false with a `min` of {least}.");
            Err(ApiError::invalid("signed", why))
        }
        min => Ok(min),
    }
}

/// `GET /v1/tablesdb/{database}/tables/{table}/columns/{column}`
pub fn get(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let column = engine.get_column(&caller, context.place(), &context.ids.column)?;
    Ok(Reply::ok(wire::column(&column, context.words)))
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/columns/{kind}/{column}`
pub async fn update(
    mut context: RequestContext<'_>,
    kind: &'static str,
) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let change = column_change(context.fields().await?, kind)?;
    let engine = &context.app.shared.engine;
    let changed = engine
        .update_column(&caller, context.place(), &context.ids.column, &change)
        .await?;
    Ok(Reply::ok(wire::column(&changed, context.words)))
}

fn column_change(mut fields: Fields, kind: &'static str) -> Result<ColumnChange, ApiError> {
    check_description(&mut fields)?;
    Ok(ColumnChange {
        kind,
        new_key: fields.text("newKey")?,
        required: fields.required_flag("required")?,
        default: fields.required_or_null("default")?,
        size: fields.integer("size")?,
        elements: fields.texts("elements")?,
        min: fields.take("min"),
        max: fields.take("max"),
    })
}

/// Newer clients send one; it is taken and not kept.
fn check_description(fields: &mut Fields) -> Result<(), ApiError> {
    fields.text("description").map(drop)
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/columns/{column}`
pub async fn delete(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    engine
        .delete_column(&caller, context.place(), &context.ids.column)
        .await?;
    Ok(Reply::empty())
}

#[cfg(test)]
mod tests {
    use engine::{Family, JsonBudget};
    use model::Json;

    use super::*;

    fn fields(body: &str) -> Fields {
        Fields::read(body.as_bytes(), &JsonBudget::new(1_000)).unwrap()
    }

    #[test]
    fn a_definition_is_kept_as_it_was_sent() {
        let body = r#"{"key":"k","required":false,"min":1,"default":2.5,"description":"d"}"#;
        let column = new_column(fields(body), "integer").unwrap();
        assert_eq!(
            (column.key.as_str(), column.kind.as_str()),
            ("k", "integer")
        );
        assert_eq!(
            (column.min, column.default),
            (Some(Json::Int(1)), Some(Json::Float(2.5)))
        );
        assert_eq!((column.size, column.max, column.array), (None, None, false));
    }

    #[test]
    fn a_change_must_say_what_becomes_of_the_default() {
        let body = r#"{"required":false,"default":null,"newKey":"n","size":5}"#;
        let change = column_change(fields(body), "varchar").unwrap();
        assert_eq!((change.default, change.size), (None, Some(5)));
        assert_eq!(change.new_key.as_deref(), Some("n"));
        for (body, missing) in [
            (r#"{"default":null}"#, "required"),
            (r#"{"required":null,"default":null}"#, "required"),
            (r#"{"required":true}"#, "default"),
        ] {
            let refused = column_change(fields(body), "varchar").unwrap_err();
            assert_eq!(
                refused.message(Family::Tables),
                format!("Param \"{missing}\" is not optional.")
            );
        }
    }

    #[test]
    fn wrong_types_are_refused_by_name() {
        for (member, name) in [
            (r#""description":5"#, "description"),
            (r#""elements":[5]"#, "elements"),
            (r#""size":1.5"#, "size"),
        ] {
            let body = format!(r#"{{"key":"k","required":false,"default":null,{member}}}"#);
            for refused in [
                new_column(fields(&body), "enum").unwrap_err(),
                column_change(fields(&body), "enum").unwrap_err(),
            ] {
                let said = refused.message(Family::Tables);
                assert!(
                    said.starts_with(&format!("Invalid `{name}` param: ")),
                    "{said}"
                );
            }
        }
    }
}
