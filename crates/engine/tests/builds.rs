//! Indexes of a store that builds them outside of commits: writes go on meanwhile.

mod fixture;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use engine::{Engine, NewColumn, NewIndex, StoreError};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, config, furnish, integer, key, row};
use futures_channel::oneshot;
use futures_executor::block_on;
use model::{IndexStatus, Table};
use store::{IndexBuildEnd, Standing, Store, StoreFuture};
use testing::{Hooked, StoreHooks, UpkeepHooks};

type Answer = oneshot::Sender<Result<IndexBuildEnd, StoreError>>;

/// The real store, which builds when a test says so.
struct Builder {
    inner: Arc<dyn Store>,
    /// Builds that wait for the test, by the number of their index.
    waiting: Mutex<Vec<(u32, Answer)>>,
    /// How often a standby has taken the place of the primary.
    promotions: AtomicU64,
}

impl StoreHooks for Builder {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn upkeep(&self) -> Option<&dyn UpkeepHooks> {
        Some(self)
    }
}

impl UpkeepHooks for Builder {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    fn standing(&self) -> StoreFuture<'_, Standing> {
        Box::pin(async {
            let standing = self.inner.turn().await?.standing();
            let others = standing.others + self.promotions.load(Ordering::SeqCst);
            Ok(Standing { others, ..standing })
        })
    }

    fn build(&self, _: &Arc<Table>, index: u32) -> StoreFuture<'static, IndexBuildEnd> {
        let (reply, answer) = oneshot::channel();
        self.waiting.lock().unwrap().push((index, reply));
        Box::pin(async move {
            answer
                .await
                .expect("the test answers, or the build is dropped")
        })
    }
}

impl Builder {
    /// The build that is begun next.
    fn begun(&self) -> Answer {
        until(|| self.waiting.lock().unwrap().pop()).1
    }
}

fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        match found() {
            Some(found) => return found,
            None => std::thread::yield_now(),
        }
    }
}

struct Site {
    directory: tempfile::TempDir,
    store: Arc<Hooked<Builder>>,
    engine: Arc<Engine>,
}

/// More rows than an index of words is built over at once.
const ROWS: usize = 1_500;

fn site() -> Site {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path());
    let store = Arc::new(Hooked(Builder {
        inner: fixture::open_store(&config),
        waiting: Mutex::default(),
        promotions: AtomicU64::new(0),
    }));
    let engine = Engine::over(store.clone(), &config, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    Site {
        directory,
        store,
        engine,
    }
}

/// An index over more rows than are indexed at once, of which two parts are built.
fn index_words(engine: &Engine) {
    let text = NewColumn {
        kind: "text".to_owned(),
        ..integer("text")
    };
    block_on(engine.create_column(&key(), PLACE, &text)).unwrap();
    let rows = (0..ROWS).map(|nth| row(&format!("r{nth}"), &[]));
    block_on(engine.create_rows(&key(), PLACE, rows.collect())).unwrap();
    let index = NewIndex {
        key: "words".to_owned(),
        kind: "fulltext".to_owned(),
        columns: vec!["text".to_owned()],
        ..NewIndex::default()
    };
    block_on(engine.create_index(&key(), PLACE, &index)).unwrap();
}

fn status(engine: &Engine) -> IndexStatus {
    engine.get_index(&key(), PLACE, "words").unwrap().1.status
}

fn write(engine: &Engine, id: &str) {
    block_on(engine.create_row(&key(), PLACE, row(id, &[("n", 1)]))).unwrap();
}

#[test]
fn writes_go_on_while_an_index_is_built_and_then_it_is_available() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    index_words(engine);
    let build = store.begun();
    for nth in 0..100 {
        write(engine, &format!("meanwhile{nth}"));
    }
    assert_eq!(status(engine), IndexStatus::Processing);
    build.send(Ok(IndexBuildEnd::Ready)).unwrap();
    until(|| (status(engine) == IndexStatus::Available).then_some(()));
    assert!(
        store.waiting.lock().unwrap().is_empty(),
        "built once, of two parts"
    );
    engine.close().unwrap();
}

#[test]
fn an_index_that_was_found_not_to_be_unique_is_not_built_in_a_commit() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    index_words(engine);
    // Rows of other values would let a commit build it.
    store.begun().send(Ok(IndexBuildEnd::NotUnique)).unwrap();
    let status = until(|| Some(status(engine)).filter(|one| *one != IndexStatus::Processing));
    assert!(
        matches!(&status, IndexStatus::Failed(why) if why.contains("equal values")),
        "{status:?}"
    );
    block_on(engine.delete_index(&key(), PLACE, "words")).unwrap();
    engine.close().unwrap();
}

#[test]
fn a_build_that_failed_is_begun_again_later() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    index_words(engine);
    store.begun().send(Err(StoreError::Full)).unwrap();
    let again = store.begun();
    assert_eq!(status(engine), IndexStatus::Processing);
    again.send(Ok(IndexBuildEnd::Ready)).unwrap();
    until(|| (status(engine) == IndexStatus::Available).then_some(()));
    engine.close().unwrap();
}

#[test]
fn a_build_of_an_index_that_is_gone_is_called_off() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    index_words(engine);
    let build = store.begun();
    block_on(engine.delete_index(&key(), PLACE, "words")).unwrap();
    until(|| build.is_canceled().then_some(()));
    write(engine, "after");
    engine.close().unwrap();
}

#[test]
fn a_build_is_begun_again_where_a_standby_has_taken_the_place_of_the_primary() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    index_words(engine);
    let hanging = store.begun();
    store.promotions.fetch_add(1, Ordering::SeqCst);
    write(engine, "after");
    until(|| hanging.is_canceled().then_some(()));
    store.begun().send(Ok(IndexBuildEnd::Ready)).unwrap();
    until(|| (status(engine) == IndexStatus::Available).then_some(()));
    engine.close().unwrap();
}

#[test]
fn a_build_ends_with_the_engine_and_is_begun_again_at_the_next_start() {
    let Site {
        directory,
        store,
        engine,
    } = site();
    index_words(&engine);
    let build = store.begun();
    engine.close().unwrap();
    assert!(build.is_canceled());
    drop((engine, store));
    let config = config(directory.path());
    let store = Arc::new(Hooked(Builder {
        inner: fixture::open_store(&config),
        waiting: Mutex::default(),
        promotions: AtomicU64::new(0),
    }));
    let clock = TickingClock::at(NEW_YEAR_US + 60_000_000);
    let engine = Engine::over(store.clone(), &config, clock).unwrap();
    store.begun().send(Ok(IndexBuildEnd::Ready)).unwrap();
    until(|| (status(&engine) == IndexStatus::Available).then_some(()));
    engine.close().unwrap();
}
