//! Changes of tables that others use: all others write meanwhile, and the change is tried again, but
//! seldom, as each try holds them up.

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use engine::{Engine, EngineError, NewColumn, NewIndex, Unavailable};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, config, furnish, integer, key, row};
use futures_executor::block_on;
use model::{Column, Mark, Table};
use store::{
    Boundaries, CatalogueOp, Changes, Committed, IndexBuildEnd, Op, Outcome, Pending, Refusal,
    Store, StoreFuture, WriteBatch,
};
use testing::{Hooked, OwnTurn, StoreHooks, UpkeepHooks};

/// The real store, whose tables others use as long as a test says so.
struct Used {
    inner: Arc<dyn Store>,
    is_busy: AtomicBool,
    tries: AtomicUsize,
    /// The tables are free once so many changes were tried together; never, of 0.
    tried_together: AtomicUsize,
    /// How many builds of indexes were begun. Each uses the tables, and goes on until it is called
    /// off.
    builds: AtomicUsize,
    is_building: Arc<AtomicBool>,
}

/// A build, while it goes on.
struct Building(Arc<AtomicBool>);

impl Drop for Building {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl UpkeepHooks for Used {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    fn build(&self, _: &Arc<Table>, _: u32) -> StoreFuture<'static, IndexBuildEnd> {
        self.is_building.store(true, Ordering::SeqCst);
        let building = Building(Arc::clone(&self.is_building));
        // Last: a test that sees the count looks whether one goes on.
        self.builds.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let _building = building;
            std::future::pending().await
        })
    }
}

impl StoreHooks for Used {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn upkeep(&self) -> Option<&dyn UpkeepHooks> {
        Some(self)
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        let is_change = |op: &Op| matches!(op, Op::Catalogue(CatalogueOp::ChangeSchema { .. }));
        let is_busy = [&self.is_busy, &self.is_building];
        let is_busy = is_busy.iter().any(|used| used.load(Ordering::SeqCst));
        let busy = batches
            .iter()
            .map(|batch| is_busy && batch.ops.iter().any(is_change));
        let busy: Vec<bool> = busy.collect();
        let count = busy.iter().filter(|busy| **busy).count();
        self.tries.fetch_add(count, Ordering::SeqCst);
        if count > 0 && count == self.tried_together.load(Ordering::SeqCst) {
            self.is_busy.store(false, Ordering::SeqCst);
        }
        let others = batches.iter().zip(&busy).filter(|(_, busy)| !**busy);
        let others: Vec<WriteBatch> = others.map(|(batch, _)| batch.clone()).collect();
        Box::pin(async move {
            let pending = self.inner.apply(&others, first).await?;
            let outcomes = with_busy(pending.outcomes().to_vec(), &busy);
            let pending: Box<dyn Pending> = Box::new(OfOthers {
                pending,
                busy,
                outcomes,
            });
            Ok(pending)
        })
    }
}

/// What became of the batches that are not put aside.
struct OfOthers {
    pending: Box<dyn Pending>,
    busy: Vec<bool>,
    outcomes: Vec<Outcome>,
}

fn with_busy(others: Vec<Outcome>, busy: &[bool]) -> Vec<Outcome> {
    let mut others = others.into_iter();
    let outcome = |busy: &bool| match busy {
        true => Err(Refusal::TablesBusy),
        false => others.next().expect("each of the others has one"),
    };
    busy.iter().map(outcome).collect()
}

impl Pending for OfOthers {
    fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn due(&self) -> &[Changes] {
        self.pending.due()
    }

    fn boundaries(&self) -> Boundaries {
        self.pending.boundaries()
    }

    fn commit(self: Box<Self>) -> StoreFuture<'static, Committed> {
        let OfOthers { pending, busy, .. } = *self;
        Box::pin(async move {
            Ok(match pending.commit().await? {
                Committed::Done(outcomes) => Committed::Done(with_busy(outcomes, &busy)),
                unknown @ Committed::Unknown(_) => unknown,
            })
        })
    }
}

struct Site {
    _directory: tempfile::TempDir,
    store: Arc<Hooked<Used>>,
    engine: Arc<Engine>,
}

