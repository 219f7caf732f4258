//! Many rows at once, for keys only; and counting a column of one row up or down.

use std::rc::Rc;

use engine::{Act, Bulk, Bulked, Caller, EngineError, Increment, ReadError};
use hyper::StatusCode;
use model::{Json, Marked, RowId};

use super::idempotency::Shape;
use super::transactions::{stage_row, stage_rows, transaction_in};
use crate::http::input::context::{RequestContext, check_queries};
use crate::http::input::fields::Fields;
use crate::http::input::row_input::{ROWS_MAX, inner_row, need_no_period, period};
use crate::http::reply::Reply;
use crate::http::wire::error::{ApiError, Kind};

/// `PUT /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn upsert(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let unchanged_since = context.unchanged_since()?;
    let mut fields = context.fields().await?;
    need_no_period(&fields)?;
    let transaction = transaction_in(&mut fields)?;
    let rows = fields.objects(context.words.rows, ROWS_MAX)?;
    if rows.is_empty() {
        return Err(ApiError::missing(context.words.rows));
    }
    let rows = rows.into_iter().map(|row| inner_row(context.sender(), row));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    if let Some(id) = transaction {
        let count = rows.len();
        return stage_rows(&context, &caller, &id, Act::UpsertMany(rows), count).await;
    }
    let (engine, caller) = (&context.app.shared.engine, writer(&context, caller));
    let written = engine.upsert_rows(&caller, context.place(), rows, unchanged_since);
    let written = written.await?;
    let total = written.answer.rows.len() as u64;
    Ok(MANY.written(&context, &caller, (total, written)).await)
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn update(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let unchanged_since = context.unchanged_since()?;
    let mut fields = context.fields().await?;
    need_no_period(&fields)?;
    let transaction = transaction_in(&mut fields)?;
    let members = fields.object("data")?.unwrap_or_default();
    let texts = queries(&context, &mut fields)?;
    if let Some(id) = transaction {
        // How many rows match is known when it is committed.
        let act = Act::UpdateMany { texts, members };
        return stage_rows(&context, &caller, &id, act, 0).await;
    }
    let bulk = Bulk {
        place: context.place(),
        texts: &texts,
        unchanged_since,
    };
    let (engine, caller) = (&context.app.shared.engine, writer(&context, caller));
    let written = engine.update_rows(&caller, &bulk, &members).await?;
    Ok(bulked(&context, &caller, written).await)
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn delete(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let unchanged_since = context.unchanged_since()?;
    let mut fields = context.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let texts = queries(&context, &mut fields)?;
    let members = period(&context.query, &mut fields);
    if let Some(id) = transaction {
        let act = Act::DeleteMany { texts, members };
        return stage_rows(&context, &caller, &id, act, 0).await;
    }
    let bulk = Bulk {
        place: context.place(),
        texts: &texts,
        unchanged_since,
    };
    let (engine, caller) = (&context.app.shared.engine, writer(&context, caller));
    let written = engine.delete_rows(&caller, &bulk, &members).await?;
    Ok(bulked(&context, &caller, written).await)
}

/// How many rows are answered.
const MANY: Shape = Shape::Rows(StatusCode::OK);

fn writer(context: &RequestContext<'_>, caller: Rc<Caller>) -> Rc<Caller> {
    let family = context.family;
    context.writer(caller, move |effect| MANY.reply(effect, family))
}

async fn bulked(context: &RequestContext<'_>, caller: &Caller, written: Marked<Bulked>) -> Reply {
    let Marked { answer, mark } = written;
    let Bulked { total, page } = answer;
    let written = Marked { answer: page, mark };
    MANY.written(context, caller, (total, written)).await
}

/// The queries of the body, or else of the query string: where a client sent them to the other
/// place, "no queries" must not be heard as "every row".
fn queries(context: &RequestContext<'_>, fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let texts = check_queries(fields.texts("queries")?)?;
    if texts.is_empty() {
        return Ok(context.query.queries.clone());
    }
    Ok(texts)
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/rows/{row}/{column}/increment`, and `decrement`.
pub async fn count(mut context: RequestContext<'_>, is_down: bool) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let unchanged_since = context.unchanged_since()?;
    let mut fields = context.fields().await?;
    need_no_period(&fields)?;
    let transaction = transaction_in(&mut fields)?;
    let increment = Increment {
        id: context.id(context.words.row_id, &context.ids.row, RowId::new)?,
        column: &context.ids.column,
        is_down,
        by: fields.take("value").unwrap_or(Json::Int(1)),
        bound: fields.take(if is_down { "min" } else { "max" }),
        unchanged_since,
    };
    if let Some(id) = transaction {
        let act = Act::Increment {
            id: increment.id,
            column: increment.column.to_owned(),
            is_down,
            by: increment.by,
            bound: increment.bound,
        };
        let staged = stage_row(&context, &caller, &id, act, StatusCode::OK).await;
        return staged.map_err(|error| match error.kind {
            Kind::RowNotFound => ApiError::new(Kind::ColumnNotFound, error.message(context.family)),
            _ => error,
        });
    }
    let (engine, family) = (&context.app.shared.engine, context.family);
    let shape = Shape::Row(StatusCode::OK);
    let caller = context.writer(caller, move |effect| shape.reply(effect, family));
    let written = engine.increment_row(&caller, context.place(), &increment);
    let written = written.await.map_err(|error| match error {
        // The protocol has one answer for a row and for a column that is not there.
        EngineError::Read(ReadError::RowNotFound(_)) => {
            ApiError::new(Kind::ColumnNotFound, error.to_string())
        }
        other => other.into(),
    })?;
    Ok(shape.written(&context, &caller, (1, written)).await)
}
