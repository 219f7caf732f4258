//! Many rows at once, for keys only; and counting a column of one row up or down.

use engine::{Bulk, EngineError, Increment};
use model::{Json, RowId};

use super::error::{ApiError, Kind};
use super::extract::{Asked, check_queries, refuse_transaction_in};
use super::fields::Fields;
use super::reply::Reply;
use super::rows::{ROWS_MAX, inner_row};
use super::wire;

/// `PUT /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn upsert(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.key_caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let mut fields = asked.fields().await?;
    refuse_transaction_in(&mut fields)?;
    let rows = fields.objects(asked.words.rows, ROWS_MAX)?;
    if rows.is_empty() {
        return Err(ApiError::missing(asked.words.rows));
    }
    let rows = rows.into_iter().map(|row| inner_row(&asked, row));
    let rows = rows.collect::<Result<_, _>>()?;
    let engine = &asked.app.shared.engine;
    let written = engine
        .upsert_rows(&caller, asked.place(), rows, unchanged_since)
        .await?;
    Ok(Reply::ok(wire::rows(&written.answer, asked.words)))
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn update(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.key_caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let mut fields = asked.fields().await?;
    refuse_transaction_in(&mut fields)?;
    let members = fields.object("data")?.unwrap_or_default();
    let texts = queries(&asked, &mut fields)?;
    let bulk = Bulk {
        place: asked.place(),
        texts: &texts,
        unchanged_since,
    };
    let engine = &asked.app.shared.engine;
    let written = engine.update_rows(&caller, &bulk, &members).await?.answer;
    let body = wire::rows_of(written.total, &written.page, asked.words);
    Ok(Reply::ok(body))
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn delete(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.key_caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let mut fields = asked.fields().await?;
    refuse_transaction_in(&mut fields)?;
    let texts = queries(&asked, &mut fields)?;
    let bulk = Bulk {
        place: asked.place(),
        texts: &texts,
        unchanged_since,
    };
    let engine = &asked.app.shared.engine;
    let written = engine.delete_rows(&caller, &bulk).await?.answer;
    let body = wire::rows_of(written.total, &written.page, asked.words);
    Ok(Reply::ok(body))
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
    refuse_transaction_in(&mut fields)?;
    let increment = Increment {
        id: asked.id(asked.words.row_id, &asked.ids.row, RowId::new)?,
        column: &asked.ids.column,
        is_down,
        by: fields.take("value").unwrap_or(Json::Int(1)),
        bound: fields.take(if is_down { "min" } else { "max" }),
        unchanged_since,
    };
    let engine = &asked.app.shared.engine;
    let written = engine.increment_row(&caller, asked.place(), &increment);
    let written = written.await.map_err(|error| match error {
        // The protocol has one answer for a row and for a column that is not there.
        EngineError::RowNotFound(_) => ApiError::new(Kind::ColumnNotFound, error.to_string()),
        other => other.into(),
    })?;
    let body = wire::encode_page(&written.answer, asked.family);
    Ok(Reply::ok(body))
}
