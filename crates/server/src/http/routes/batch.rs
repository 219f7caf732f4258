//! Many reads or many writes in one request: routes of this server's own.

use engine::{BATCH_ROWS_READ_MAX, BatchPart, BatchRead, BatchWrite, EngineError, WantedRows};
use model::{Json, RowId};

use super::native::{mark, time};
use super::transactions::read_operation;
use crate::http::input::context::{RequestContext, check_queries};
use crate::http::input::fields::Fields;
use crate::http::reply::Reply;
use crate::http::wire::error::ApiError;
use crate::http::wire::{self, InstantForm};

/// Most parts of one request that reads.
pub const READS_MAX: usize = 100;
/// Most operations of one request that writes.
pub const OPERATIONS_MAX: usize = 1_000;

/// `POST /v1/tidemark/databases/{database}/batch/reads`
pub async fn read(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let form = context.instant_form()?.unwrap_or(InstantForm::Iso);
    let mut fields = context.fields().await?;
    if !fields.holds("reads") {
        return Err(ApiError::missing("reads"));
    }
    let parts = fields.objects("reads", READS_MAX)?;
    let parts = parts.into_iter().map(part).collect::<Result<Vec<_>, _>>()?;
    need_rows(parts.iter().map(|part| part.rows.count()).sum())?;
    let engine = &context.app.shared.engine;
    let read = engine
        .read_batch(&caller, &context.ids.database, parts)
        .await?;
    let results = read
        .answer
        .into_iter()
        .map(|part| part.map_err(ApiError::from));
    let results: Vec<Result<BatchPart, ApiError>> = results.collect();
    let (mark, wording) = (read.mark, (context.words, form));
    let bytes = wire::size_bytes(&results);
    let of_guest = caller.is_guest();
    context.app.sending.need_room(bytes, of_guest)?;
    let body = engine.offload(bytes, of_guest, move || {
        wire::batch_read(mark, &results, wording)
    });
    Ok(Reply::ok(body.await?))
}

/// Whether so many rows can be asked for at once.
pub fn need_rows(count: usize) -> Result<(), ApiError> {
    if (1..=BATCH_ROWS_READ_MAX).contains(&count) {
        return Ok(());
    }
    let why = format!("From 1 to {BATCH_ROWS_READ_MAX} rows can be context for, got {count}.");
    Err(ApiError::invalid("reads", why))
}

/// One part as sent: rows of a table by `ids`, or by `keys` of a unique `index`.
pub fn part(mut fields: Fields) -> Result<BatchRead, ApiError> {
    let table = fields.required_text("tableId")?;
    let texts = check_queries(fields.texts("queries")?)?;
    let ids = fields.texts("ids")?;
    let index = fields.text("index")?;
    let keys = fields.list("keys")?;
    let as_of = mark(&mut fields, "asOf")?;
    let valid_at = time(&mut fields, "validAt")?;
    let rows = match (ids, index, keys) {
        (Some(ids), None, None) => {
            let id = |text: &String| {
                RowId::new(text).map_err(|error| ApiError::invalid("reads", error.to_string()))
            };
            WantedRows::Ids(ids.iter().map(id).collect::<Result<_, _>>()?)
        }
        (None, Some(index), Some(keys)) => WantedRows::Keys {
            index,
            keys: keys.into_iter().map(key).collect(),
        },
        _ => {
            let why = "Each element needs either `ids`, or `index` and `keys`.";
            return Err(ApiError::invalid("reads", why));
        }
    };
    Ok(BatchRead {
        table,
        rows,
        texts,
        as_of,
        valid_at,
    })
}

/// The key of an index of one column may stand by itself.
fn key(json: Json) -> Vec<Json> {
    match json {
        Json::List(values) => values,
        single => vec![single],
    }
}

/// `POST /v1/tidemark/databases/{database}/batch/writes`
pub async fn write(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.writer_of_marks(context.caller()?);
    let mut fields = context.fields().await?;
    let is_atomic = fields.flag("atomic")?.unwrap_or(true);
    if !fields.holds("operations") {
        return Err(ApiError::missing("operations"));
    }
    let sent = fields.objects("operations", OPERATIONS_MAX)?;
    if sent.is_empty() {
        let why = "At least one operation is needed.";
        return Err(ApiError::invalid("operations", why));
    }
    let database = context.ids.database.to_string();
    let operations = sent
        .into_iter()
        .map(|fields| read_operation(context.sender(), fields, Some(&database)))
        .collect::<Result<_, _>>()?;
    let batch = BatchWrite {
        operations,
        is_atomic,
    };
    let engine = &context.app.shared.engine;
    let written = engine.write_batch(&caller, &batch).await?;
    let results: Vec<_> = written
        .into_iter()
        .map(|one: Result<_, EngineError>| one.map_err(ApiError::from))
        .collect();
    Ok(Reply::ok(wire::batch_written(&results, context.words)))
}
