//! Rows: list, query, create, get, update, upsert, delete.

use std::borrow::Cow;
use std::rc::Rc;

use engine::{Act, Caller, Engine, GrantsAsOf, ListAnswer, ListRows, RowAnswer, RowInput, View};
use hyper::StatusCode;
use model::{Content, Marked, Page, Row, RowId};

use super::idempotency::Shape;
use super::transactions::{stage_row, stage_rows, transaction_in, transaction_of};
use crate::http::head::min_mark;
use crate::http::input::context::{RequestContext, check_queries, check_ttl, grants};
use crate::http::input::fields::Fields;
use crate::http::input::row_input::{ROWS_MAX, inner_row, name_inner, need_no_period, period};
use crate::http::reply::Reply;
use crate::http::state::fast_path::{self, CachedPlan, ListPlan, PastRowPlan, RowPlan};
use crate::http::wire;
use crate::http::wire::error::{ApiError, Kind};

/// `GET /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn list(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let list = ListRows {
        place: context.place(),
        texts: &context.query.queries,
        total: context.total()?,
        ttl_s: context.ttl_s()?,
        bypass: context.bypasses_cache(),
        family: context.family,
    };
    let view = view(context.grants()?, context.query.transaction.as_deref())?;
    let answer = read_list(&context, &caller, &list, view).await?;
    context.app.counts.listed(answer.cached);
    if view == View::CURRENT && answer.cached.is_some_and(|cached| cached.is_hit) {
        remember_list(&context, &caller, &list);
    }
    Ok(Reply::list(answer, context.words))
}

/// A list. One that is kept for a `ttl` and that a commit may have altered could be older
/// than the mark which the request names; the exact one is not.
async fn read_list(
    context: &RequestContext<'_>,
    caller: &Caller,
    list: &ListRows<'_>,
    view: View<'_>,
) -> Result<ListAnswer, ApiError> {
    let engine = &context.app.shared.engine;
    let answer = engine.list_rows(caller, list, view).await?;
    if !answer.may_be_old() || min_mark::named(&context.head.headers)?.is_none() {
        return Ok(answer);
    }
    let exact = ListRows { ttl_s: 0, ..*list };
    let mut answer = Box::pin(engine.list_rows(caller, &exact, view)).await?;
    if let Some(cached) = &mut answer.cached {
        cached.is_stale = Some(false);
    }
    Ok(answer)
}

/// The state that a read shows. Inside a transaction nothing but the rows as its commit would leave
/// them is read.
fn view(grants: GrantsAsOf, transaction: Option<&str>) -> Result<View<'_>, ApiError> {
    match (transaction_of(transaction), grants) {
        (None, grants) => Ok(View::Committed(grants)),
        (Some(id), GrantsAsOf::Today) => Ok(View::Staged(id)),
        (Some(_), GrantsAsOf::Mark) => Err(ApiError::invalid(
            "permissions",
            "A read inside a transaction is judged by the grants of now.",
        )),
    }
}

/// A list that was found in the cache is likely to be asked for again.
fn remember_list(context: &RequestContext<'_>, caller: &Rc<Caller>, list: &ListRows<'_>) {
    remember(context, context.target().map(Cow::from), caller, |engine| {
        Some(match engine.prepare(caller, list).ok()? {
            Some(list) => CachedPlan::List(Box::new(ListPlan::new(list, context.family))),
            None => CachedPlan::Dispatch,
        })
    });
}

/// Of the table of a row that was found, more rows are likely to be read.
fn remember_table(context: &RequestContext<'_>, caller: &Rc<Caller>) {
    let target = context.target().filter(|target| !target.contains('?'));
    let around = target.and_then(fast_path::around_row);
    remember(
        context,
        around.map(|(around, _)| around),
        caller,
        |engine| {
            let table = engine.prepare_table(caller, context.place()).ok()?;
            Some(CachedPlan::Row(RowPlan::new(table, context.family)))
        },
    );
}

/// At a time that is over, more rows of the table are likely to be read.
fn remember_past(
    context: &RequestContext<'_>,
    caller: &Rc<Caller>,
    list: &ListRows<'_>,
    grants: GrantsAsOf,
) {
    let around = context.target().and_then(fast_path::around_row);
    remember(
        context,
        around.map(|(around, _)| around),
        caller,
        |engine| {
            let table = engine.prepare_past(caller, list, grants).ok()??;
            Some(CachedPlan::PastRow(Box::new(PastRowPlan::new(
                table,
                context.family,
            ))))
        },
    );
}

