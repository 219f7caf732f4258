//! Transactions over valid periods.

use std::sync::Arc;

use engine::{Effect, RowClaim, TimedTransaction, TransactionAct, TransactionOp};
use model::history::{Range, Until};
use model::{Json, Mark, RowId};

use super::in_case_language;
use super::json::{CLOCK, mark, read, time};
use super::vocabulary::{
    COMMITTED, CONTENT, ROW, TABLE, UNCHANGED, VALID, VALID_FROM, VALID_TO, Vocabulary, need_known,
};
use crate::http::input::context::RequestContext;
use crate::http::input::fields::Fields;
use crate::http::reply::Reply;
use crate::http::wire::error::{ApiError, Parts};
use crate::http::wire::{SentJson, SortedObject, written, written_array};

/// `POST /v1/tidemark/databases/{database}/transactions`
pub async fn transact(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let mut fields = context.fields().await?;
    fields.need_known(&["ops", "meta", "minMark", CLOCK])?;
    let meta = fields.take("meta").map(|meta| written(&SentJson(&meta)));
    let meta = meta.map(|meta| String::from_utf8(meta).expect("JSON is written as UTF-8"));
    let min_mark = mark(&mut fields, "minMark")?;
    let ops = fields.objects("ops", engine::OPERATIONS_MAX)?;
    let form = context.instant_form()?;
    let wordings = ops.iter().map(|op| Vocabulary::of(op, form));
    let own = wordings.into_iter().find(|words| words.is_own());
    let words = own.unwrap_or(Vocabulary::CASES);
    let read = |(nth, fields)| op(fields).map_err(|error| error.of_part(Parts::Operations, nth));
    let ops = ops.into_iter().enumerate().map(read);
    let ops = ops.collect::<Result<Vec<_>, _>>()?;
    let about = ops.iter().map(|op| (op.table.clone(), op.id.clone()));
    let about: Arc<[About]> = about.collect();
    let engine = &context.app.shared.engine;
    if let Some(min_mark) = min_mark {
        engine
            .settle(Some(min_mark))
            .await
            .map_err(in_case_language)?;
    }
    let caller = context.writer_at(caller, {
        let about = about.clone();
        move |effect, mark| match effect {
            Effect::Timed(affected) => done(mark, &about, affected, words),
            _ => unreachable!("operations over valid periods were run"),
        }
    });
    let transaction = TimedTransaction { ops, meta };
    let transacted = engine.transact(&caller, &context.ids.database, &transaction);
    let transacted = transacted.await.map_err(in_case_language)?;
    Ok(done(transacted.mark, &about, &transacted.affected, words).at(transacted.mark))
}

/// The row of an operation.
type About = (String, RowId);

fn done(mark: Mark, about: &[About], affected: &[bool], words: Vocabulary) -> Reply {
    let row = |((table, id), affected): (&About, &bool)| {
        let shown = SortedObject::from([
            (words.name(TABLE), written(table)),
            (words.name(ROW), written(id.as_str())),
            ("affected", written(&u8::from(*affected))),
        ]);
        shown.written()
    };
    let rows = written_array(about.iter().zip(affected).map(row));
    let body = SortedObject::from([(words.name(COMMITTED), words.mark(mark)), ("rows", rows)]);
    Reply::created(body.written())
}

fn op(mut fields: Fields) -> Result<TransactionOp, ApiError> {
    let word = fields.required_text("op")?;
    need_known(&fields, members_of(&word))?;
    let table = TABLE.sent(&fields)?;
    let table = fields.required_text(table)?;
    let id = ROW.sent(&fields)?;
    let id = fields.required_text(id)?;
    let id = RowId::new(&id).map_err(|error| ApiError::invalid("ops", error.to_string()))?;
    let act = act(&word, &mut fields)?;
    let from = VALID_FROM.sent(&fields)?;
    let range = Range {
        from: time(&mut fields, from)?,
        until: until(&mut fields)?,
    };
    Ok(TransactionOp {
        table,
        id,
        range,
        act,
    })
}

/// The members of an operation, in the case language.
fn members_of(word: &str) -> &'static [&'static str] {
    match word {
        "delete" => &["table", "id", "valid_from", "valid_to"],
        "erase" => &["table", "id"],
        "assert" => &["table", "id", "vt", "exists", "equals", "unchanged_since"],
        _ => &["table", "id", "doc", "valid_from", "valid_to"],
    }
}

fn until(fields: &mut Fields) -> Result<Until, ApiError> {
    let name = VALID_TO.sent(fields)?;
    match fields.take(name) {
        None => Ok(Until::Open),
        Some(Json::Text(text)) if text == "next" => Ok(Until::Next),
        Some(json) => read(fields, name, &json).map(Until::At),
    }
}

fn act(word: &str, fields: &mut Fields) -> Result<TransactionAct, ApiError> {
    let name = CONTENT.sent(fields)?;
    let mut doc = || Ok::<_, ApiError>(fields.object(name)?.unwrap_or_default());
    Ok(match word {
        "insert" => TransactionAct::Insert(doc()?),
        "put" => TransactionAct::Put(doc()?),
        "patch" => TransactionAct::Patch(doc()?),
        "update" => TransactionAct::Update(doc()?),
        "delete" => TransactionAct::Delete,
        "erase" => TransactionAct::Erase,
        "assert" => TransactionAct::Assert(claims(fields)?),
        other => {
            let other: String = other.chars().take(100).collect();
            let why = format!("There is no operation `{other}`.");
            return Err(ApiError::invalid("ops", why));
        }
    })
}

/// All that an assertion claims: each of it must hold.
fn claims(fields: &mut Fields) -> Result<Vec<RowClaim>, ApiError> {
    let at = VALID.sent(fields)?;
    let at = time(fields, at)?;
    let exists = fields.flag("exists")?;
    let equals = fields.object("equals")?;
    let since = UNCHANGED.sent(fields)?;
    let since = mark(fields, since)?;
    let exists = exists.map(|expected| RowClaim::Exists(expected, at));
    let equals = equals.map(|members| RowClaim::Equals(members, at));
    let since = since.map(RowClaim::UnchangedSince);
    let claims: Vec<RowClaim> = exists.into_iter().chain(equals).chain(since).collect();
    if claims.is_empty() {
        let why = "`assert` needs `exists`, `equals` or `unchanged_since`.";
        return Err(ApiError::invalid("ops", why));
    }
    Ok(claims)
}
