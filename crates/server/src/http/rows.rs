//! Rows: list, query, create, get, update, upsert, delete.

use std::borrow::Cow;
use std::rc::Rc;

use engine::{Act, Caller, Engine, GrantsAsOf, ListAnswer, ListRows, RowAnswer, RowInput, View};
use hyper::StatusCode;
use model::{Content, Marked, Page, Row, RowId};

use super::error::{ApiError, Kind};
use super::extract::{Asked, check_queries, check_ttl, grants};
use super::fields::Fields;
use super::min_mark;
use super::once::Shape;
use super::repeated::{self, List, Meaning, Past, RowOf};
use super::reply::Reply;
use super::row_input::{ROWS_MAX, inner_row, name_inner};
use super::transactions::{stage_row, stage_rows, transaction_in, transaction_of};
use super::wire;

/// `GET /v1/tablesdb/{database}/tables/{table}/rows`
pub async fn list(asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let list = ListRows {
        place: asked.place(),
        texts: &asked.query.queries,
        total: asked.total()?,
        ttl_s: asked.ttl_s()?,
        bypass: asked.bypasses_cache(),
        family: asked.family,
    };
    let view = view(asked.grants()?, asked.query.transaction.as_deref())?;
    let answer = read_list(&asked, &caller, &list, view).await?;
    asked.app.counts.listed(answer.cached);
    if view == View::CURRENT && answer.cached.is_some_and(|cached| cached.is_hit) {
        remember_list(&asked, &caller, &list);
    }
    Ok(Reply::list(answer, asked.words))
}

