//! Many rows at once, for keys only; and counting a column of one row up or down.

use std::rc::Rc;

use engine::{Act, Bulk, Bulked, Caller, EngineError, Increment, ReadError};
use hyper::StatusCode;
use model::{Json, Marked, RowId};

use super::error::{ApiError, Kind};
use super::extract::{Asked, check_queries};
use super::fields::Fields;
use super::once::Shape;
use super::reply::Reply;
use super::row_input::{ROWS_MAX, inner_row};
use super::transactions::{stage_row, stage_rows, transaction_in};

/// `PUT /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn upsert(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.key_caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let mut fields = asked.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let rows = fields.objects(asked.words.rows, ROWS_MAX)?;
    if rows.is_empty() {
        return Err(ApiError::missing(asked.words.rows));
    }
    let rows = rows.into_iter().map(|row| inner_row(asked.sender(), row));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    if let Some(id) = transaction {
        let count = rows.len();
        return stage_rows(&asked, &caller, &id, Act::UpsertMany(rows), count).await;
    }
    let (engine, caller) = (&asked.app.shared.engine, writer(&asked, caller));
    let written = engine.upsert_rows(&caller, asked.place(), rows, unchanged_since);
    let written = written.await?;
    let total = written.answer.rows.len() as u64;
    Ok(MANY.written(&asked, &caller, (total, written)).await)
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn update(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.key_caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let mut fields = asked.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let members = fields.object("data")?.unwrap_or_default();
    let texts = queries(&asked, &mut fields)?;
    if let Some(id) = transaction {
        // How many rows match is known when it is committed.
        let act = Act::UpdateMany { texts, members };
        return stage_rows(&asked, &caller, &id, act, 0).await;
    }
    let bulk = Bulk {
        place: asked.place(),
        texts: &texts,
        unchanged_since,
    };
    let (engine, caller) = (&asked.app.shared.engine, writer(&asked, caller));
    let written = engine.update_rows(&caller, &bulk, &members).await?;
    Ok(bulked(&asked, &caller, written).await)
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn delete(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.key_caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let mut fields = asked.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let texts = queries(&asked, &mut fields)?;
    if let Some(id) = transaction {
        return stage_rows(&asked, &caller, &id, Act::DeleteMany { texts }, 0).await;
    }
    let bulk = Bulk {
        place: asked.place(),
        texts: &texts,
        unchanged_since,
    };
    let (engine, caller) = (&asked.app.shared.engine, writer(&asked, caller));
    let written = engine.delete_rows(&caller, &bulk).await?;
    Ok(bulked(&asked, &caller, written).await)
}

/// How many rows are answered.
const MANY: Shape = Shape::Rows(StatusCode::OK);

fn writer(asked: &Asked<'_>, caller: Rc<Caller>) -> Rc<Caller> {
    let family = asked.family;
    asked.writer(caller, move |effect| MANY.reply(effect, family))
}

async fn bulked(asked: &Asked<'_>, caller: &Caller, written: Marked<Bulked>) -> Reply {
    let Marked { answer, mark } = written;
    let Bulked { total, page } = answer;
    let written = Marked { answer: page, mark };
    MANY.written(asked, caller, (total, written)).await
}

/// The queries of the body, or else of the query string: where a client sent them to the other
/// place, "no queries" must not be heard as "every row".
fn queries(asked: &Asked<'_>, fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let texts = check_queries(fields.texts("queries")?)?;
    if texts.is_empty() {
        return Ok(asked.query.queries.clone());
    }
    Ok(texts)
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/rows/{row}/{column}/increment`, and `decrement`.
pub async fn count(mut asked: Asked<'_>, is_down: bool) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let mut fields = asked.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let increment = Increment {
        id: asked.id(asked.words.row_id, &asked.ids.row, RowId::new)?,
        column: &asked.ids.column,
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
        let staged = stage_row(&asked, &caller, &id, act, StatusCode::OK).await;
        return staged.map_err(|error| match error.kind {
            Kind::RowNotFound => ApiError::new(Kind::ColumnNotFound, error.message(asked.family)),
            _ => error,
        });
    }
    let (engine, family) = (&asked.app.shared.engine, asked.family);
    let shape = Shape::Row(StatusCode::OK);
    let caller = asked.writer(caller, move |effect| shape.reply(effect, family));
    let written = engine.increment_row(&caller, asked.place(), &increment);
    let written = written.await.map_err(|error| match error {
        // The protocol has one answer for a row and for a column that is not there.
        EngineError::Read(ReadError::RowNotFound(_)) => {
            ApiError::new(Kind::ColumnNotFound, error.to_string())
        }
        other => other.into(),
    })?;
    Ok(shape.written(&asked, &caller, (1, written)).await)
}
