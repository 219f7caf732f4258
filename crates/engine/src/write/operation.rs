//! Operations of transactions, as clients stage them.

use model::{Actor, Json, RowId, Timestamp};

use crate::request::inputs::RowInput;

/// An operation on rows of one table.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The database's id.
    pub database: String,
    /// The table's id.
    pub table: String,
    /// What it does.
    pub act: Act,
    /// A row that was changed after this is left alone, and so is all of the transaction.
    pub unchanged_since: Option<Timestamp>,
}

/// What an operation does. Those on many rows are for keys only.
#[derive(Clone, Debug)]
pub enum Act {
    /// As [`crate::Engine::create_row`].
    Create(RowInput),
    /// As [`crate::Engine::update_row`].
    Update(RowInput),
    /// As [`crate::Engine::upsert_row`].
    Upsert(RowInput),
    /// As [`crate::Engine::delete_row`].
    Delete(RowInput),
    /// As [`crate::Engine::increment_row`]. It never conflicts.
    Increment {
        /// The row.
        id: RowId,
        /// The column's key.
        column: String,
        /// Whether to count down.
        is_down: bool,
        /// By how much.
        by: Json,
        /// What may not be passed.
        bound: Option<Json>,
    },
    /// As [`crate::Engine::create_rows`].
    CreateMany(Vec<RowInput>),
    /// As [`crate::Engine::upsert_rows`].
    UpsertMany(Vec<RowInput>),
    /// As [`crate::Engine::update_rows`], of at most 10,000 rows.
    UpdateMany {
        /// The query texts as sent.
        texts: Vec<String>,
        /// What is set.
        members: Vec<(String, Json)>,
    },
    /// As [`crate::Engine::delete_rows`], of at most 10,000 rows.
    DeleteMany {
        /// The query texts as sent.
        texts: Vec<String>,
        /// The valid period, as row data names it; empty is from now on.
        members: Vec<(String, Json)>,
    },
}

impl Operation {
    /// The table in the words of the operation's keeper.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.database, self.table)
    }

    /// The row, if it is about one.
    pub(crate) fn row(&self) -> Option<&RowId> {
        match &self.act {
            Act::Create(row) | Act::Update(row) | Act::Upsert(row) | Act::Delete(row) => {
                Some(&row.id)
            }
            Act::Increment { id, .. } => Some(id),
            Act::CreateMany(_)
            | Act::UpsertMany(_)
            | Act::UpdateMany { .. }
            | Act::DeleteMany { .. } => None,
        }
    }

    /// Whether it finds its rows by a query.
    pub(crate) fn is_matching(&self) -> bool {
        matches!(self.act, Act::UpdateMany { .. } | Act::DeleteMany { .. })
    }

    /// Whether it stands on what the row was: two that only count can both have their effect.
    pub(crate) fn may_conflict(&self) -> bool {
        !matches!(self.act, Act::Increment { .. })
    }

    /// Leaves out what this actor may not set, because a key may be the one that commits it.
    pub(crate) fn forget_reserved(&mut self, actor: &Actor) {
        if actor.bypasses_grants() {
            return;
        }
        if let Act::Create(row) | Act::Update(row) | Act::Upsert(row) = &mut self.act {
            let is_stamp = |key: &str| matches!(key, "$createdAt" | "$updatedAt");
            row.members.retain(|(key, _)| !is_stamp(key));
        }
    }
}
