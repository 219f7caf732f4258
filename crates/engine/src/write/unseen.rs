//! What a write answers to a caller who may write a row and may not read it: its id, and the
//! values that were sent. Whatever else the row holds was hidden before, and stays so.

use std::sync::Arc;

use model::permission::allows;
use model::{
    Action, Actor, Content, Edit, Field, Grantee, Json, Page, Patch, RoleSet, Row, Selection,
    Table, Value,
};
use query::json;
use store::{Op, RowAct};

/// A write by a caller to whom the table as a whole does not grant reading.
#[derive(Clone, Debug)]
pub(crate) struct Unseen {
    /// Who writes, where grants of rows may let them read.
    roles: Option<Arc<RoleSet>>,
    /// The columns that were sent, in the table's order, with their values.
    sent: Vec<(usize, Value)>,
}

impl Unseen {
    /// `None` where the answer hides nothing: the caller may read all rows, or makes a new one.
    pub(crate) fn of(table: &Table, actor: &Actor, ops: &[Op]) -> Option<Unseen> {
        if actor.bypasses_grants() {
            return None;
        }
        let roles = actor.roles();
        if allows(&table.permissions, Action::Read, &roles) {
            return None;
        }
        let mut sent = ops
            .iter()
            .find_map(patch)
            .map(|patch| values(table, patch))?;
        sent.sort_by_key(|(position, _)| *position);
        Some(Unseen {
            roles: table.row_security.then_some(roles),
            sent,
        })
    }

    /// The rows that were written, without what the caller may not see.
    pub(crate) fn hide(&self, page: Page) -> Page {
        if page.rows.iter().all(|row| self.may_read(row)) {
            return page;
        }
        let hidden = |row: Row| Row {
            content: Content::Values(self.sent.iter().map(|(_, value)| value.clone()).collect()),
            span: None,
            ..row
        };
        Page {
            selection: Selection::Some {
                columns: self.sent.iter().map(|(position, _)| *position).collect(),
                fields: vec![Field::Id],
                permissions: false,
            },
            rows: page.rows.into_iter().map(hidden).collect(),
            related: Vec::new(),
            table: page.table,
        }
    }

    fn may_read(&self, row: &Row) -> bool {
        let Some(roles) = &self.roles else {
            return false;
        };
        let Ok(Json::List(grants)) = json::read(row.permissions.as_bytes()) else {
            return false;
        };
        let grants = Grantee::Row.parse(grants.iter().filter_map(Json::as_str));
        grants.is_ok_and(|grants| allows(&grants, Action::Read, roles))
    }
}

/// What an operation changes of a row that may be there already.
fn patch(op: &Op) -> Option<&Patch> {
    match op {
        Op::Row(op) => match &op.act {
            RowAct::Update { patch, .. } | RowAct::Put { patch, .. } => Some(patch),
            _ => None,
        },
        _ => None,
    }
}

/// The values as they were sent. What an operator makes of a value would show the value (and needs
/// the right to read); links are shown with the rows that they lead to, or not at all.
fn values(table: &Table, patch: &Patch) -> Vec<(usize, Value)> {
    let value = |(position, edit): &(usize, Edit)| match edit {
        Edit::Set(value) if table.columns[*position].relation().is_none() => {
            Some((*position, value.clone()))
        }
        Edit::Set(_) | Edit::Operate(_) => None,
    };
    patch.edits().iter().filter_map(value).collect()
}