fn remember(
    context: &RequestContext<'_>,
    target: Option<Cow<'_, str>>,
    caller: &Rc<Caller>,
    plan: impl FnOnce(&Engine) -> Option<CachedPlan>,
) {
    let (engine, fast_path) = (&*context.app.shared.engine, &context.app.fast_path);
    let Some(target) = target.filter(|target| !fast_path.knows(engine, target, caller)) else {
        return;
    };
    if let Some(plan) = plan(engine) {
        fast_path.remember(engine, &target, caller.clone(), plan);
    }
}

/// `POST /v1/tablesdb/{database}/tables/{table}/rows/query`
pub async fn query(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let texts = check_queries(fields.texts("queries")?)?;
    let list = ListRows {
        place: context.place(),
        texts: &texts,
        total: fields.flag("total")?.unwrap_or(true),
        ttl_s: check_ttl(fields.integer("ttl")?.unwrap_or(0))?,
        bypass: context.bypasses_cache(),
        family: context.family,
    };
    let grants = grants(fields.text("permissions")?.as_deref())?;
    let view = view(grants, transaction.as_deref())?;
    let answer = read_list(&context, &caller, &list, view).await?;
    context.app.counts.listed(answer.cached);
    Ok(Reply::list(answer, context.words))
}

/// `GET /v1/tablesdb/{database}/tables/{table}/rows/{row}`
pub async fn get(context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let id = context.id(context.words.row_id, &context.ids.row, RowId::new)?;
    let view = view(context.grants()?, context.query.transaction.as_deref())?;
    let list = ListRows {
        place: context.place(),
        texts: &context.query.queries,
        total: false,
        ttl_s: 0,
        bypass: context.bypasses_cache(),
        family: context.family,
    };
    match context
        .app
        .shared
        .engine
        .get_row(&caller, &list, &id, view)
        .await?
    {
        RowAnswer::AtTimes(answer) => {
            context.app.counts.listed(answer.cached);
            if let (View::Committed(grants), Some(_)) = (view, answer.fixed) {
                remember_past(&context, &caller, &list, grants);
            }
            Ok(Reply::row(answer, context.words))
        }
        RowAnswer::Page(read) => {
            if view == View::CURRENT {
                remember_table(&context, &caller);
            }
            row(&context, &caller, read).await
        }
    }
}

/// A row that was read, with the rows that it is related to.
async fn row(
    context: &RequestContext<'_>,
    caller: &Caller,
    read: Marked<Page>,
) -> Result<Reply, ApiError> {
    let Marked { answer: page, mark } = read;
    let family = context.family;
    // A body that is kept is copied, however large.
    let is_copied = |row: &Row| matches!(row.content, Content::Body(_));
    if page.related.is_empty() && page.rows.iter().all(is_copied) {
        return Ok(Reply::ok(wire::encode_page(&page, family)).at(mark));
    }
    let (bytes, engine) = (page.size_bytes(), &context.app.shared.engine);
    let encode = move || wire::encode_page(&page, family);
    let body = engine.offload(bytes, caller.is_guest(), encode);
    Ok(Reply::ok(body.await?).at(mark))
}

/// `POST /v1/tablesdb/{database}/tables/{table}/rows`, for one row or many.
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    need_no_period(&fields)?;
    let transaction = transaction_in(&mut fields)?;
    let (engine, family) = (&context.app.shared.engine, context.family);
    match Creation::read(&mut fields, &context)? {
        Creation::One(row) => {
            if let Some(id) = transaction {
                let (act, status) = (Act::Create(row), StatusCode::CREATED);
                return stage_row(&context, &caller, &id, act, status).await;
            }
            let shape = Shape::Row(StatusCode::CREATED);
            let caller = context.writer(caller, move |effect| shape.reply(effect, family));
            let made = engine.create_row(&caller, context.place(), row).await?;
            Ok(shape.written(&context, &caller, (1, made)).await)
        }
        Creation::Many(rows) => {
            // The engine asks for a key as well; asked here, a guest learns of it before any
            // fault of the rows.
            let caller = context.key_caller()?;
            let rows = rows.into_iter().map(|row| inner_row(context.sender(), row));
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            if let Some(id) = transaction {
                let count = rows.len();
                return stage_rows(&context, &caller, &id, Act::CreateMany(rows), count).await;
            }
            let shape = Shape::Rows(StatusCode::CREATED);
            let caller = context.writer(caller, move |effect| shape.reply(effect, family));
            let made = engine.create_rows(&caller, context.place(), rows).await?;
            let total = made.answer.rows.len() as u64;
            Ok(shape.written(&context, &caller, (total, made)).await)
        }
    }
}

