//! The real store behind gates: the writer stands still where the plan says, and so do reads.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_executor::block_on;
use model::{Mark, Row, Timestamp};
use store::{
    Boundaries, Changes, Committed, Listed, Listing, Op, Outcome, Pending, Point, Snapshot, Store,
    StoreError, StoreFuture, WriteBatch,
};
use testing::places::on_database;
use testing::{OwnTurn, StoreHooks, UpkeepHooks, in_doubt, waited};

use super::gate::{Gate, Lost, Stop};

/// The real store, with gates.
pub struct Gated {
    inner: Arc<dyn Store>,
    pub gate: Arc<Gate>,
    /// How many pauses the reads that are polled now pass without stopping.
    passes: AtomicUsize,
    /// Lists that were read.
    lists: AtomicUsize,
    /// Whether lists cannot be read now.
    fails: AtomicBool,
    /// Whether one could not.
    has_failed: AtomicBool,
}

/// Why a list cannot be read, where the run wants it so.
pub fn broken() -> StoreError {
    StoreError::Interrupted
}

impl Gated {
    pub fn new(inner: Arc<dyn Store>) -> Gated {
        Gated {
            inner,
            gate: Arc::default(),
            passes: AtomicUsize::new(usize::MAX),
            lists: AtomicUsize::default(),
            fails: AtomicBool::default(),
            has_failed: AtomicBool::default(),
        }
    }

    /// Reads that are polled from now on pass so many pauses, then stop at each.
    pub fn let_reads_pass(&self, passes: usize) {
        self.passes.store(passes, Ordering::Relaxed);
    }

    /// Lists that were read since the last question.
    pub fn take_lists(&self) -> usize {
        self.lists.swap(0, Ordering::Relaxed)
    }

    /// Whether lists that are read from now on fail.
    pub fn fail_reads(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    /// Whether a list could not be read since the last question.
    pub fn take_failed(&self) -> bool {
        self.has_failed.swap(false, Ordering::Relaxed)
    }

    fn pause(&self) -> Pause<'_> {
        Pause {
            gated: self,
            is_over: false,
        }
    }
}

/// A moment in which anything may happen.
struct Pause<'a> {
    gated: &'a Gated,
    is_over: bool,
}

impl Future for Pause<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let passes = self.gated.passes.load(Ordering::Relaxed);
        if passes > 0 && !self.is_over {
            if passes < usize::MAX {
                self.gated.passes.store(passes - 1, Ordering::Relaxed);
            }
            self.is_over = true;
        }
        if self.is_over {
            return Poll::Ready(());
        }
        self.is_over = true;
        Poll::Pending
    }
}

/// What a group is committed by.
enum Commit {
    /// The transaction in which it was applied.
    Applied(Box<dyn Pending>),
    /// Another one, in which it is applied again.
    Again(Arc<dyn Store>, Vec<WriteBatch>, Mark),
}

struct GatedPending {
    /// `None` once the transaction has ended.
    commit: Option<Commit>,
    is_vague: bool,
    outcomes: Vec<Outcome>,
    due: Vec<Changes>,
    boundaries: Boundaries,
    gate: Arc<Gate>,
}

impl Pending for GatedPending {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn due(&self) -> &[Changes] {
        &self.due
    }

    fn boundaries(&self) -> Boundaries {
        self.boundaries.clone()
    }

    fn commit(mut self: Box<Self>) -> StoreFuture<'static, Committed> {
        let fate = self.gate.withheld();
        let commit = self.commit.take().expect("only a commit takes it");
        if fate.fails {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let (gate, is_vague) = (self.gate.clone(), self.is_vague);
        Box::pin(async move {
            let inner = match commit {
                Commit::Applied(inner) => inner,
                Commit::Again(store, batches, first) => {
                    let inner = store.apply(&batches, first).await?;
                    let again = inner.outcomes().to_vec();
                    let again = if is_vague { vague(again) } else { again };
                    assert_eq!(unnumbered(&again), unnumbered(&outcomes));
                    outcomes = again;
                    inner
                }
            };
            if let Some(lost) = fate.lost {
                return lose_answer(inner, lost, gate).await;
            }
            inner.commit().await?;
            gate.stop(Stop::Committed);
            Ok(Committed::Done(outcomes))
        })
    }
}

