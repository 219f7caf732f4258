//! Writing rows: what was sent is checked against today's schema, then committed.

use std::collections::HashSet;
use std::sync::Arc;

use model::history::Range;
use model::{
    Action, Actor, Catalogue, Json, Mark, Marked, Page, Row, Selection, Table, Timestamp, Value,
};
use query::Visibility;
use store::{Applied, Once, Op, RowAct, RowOp, TimedDone, WriteBatch, WrittenRow};

use crate::Engine;
use crate::commit::batch::batch;
use crate::error::refused::answer;
use crate::error::{EngineError, ReadError, WriteError};
use crate::read::related_plan::{RelatedAsOf, related_plan};
use crate::read::rows::get_with;
use crate::request::authorize::{self, WRITE_ROWS};
use crate::request::inputs::{Caller, Effect, Place, RowInput};
use crate::request::past;
use crate::request::times;
use crate::write::content::PermissionsIn;
use crate::write::links::{self, Scene};
use crate::write::row_ops::{insert, put, update};
use crate::write::unseen::Unseen;

/// Makes the operation on a row: of its table, who writes, what was sent, and the links to hold.
type MakeOp = fn(&Arc<Table>, &Actor, &RowInput, &[(usize, Value)]) -> Result<RowOp, EngineError>;

impl Engine {
    /// Creates a row.
    ///
    /// # Errors
    /// [`WriteError::RowExists`], [`WriteError::UniqueViolation`], or what keeps the caller or
    /// the content out.
    pub async fn create_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
    ) -> Result<Marked<Page>, EngineError> {
        if row.members.is_empty() {
            return Err(WriteError::RowDataMissing.into());
        }
        let plan = |catalogue: &Catalogue, table: &Arc<Table>| {
            let linked = links::take_apart(scene(catalogue, caller, place), table, &row)?;
            let grants_in = PermissionsIn::Parameter;
            let op = insert(table, &caller.actor, &linked.row, &linked.held, grants_in)?;
            Ok(linked.into_ops(in_time(&caller.actor, op, &row)?))
        };
        let written = self.write_rows(caller, place, None, plan).await?;
        self.with_links(caller, written, &row.members).await
    }

    /// Creates rows, all or none; for keys only. Grants come from each row's `$permissions`.
    ///
    /// # Errors
    /// As for [`Engine::create_row`].
    pub async fn create_rows(
        &self,
        caller: &Caller,
        place: Place<'_>,
        rows: Vec<RowInput>,
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        self.write_rows(caller, place, None, |_, table| {
            need_no_relationships(table)?;
            let grants_in = PermissionsIn::Content;
            let insert = |row| {
                let op = insert(table, &caller.actor, row, &[], grants_in)?;
                in_time(&caller.actor, op, row)
            };
            rows.iter().map(insert).collect()
        })
        .await
    }

    /// Merges into an existing row. One that was changed after `unchanged_since` is left alone.
    ///
    /// # Errors
    /// [`WriteError::PayloadMissing`] when nothing is set, [`ReadError::RowNotFound`],
    /// [`WriteError::RowMoved`], or what keeps the caller or the content out.
    pub async fn update_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
        unchanged_since: Option<Timestamp>,
    ) -> Result<Marked<Page>, EngineError> {
        self.change_row(caller, place, row, unchanged_since, update)
            .await
    }

    /// Merges into an existing row, or creates it.
    ///
    /// # Errors
    /// As for [`Engine::update_row`] if it exists, else as for [`Engine::create_row`].
    pub async fn upsert_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
        unchanged_since: Option<Timestamp>,
    ) -> Result<Marked<Page>, EngineError> {
        self.change_row(caller, place, row, unchanged_since, put)
            .await
    }

    /// Changes one row by the operation that `act` makes of its content.
    async fn change_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
        unchanged_since: Option<Timestamp>,
        act: MakeOp,
    ) -> Result<Marked<Page>, EngineError> {
        need_payload(&row)?;
        let plan = |catalogue: &Catalogue, table: &Arc<Table>| {
            let linked = links::take_apart(scene(catalogue, caller, place), table, &row)?;
            let op = act(table, &caller.actor, &linked.row, &linked.held)?;
            Ok(linked.into_ops(in_time(&caller.actor, op, &row)?))
        };
        let written = self
            .write_rows(caller, place, unchanged_since, plan)
            .await?;
        self.with_links(caller, written, &row.members).await
    }

    /// Merges into existing rows and creates those that are not there, all or none; for keys
    /// only. Grants come from each row's `$permissions`.
    ///
    /// # Errors
    /// [`WriteError::RowExists`] when two rows have one id, else as for [`Engine::upsert_row`].
    pub async fn upsert_rows(
        &self,
        caller: &Caller,
        place: Place<'_>,
        rows: Vec<RowInput>,
        unchanged_since: Option<Timestamp>,
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        if rows.is_empty() {
            return Err(WriteError::RowDataMissing.into());
        }
        need_duplicate_free(&rows)?;
        self.write_rows(caller, place, unchanged_since, |_, table| {
            need_no_relationships(table)?;
            let put = |row| {
                let op = put(table, &caller.actor, row, &[])?;
                in_time(&caller.actor, op, row)
            };
            rows.iter().map(put).collect()
        })
        .await
    }

    /// Deletes a row, from now on or over the period that its members name. Its history stays.
    /// Gives the mark of the commit.
    ///
    /// # Errors
    /// [`ReadError::RowNotFound`] if it is not there at any instant of it, or
    /// [`crate::AccessError::Unauthorized`] if the row exists.
    pub async fn delete_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: impl Into<RowInput>,
        unchanged_since: Option<Timestamp>,
    ) -> Result<Mark, EngineError> {
        let row = row.into();
        let page = self
            .write_rows(caller, place, unchanged_since, |_, table| {
                Ok(vec![deletion(table, &caller.actor, &row)?])
            })
            .await?;
        Ok(page.mark)
    }

    /// Builds the operations under today's catalogue and commits them; again if the catalogue
    /// moved in between.
    pub(crate) async fn write_rows(
        &self,
        caller: &Caller,
        place: Place<'_>,
        unchanged_since: Option<Timestamp>,
        build: impl Fn(&Catalogue, &Arc<Table>) -> Result<Vec<Op>, EngineError>,
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_scope(caller, WRITE_ROWS)?;
        self.under_catalogue(async |catalogue| {
            let table = authorize::table(catalogue, caller, place)?;
            let ops = build(catalogue, table)?;
            let are_timed: Vec<bool> = ops
                .iter()
                .filter_map(|op| match op {
                    Op::Row(op) => Some(op.range.is_some()),
                    _ => None,
                })
                .collect();
            let unseen = Unseen::of(table, &caller.actor, &ops);
            let mut batch = WriteBatch {
                unchanged_since,
                ..batch(catalogue, caller, ops)
            };
            if let Some(once) = self.once_of_rows(caller, table, &are_timed, unseen.as_ref()) {
                batch.ops.insert(0, Op::Once(once));
            }
            let applied = answer(self.writer.commit(batch).await?)?;
            let mut written = self.written(table, applied, &are_timed);
            if let Some(unseen) = &unseen {
                written.answer = unseen.hide(written.answer);
            }
            Ok(written)
        })
        .await
    }

    fn once_of_rows(
        &self,
        caller: &Caller,
        table: &Arc<Table>,
        are_timed: &[bool],
        unseen: Option<&Unseen>,
    ) -> Option<Once> {
        // It is refused in any case, and alike whether others have used the name or not.
        if !authorize::may_write(table, &caller.actor) {
            return None;
        }
        let (table, are_timed) = (table.clone(), are_timed.to_vec());
        let unseen = unseen.cloned();
        self.once(caller, move |done, tell| {
            let (rows, timed) = (done.rows.iter().cloned(), done.timed.iter().cloned());
            let mut page = page_of(&table, rows, timed, &are_timed);
            if let Some(unseen) = &unseen {
                page = unseen.hide(page);
            }
            let total = page.rows.len() as u64;
            tell(&Effect::Rows { total, page: &page });
        })
    }

    /// `are_timed` says of each operation on a row whether it was over a valid period.
    fn written(&self, table: &Arc<Table>, applied: Applied, are_timed: &[bool]) -> Marked<Page> {
        let mark = applied
            .mark
            .unwrap_or_else(|| self.shared.marks.published());
        let (rows, timed) = (applied.rows.into_iter(), applied.timed.into_iter());
        let page = page_of(table, rows, timed, are_timed);
        Marked { answer: page, mark }
    }

    /// The row as it was written, with the rows that the links in its content lead to. They are
    /// read after the commit, and so may be as a later one left them.
    async fn with_links(
        &self,
        caller: &Caller,
        mut written: Marked<Page>,
        members: &[(String, Json)],
    ) -> Result<Marked<Page>, EngineError> {
        let page = &mut written.answer;
        let catalogue = self.catalogue();
        // A later commit may have ended the relationship, or deleted either table.
        if !is_of_today(&catalogue, &page.table) {
            return Ok(written);
        }
        // What a caller may not read is not shown with what it is related to; and what a piece of
        // another time is related to, is not what the row is related to now.
        if page.selection != Selection::All {
            return Ok(written);
        }
        let is_of_now = |row: &&Row| row.span.is_none();
        let names = links::shown(&catalogue, &page.table, members);
        let Some(row) = page
            .rows
            .first()
            .filter(is_of_now)
            .filter(|_| !names.is_empty())
        else {
            return Ok(written);
        };
        let what = (&*page.table, &*names);
        // The row is written whatever becomes of what is shown beside it.
        let Ok(plans) = related_plan(&catalogue, caller, RelatedAsOf::Now, what).await else {
            return Ok(written);
        };
        let what = (NOTHING, Visibility::Everything);
        let get = || get_with(&page.table, &row.id, what.clone(), plans.clone());
        let mut read = self.in_turns(&catalogue, caller, None, get()).await;
        // What has been written is answered, whatever else waits.
        if matches!(read, Err(EngineError::Read(ReadError::ReadersBusy { .. }))) {
            read = self.on_one_snapshot(None, &catalogue, caller, get()).await;
        }
        // The row is written whatever becomes of this: another request may have deleted it again,
        // or changed the schema, and then its links are not shown.
        if let Ok(Marked {
            answer: Some(read), ..
        }) = read
        {
            page.related = read.related;
        }
        Ok(written)
    }
}

