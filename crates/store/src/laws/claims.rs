//! What a batch claims of a row before it goes on.

use std::sync::Arc;

use model::history::{Claim, Known, Operation, Plan};
use model::{Mark, Retention, Timestamp};

use super::halt::{Halt, Step};
use super::ledger::known_within;
use super::row_search::MarkOf;
use super::row_write::Target;
use super::run::{RowStore, Run};
use super::versions::Asserted;
use crate::refusal::Refusal;
use crate::row_op::RowAssertion;

impl<D: RowStore> Run<'_, D> {
    /// # Errors
    /// [`crate::Refusal::AssertFailed`] unless it holds.
    pub(crate) fn assert_claim(&self, target: &Target<'_>, claim: &RowAssertion) -> Step<()> {
        let at = match claim {
            RowAssertion::Exists(_, at) | RowAssertion::Equals(_, at) => *at,
            RowAssertion::UnchangedSince(_) => None,
        };
        let at = at.unwrap_or(self.mark.timestamp());
        let within = (at, Timestamp(at.0.saturating_add(1)));
        let id = target.id.as_str();
        let known = known_within(self.rows(), target.table, id, within)?;
        let test = |asserted: &Arc<Asserted>| match claim {
            RowAssertion::Equals(values, _) => values
                .iter()
                .all(|(position, value)| asserted.values[*position] == *value),
            RowAssertion::Exists(..) | RowAssertion::UnchangedSince(_) => true,
        };
        let at = Some(at);
        let (claim, last_change) = match claim {
            RowAssertion::Exists(expected, _) => {
                let expected = *expected;
                (Claim::Exists { expected, at }, None)
            }
            RowAssertion::Equals(..) => (Claim::Matches { test: &test, at }, None),
            RowAssertion::UnchangedSince(since) => {
                (Claim::UnchangedSince(*since), self.last_change(target)?)
            }
        };
        let known = Known {
            versions: &known,
            last_change,
        };
        Plan::new(Operation::Assert(claim), self.mark, known)
            .map(drop)
            .map_err(|refusal| Halt::Refused(Refusal::of_write(refusal, target.id)))
    }

    /// The mark of the last commit that changed anything of the row. What the table has let go of
    /// counts as changed at its line.
    fn last_change(&self, target: &Target<'_>) -> Step<Option<Mark>> {
        let of_row = MarkOf::Versions(target.id.as_str());
        let last = self.rows().last_mark(target.table, of_row)?;
        let options = &target.table.options;
        let forgotten = match (options.history, last) {
            (Retention::None, None) => Some(self.state.mark),
            _ if options.kept_from > Timestamp::BOT => Some(Mark(options.kept_from.0)),
            _ => None,
        };
        Ok(last.max(forgotten))
    }
}
