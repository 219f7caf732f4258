//! What the operations of a client's transaction ask of the rows they change: that no other commit
//! has changed them since the operation was staged.

use model::{Mark, Timestamp};

use super::halt::Step;
use super::row_search::MarkOf;
use super::row_write::{Current, Target};
use super::run::{RowStore, Run};
use super::staged_run::Entered;
use crate::refusal::Refusal;
use crate::staged::{Since, TransactionRefusal};

impl<D: RowStore> Run<'_, D> {
    /// From now on this holds for operations on rows.
    pub(crate) fn hold_since(&mut self, since: Since) {
        self.staged.since = Some(since);
        self.unchanged_since = since.instant;
    }

    /// `$updatedAt` of a row that is about to be changed, before the batch.
    ///
    /// # Errors
    /// [`TransactionRefusal::Conflict`] when another commit changed the row since the operation
    /// was staged.
    pub(crate) fn updated_before(&self, target: &Target<'_>, row: &Current) -> Step<Timestamp> {
        let Some(since) = self.staged.since else {
            return Ok(row.image.updated);
        };
        let entered = self.entered(target, row)?;
        if since.mark.is_some_and(|seen| entered.changed > seen) {
            let conflict = TransactionRefusal::Conflict(target.id.clone());
            return Err(Refusal::Transaction(conflict).into());
        }
        Ok(entered.updated)
    }

    /// As [`Run::updated_before`] for an operation over a valid period: it stands on all that is
    /// known of the row, at whatever instant.
    ///
    /// # Errors
    /// [`TransactionRefusal::Conflict`].
    pub(crate) fn need_unmoved(&self, target: &Target<'_>, seq: i64) -> Step<()> {
        let Some(seen) = self.staged.since.and_then(|since| since.mark) else {
            return Ok(());
        };
        let row = (target.id.as_str(), seq);
        // What this batch did itself stands at its own mark.
        let has_moved = self
            .rows()
            .has_changed(target.table, row, (seen, self.mark))?;
        if has_moved {
            let conflict = TransactionRefusal::Conflict(target.id.clone());
            return Err(Refusal::Transaction(conflict).into());
        }
        Ok(())
    }

    /// The same of a row that is not there: another commit may have deleted it since.
    pub(crate) fn need_absent_unmoved(&self, target: &Target<'_>) -> Step<()> {
        let is_asked = self.staged.since.is_some_and(|since| since.mark.is_some());
        match is_asked
            .then(|| self.known_seq(target))
            .transpose()?
            .flatten()
        {
            Some(seq) => self.need_unmoved(target, seq),
            None => Ok(()),
        }
    }

    fn entered(&self, target: &Target<'_>, row: &Current) -> Step<Entered> {
        let key = (target.table.number, target.id.clone());
        if let Some(entered) = self.staged.entered.borrow().get(&key) {
            return Ok(*entered);
        }
        let entered = if row.is_own {
            // Whatever was changed was asked about first, so this batch has inserted it.
            Entered {
                changed: Mark::ZERO,
                updated: Timestamp(i64::MIN),
            }
        } else {
            let grants = MarkOf::Grants(row.seq);
            let granted = self.rows().last_mark(target.table, grants)?;
            Entered {
                changed: Mark(row.known_from).max(granted.unwrap_or(Mark::ZERO)),
                updated: row.image.updated,
            }
        };
        self.staged.entered.borrow_mut().insert(key, entered);
        Ok(entered)
    }
}
