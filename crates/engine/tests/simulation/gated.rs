//! The real store behind gates: the writer stands still where it is told to, and so do reads.
//!
//! The engine's writer has a thread of its own. It runs only while [`Gated::advance`] waits for
//! it, so that of the two threads never both move, and a run is the same each time.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use model::{Mark, Row};
use store::{
    Changes, Listed, Listing, Loaded, Outcome, Pending, Point, Snapshot, Store, StoreError,
    StoreFuture, WriteBatch,
};

/// A writer that has not come to the next gate by then never will: it has panicked.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the writer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has nothing to do.
    Idle,
    /// A group was applied. Nothing of it is withheld, and nobody sees it.
    Applied,
    /// What it may alter is withheld, and nobody sees it.
    Withheld,
    /// Snapshots see it. It is not published.
    Committed,
}

/// What is to become of the group that is applied, or committed, next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// Its commit fails.
    pub fails: bool,
    /// It reports tables, as a group does that changed more than fits images.
    pub is_vague: bool,
}

#[derive(Default)]
struct State {
    at: Option<Stop>,
    /// No gate holds anybody any more.
    open: bool,
    /// The writer is gone.
    dead: bool,
    tends: bool,
    fate: Fate,
    outcomes: Vec<Outcome>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The writer is here, and goes on when it may.
    fn stop(&self, at: Stop) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if !state.open {
            state.at = Some(at);
            self.moved.notify_all();
        }
        let held = |state: &mut State| state.at.is_some() && !state.open;
        self.moved
            .wait_while(state, held)
            .expect("see `Gate::lock`")
    }
}

impl Gate {
    /// The writer has nothing to do. Whether it is to do upkeep, and whether the gates are open.
    fn idle(&self) -> (bool, bool) {
        let state = self.stop(Stop::Idle);
        (state.tends, state.open)
    }
}

/// The real store, with gates.
pub struct Gated {
    inner: Arc<dyn Store>,
    gate: Arc<Gate>,
    /// How many pauses the reads that are polled now pass without stopping.
    passes: AtomicUsize,
    /// Lists that were read.
    lists: AtomicUsize,
}

impl Gated {
    pub fn new(inner: Arc<dyn Store>) -> Gated {
        Gated {
            inner,
            gate: Arc::default(),
            passes: AtomicUsize::new(usize::MAX),
            lists: AtomicUsize::default(),
        }
    }

    /// Waits until the writer, just started, has nothing to do.
    pub fn first_stop(&self) -> Stop {
        self.wait()
    }

    /// Lets the writer go on to the next gate. `None` if it is gone.
    pub fn advance(&self, tends: bool) -> Option<Stop> {
        let mut state = self.gate.lock();
        state.at = None;
        state.tends = tends;
        self.gate.moved.notify_all();
        drop(state);
        let stop = self.wait();
        (!self.gate.lock().dead).then_some(stop)
    }

    fn wait(&self) -> Stop {
        let moves = |state: &mut State| state.at.is_none() && !state.dead;
        let state = self.gate.lock();
        let waited = self.gate.moved.wait_timeout_while(state, PATIENCE, moves);
        let (mut state, _) = waited.expect("see `Gate::lock`");
        state.dead |= state.at.is_none();
        state.at.unwrap_or(Stop::Idle)
    }

    /// Decides over the group that the writer works on, or over the next one.
    pub fn decide(&self, fate: Fate) {
        self.gate.lock().fate = fate;
    }

    /// What became of the batches of the group that was applied last.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.gate.lock().outcomes.clone()
    }

    /// Opens all gates for good.
    pub fn open(&self) {
        self.passes.store(usize::MAX, Ordering::Relaxed);
        self.gate.lock().open = true;
        self.gate.moved.notify_all();
    }

    /// Reads that are polled from now on pass so many pauses, then stop at each.
    pub fn let_reads_pass(&self, passes: usize) {
        self.passes.store(passes, Ordering::Relaxed);
    }

    /// Lists that were read since the last question.
    pub fn take_lists(&self) -> usize {
        self.lists.swap(0, Ordering::Relaxed)
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

struct GatedPending {
    /// `None` once the transaction has ended.
    inner: Option<Box<dyn Pending>>,
    outcomes: Vec<Outcome>,
    gate: Arc<Gate>,
}

impl Pending for GatedPending {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn commit(mut self: Box<Self>) -> StoreFuture<'static, Vec<Outcome>> {
        let fails = self.gate.stop(Stop::Withheld).fate.fails;
        let inner = self.inner.take().expect("only a commit takes it");
        if fails {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        let outcomes = std::mem::take(&mut self.outcomes);
        let gate = self.gate.clone();
        Box::pin(async move {
            inner.commit().await?;
            drop(gate.stop(Stop::Committed));
            Ok(outcomes)
        })
    }
}

impl Drop for GatedPending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.gate.lock().dead = true;
            self.gate.moved.notify_all();
        }
    }
}

/// The outcome of a batch that changed too much for images.
fn vague(mut outcome: Outcome) -> Outcome {
    if let Ok(applied) = &mut outcome
        && let Changes::Images(changes) = &applied.changes
    {
        let mut tables: Vec<_> = changes.iter().map(|change| change.table).collect();
        tables.sort_unstable();
        tables.dedup();
        applied.changes = Changes::Tables(tables);
    }
    outcome
}

impl Store for Gated {
    fn load(&self) -> StoreFuture<'_, Loaded> {
        self.inner.load()
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        Box::pin(async move {
            self.pause().await;
            self.lists.fetch_add(1, Ordering::Relaxed);
            let read = self.inner.list(listing).await;
            self.pause().await;
            read
        })
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        Box::pin(async move {
            self.pause().await;
            let read = self.inner.get(point).await;
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
            let mut outcomes = inner.outcomes().to_vec();
            if self.gate.lock().fate.is_vague {
                outcomes = outcomes.into_iter().map(vague).collect();
            }
            self.gate.lock().outcomes.clone_from(&outcomes);
            drop(self.gate.stop(Stop::Applied));
            Ok(Box::new(GatedPending {
                inner: Some(inner),
                outcomes,
                gate: self.gate.clone(),
            }) as Box<dyn Pending>)
        })
    }

    fn reserve(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        self.inner.reserve(horizon)
    }

    /// The writer comes here when it has nothing to do. Whatever upkeep there is, more seems to
    /// be waiting, so that it comes back.
    fn tend(&self) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let (tends, open) = self.gate.idle();
            if tends || open {
                self.inner.tend().await?;
            }
            Ok(!open)
        })
    }

    fn close(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        self.inner.close(horizon)
    }
}
