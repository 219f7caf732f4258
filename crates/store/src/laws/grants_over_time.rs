//! Grants that operations over a valid period bring along: those of a row are the same over all of
//! its valid time.

use std::sync::Arc;

use model::{Image, Permission, Table};

use super::halt::Step;
use super::ledger::GrantsChange;
use super::permissions::permissions_text;
use super::row_write::Target;
use super::run::{RowStore, Run};
use crate::row_op::RowAct;

/// What an operation may bring along for a row.
pub(crate) struct Grants<'a> {
    /// What it is to have from now on; `None` keeps what it has.
    pub(crate) new: Option<&'a [Permission]>,
    /// What it gets if it was never known.
    pub(crate) first: &'a [Permission],
    /// Whether the operation makes the row: without a trace of it, it has no grants either.
    pub(crate) comes_with_row: bool,
}

/// What the operation says of grants.
pub(crate) fn grants_of(act: &RowAct) -> Grants<'_> {
    match act {
        RowAct::Insert { permissions, .. } => Grants {
            new: Some(permissions),
            first: permissions,
            comes_with_row: true,
        },
        RowAct::Replace { permissions, .. } => Grants {
            new: permissions.as_deref(),
            first: permissions.as_deref().unwrap_or_default(),
            comes_with_row: true,
        },
        RowAct::Put {
            permissions,
            insert_permissions,
            ..
        } => Grants {
            new: permissions.as_deref(),
            first: insert_permissions,
            comes_with_row: true,
        },
        RowAct::Update { permissions, .. } | RowAct::Resize { permissions, .. } => Grants {
            new: permissions.as_deref(),
            first: &[],
            comes_with_row: false,
        },
        RowAct::Delete { .. } | RowAct::Erase | RowAct::Assert(_) => Grants {
            new: None,
            first: &[],
            comes_with_row: false,
        },
    }
}

impl<D: RowStore> Run<'_, D> {
    /// Whether the row has grants already: it is known, or this batch has made it.
    pub(crate) fn has_grants(&self, target: &Target<'_>, seq: i64) -> Step<bool> {
        if self.timed.find(target.table.number, target.id).is_some() {
            return Ok(true);
        }
        // An id has one `$sequence` for ever.
        let known = self.rows().known_seq(target.table, target.id.as_str())?;
        Ok(known == Some(seq))
    }

    /// Gives the row the grants that the operation brings along.
    pub(crate) fn regrant(
        &mut self,
        table: &Arc<Table>,
        target: &Target<'_>,
        seq: i64,
        grants: &Grants<'_>,
        was_granted: bool,
    ) -> Step<()> {
        let list = match grants.new {
            Some(list) => list,
            None if !was_granted => grants.first,
            None => return Ok(()),
        };
        let comes_with_row = grants.comes_with_row || !was_granted;
        if was_granted {
            self.past_changed.add(table.number);
        }
        self.change_grants(target, seq, GrantsChange::Drop)?;
        self.change_grants(target, seq, GrantsChange::Close)?;
        self.add_grants(target, seq, list)?;
        let is_shown = self.show_grants(target, list)?;
        let row = self.timed.row(table, target.id, seq);
        row.is_granted |= comes_with_row;
        row.is_regranted |= !comes_with_row && !is_shown;
        row.is_behind = true;
        self.timed.is_behind = true;
        Ok(())
    }

    /// Says in the row of now what it grants; whether there is one.
    fn show_grants(&mut self, target: &Target<'_>, list: &[Permission]) -> Step<bool> {
        let Some(row) = self.current_to_go(target)? else {
            return Ok(false);
        };
        let after = Image {
            updated: self.mark.timestamp().cut_to_ms(),
            permissions: permissions_text(list).into(),
            ..row.image.clone()
        };
        self.show_permissions(target, row.seq, &after)?;
        let (before, after) = (Some(row.image), Some(after));
        self.touched
            .record(target.table, target.id, row.seq, before, after);
        Ok(true)
    }
}
