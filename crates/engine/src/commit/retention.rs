//! When tables that keep their past for some days, or none of it, let go of more.

use std::sync::Arc;

use model::{Catalogue, Retention, Table, Timestamp};
use store::{CatalogueOp, Op, WriteBatch};

/// A floor rises by at least so much at once: an hour, or a hundredth of what is kept. Each rise
/// is a commit, and looks at every version of the table afterwards.
const STEP_US_MIN: i64 = 3_600_000_000;
const STEP_SHARE: i64 = 100;
/// After so long a rise that failed is tried again.
const RETRY_US: i64 = 60_000_000;
const DAY_US: i64 = 86_400_000_000;

/// The next rise of any floor.
pub(crate) struct RetentionFloors {
    /// When it is due; the end of time if no table lets go of anything.
    pub(crate) next: Timestamp,
    /// Of the catalogue that this was found in.
    catalogue_epoch: Option<u64>,
}

impl Default for RetentionFloors {
    fn default() -> RetentionFloors {
        RetentionFloors {
            next: Timestamp::END,
            catalogue_epoch: None,
        }
    }
}

impl RetentionFloors {
    /// Takes in which tables there are; whether any lets go of its past.
    pub(crate) fn take_in(&mut self, catalogue: &Catalogue) -> bool {
        if self.catalogue_epoch != Some(catalogue.epoch) {
            self.catalogue_epoch = Some(catalogue.epoch);
            let rises = catalogue.tables().filter_map(|table| rise(table));
            self.next = rises.min().unwrap_or(Timestamp::END);
        }
        self.next < Timestamp::END
    }

    /// What raises the lines that are due at `now`; `None` if none is.
    pub(crate) fn due(&self, catalogue: &Catalogue, now: Timestamp) -> Option<WriteBatch> {
        if self.next > now {
            return None;
        }
        let is_due = |table: &Table| rise(table).is_some_and(|at| at <= now);
        let due = catalogue.tables().filter(|table| is_due(table));
        let raise = |table: &Arc<Table>| {
            Op::Catalogue(CatalogueOp::SetOptions {
                number: table.number,
                pinned_max_age_s: None,
                history: None,
                past: None,
                ttl_max_s: None,
            })
        };
        let ops: Vec<Op> = due.map(raise).collect();
        (!ops.is_empty()).then_some(WriteBatch {
            catalogue_epoch: catalogue.epoch,
            ops,
            author: None,
            unchanged_since: None,
            meta: None,
            noted_in: None,
            space: store::SpaceLimit::Any,
        })
    }

    /// A rise has failed, for want of disk perhaps.
    pub(crate) fn put_off(&mut self, now: Timestamp) {
        self.next = Timestamp(now.0.saturating_add(RETRY_US));
    }
}

/// When the floor of a table rises next.
fn rise(table: &Table) -> Option<Timestamp> {
    let options = &table.options;
    let kept = match options.history {
        Retention::Days(days) => i64::from(days) * DAY_US,
        Retention::None => 0,
        Retention::All => return None,
    };
    let step = STEP_US_MIN.max(kept / STEP_SHARE);
    Some(Timestamp(options.kept_from.0.saturating_add(kept + step)))
}