/// Commits what was applied, or takes it back; the writer has to ask which.
async fn lose_answer(
    inner: Box<dyn Pending>,
    lost: Lost,
    gate: Arc<Gate>,
) -> Result<Committed, StoreError> {
    let (asked, mut in_vain) = (gate.clone(), lost.asks);
    let ask = move || {
        asked.stop(Stop::InDoubt);
        if in_vain > 0 {
            in_vain -= 1;
            return Err(broken());
        }
        if lost.is_done {
            asked.pass(Stop::Committed);
        }
        Ok(())
    };
    let committed = in_doubt(inner, lost.is_done, ask).await?;
    if lost.is_done {
        gate.stop(Stop::Committed);
    }
    gate.pass(Stop::InDoubt);
    Ok(committed)
}

impl Drop for GatedPending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.gate.fall();
        }
    }
}

/// The outcomes of batches that changed too much for images.
fn vague(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    for applied in outcomes.iter_mut().flatten() {
        applied.changes = tables_of(&applied.changes);
    }
    outcomes
}

/// The outcomes as text, but for what a sequence of the database has given: it does not go back.
fn unnumbered(outcomes: &[Outcome]) -> String {
    let mut outcomes = outcomes.to_vec();
    for applied in outcomes.iter_mut().flatten() {
        for transaction in &mut applied.transactions {
            transaction.seq = 0;
        }
    }
    format!("{outcomes:?}")
}

fn tables_of(changes: &Changes) -> Changes {
    match changes {
        Changes::Images(changes) => {
            let mut tables: Vec<_> = changes.iter().map(|change| change.table).collect();
            tables.sort_unstable();
            tables.dedup();
            Changes::Tables(tables)
        }
        Changes::Tables(tables) => Changes::Tables(tables.clone()),
    }
}

impl Gated {
    /// Holds what the store has applied at the gates. Where readers would wait for locks of it all
    /// the while, it is taken back, and applied once more to be committed.
    fn hold(&self, inner: Box<dyn Pending>, again: Option<Commit>) -> Box<dyn Pending> {
        let mut outcomes = inner.outcomes().to_vec();
        let mut due = inner.due().to_vec();
        let is_vague = self.gate.is_vague();
        if is_vague {
            outcomes = vague(outcomes);
            due = due.iter().map(tables_of).collect();
        }
        let boundaries = inner.boundaries();
        // The transaction it takes the place of is rolled back here.
        let commit = again.unwrap_or(Commit::Applied(inner));
        self.gate.applied(&outcomes, &boundaries, due.len());
        Box::new(GatedPending {
            commit: Some(commit),
            is_vague,
            outcomes,
            due,
            boundaries,
            gate: self.gate.clone(),
        })
    }
}

impl StoreHooks for Gated {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn upkeep(&self) -> Option<&dyn UpkeepHooks> {
        Some(self)
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        Box::pin(async move {
            self.pause().await;
            self.lists.fetch_add(1, Ordering::Relaxed);
            // A list that is long by its shape is read by another thread, which no step waits for.
            let read = block_on(self.inner.list(listing));
            if self.fails.load(Ordering::Relaxed) {
                self.has_failed.store(true, Ordering::Relaxed);
                return Err(broken());
            }
            self.pause().await;
            read
        })
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        Box::pin(async move {
            self.pause().await;
            let read = waited(self.inner.get(point)).await;
            self.pause().await;
            read
        })
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        Box::pin(async move {
            let inner = self.inner.apply(batches, first).await?;
            let mut ops = batches.iter().flat_map(|batch| &batch.ops);
            let locks = on_database() && ops.any(|op| matches!(op, Op::Catalogue(_)));
            let again = locks.then(|| {
                let (store, batches) = (self.inner.clone(), batches.to_vec());
                Commit::Again(store, batches, first)
            });
            Ok(self.hold(inner, again))
        })
    }

    fn activate_due(&self, instant: Timestamp) -> StoreFuture<'_, Box<dyn Pending>> {
        Box::pin(async move {
            let inner = self.inner.activate_due(instant).await?;
            Ok(self.hold(inner, None))
        })
    }
}

impl UpkeepHooks for Gated {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    /// The writer comes here when it has nothing to do. Whatever upkeep there is, more seems to
    /// be waiting, so that it comes back.
    fn run_upkeep(&self) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let (runs_upkeep, is_open) = self.gate.idle();
            if runs_upkeep || is_open {
                self.inner.run_upkeep().await?;
            }
            Ok(!is_open)
        })
    }
}
