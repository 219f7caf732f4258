//! Operations on one row, as they go into a batch.

use std::sync::Arc;

use model::history::{Range, Until};
use model::{Action, Mark, Patch, Permission, RoleSet, RowId, Table, Timestamp, Value};

use crate::EncodeRow;
use crate::laws::body::{BODY_BYTES_MAX, body_to_keep};
use crate::refusal::Refusal;

/// An operation on one row. Where its period reaches into what the row is now, the current row
/// follows.
#[derive(Clone, Debug)]
pub struct RowOp {
    /// The table, as of the batch's catalogue.
    pub table: Arc<Table>,
    /// The row.
    pub id: RowId,
    /// Over which valid period, reported in [`crate::Applied::timed`]; `None` is from the batch's
    /// mark until further notice, reported in [`crate::Applied::rows`]. An erasure and a claim
    /// do not look at it.
    pub range: Option<Range>,
    /// What happens to it.
    pub act: RowAct,
    /// Whether operations go by the letter of the case language: a merge writes a piece also where
    /// it changes nothing, and what meets no piece is no error. Otherwise a merge that finds
    /// equal values leaves them, and an update or a deletion that meets no piece is
    /// [`Refusal::RowNotFound`].
    pub is_literal: bool,
    /// See [`crate::WriteBatch::encode_bodies`].
    pub body: Option<InsertedBody>,
}

/// The columns of a row that is inserted as readers copy them, or that none are kept of it.
#[derive(Clone, Debug)]
pub struct InsertedBody(pub(crate) Option<Box<[u8]>>);

impl RowOp {
    /// An operation from the batch's mark until further notice.
    pub fn now(table: Arc<Table>, id: RowId, act: RowAct) -> RowOp {
        RowOp {
            table,
            id,
            range: None,
            act,
            is_literal: false,
            body: None,
        }
    }

    /// An operation over a valid period.
    pub fn over(table: Arc<Table>, id: RowId, range: Range, act: RowAct) -> RowOp {
        RowOp::now(table, id, act).within(range)
    }

    /// The same over a valid period.
    #[must_use]
    pub fn within(self, range: Range) -> RowOp {
        RowOp {
            range: Some(range),
            ..self
        }
    }

    /// The same by the letter of the case language.
    #[must_use]
    pub fn literal(self) -> RowOp {
        RowOp {
            is_literal: true,
            ..self
        }
    }

    /// Its period, as one of the time axes.
    pub(crate) fn period(&self) -> Range {
        self.range.unwrap_or_default()
    }

    /// Encodes the body, if this inserts a row from now on. Of a large one, which is hardly ever
    /// kept, the writer sees to that.
    pub(crate) fn encode_body(&mut self, encode_row: EncodeRow) {
        if let (RowAct::Insert { values, .. }, None) = (&self.act, self.range)
            && values.iter().map(Value::size_bytes).sum::<usize>() <= BODY_BYTES_MAX
        {
            let body = body_to_keep(encode_row, &self.table, values);
            self.body = Some(InsertedBody(body));
        }
    }

    /// About so many bytes of values it brings along.
    pub(crate) fn size_bytes(&self) -> usize {
        let body = self.body.as_ref().and_then(|body| body.0.as_ref());
        let of_body = body.map_or(0, |body| body.len());
        let of_values = match &self.act {
            RowAct::Insert { values, .. } | RowAct::Replace { values, .. } => {
                values.iter().map(Value::size_bytes).sum()
            }
            RowAct::Update { patch, .. } | RowAct::Put { patch, .. } => patch.size_bytes(),
            RowAct::Resize { .. } | RowAct::Delete { .. } | RowAct::Erase | RowAct::Assert(_) => 0,
        };
        of_values + of_body
    }
}

