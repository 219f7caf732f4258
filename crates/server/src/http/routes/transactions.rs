//! Transactions: create, list, get, commit or roll back, delete; and staging operations, by the
//! route of its own or by those of rows.

use engine::{
    Act, Caller, Echo, Effect, EngineError, Operation, TRANSACTION_TTL_S_DEFAULT, Transaction,
    TransactionError,
};
use hyper::StatusCode;
use model::{Json, RowId};

use crate::http::head::query_string::QueryString;
use crate::http::input::context::{RequestContext, Sender, check_queries};
use crate::http::input::fields::Fields;
use crate::http::input::row_input::{ROWS_MAX, inner_row, name_inner, need_no_period, period};
use crate::http::limits::rate;
use crate::http::reply::Reply;
use crate::http::state::generated_ids::unique_id;
use crate::http::wire;
use crate::http::wire::error::{ApiError, Kind};

/// The parameter that most refusals are about.
const OPERATIONS: &str = "operations";
/// Most operations of one request, as of one transaction (wire protocol, limits).
pub(super) const OPERATIONS_MAX: usize = 100;

/// `POST /v1/tablesdb/transactions`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let ttl_s = context.fields().await?.integer("ttl")?;
    let id = new_id(&context);
    let engine = &context.app.shared.engine;
    let proxies = &context.app.shared.proxies;
    let client = proxies.client(context.peer, &context.head.headers);
    let (from, ttl_s) = (
        Some(rate::shown(client.address)),
        ttl_s.unwrap_or(TRANSACTION_TTL_S_DEFAULT),
    );
    let made = engine
        .create_transaction_from(&caller, from, &id, ttl_s)
        .await?;
    Ok(Reply::created(wire::transaction(&made)))
}

/// An id of 36 characters, as long as ids can be: a caller that knows the id of a guest's
/// transaction may use it, so it holds 92 bits of chance.
fn new_id(context: &RequestContext<'_>) -> String {
    let shared = &context.app.shared;
    let mut chance = [0; 8];
    (shared.rng)(&mut chance);
    let id = unique_id(shared.clock.now(), shared.rng);
    format!("{id}{:016x}", u64::from_ne_bytes(chance))
}

/// `GET /v1/tablesdb/transactions`
pub async fn list(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let listed = engine
        .list_transactions(&caller, context.containers()?)
        .await?;
    Ok(Reply::ok(wire::transactions(listed.total, &listed.items)))
}

/// `GET /v1/tablesdb/transactions/{transaction}`
pub async fn get(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let found = engine
        .get_transaction(&caller, &context.ids.transaction)
        .await?;
    Ok(Reply::ok(wire::transaction(&found)))
}

/// `PATCH /v1/tablesdb/transactions/{transaction}`
pub async fn update(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let commit = fields.flag("commit")?.unwrap_or(false);
    let rollback = fields.flag("rollback")?.unwrap_or(false);
    if commit == rollback {
        let message = "Either `commit` or `rollback` must be true, and not both.";
        return Err(ApiError::new(Kind::BadRequest, message));
    }
    let (engine, id) = (&context.app.shared.engine, &context.ids.transaction);
    if !commit {
        let ended = engine.roll_back_transaction(&caller, id).await?;
        return Ok(Reply::ok(wire::transaction(&ended)));
    }
    let caller = context.writer(caller, |effect| match effect {
        Effect::Transaction(ended) => Reply::ok(wire::transaction(ended)),
        _ => unreachable!("a transaction is committed"),
    });
    let ended = engine.commit_transaction(&caller, id).await?;
    Ok(Reply::ok(wire::transaction(&ended.answer)).at(ended.mark))
}

/// `DELETE /v1/tablesdb/transactions/{transaction}`
pub async fn delete(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    engine
        .delete_transaction(&caller, &context.ids.transaction)
        .await?;
    Ok(Reply::empty())
}

/// `POST /v1/tablesdb/transactions/{transaction}/operations`
pub async fn stage(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    context.need_no_key()?;
    let mut fields = context.fields().await?;
    let sent = fields.list(OPERATIONS)?;
    let sent = sent.ok_or_else(|| ApiError::missing(OPERATIONS))?;
    if sent.is_empty() {
        return Err(invalid("At least one operation is needed."));
    }
    if sent.len() > OPERATIONS_MAX {
        let message = format!("A transaction can have {OPERATIONS_MAX} operations.");
        return Err(ApiError::new(Kind::TransactionLimitExceeded, message));
    }
    let operations = sent
        .into_iter()
        .map(|json| read_operation(context.sender(), Fields::within(OPERATIONS, json)?, None))
        .collect::<Result<Vec<_>, _>>()?;
    let staged = context
        .app
        .shared
        .engine
        .stage(&caller, &context.ids.transaction, operations);
    let (transaction, _) = staged.await.map_err(|error| match error {
        // The protocol has another answer here than where a transaction is committed.
        EngineError::Transaction(TransactionError::Ended(_)) => {
            ApiError::new(Kind::BadRequest, error.to_string())
        }
        other => other.into(),
    })?;
    Ok(Reply::created(wire::transaction(&transaction)))
}