/// What was written, in the order of the operations.
fn page_of(
    table: &Arc<Table>,
    mut rows: impl Iterator<Item = WrittenRow>,
    mut timed: impl Iterator<Item = TimedDone>,
    are_timed: &[bool],
) -> Page {
    let next = |is_timed: &bool| {
        if *is_timed {
            timed.next().and_then(|done| done.row)
        } else {
            rows.next().flatten()
        }
    };
    Page {
        table: table.clone(),
        selection: Selection::All,
        rows: are_timed.iter().filter_map(next).collect(),
        related: Vec::new(),
    }
}

/// The operation, over the valid period that the row data asks for if it names any.
///
/// # Errors
/// [`WriteError::Structure`] for what is no time; [`crate::AccessError::PastClosed`], because the
/// answer shows what was valid there.
pub(crate) fn in_time(actor: &Actor, op: RowOp, row: &RowInput) -> Result<Op, EngineError> {
    let Some(range) = times::range(&row.members).map_err(WriteError::Structure)? else {
        return Ok(Op::Row(op));
    };
    past::need_open(&op.table, actor)?;
    if !times::are_alone(&row.members) {
        return Ok(Op::Row(op.within(range)));
    }
    Ok(Op::Row(match op.act {
        RowAct::Update {
            permissions, guard, ..
        } => {
            let act = RowAct::Resize {
                edge: times::moved_end(&row.members).map_err(WriteError::Structure)?,
                permissions,
                guard,
                deletion_guard: authorize::guard(&op.table, actor, &[Action::Delete]),
            };
            RowOp::over(op.table, op.id, Range::default(), act)
        }
        RowAct::Put { .. } => {
            let why = "an upsert with a period needs content; to end, extend or move the row, \
                       update it with `$validTo` or `$validFrom` alone";
            return Err(EngineError::Argument {
                name: "data",
                why: why.to_owned(),
            });
        }
        _ => op.within(range),
    }))
}