/// Where others use the tables from now on.
fn site() -> Site {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path());
    let store = Arc::new(Hooked(Used {
        inner: fixture::open_store(&config),
        is_busy: AtomicBool::new(false),
        tries: AtomicUsize::new(0),
        tried_together: AtomicUsize::new(0),
        builds: AtomicUsize::new(0),
        is_building: Arc::default(),
    }));
    let engine = Engine::over(store.clone(), &config, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    store.is_busy.store(true, Ordering::SeqCst);
    Site {
        _directory: directory,
        store,
        engine,
    }
}

impl Site {
    fn add_column(&self) -> Result<Column, EngineError> {
        self.add_column_called("z")
    }

    fn add_column_called(&self, name: &str) -> Result<Column, EngineError> {
        let (key, column) = (key(), integer(name));
        block_on(self.engine.create_column(&key, PLACE, &column))
    }

    fn tries(&self) -> usize {
        self.store.tries.load(Ordering::SeqCst)
    }

    fn wait_for_a_try(&self) {
        while self.tries() == 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_change_of_a_table_that_others_use_is_tried_seldom_until_it_is_done() {
    let site = site();
    thread::scope(|scope| {
        let changed = scope.spawn(|| site.add_column());
        site.wait_for_a_try();
        for nth in 0..20 {
            let row = row(&format!("r{nth}"), &[("n", 1)]);
            block_on(site.engine.create_row(&key(), PLACE, row)).unwrap();
        }
        // Of groups of others hardly one has it with them.
        assert!(site.tries() < 10, "{}", site.tries());
        site.store.is_busy.store(false, Ordering::SeqCst);
        changed.join().unwrap().unwrap();
    });
    site.engine.close().unwrap();
}

#[test]
fn a_change_of_a_table_that_others_use_does_not_keep_the_engine_open() {
    let site = site();
    thread::scope(|scope| {
        let changed = scope.spawn(|| site.add_column());
        site.wait_for_a_try();
        site.engine.close().unwrap();
        let refused = changed.join().unwrap().unwrap_err();
        assert!(
            matches!(refused, EngineError::Unavailable(Unavailable::TablesBusy)),
            "{refused:?}"
        );
    });
}

#[test]
fn changes_of_several_callers_are_tried_together() {
    let site = site();
    let names = ["v", "w", "x", "y", "z"];
    site.store
        .tried_together
        .store(names.len(), Ordering::SeqCst);
    thread::scope(|scope| {
        let first = scope.spawn(|| site.add_column_called(names[0]));
        site.wait_for_a_try();
        // So the others do not come in the same moment.
        for nth in 0..20 {
            let row = row(&format!("r{nth}"), &[("n", 1)]);
            block_on(site.engine.create_row(&key(), PLACE, row)).unwrap();
        }
        let others: Vec<_> = names[1..]
            .iter()
            .map(|name| scope.spawn(|| site.add_column_called(name)))
            .collect();
        first.join().unwrap().unwrap();
        for other in others {
            other.join().unwrap().unwrap();
        }
    });
    site.engine.close().unwrap();
}

#[test]
fn a_change_calls_off_builds_of_its_table_which_begin_again_behind_it() {
    let site = site();
    site.store.is_busy.store(false, Ordering::SeqCst);
    let text = NewColumn {
        kind: "text".to_owned(),
        ..integer("text")
    };
    block_on(site.engine.create_column(&key(), PLACE, &text)).unwrap();
    // More than an index of words is built over at once.
    let rows = (0..1_500).map(|nth| row(&format!("r{nth}"), &[]));
    block_on(site.engine.create_rows(&key(), PLACE, rows.collect())).unwrap();
    let index = NewIndex {
        key: "words".to_owned(),
        kind: "fulltext".to_owned(),
        columns: vec!["text".to_owned()],
        ..NewIndex::default()
    };
    block_on(site.engine.create_index(&key(), PLACE, &index)).unwrap();
    let builds = || site.store.builds.load(Ordering::SeqCst);
    while builds() == 0 {
        thread::yield_now();
    }
    site.add_column().unwrap();
    while builds() == 1 {
        thread::yield_now();
    }
    assert!(site.store.is_building.load(Ordering::SeqCst));
    site.engine.close().unwrap();
}