fn invalid(why: impl Into<String>) -> ApiError {
    ApiError::invalid(OPERATIONS, why)
}

/// One operation as sent; `database` is where one that names none belongs.
pub fn read_operation(
    sender: Sender<'_>,
    mut fields: Fields,
    database: Option<&str>,
) -> Result<Operation, ApiError> {
    let action = fields.required_text("action")?;
    let database = match database {
        Some(database) if !fields.holds("databaseId") => database.to_owned(),
        _ => fields.required_text("databaseId")?,
    };
    Ok(Operation {
        database,
        table: in_either_words(
            &mut fields,
            sender.words.table_id,
            "tableId",
            "collectionId",
        )?,
        act: act(sender, &action, fields)?,
        unchanged_since: None,
    })
}

/// A text by its name in either family, because operations of both can stand in one transaction;
/// a refusal names it as `own`.
fn in_either_words(
    fields: &mut Fields,
    own: &'static str,
    newer: &'static str,
    older: &'static str,
) -> Result<String, ApiError> {
    let other = if own == newer { older } else { newer };
    if !fields.holds(own) && fields.holds(other) {
        return fields.required_text(other);
    }
    fields.required_text(own)
}

fn act(sender: Sender<'_>, action: &str, mut fields: Fields) -> Result<Act, ApiError> {
    let row = |fields: &mut Fields| -> Result<RowId, ApiError> {
        let id = in_either_words(fields, sender.words.row_id, "rowId", "documentId")?;
        sender.id(OPERATIONS, &id, RowId::new)
    };
    Ok(match action {
        "create" | "update" => {
            let (id, mut members) = (row(&mut fields)?, data(&mut fields)?);
            let permissions = take_permissions(&mut members)?;
            name_inner(sender, &mut members);
            let row = engine::RowInput {
                id,
                members,
                permissions,
            };
            if action == "create" {
                Act::Create(row)
            } else {
                Act::Update(row)
            }
        }
        "upsert" => {
            let (id, mut members) = (row(&mut fields)?, data(&mut fields)?);
            name_inner(sender, &mut members);
            Act::Upsert(engine::RowInput {
                id,
                members,
                permissions: None,
            })
        }
        "delete" => Act::Delete(engine::RowInput {
            members: deleted_period(&mut fields)?,
            ..row(&mut fields)?.into()
        }),
        "increment" | "decrement" => {
            let id = row(&mut fields)?;
            counted(id, action == "decrement", inner(data(&mut fields)?))?
        }
        "bulkCreate" => Act::CreateMany(rows(sender, &mut fields)?),
        "bulkUpsert" => Act::UpsertMany(rows(sender, &mut fields)?),
        "bulkUpdate" => {
            let mut data = inner(data(&mut fields)?);
            Act::UpdateMany {
                texts: check_queries(data.texts("queries")?)?,
                members: data.object("data")?.unwrap_or_default(),
            }
        }
        "bulkDelete" => {
            let mut data = inner(data(&mut fields)?);
            Act::DeleteMany {
                texts: check_queries(data.texts("queries")?)?,
                members: period(&QueryString::default(), &mut data),
            }
        }
        other => {
            let other: String = other.chars().take(100).collect();
            return Err(invalid(format!("There is no action `{other}`.")));
        }
    })
}

/// The members of an operation's `data`.
/// A step of one column up or down.
fn counted(id: RowId, is_down: bool, mut data: Fields) -> Result<Act, ApiError> {
    need_no_period(&data)?;
    Ok(Act::Increment {
        id,
        column: match data.text("column")? {
            Some(column) => column,
            None => data.required_text("attribute")?,
        },
        is_down,
        by: data.take("value").unwrap_or(Json::Int(1)),
        bound: data.take(if is_down { "min" } else { "max" }),
    })
}

/// The period of a deletion, if its `data` names one.
fn deleted_period(fields: &mut Fields) -> Result<Vec<(String, Json)>, ApiError> {
    let data = fields.object("data")?.unwrap_or_default();
    Ok(period(&QueryString::default(), &mut inner(data)))
}

fn data(fields: &mut Fields) -> Result<Vec<(String, Json)>, ApiError> {
    let data = fields.object("data")?;
    data.ok_or_else(|| invalid("`data` is missing."))
}

fn inner(members: Vec<(String, Json)>) -> Fields {
    Fields::within(OPERATIONS, Json::Object(members)).expect("an object is one")
}

/// Many rows, each with its `$id` and `$permissions`.
fn rows(sender: Sender<'_>, fields: &mut Fields) -> Result<Vec<engine::RowInput>, ApiError> {
    let rows = fields.objects("data", ROWS_MAX)?;
    if rows.is_empty() {
        return Err(invalid("`data` must hold rows."));
    }
    rows.into_iter().map(|row| inner_row(sender, row)).collect()
}