/// What a creation carries: one row in `data`, or many in `rows`.
enum Creation {
    One(RowInput),
    Many(Vec<Fields>),
}

impl Creation {
    fn read(fields: &mut Fields, context: &RequestContext<'_>) -> Result<Creation, ApiError> {
        let words = context.words;
        let id = fields.text(words.row_id)?;
        let data = fields.object("data")?;
        let permissions = fields.texts("permissions")?;
        let rows = fields.objects(words.rows, ROWS_MAX)?;
        match (
            data.filter(|members| !members.is_empty()),
            rows.is_empty(),
            id,
        ) {
            (Some(mut members), true, Some(id)) => {
                name_inner(context.sender(), &mut members);
                let id = context.id(words.row_id, &id, RowId::new)?;
                Ok(Creation::One(RowInput {
                    id,
                    members,
                    permissions,
                }))
            }
            (None, false, None) if permissions.is_none() => Ok(Creation::Many(rows)),
            (None, true, _) => Err(missing(
                "Either one row with content or several are needed.",
            )),
            (Some(_), true, None) => Err(missing("A new row needs an id.")),
            (Some(_), false, _) => Err(contradiction("Send one row or several, not both.")),
            (None, false, _) => Err(contradiction(
                "Each of several rows carries its own $id and $permissions.",
            )),
        }
    }
}

fn missing(message: &'static str) -> ApiError {
    ApiError::new(Kind::RowMissingData, message)
}

fn contradiction(message: &'static str) -> ApiError {
    ApiError::new(Kind::BadRequest, message)
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/rows/{row}`
pub async fn update(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let unchanged_since = context.unchanged_since()?;
    let (row, transaction) = change(&mut context).await?;
    if let Some(id) = transaction {
        return stage_row(&context, &caller, &id, Act::Update(row), StatusCode::OK).await;
    }
    let (engine, family) = (&context.app.shared.engine, context.family);
    let shape = Shape::Row(StatusCode::OK);
    let caller = context.writer(caller, move |effect| shape.reply(effect, family));
    let written = engine.update_row(&caller, context.place(), row, unchanged_since);
    let written = written.await?;
    Ok(shape.written(&context, &caller, (1, written)).await)
}

/// `PUT /v1/tablesdb/{database}/tables/{table}/rows/{row}`
pub async fn upsert(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let unchanged_since = context.unchanged_since()?;
    let (row, transaction) = change(&mut context).await?;
    if let Some(id) = transaction {
        return stage_row(
            &context,
            &caller,
            &id,
            Act::Upsert(row),
            StatusCode::CREATED,
        )
        .await;
    }
    let (engine, family) = (&context.app.shared.engine, context.family);
    // Documented elsewhere as 201, but 200 is what is sent and tested.
    let shape = Shape::Row(StatusCode::OK);
    let caller = context.writer(caller, move |effect| shape.reply(effect, family));
    let written = engine.upsert_row(&caller, context.place(), row, unchanged_since);
    let written = written.await?;
    Ok(shape.written(&context, &caller, (1, written)).await)
}

/// The change of the row that the path names, and the transaction it belongs to.
async fn change(context: &mut RequestContext<'_>) -> Result<(RowInput, Option<String>), ApiError> {
    let mut fields = context.fields().await?;
    need_no_period(&fields)?;
    let transaction = transaction_in(&mut fields)?;
    let mut members = fields.object("data")?.unwrap_or_default();
    name_inner(context.sender(), &mut members);
    let row = RowInput {
        id: context.id(context.words.row_id, &context.ids.row, RowId::new)?,
        members,
        permissions: fields.texts("permissions")?,
    };
    Ok((row, transaction))
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/rows/{row}`
pub async fn delete(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let unchanged_since = context.unchanged_since()?;
    let id = context.id(context.words.row_id, &context.ids.row, RowId::new)?;
    let row = RowInput {
        members: period(&context.query, &mut fields),
        ..id.into()
    };
    let by_query = transaction_of(context.query.transaction.as_deref());
    if let Some(transaction) = transaction.as_deref().or(by_query) {
        let (act, status) = (Act::Delete(row), StatusCode::NO_CONTENT);
        return stage_row(&context, &caller, transaction, act, status).await;
    }
    let engine = &context.app.shared.engine;
    let caller = context.writer(caller, |_| Reply::empty());
    let deleted = engine.delete_row(&caller, context.place(), row, unchanged_since);
    Ok(Reply::empty().at(deleted.await?))
}