/// What happens to a row over the period of the operation.
#[derive(Clone, Debug)]
pub enum RowAct {
    /// Fails with [`Refusal::RowExists`] when the row is there at any instant of the period, and
    /// when it is there, or will be, at any other that is not past, unless the guard lets it be
    /// updated: the row would get these grants as a whole.
    Insert {
        /// One value for each column.
        values: Vec<Value>,
        /// The row's grants, from now on.
        permissions: Vec<Permission>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may write beside what is there.
        guard: Guard,
    },
    /// Merges into every piece. From now on, one that changes nothing writes nothing.
    Update {
        /// The columns to set.
        patch: Patch,
        /// New grants; `None` keeps those it has.
        permissions: Option<Vec<Permission>>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may.
        guard: Guard,
    },
    /// Merges into every piece, and makes the row in the gaps.
    Put {
        /// The columns to set where the row is. Its operators run in gaps, too.
        patch: Patch,
        /// The content in gaps, before operators have run, or why there can be none.
        insert: Result<Vec<Value>, Box<Refusal>>,
        /// New grants; `None` keeps those it has.
        permissions: Option<Vec<Permission>>,
        /// The grants of a row that is made.
        insert_permissions: Vec<Permission>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may merge into what is there.
        guard: Guard,
    },
    /// The row has exactly this value.
    Replace {
        /// One value for each column.
        values: Vec<Value>,
        /// New grants; `None` keeps those it has.
        permissions: Option<Vec<Permission>>,
        /// Who may write over what is there.
        guard: Guard,
    },
    /// Moves one end of the time over which the row is there without a gap: of that which holds
    /// the mark, or else the next to begin. What is cut off is deleted; where time is added,
    /// the content at that end goes on and replaces what was scheduled.
    Resize {
        /// Which end, and where to.
        edge: PeriodEnd,
        /// New grants; `None` keeps those it has.
        permissions: Option<Vec<Permission>>,
        /// Who may update the row.
        guard: Guard,
        /// Who may delete a part of it.
        deletion_guard: Guard,
    },
    /// The row is absent. From now on, [`Refusal::RowNotFound`] when it is absent already.
    Delete {
        /// Who may.
        guard: Guard,
    },
    /// Every version at every mark disappears, and the row's place in the records of commits.
    Erase,
    /// Nothing; but the batch is refused with [`Refusal::AssertFailed`] unless it holds.
    Assert(RowAssertion),
}

/// An end of the time over which a row is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodEnd {
    /// It begins at this instant.
    From(Timestamp),
    /// It ends here; [`Until::Next`] is where the row begins again, if it does.
    Until(Until),
}

/// What a batch may claim of a row before it goes on.
#[derive(Clone, Debug)]
pub enum RowAssertion {
    /// The row is there, or is not, at an instant; `None` is the batch's mark.
    Exists(bool, Option<Timestamp>),
    /// The row is there at an instant, with these values in these columns.
    Equals(Vec<(usize, Value)>, Option<Timestamp>),
    /// No commit after this one changed anything of the row.
    UnchangedSince(Mark),
}

/// Times that a key caller set by hand; `None` is the commit's own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// `$createdAt`
    pub created: Option<Timestamp>,
    /// `$updatedAt`
    pub updated: Option<Timestamp>,
}

impl Stamps {
    /// Whether one was set that is another than the row has.
    pub(crate) fn differ_from(self, created: Timestamp, updated: Timestamp) -> bool {
        let differs = |stamp: Option<Timestamp>, is: Timestamp| {
            stamp.is_some_and(|stamp| stamp.cut_to_ms() != is)
        };
        differs(self.created, created) || differs(self.updated, updated)
    }
}

/// Who may change the row, judged inside the transaction, where its grants cannot move.
#[derive(Clone, Debug)]
pub enum Guard {
    /// The actor may: a key, or a grant on the whole table.
    Open,
    /// The row itself must grant each of the actions to one of the roles.
    Granted {
        /// Whom the actor stands for.
        roles: Arc<RoleSet>,
        /// What the operation needs beyond the grants of the table.
        actions: Box<[Action]>,
    },
    /// The actor may not: [`Refusal::RowForbidden`] if the row is there, else
    /// [`Refusal::RowNotFound`].
    Closed,
}