/// The grants of one row, which an operation has among its members.
fn take_permissions(members: &mut Vec<(String, Json)>) -> Result<Option<Vec<String>>, ApiError> {
    let Some(position) = members.iter().rposition(|(key, _)| key == "$permissions") else {
        return Ok(None);
    };
    let wanted = "`$permissions` must be an array of strings.";
    match members.remove(position).1 {
        Json::Null => Ok(None),
        Json::List(texts) => texts
            .into_iter()
            .map(|text| match text {
                Json::Text(text) => Ok(text),
                _ => Err(invalid(wanted)),
            })
            .collect::<Result<_, _>>()
            .map(Some),
        _ => Err(invalid(wanted)),
    }
}

/// The transaction that a request belongs to.
pub fn transaction_of(id: Option<&str>) -> Option<&str> {
    id.filter(|id| !id.is_empty())
}

/// As [`transaction_of`], for a body.
pub fn transaction_in(fields: &mut Fields) -> Result<Option<String>, ApiError> {
    let id = fields.text("transactionId")?;
    Ok(id.filter(|id| !id.is_empty()))
}

/// Stages what a route of rows would do, to the table of its path.
pub async fn stage_act(
    context: &RequestContext<'_>,
    caller: &Caller,
    transaction: &str,
    act: Act,
) -> Result<(Transaction, Echo), ApiError> {
    context.need_no_key()?;
    let operation = Operation {
        database: context.ids.database.to_string(),
        table: context.ids.table.to_string(),
        act,
        unchanged_since: context.unchanged_since()?,
    };
    let engine = &context.app.shared.engine;
    let staged = engine.stage(caller, transaction, vec![operation]).await?;
    let (transaction, echoes) = staged;
    let echo = echoes.into_iter().next().unwrap_or(Echo::Nothing);
    Ok((transaction, echo))
}

/// Stages a change of one row, and answers what it would be.
pub async fn stage_row(
    context: &RequestContext<'_>,
    caller: &Caller,
    transaction: &str,
    act: Act,
    status: StatusCode,
) -> Result<Reply, ApiError> {
    let (_, echo) = stage_act(context, caller, transaction, act).await?;
    Ok(match echo {
        Echo::Row(page) => Reply::json(status, wire::encode_page(&page, context.family)),
        Echo::Sent { table, row } => {
            let now = context.app.shared.clock.now();
            Reply::json(status, wire::sent_row(&table, &row, now, context.words))
        }
        Echo::Nothing => Reply::empty(),
    })
}

/// Stages a change of many rows, of which it is known that there are `total`, or 0.
pub async fn stage_rows(
    context: &RequestContext<'_>,
    caller: &Caller,
    transaction: &str,
    act: Act,
    total: usize,
) -> Result<Reply, ApiError> {
    stage_act(context, caller, transaction, act).await?;
    Ok(Reply::ok(wire::staged_rows(total as u64, context.words)))
}

#[cfg(test)]
mod tests {
    use engine::{Family, JsonBudget};

    use super::*;

    #[test]
    fn an_empty_id_names_no_transaction() {
        assert_eq!(transaction_of(None), None);
        assert_eq!(transaction_of(Some("")), None);
        assert_eq!(transaction_of(Some("t")), Some("t"));
        let mut fields = Fields::read(br#"{"transactionId":""}"#, &JsonBudget::new(1_000)).unwrap();
        assert_eq!(transaction_in(&mut fields).unwrap(), None);
        let mut fields =
            Fields::read(br#"{"transactionId":"t"}"#, &JsonBudget::new(1_000)).unwrap();
        assert_eq!(transaction_in(&mut fields).unwrap().as_deref(), Some("t"));
        let mut fields = Fields::read(br#"{"transactionId":5}"#, &JsonBudget::new(1_000)).unwrap();
        let refused = transaction_in(&mut fields).unwrap_err();
        assert_eq!(refused.kind, Kind::ArgumentInvalid);
    }

    #[test]
    fn grants_are_taken_out_of_members() {
        let members = |json: &str| match engine::read_json(json.as_bytes()).unwrap() {
            Json::Object(members) => members,
            other => panic!("{other}"),
        };
        let mut one = members(r#"{"n":1,"$permissions":["read(\"any\")"]}"#);
        let wanted = Some(vec!["read(\"any\")".to_owned()]);
        assert_eq!(take_permissions(&mut one).unwrap(), wanted);
        assert_eq!(one, [("n".to_owned(), Json::Int(1))]);
        assert_eq!(take_permissions(&mut one).unwrap(), None);
        for wrong in [r#"{"$permissions":"x"}"#, r#"{"$permissions":[1]}"#] {
            let refused = take_permissions(&mut members(wrong)).unwrap_err();
            let said = refused.message(Family::Tables);
            assert!(said.contains("array of strings"), "{said}");
        }
    }
}
