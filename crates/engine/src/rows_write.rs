//! Writing rows: what was sent is checked against today's schema, then committed.

use std::collections::HashSet;
use std::sync::Arc;

use model::{
    Action, Actor, Catalogue, Mark, Marked, Page, RowId, Scope, Selection, Table, Timestamp,
};
use store::{Applied, Op, Outcome, Refusal, RowAct, RowOp, WriteBatch};

use crate::Engine;
use crate::asked::{Caller, Place, RowInput};
use crate::authorize;
use crate::commit::answer;
use crate::content::{Content, PermissionsIn, Sent};
use crate::error::EngineError;
use crate::rows::ATTEMPTS_MAX;

pub(crate) const WRITE_ROWS: &[Scope] = &[Scope::RowsWrite];

impl Engine {
    /// Creates a row.
    ///
    /// # Errors
    /// [`EngineError::RowExists`], [`EngineError::UniqueViolation`], or what keeps the caller or
    /// the content out.
    pub async fn create_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
    ) -> Result<Marked<Page>, EngineError> {
        if row.members.is_empty() {
            return Err(EngineError::RowDataMissing);
        }
        self.write_rows(caller, place, None, |table| {
            Ok(vec![insert(
                table,
                &caller.actor,
                &row,
                PermissionsIn::Parameter,
            )?])
        })
        .await
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
        self.write_rows(caller, place, None, |table| {
            let insert = |row| insert(table, &caller.actor, row, PermissionsIn::Content);
            rows.iter().map(insert).collect()
        })
        .await
    }

    /// Merges into an existing row. One that was changed after `unchanged_since` is left alone.
    ///
    /// # Errors
    /// [`EngineError::PayloadMissing`] when nothing is set, [`EngineError::RowNotFound`],
    /// [`EngineError::RowMoved`], or what keeps the caller or the content out.
    pub async fn update_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        row: RowInput,
        unchanged_since: Option<Timestamp>,
    ) -> Result<Marked<Page>, EngineError> {
        need_payload(&row)?;
        self.write_rows(caller, place, unchanged_since, |table| {
            let sent = sent(&row, PermissionsIn::Parameter);
            let content = Content::check(table, &caller.actor, sent)?;
            let act = RowAct::Update {
                patch: content.patch,
                permissions: content.permissions,
                stamps: content.stamps,
                guard: authorize::guard(table, &caller.actor, Action::Update),
            };
            Ok(vec![RowOp {
                table: table.clone(),
                id: row.id.clone(),
                act,
            }])
        })
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
        need_payload(&row)?;
        self.write_rows(caller, place, unchanged_since, |table| {
            Ok(vec![put(table, &caller.actor, &row)?])
        })
        .await
    }

    /// Merges into existing rows and creates those that are not there, all or none; for keys
    /// only. Grants come from each row's `$permissions`.
    ///
    /// # Errors
    /// [`EngineError::RowExists`] when two rows have one id, else as for [`Engine::upsert_row`].
    pub async fn upsert_rows(
        &self,
        caller: &Caller,
        place: Place<'_>,
        rows: Vec<RowInput>,
        unchanged_since: Option<Timestamp>,
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        if rows.is_empty() {
            return Err(EngineError::RowDataMissing);
        }
        let mut ids = HashSet::new();
        if let Some(twice) = rows.iter().find(|row| !ids.insert(&row.id)) {
            return Err(EngineError::RowExists(twice.id.clone()));
        }
        self.write_rows(caller, place, unchanged_since, |table| {
            let put = |row| put(table, &caller.actor, row);
            rows.iter().map(put).collect()
        })
        .await
    }

    /// Deletes a row. Its history stays. Gives the mark of the commit.
    ///
    /// # Errors
    /// [`EngineError::RowNotFound`], or [`EngineError::Unauthorized`] if the row exists.
    pub async fn delete_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        id: RowId,
        unchanged_since: Option<Timestamp>,
    ) -> Result<Mark, EngineError> {
        let page = self
            .write_rows(caller, place, unchanged_since, |table| {
                let guard = authorize::guard(table, &caller.actor, Action::Delete);
                let act = RowAct::Delete { guard };
                Ok(vec![RowOp {
                    table: table.clone(),
                    id: id.clone(),
                    act,
                }])
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
        build: impl Fn(&Arc<Table>) -> Result<Vec<RowOp>, EngineError>,
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_scope(caller, WRITE_ROWS)?;
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let table = authorize::table(&catalogue, caller, place)?;
            let ops = build(table)?;
            let batch = WriteBatch {
                unchanged_since,
                ..batch(&catalogue, caller, ops.into_iter().map(Op::Row).collect())
            };
            match self.writer.commit(batch).await? {
                Outcome::Err(Refusal::CatalogueMoved) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                outcome => return Ok(self.written(table, answer(outcome)?)),
            }
        }
        Err(EngineError::Overloaded)
    }

    fn written(&self, table: &Arc<Table>, applied: Applied) -> Marked<Page> {
        let mark = applied
            .mark
            .unwrap_or_else(|| self.shared.marks.published());
        let rows = applied.rows.into_iter().flatten().collect();
        let page = Page {
            table: table.clone(),
            selection: Selection::All,
            rows,
        };
        Marked { answer: page, mark }
    }
}

