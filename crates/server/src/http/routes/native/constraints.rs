//! Constraints over valid time, and tables for tests.

use engine::{NamedChange, NamedConstraints, NewColumn, NewTable, Place};
use model::{DatabaseId, DatabaseKind, Json, TableId};

use super::in_case_language;
use crate::http::input::context::RequestContext;
use crate::http::input::fields::Fields;
use crate::http::reply::Reply;
use crate::http::wire::error::{ApiError, Kind};
use crate::http::wire::{SortedObject, written, written_array};

/// The database that [`reset`] makes.
const CASES: &str = "cases";

/// What is to hold of one table.
fn declared(fields: &mut Fields) -> Result<NamedConstraints, ApiError> {
    fields.need_known(&["unique", "refs"])?;
    let wrong = || ApiError::invalid("unique", "Value must be an array of arrays of columns.");
    let key = |json: Json| match json {
        Json::List(columns) => {
            let columns = columns.iter().map(|c| c.as_str().map(str::to_owned));
            columns.collect::<Option<Vec<_>>>().ok_or_else(wrong)
        }
        _ => Err(wrong()),
    };
    let unique = fields.list("unique")?.unwrap_or_default();
    let refs = fields.list("refs")?.unwrap_or_default();
    let reference = |json: Json| {
        let mut fields = Fields::within("refs", json)?;
        fields.need_known(&["column", "table"])?;
        Ok((
            fields.required_text("column")?,
            fields.required_text("table")?,
        ))
    };
    Ok(NamedConstraints {
        unique: unique.into_iter().map(key).collect::<Result<_, _>>()?,
        refs: refs
            .into_iter()
            .map(reference)
            .collect::<Result<_, ApiError>>()?,
    })
}

/// `GET /v1/tidemark/databases/{database}/tables/{table}/constraints`
pub async fn constraints_shown(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let engine = &context.app.shared.engine;
    Ok(shown(&engine.constraints(&caller, context.place()).await?))
}

/// `PUT`, `POST` and `DELETE /v1/tidemark/databases/{database}/tables/{table}/constraints`
pub async fn constrain(
    mut context: RequestContext<'_>,
    change: impl FnOnce(NamedConstraints) -> NamedChange,
) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let declared = declared(&mut context.fields().await?)?;
    let engine = &context.app.shared.engine;
    let change = change(declared);
    let done = engine.constrain(&caller, context.place(), &change).await;
    Ok(shown(&done.map_err(in_case_language)?))
}

fn shown(constraints: &NamedConstraints) -> Reply {
    let refs = constraints.refs.iter();
    let refs = refs.map(|(column, table)| {
        SortedObject::from([("column", written(column)), ("table", written(table))]).written()
    });
    let body = SortedObject::from([
        ("unique", written(&constraints.unique)),
        ("refs", written_array(refs)),
    ]);
    Reply::ok(body.written())
}

/// `POST /v1/tidemark/test/reset`: empties the project's databases, forgets every mark, and makes
/// the database `cases` with the tables asked for. Only where the clock is set by clients.
pub async fn reset(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    if context.app.shared.test_clock.is_none() {
        return Err(ApiError::new(
            Kind::RouteNotFound,
            "Only a server with --test-clock can be reset.",
        ));
    }
    let mut fields = context.fields().await?;
    let tables = fields.object("tables")?.unwrap_or_default();
    // All of it is read before anything goes.
    let tables = tables.into_iter().map(|(id, json)| table(&id, json));
    let tables = tables.collect::<Result<Vec<_>, ApiError>>()?;
    let engine = &context.app.shared.engine;
    let all = engine::ListContainers {
        texts: &[],
        search: "",
        total: false,
    };
    loop {
        let databases = engine.list_databases(&caller, all)?;
        if databases.items.is_empty() {
            break;
        }
        for database in databases.items {
            engine
                .delete_database(&caller, database.id.as_str())
                .await?;
        }
    }
    let id = DatabaseId::new(CASES).expect("a legal id");
    let kind = DatabaseKind::Tablesdb;
    engine
        .create_database(&caller, id, CASES.to_owned(), true, kind)
        .await?;
    for (table, _) in &tables {
        engine.create_table(&caller, CASES, table.clone()).await?;
    }
    for (table, change) in &tables {
        let place = Place {
            database: CASES,
            table: table.id.as_str(),
        };
        engine.constrain(&caller, place, change).await?;
    }
    engine.rewind().await?;
    let body = SortedObject::from([("horizon", written(&0))]);
    Ok(Reply::ok(body.written()))
}

/// A table of a test, and what is to hold of it.
fn table(id: &str, json: Json) -> Result<(NewTable, NamedChange), ApiError> {
    let mut fields = Fields::within("tables", json)?;
    let columns = fields.object("columns")?.unwrap_or_default();
    let columns = columns.iter().map(|(key, word)| column(key, word));
    let table = NewTable {
        id: TableId::new(id).map_err(|error| ApiError::invalid("tables", error.to_string()))?,
        name: id.to_owned(),
        permissions: Vec::new(),
        row_security: false,
        enabled: true,
        columns: columns.collect::<Result<_, _>>()?,
        indexes: Vec::new(),
    };
    let change = NamedChange::Replace(declared(&mut fields)?);
    Ok((table, change))
}

/// A column that may be null, of one of the four types of the case language.
fn column(key: &str, word: &Json) -> Result<NewColumn, ApiError> {
    let kind = match word.as_str() {
        Some("integer") => "bigint",
        Some("float") => "double",
        Some("string") => "text",
        Some("boolean") => "boolean",
        _ => {
            let why = "Columns are integer, float, string or boolean.";
            return Err(ApiError::invalid("tables", why));
        }
    };
    Ok(NewColumn {
        key: key.to_owned(),
        kind: kind.to_owned(),
        ..NewColumn::default()
    })
}