/// The deletion of a row, over the valid period that is named if any is.
///
/// # Errors
/// As for [`in_time`].
pub(crate) fn deletion(
    table: &Arc<Table>,
    actor: &Actor,
    row: &RowInput,
) -> Result<Op, EngineError> {
    let guard = authorize::guard(table, actor, &[Action::Delete]);
    let op = RowOp::now(table.clone(), row.id.clone(), RowAct::Delete { guard });
    match times::range(&row.members).map_err(WriteError::Structure)? {
        None => Ok(Op::Row(op)),
        Some(range) => {
            past::need_open(table, actor)?;
            Ok(Op::Row(op.within(range)))
        }
    }
}

/// Whether the catalogue has the table, and with these columns.
fn is_of_today(catalogue: &Catalogue, table: &Table) -> bool {
    let project = catalogue.project(table.project.as_str());
    let database = project.and_then(|project| project.databases.get(&table.database));
    let today = database.and_then(|database| database.tables.get(&table.id));
    today.is_some_and(|today| {
        today.number == table.number && today.schema_epoch == table.schema_epoch
    })
}

/// Selects nothing.
const NOTHING: Selection = Selection::Some {
    columns: Vec::new(),
    fields: Vec::new(),
    permissions: false,
};

fn scene<'a>(catalogue: &'a Catalogue, caller: &'a Caller, place: Place<'a>) -> Scene<'a> {
    Scene {
        catalogue,
        caller,
        database: place.database,
    }
}

/// Bulk writes carry no links (wire protocol, 2.4).
pub(crate) fn need_no_relationships(table: &Table) -> Result<(), EngineError> {
    if table.has_relationships() {
        return Err(WriteError::BulkOfRelationships(table.id.to_string()).into());
    }
    Ok(())
}

/// One request puts a row once.
pub(crate) fn need_duplicate_free(rows: &[RowInput]) -> Result<(), EngineError> {
    let mut ids = HashSet::new();
    match rows.iter().find(|row| !ids.insert(&row.id)) {
        Some(twice) => Err(WriteError::RowExists(twice.id.clone()).into()),
        None => Ok(()),
    }
}

pub(crate) fn need_payload(row: &RowInput) -> Result<(), EngineError> {
    if row.members.is_empty() && row.permissions.is_none() {
        return Err(WriteError::PayloadMissing.into());
    }
    Ok(())
}
