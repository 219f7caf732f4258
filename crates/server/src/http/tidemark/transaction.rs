//! Transactions over valid periods.

use engine::{TimedTransaction, TransactionAct, TransactionOp};
use model::history::{Range, Until};
use model::{Json, RowId};
use serde_json::{Value as Out, json};

use super::in_its_words;
use super::json::{mark, sent, time};
use crate::http::error::ApiError;
use crate::http::extract::Asked;
use crate::http::fields::Fields;
use crate::http::reply::Reply;

/// `POST /v1/tidemark/databases/{database}/transactions`
pub async fn transact(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.key_caller()?;
    let mut fields = asked.fields().await?;
    let meta = fields.take("meta").map(|meta| sent(&meta).to_string());
    let min_mark = mark(&mut fields, "minMark")?;
    let ops = fields.objects("ops", engine::OPERATIONS_MAX)?;
    let parsed = ops.into_iter().map(op).collect::<Result<Vec<_>, _>>()?;
    let counts: Vec<usize> = parsed.iter().map(Vec::len).collect();
    let ops = parsed.into_iter().flatten().collect();
    let engine = &asked.app.shared.engine;
    if let Some(min_mark) = min_mark {
        engine.settle(Some(min_mark)).await.map_err(in_its_words)?;
    }
    let transaction = TimedTransaction { ops, meta };
    let done = engine.transact(&caller, &asked.ids.database, &transaction);
    let done = done.await.map_err(in_its_words)?;
    let mut parts = transaction.ops.iter().zip(&done.affected);
    let row = |count: usize| {
        // Of an assertion all parts are about one row, and change nothing of it.
        let (op, affected) = parts.by_ref().take(count).last()?;
        Some(json!({
            "table": op.table,
            "id": op.id.as_str(),
            "affected": u8::from(*affected),
        }))
    };
    let rows: Vec<Out> = counts.into_iter().filter_map(row).collect();
    let body = json!({ "tt": done.mark.0, "rows": rows });
    Ok(Reply::created(body.to_string().into_bytes()))
}

/// An operation; an assertion is as many as it claims things.
fn op(mut fields: Fields) -> Result<Vec<TransactionOp>, ApiError> {
    let word = fields.required_text("op")?;
    let table = fields.required_text("table")?;
    let id = fields.required_text("id")?;
    let id = RowId::new(&id).map_err(|error| ApiError::invalid("ops", error.to_string()))?;
    let acts = match word.as_str() {
        "assert" => claims(&mut fields)?,
        word => vec![act(word, &mut fields)?],
    };
    let range = Range {
        from: time(&mut fields, "valid_from")?,
        until: until(&mut fields)?,
    };
    let op = |act| TransactionOp {
        table: table.clone(),
        id: id.clone(),
        range,
        act,
    };
    Ok(acts.into_iter().map(op).collect())
}

fn until(fields: &mut Fields) -> Result<Until, ApiError> {
    match fields.take("valid_to") {
        None => Ok(Until::Open),
        Some(Json::Text(text)) if text == "next" => Ok(Until::Next),
        Some(json) => match engine::instant(&json) {
            Some(end) => Ok(Until::At(end)),
            None => Err(fields.refuse("valid_to", "a time, \"next\" or null", &json)),
        },
    }
}

fn act(word: &str, fields: &mut Fields) -> Result<TransactionAct, ApiError> {
    let mut doc = || Ok::<_, ApiError>(fields.object("doc")?.unwrap_or_default());
    Ok(match word {
        "insert" => TransactionAct::Insert(doc()?),
        "put" => TransactionAct::Put(doc()?),
        "patch" => TransactionAct::Patch(doc()?),
        "update" => TransactionAct::Update(doc()?),
        "delete" => TransactionAct::Delete,
        "erase" => TransactionAct::Erase,
        other => {
            let other: String = other.chars().take(100).collect();
            let why = format!("There is no operation `{other}`.");
            return Err(ApiError::invalid("ops", why));
        }
    })
}

/// All that an assertion claims: each of it must hold.
fn claims(fields: &mut Fields) -> Result<Vec<TransactionAct>, ApiError> {
    let at = time(fields, "vt")?;
    let exists = fields.flag("exists")?;
    let equals = fields.object("equals")?;
    let since = mark(fields, "unchanged_since")?;
    let exists = exists.map(|expected| TransactionAct::Exists(expected, at));
    let equals = equals.map(|members| TransactionAct::Equals(members, at));
    let since = since.map(TransactionAct::UnchangedSince);
    let claims: Vec<TransactionAct> = exists.into_iter().chain(equals).chain(since).collect();
    if claims.is_empty() {
        let why = "`assert` needs `exists`, `equals` or `unchanged_since`.";
        return Err(ApiError::invalid("ops", why));
    }
    Ok(claims)
}
