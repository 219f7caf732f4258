//! What the writer's thread and the readers share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use list_cache::{Batch, ListCache};
use model::{Catalogue, Mark, TableNumber, Timestamp};
use store::{Loaded, Outcome, Store};

use crate::EncodePage;
use crate::error::EngineError;
use crate::state::clock::Clock;
use crate::state::clock_guard::ClockGuard;
use crate::state::marks::Marks;
use crate::state::stop::Stop;

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) marks: Marks,
    pub(crate) lists: ListCache,
    pub(crate) encode_page: EncodePage,
    /// What the clock is held against.
    clock_guard: Mutex<ClockGuard>,
    catalogue: RwLock<Arc<Catalogue>>,
    /// Of that catalogue. Apart from it, because every request asks for it: threads that only read
    /// a number do not take its place in memory from each other, as those do that count a copy.
    catalogue_epoch: AtomicU64,
    /// How often what is due came in while more was left.
    pub(crate) slices: AtomicU64,
    /// Whether nothing is written any more.
    pub(crate) stop: Stop,
    /// Test switch: what answers say of erasures is wrong.
    #[cfg(feature = "test-switches")]
    pub(crate) erasure_fault: std::sync::OnceLock<ErasureFault>,
    /// Whether the outcome of a commit is not known for so long that nothing waits for it any more.
    pub(crate) awaits_commit: AtomicBool,
    /// Test switch: a commit of unknown outcome is taken for one that came to nothing.
    #[cfg(feature = "test-switches")]
    pub(crate) ignore_doubt: AtomicBool,
    /// Test switch: an execution is started as often as it returns.
    #[cfg(feature = "test-switches")]
    pub(crate) ignore_starts_max: AtomicBool,
}

/// What may be wrong about what answers say of erasures, to show that a test notices.
#[cfg(feature = "test-switches")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErasureFault {
    /// No answer says that anything was erased.
    Untold,
    /// Every answer says so that is of a table in which anything was ever erased.
    OfAnyTime,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        clock_guard: ClockGuard,
        marks: Marks,
        lists: ListCache,
        catalogue: Catalogue,
        encode_page: EncodePage,
    ) -> Shared {
        let catalogue_epoch = AtomicU64::new(catalogue.epoch);
        let catalogue = RwLock::new(Arc::new(catalogue));
        Shared {
            store,
            clock,
            marks,
            lists,
            encode_page,
            clock_guard: Mutex::new(clock_guard),
            catalogue,
            catalogue_epoch,
            slices: AtomicU64::new(0),
            stop: Stop::default(),
            #[cfg(feature = "test-switches")]
            erasure_fault: std::sync::OnceLock::new(),
            awaits_commit: AtomicBool::new(false),
            #[cfg(feature = "test-switches")]
            ignore_doubt: AtomicBool::new(false),
            #[cfg(feature = "test-switches")]
            ignore_starts_max: AtomicBool::new(false),
        }
    }

    /// Writes nothing any more. The marks that are pending stay so, and no reader waits for them.
    pub(crate) fn stop(&self, reason: String) {
        self.stop.set(reason);
        self.marks.stop();
    }

    /// Now, as far as the clock can be believed. Whatever raises the horizon goes by this, reads
    /// and what is due as well as commits: a mark that was read is never given below again.
    pub(crate) fn now(&self) -> Timestamp {
        let (now, elapsed_ms) = (self.clock.now(), self.clock.elapsed_ms());
        self.clock_guard().believed(now, elapsed_ms)
    }

    /// # Errors
    /// [`crate::Unavailable::ClockImplausible`] when the clock cannot be believed.
    pub(crate) fn check_clock(&self) -> Result<(), EngineError> {
        let (now, elapsed_ms) = self.clocks();
        self.clock_guard().check(now, elapsed_ms)
    }

    /// A commit went through at a clock that was believed.
    pub(crate) fn committed(&self, mark: Mark) {
        if !self.clock.is_set() {
            let elapsed_ms = self.clock.elapsed_ms();
            self.clock_guard().committed(mark, elapsed_ms);
        }
    }

    /// Looked at before the lock is taken: its holder may not wait for a clock.
    fn clocks(&self) -> (Timestamp, u64) {
        (self.clock.now(), self.clock.elapsed_ms())
    }

    fn clock_guard(&self) -> MutexGuard<'_, ClockGuard> {
        // No step on it can fail half-way.
        self.clock_guard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The containers as of the latest published commit.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// [`Catalogue::epoch`] of the latest published commit: never lower than that of a catalogue
    /// which [`Shared::catalogue`] gave any caller before.
    pub(crate) fn catalogue_epoch(&self) -> u64 {
        self.catalogue_epoch.load(Ordering::Acquire)
    }

    /// Takes in what a commit changed in the catalogue. The writer alone calls this.
    pub(crate) fn take_in(&self, outcomes: &[Outcome]) {
        let applied = outcomes.iter().flatten();
        let changed: Vec<_> = applied
            .filter(|applied| !applied.catalogue.is_empty())
            .collect();
        let Some(last) = changed.last() else { return };
        let mut catalogue = Catalogue::clone(&self.catalogue());
        for change in changed.iter().flat_map(|applied| &applied.catalogue) {
            catalogue.apply(change.clone());
        }
        catalogue.epoch = last.catalogue_epoch;
        self.set_catalogue(catalogue);
    }

    fn set_catalogue(&self, catalogue: Catalogue) {
        let mut published = self
            .catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // First the number: once a thread has seen the new catalogue, none may go by the old one.
        self.catalogue_epoch
            .store(catalogue.epoch, Ordering::Release);
        *published = Arc::new(catalogue);
    }

    /// Takes in what stands in the store after commits of others. The writer alone calls this, and
    /// with nothing pending. What those commits altered is not known: no list is kept.
    pub(crate) fn catch_up(&self, loaded: Loaded) {
        let known = self.catalogue();
        let tables = known.tables().chain(loaded.catalogue.tables());
        let mut tables: Vec<TableNumber> = tables.map(|table| table.number).collect();
        tables.sort_unstable();
        tables.dedup();
        let withheld = self.lists.withhold(Batch {
            unseen: tables.clone(),
            past_changed: tables.clone(),
            next: loaded.boundaries,
            ..Batch::default()
        });
        self.set_catalogue(loaded.catalogue);
        self.marks.catch_up(loaded.mark, loaded.horizon);
        self.lists.publish(withheld, true);
        for table in tables {
            self.lists.purge(table);
        }
    }

    /// Waits until the catalogue is no longer the one of `epoch`, or a batch was settled since
    /// [`Marks::publications`] said `seen`. A snapshot may show a commit just before its
    /// catalogue is published; after this wait the reader begins again.
    pub(crate) async fn newer_catalogue(&self, epoch: u64, seen: u64) {
        if self.catalogue().epoch == epoch {
            self.marks.after(seen).await;
        }
    }
}
