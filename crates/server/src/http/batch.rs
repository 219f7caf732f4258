//! Many reads or many writes in one request: routes of this server's own.

use engine::{BATCH_ROWS_READ_MAX, BatchPart, BatchRead, BatchWrite, EngineError, WantedRows};
use hyper::header::{HeaderMap, HeaderName};
use model::{Json, RowId};

use super::error::ApiError;
use super::extract::{Asked, check_queries};
use super::fields::Fields;
use super::reply::Reply;
use super::transactions::read_operation;
use super::wire;

/// Most parts of one request that reads.
const READS_MAX: usize = 100;
/// Most operations of one request that writes.
const OPERATIONS_MAX: usize = 1_000;
/// Longest key of a request, in characters: room for a UUID and whatever a client puts before it.
const KEY_CHARS_MAX: usize = 128;
/// Names a request, so that it has its effect once however often it is sent.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `POST /v1/tidemark/databases/{database}/batch/reads`
pub async fn read(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let mut fields = asked.fields().await?;
    if !fields.holds("reads") {
        return Err(ApiError::missing("reads"));
    }
    let parts = fields.objects("reads", READS_MAX)?;
    let parts = parts.into_iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let count: usize = parts.iter().map(|part| part.rows.count()).sum();
    if count == 0 || count > BATCH_ROWS_READ_MAX {
        let why = format!("From 1 to {BATCH_ROWS_READ_MAX} rows can be asked for, got {count}.");
        return Err(ApiError::invalid("reads", why));
    }
    let engine = &asked.app.shared.engine;
    let read = engine
        .read_batch(&caller, &asked.ids.database, &parts)
        .await?;
    let results = read
        .answer
        .into_iter()
        .map(|part| part.map_err(ApiError::from));
    let results: Vec<Result<BatchPart, ApiError>> = results.collect();
    let body = wire::batch_read(read.mark, &results, asked.words);
    Ok(Reply::ok(body))
}

/// One part as sent: rows of a table by `ids`, or by `keys` of a unique `index`.
fn part(mut fields: Fields) -> Result<BatchRead, ApiError> {
    let table = fields.required_text("tableId")?;
    let texts = check_queries(fields.texts("queries")?)?;
    let ids = fields.texts("ids")?;
    let index = fields.text("index")?;
    let keys = fields.list("keys")?;
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
    Ok(BatchRead { table, rows, texts })
}

/// The key of an index of one column may stand by itself.
fn key(json: Json) -> Vec<Json> {
    match json {
        Json::List(values) => values,
        single => vec![single],
    }
}

/// `POST /v1/tidemark/databases/{database}/batch/writes`
pub async fn write(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let key = request_key(&asked.head.headers)?.map(str::to_owned);
    let mut fields = asked.fields().await?;
    let is_atomic = fields.flag("atomic")?.unwrap_or(true);
    if !fields.holds("operations") {
        return Err(ApiError::missing("operations"));
    }
    let sent = fields.objects("operations", OPERATIONS_MAX)?;
    if sent.is_empty() {
        let why = "At least one operation is needed.";
        return Err(ApiError::invalid("operations", why));
    }
    let database = asked.ids.database.to_string();
    let operations = sent
        .into_iter()
        .map(|fields| read_operation(&asked, fields, Some(&database)))
        .collect::<Result<_, _>>()?;
    let batch = BatchWrite {
        operations,
        is_atomic,
    };
    let engine = &asked.app.shared.engine;
    let written = engine.write_batch(&caller, &batch, key.as_deref()).await?;
    let results: Vec<_> = written
        .into_iter()
        .map(|one: Result<_, EngineError>| one.map_err(ApiError::from))
        .collect();
    Ok(Reply::ok(wire::batch_written(&results, asked.words)))
}

/// The key of the request, if it has one.
///
/// # Errors
/// A header that is empty, too long, or holds something else than visible ASCII.
pub fn request_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get(&IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let is_legal = |key: &&str| {
        (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let key = value.to_str().ok().filter(is_legal);
    key.map(Some).ok_or_else(|| {
        let why = format!("The header must hold 1 to {KEY_CHARS_MAX} visible ASCII characters.");
        ApiError::invalid("Idempotency-Key", why)
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_request_key_is_short_and_visible() {
        let ask = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_str(text).unwrap());
            request_key(&headers).map(|key| key.map(str::to_owned))
        };
        assert_eq!(request_key(&HeaderMap::new()).unwrap(), None);
        assert_eq!(ask("a-1:x").unwrap().as_deref(), Some("a-1:x"));
        assert!(ask(&"x".repeat(128)).is_ok());
        for wrong in ["", "a b", &"x".repeat(129)] {
            let refused = ask(wrong).unwrap_err();
            assert_eq!(refused.kind, super::super::error::Kind::ArgumentInvalid);
        }
    }
}