/// A list. One that is kept for a `ttl` and that a commit may have altered could be older
/// than the mark which the request names; the exact one is not.
async fn read_list(
    asked: &Asked<'_>,
    caller: &Caller,
    list: &ListRows<'_>,
    view: View<'_>,
) -> Result<ListAnswer, ApiError> {
    let engine = &asked.app.shared.engine;
    let answer = engine.list_rows(caller, list, view).await?;
    if !answer.may_be_old() || min_mark::named(&asked.head.headers)?.is_none() {
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
fn remember_list(asked: &Asked<'_>, caller: &Rc<Caller>, list: &ListRows<'_>) {
    remember(asked, asked.target().map(Cow::from), caller, |engine| {
        Some(match engine.prepare(caller, list).ok()? {
            Some(list) => Meaning::List(Box::new(List::new(list, asked.family))),
            None => Meaning::Longer,
        })
    });
}

/// Of the table of a row that was found, more rows are likely to be read.
fn remember_table(asked: &Asked<'_>, caller: &Rc<Caller>) {
    let target = asked.target().filter(|target| !target.contains('?'));
    let around = target.and_then(repeated::around_row);
    remember(asked, around.map(|(around, _)| around), caller, |engine| {
        let table = engine.prepare_table(caller, asked.place()).ok()?;
        Some(Meaning::RowOf(RowOf::new(table, asked.family)))
    });
}

/// At a time that is over, more rows of the table are likely to be read.
fn remember_past(asked: &Asked<'_>, caller: &Rc<Caller>, list: &ListRows<'_>, grants: GrantsAsOf) {
    let around = asked.target().and_then(repeated::around_row);
    remember(asked, around.map(|(around, _)| around), caller, |engine| {
        let table = engine.prepare_past(caller, list, grants).ok()??;
        Some(Meaning::Past(Box::new(Past::new(table, asked.family))))
    });
}

fn remember(
    asked: &Asked<'_>,
    target: Option<Cow<'_, str>>,
    caller: &Rc<Caller>,
    meaning: impl FnOnce(&Engine) -> Option<Meaning>,
) {
    let (engine, repeated) = (&*asked.app.shared.engine, &asked.app.repeated);
    let Some(target) = target.filter(|target| !repeated.knows(engine, target, caller)) else {
        return;
    };
    if let Some(meaning) = meaning(engine) {
        repeated.remember(engine, &target, caller.clone(), meaning);
    }
}

/// `POST /v1/tablesdb/{database}/tables/{table}/rows/query`
pub async fn query(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let mut fields = asked.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let texts = check_queries(fields.texts("queries")?)?;
    let list = ListRows {
        place: asked.place(),
        texts: &texts,
        total: fields.flag("total")?.unwrap_or(true),
        ttl_s: check_ttl(fields.integer("ttl")?.unwrap_or(0))?,
        bypass: asked.bypasses_cache(),
        family: asked.family,
    };
    let grants = grants(fields.text("permissions")?.as_deref())?;
    let view = view(grants, transaction.as_deref())?;
    let answer = read_list(&asked, &caller, &list, view).await?;
    asked.app.counts.listed(answer.cached);
    Ok(Reply::list(answer, asked.words))
}

/// `GET /v1/tablesdb/{database}/tables/{table}/rows/{row}`
pub async fn get(asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let id = asked.id(asked.words.row_id, &asked.ids.row, RowId::new)?;
    let view = view(asked.grants()?, asked.query.transaction.as_deref())?;
    let list = ListRows {
        place: asked.place(),
        texts: &asked.query.queries,
        total: false,
        ttl_s: 0,
        bypass: asked.bypasses_cache(),
        family: asked.family,
    };
    match asked
        .app
        .shared
        .engine
        .get_row(&caller, &list, &id, view)
        .await?
    {
        RowAnswer::AtTimes(answer) => {
            asked.app.counts.listed(answer.cached);
            if let (View::Committed(grants), Some(_)) = (view, answer.fixed) {
                remember_past(&asked, &caller, &list, grants);
            }
            Ok(Reply::row(answer, asked.words))
        }
        RowAnswer::Page(read) => {
            if view == View::CURRENT {
                remember_table(&asked, &caller);
            }
            row(&asked, &caller, read).await
        }
    }
}

/// A row that was read, with the rows that it is related to.
async fn row(asked: &Asked<'_>, caller: &Caller, read: Marked<Page>) -> Result<Reply, ApiError> {
    let Marked { answer: page, mark } = read;
    let family = asked.family;
    // A body that is kept is copied, however large.
    let is_copied = |row: &Row| matches!(row.content, Content::Body(_));
    if page.related.is_empty() && page.rows.iter().all(is_copied) {
        return Ok(Reply::ok(wire::encode_page(&page, family)).at(mark));
    }
    let (bytes, engine) = (page.size_bytes(), &asked.app.shared.engine);
    let encode = move || wire::encode_page(&page, family);
    let body = engine.aside(bytes, caller.is_guest(), encode);
    Ok(Reply::ok(body.await?).at(mark))
}

/// `POST /v1/tablesdb/{database}/tables/{table}/rows`, for one row or many.
pub async fn create(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let mut fields = asked.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let (engine, family) = (&asked.app.shared.engine, asked.family);
    match Creation::read(&mut fields, &asked)? {
        Creation::One(row) => {
            if let Some(id) = transaction {
                let (act, status) = (Act::Create(row), StatusCode::CREATED);
                return stage_row(&asked, &caller, &id, act, status).await;
            }
            let shape = Shape::Row(StatusCode::CREATED);
            let caller = asked.writer(caller, move |effect| shape.reply(effect, family));
            let made = engine.create_row(&caller, asked.place(), row).await?;
            Ok(shape.written(&asked, &caller, (1, made)).await)
        }
        Creation::Many(rows) => {
            // The engine asks for a key as well; asked here, a guest learns of it before any
            // fault of the rows.
            let caller = asked.key_caller()?;
            let rows = rows.into_iter().map(|row| inner_row(asked.sender(), row));
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            if let Some(id) = transaction {
                let count = rows.len();
                return stage_rows(&asked, &caller, &id, Act::CreateMany(rows), count).await;
            }
            let shape = Shape::Rows(StatusCode::CREATED);
            let caller = asked.writer(caller, move |effect| shape.reply(effect, family));
            let made = engine.create_rows(&caller, asked.place(), rows).await?;
            let total = made.answer.rows.len() as u64;
            Ok(shape.written(&asked, &caller, (total, made)).await)
        }
    }
}

/// What a creation carries: one row in `data`, or many in `rows`.
enum Creation {
    One(RowInput),
    Many(Vec<Fields>),
}

impl Creation {
    fn read(fields: &mut Fields, asked: &Asked<'_>) -> Result<Creation, ApiError> {
        let words = asked.words;
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
                name_inner(asked.sender(), &mut members);
                let id = asked.id(words.row_id, &id, RowId::new)?;
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
pub async fn update(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let (row, transaction) = change(&mut asked).await?;
    if let Some(id) = transaction {
        return stage_row(&asked, &caller, &id, Act::Update(row), StatusCode::OK).await;
    }
    let (engine, family) = (&asked.app.shared.engine, asked.family);
    let shape = Shape::Row(StatusCode::OK);
    let caller = asked.writer(caller, move |effect| shape.reply(effect, family));
    let written = engine.update_row(&caller, asked.place(), row, unchanged_since);
    let written = written.await?;
    Ok(shape.written(&asked, &caller, (1, written)).await)
}

/// `PUT /v1/tablesdb/{database}/tables/{table}/rows/{row}`
pub async fn upsert(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let unchanged_since = asked.unchanged_since()?;
    let (row, transaction) = change(&mut asked).await?;
    if let Some(id) = transaction {
        return stage_row(&asked, &caller, &id, Act::Upsert(row), StatusCode::CREATED).await;
    }
    let (engine, family) = (&asked.app.shared.engine, asked.family);
    // Documented elsewhere as 201, but 200 is what is sent and tested.
    let shape = Shape::Row(StatusCode::OK);
    let caller = asked.writer(caller, move |effect| shape.reply(effect, family));
    let written = engine.upsert_row(&caller, asked.place(), row, unchanged_since);
    let written = written.await?;
    Ok(shape.written(&asked, &caller, (1, written)).await)
}

/// The change of the row that the path names, and the transaction it belongs to.
async fn change(asked: &mut Asked<'_>) -> Result<(RowInput, Option<String>), ApiError> {
    let mut fields = asked.fields().await?;
    let transaction = transaction_in(&mut fields)?;
    let mut members = fields.object("data")?.unwrap_or_default();
    name_inner(asked.sender(), &mut members);
    let row = RowInput {
        id: asked.id(asked.words.row_id, &asked.ids.row, RowId::new)?,
        members,
        permissions: fields.texts("permissions")?,
    };
    Ok((row, transaction))
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/rows/{row}`
pub async fn delete(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let transaction = transaction_in(&mut asked.fields().await?)?;
    let unchanged_since = asked.unchanged_since()?;
    let id = asked.id(asked.words.row_id, &asked.ids.row, RowId::new)?;
    let by_query = transaction_of(asked.query.transaction.as_deref());
    if let Some(transaction) = transaction.as_deref().or(by_query) {
        let (act, status) = (Act::Delete(id), StatusCode::NO_CONTENT);
        return stage_row(&asked, &caller, transaction, act, status).await;
    }
    let engine = &asked.app.shared.engine;
    let caller = asked.writer(caller, |_| Reply::empty());
    let deleted = engine.delete_row(&caller, asked.place(), id, unchanged_since);
    Ok(Reply::empty().at(deleted.await?))
}