pub(crate) fn batch(catalogue: &Catalogue, caller: &Caller, ops: Vec<Op>) -> WriteBatch {
    WriteBatch {
        catalogue_epoch: catalogue.epoch,
        ops,
        author: author(&caller.actor),
        unchanged_since: None,
    }
}

/// Who a commit's record names as its author.
pub(crate) fn author(actor: &Actor) -> Option<String> {
    match actor {
        Actor::Key { id, .. } => Some(format!("key:{id}")),
        Actor::Guest | Actor::User { .. } => None,
    }
}

fn need_payload(row: &RowInput) -> Result<(), EngineError> {
    if row.members.is_empty() && row.permissions.is_none() {
        return Err(EngineError::PayloadMissing);
    }
    Ok(())
}

/// The content of a row, where it may change one that is there.
fn sent(row: &RowInput, permissions_in: PermissionsIn) -> Sent<'_> {
    Sent {
        members: &row.members,
        permissions: row.permissions.as_deref(),
        permissions_in,
        may_operate: true,
    }
}

fn insert(
    table: &Arc<Table>,
    actor: &Actor,
    row: &RowInput,
    permissions_in: PermissionsIn,
) -> Result<RowOp, EngineError> {
    if !authorize::may_create(table, actor) {
        return Err(EngineError::Unauthorized);
    }
    let sent = Sent {
        may_operate: false,
        ..sent(row, permissions_in)
    };
    let content = Content::check(table, actor, sent)?;
    let act = RowAct::Insert {
        values: content.patch.start(table).map_err(EngineError::Structure)?,
        permissions: content.permissions.unwrap_or_default(),
        stamps: content.stamps,
    };
    Ok(RowOp {
        table: table.clone(),
        id: row.id.clone(),
        act,
    })
}

/// An upsert, with what an insertion would be or why there could be none: which of the two it
/// becomes is known only inside the transaction.
fn put(table: &Arc<Table>, actor: &Actor, row: &RowInput) -> Result<RowOp, EngineError> {
    let content = Content::check(table, actor, sent(row, PermissionsIn::Either))?;
    let insert = if authorize::may_create(table, actor) {
        content
            .patch
            .start(table)
            .map_err(|error| Box::new(Refusal::Invalid(error)))
    } else {
        Err(Box::new(Refusal::RowForbidden(row.id.clone())))
    };
    let act = RowAct::Put {
        insert,
        patch: content.patch,
        insert_permissions: content.permissions.clone().unwrap_or_default(),
        permissions: content.permissions,
        stamps: content.stamps,
        guard: authorize::guard(table, actor, Action::Update),
    };
    Ok(RowOp {
        table: table.clone(),
        id: row.id.clone(),
        act,
    })
}
