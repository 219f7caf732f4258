//! Rows that are read at once or not at all: of a store in another process none is.

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{Engine, GrantsAsOf};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, config, furnish, key, list_rows_of, row};
use futures_executor::block_on;
use model::{Row, RowId};
use store::{Listed, Listing, Point, Snapshot, Store, StoreFuture};
use testing::{Hooked, StoreHooks};

/// Counts its reads; one that is far answers none at once.
struct Counted<const IS_FAR: bool> {
    inner: Arc<dyn Store>,
    reads: AtomicUsize,
}

impl<const IS_FAR: bool> StoreHooks for Counted<IS_FAR> {
    const READS_AT_ONCE: bool = !IS_FAR;

    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.list(listing)
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.get(point)
    }
}

/// Whether a row of now is found at once, one of the past, and how often the store was read for it.
fn found<const IS_FAR: bool>() -> (bool, bool, usize) {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path());
    let store = Arc::new(Hooked(Counted::<IS_FAR> {
        inner: fixture::open_store(&config),
        reads: AtomicUsize::new(0),
    }));
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = Engine::over(store.clone(), &config, clock.clone()).unwrap();
    furnish(&engine);
    clock.step_us(1_000_000);
    let written = block_on(engine.create_row(&key(), PLACE, row("a", &[("n", 1)])));
    let mark = written.unwrap().mark.0;
    clock.step_us(1_000_000);
    let texts =
        ["asOf", "validAt"].map(|method| format!(r#"{{"method":"{method}","values":[{mark}]}}"#));
    let id = RowId::new("a").unwrap();
    let list = list_rows_of(&texts);
    let now = engine.prepare_table(&key(), PLACE).unwrap();
    let past = engine.prepare_past(&key(), &list, GrantsAsOf::Today);
    let past = past.unwrap().expect("it names both times");
    let before = store.reads.load(Ordering::SeqCst);
    let is_found = engine.row_at_once(&now, &id, |_, _| ()).is_some();
    let was_found = engine.past_at_once(&past, &id).is_some();
    let reads = store.reads.load(Ordering::SeqCst) - before;
    engine.close().unwrap();
    (is_found, was_found, reads)
}

#[test]
fn a_store_that_answers_nothing_at_once_is_sent_no_read_that_is_dropped() {
    assert_eq!(found::<false>(), (true, true, 2));
    assert_eq!(found::<true>(), (false, false, 0));
}
