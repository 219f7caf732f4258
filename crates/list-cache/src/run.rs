//! Reads that are open now, and who may wait for one instead of reading as well.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use cache::Flight;

use crate::entry::{FlaggedPart, Rows, StaleFlag, Total};
use crate::key::Key;
use crate::rules::{Rule, Rules};

/// One read and those who wait for it.
#[derive(Default)]
pub(crate) struct OpenRead {
    /// Set as soon as a commit may have altered the rows it reads; absent if it reads none.
    pub(crate) rows: Option<StaleFlag>,
    /// The same for the total.
    pub(crate) total: Option<StaleFlag>,
    pub(crate) flight: Flight<Result<ReadParts, Failure>>,
}

/// What a read found, all on one snapshot.
#[derive(Clone, Default)]
pub(crate) struct ReadParts {
    pub(crate) rows: Option<FlaggedPart<Rows>>,
    pub(crate) total: Option<FlaggedPart<Total>>,
}

/// The open reads by what they will fill, each as long as it may be joined.
#[derive(Default)]
pub(crate) struct Runs(HashMap<Key, Arc<OpenRead>>);

impl Runs {
    /// A wait for a caller that reads what `key` names, unless a commit may have overtaken it.
    /// A caller that wants rows and total does not join one that reads the rows alone: it would
    /// read after that, and so would all who waited with him.
    pub(crate) fn join(&self, key: &[u8], wants: (bool, bool), rules: &Rules) -> Option<Waiter> {
        let run = self.0.get(key)?;
        let joins_any = !rules.hold(Rule::SpoiledRunsAreNotJoined);
        let is_clean = |stale: &Option<StaleFlag>| {
            let stale = stale.as_ref();
            stale.is_some_and(|stale| joins_any || !stale.is_set())
        };
        let (rows, total) = wants;
        let has_all = (!rows || is_clean(&run.rows)) && (!total || is_clean(&run.total));
        has_all.then(|| Waiter::new(run.clone(), rows, total))
    }

    pub(crate) fn open(&mut self, key: Key, run: Arc<OpenRead>) {
        self.0.insert(key, run);
    }

    pub(crate) fn close(&mut self, key: &Key, run: &Arc<OpenRead>) {
        // Another run may have taken the name since a commit overtook this one.
        if self.0.get(key).is_some_and(|open| Arc::ptr_eq(open, run)) {
            self.0.remove(key);
        }
    }
}

/// A wait for another caller's read.
pub struct Waiter {
    run: Arc<OpenRead>,
    /// Whether the rows it reads are those that are wanted. A caller that waits for a total alone
    /// may wait for the reader of another page, or of the other route family.
    takes_rows: bool,
    /// Whether the total it reads is wanted.
    takes_total: bool,
}

/// What another caller's read found.
pub struct FillOutcome(pub(crate) Result<ReadParts, Failure>);

/// Why a read failed that would fail again if those who joined it began it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It met the limit in time for reads.
    TimedOut {
        /// The limit.
        limit_ms: u64,
    },
    /// No thread took it, for it waited too long, or too many did.
    Busy {
        /// How many may wait.
        waiting_max: usize,
    },
}

impl Waiter {
    pub(crate) fn new(run: Arc<OpenRead>, takes_rows: bool, takes_total: bool) -> Waiter {
        Waiter {
            run,
            takes_rows,
            takes_total,
        }
    }

    /// The same as polling, for a caller that has nothing to be woken by. `Ready(None)`: the read
    /// came to nothing.
    pub fn look(&self) -> Poll<Option<FillOutcome>> {
        self.poll_with(Waker::noop())
    }

    fn poll_with(&self, waker: &Waker) -> Poll<Option<FillOutcome>> {
        self.run.flight.poll(waker).map(|outcome| {
            let mut outcome = outcome?;
            if let Ok(parts) = &mut outcome {
                if !self.takes_rows {
                    parts.rows = None;
                }
                if !self.takes_total {
                    parts.total = None;
                }
            }
            Some(FillOutcome(outcome))
        })
    }
}

impl Future for Waiter {
    type Output = Option<FillOutcome>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(context.waker())
    }
}
