//! Undoing commits: what an author did, or what certain metadata say of.

use std::sync::Arc;

use engine::{Place, RowUndo, UndoStep, WriteError};
use hyper::StatusCode;
use model::{Mark, Table};

use super::in_case_language;
use super::json::{CLOCK, mark};
use super::read::records;
use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire::error::ApiError;
use crate::http::wire::{InstantForm, SortedObject, WrittenJson, written, written_array};

/// `POST /v1/tidemark/databases/{database}/undo`
pub async fn undo(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let form = context.instant_form()?.unwrap_or(InstantForm::Iso);
    let mut fields = context.fields().await?;
    fields.need_known(&["after", "until", "user", "meta", "dryRun", CLOCK])?;
    let wanted = records(&mut fields)?;
    if wanted.author.is_none() && wanted.meta.is_empty() {
        let why = "name the commits to undo by `user`, by `meta`, or by both.";
        return Err(ApiError::invalid("user", why));
    }
    let after = mark(&mut fields, "after")?.ok_or_else(|| ApiError::missing("after"))?;
    let until = mark(&mut fields, "until")?;
    let is_dry = fields.flag("dryRun")?.unwrap_or(false);
    let (engine, database) = (&context.app.shared.engine, &*context.ids.database);
    let after = engine.settle(Some(after)).await?;
    let until = engine.settle(until).await?;
    if until < after {
        return Err(ApiError::invalid("until", "it is before `after`."));
    }
    let found = engine
        .to_undo(&caller, database, (after, until), wanted)
        .await?;
    let (mut rows, mut moved, mut looked_at) = (Vec::new(), Vec::new(), 0);
    for ((table, id), marks) in &found.rows {
        let place = Place { database, table };
        let row = engine
            .undo_of_row(&caller, place, id, (marks, found.known))
            .await?;
        looked_at = row.need_room(looked_at)?;
        if row.is_moved {
            moved.push(format!("{table}/{id}"));
        }
        rows.push(row);
        // Others of the thread have their turn.
        tokio::task::yield_now().await;
    }
    if !moved.is_empty() {
        return Err(engine::EngineError::from(WriteError::RowsMoved(moved)).into());
    }
    rows.retain(RowUndo::is_any);
    let (rows, commits): (Arc<[RowUndo]>, _) = (rows.into(), found.commits);
    if is_dry && !rows.is_empty() {
        let tried = engine.try_undo(&caller, database, &rows, found.known).await;
        tried.map_err(in_case_language)?;
    }
    if is_dry || rows.is_empty() {
        return Ok(Reply::ok(shown(None, commits, &rows, form)));
    }
    let done = move |rows: &[RowUndo], mark| {
        Reply::json(StatusCode::CREATED, shown(Some(mark), commits, rows, form))
    };
    let caller = context.writer_at(caller, {
        let rows = Arc::clone(&rows);
        move |_, mark| done(&rows, mark)
    });
    let undone = engine.undo(&caller, database, &rows, found.known).await;
    let mark = undone.map_err(in_case_language)?.mark;
    Ok(done(&rows, mark).at(mark))
}

/// What was undone at a mark, or would be.
fn shown(mark: Option<Mark>, commits: usize, rows: &[RowUndo], form: InstantForm) -> WrittenJson {
    let row = |row: &RowUndo| {
        let changes = row.steps.iter().map(|step| change(&row.table, step, form));
        let permissions = row.permissions.as_ref().map(|permissions| {
            let texts = permissions.iter().map(|one| written(&one.to_string()));
            written_array(texts)
        });
        let shown = SortedObject::from([
            ("tableId", written(row.table.id.as_str())),
            ("rowId", written(row.id.as_str())),
            ("$permissions", permissions.unwrap_or_else(|| written(&()))),
            ("changes", written_array(changes)),
        ]);
        shown.written()
    };
    let body = SortedObject::from([
        ("$systemFrom", form.written(mark.map(Mark::timestamp))),
        ("commits", written(&commits)),
        ("rows", written_array(rows.iter().map(row))),
    ]);
    body.written()
}

fn change(table: &Table, step: &UndoStep, form: InstantForm) -> WrittenJson {
    let values = step.values.as_ref();
    let data = values.map(|values| SortedObject::of_columns(table, values).written());
    let shown = SortedObject::from([
        ("$validFrom", form.written(step.valid.from())),
        ("$validTo", form.written(step.valid.to())),
        ("data", data.unwrap_or_else(|| written(&()))),
    ]);
    shown.written()
}
