//! The primaries that the reads of a store have met.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use model::Mark;

use crate::StoreError;
use crate::postgres::primary::{Primary, Succession};

/// The primaries that the reads of a store have met.
#[derive(Default)]
pub(super) struct PrimarySeen {
    latest: Mutex<Option<Primary>>,
    /// The highest mark that a read was answered from.
    mark: AtomicI64,
    promotions: AtomicU64,
}

impl PrimarySeen {
    /// Takes in that a read was answered from a snapshot with this mark.
    pub(super) fn note(&self, mark: Mark) {
        self.mark.fetch_max(mark.0, Ordering::Relaxed);
    }

    /// The store begins again before its first mark.
    pub(super) fn rewind(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }

    /// What a primary must hold that is asked from now on.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.mark.load(Ordering::Relaxed))
    }

    /// How often another primary has followed by a promotion.
    pub(super) fn promotions(&self) -> u64 {
        self.promotions.load(Ordering::Relaxed)
    }

    /// Takes in a primary that was asked when this mark had been seen; how often one was promoted
    /// until then.
    ///
    /// # Errors
    /// [`StoreError::DatabaseUnfit`] when it may not follow the one before.
    pub(super) fn admit(&self, primary: Primary, seen: Mark) -> Result<u64, StoreError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = &*latest {
            let succession = primary.follows(before, seen);
            if succession.map_err(StoreError::DatabaseUnfit)? == Succession::Promoted {
                self.promotions.fetch_add(1, Ordering::Relaxed);
            }
        }
        *latest = Some(primary);
        Ok(self.promotions())
    }
}
