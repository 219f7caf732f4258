//! A store in which others have committed meanwhile, or that was put back: what the engine takes in
//! when its turn to write begins.

mod fixture;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use engine::{Engine, EngineError, ListAnswer, StoreError, Unavailable, View};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, key, list_rows_of, new_table, row,
};
use futures_executor::block_on;
use model::{Mark, RowId, Table, Value};
use store::{
    CatalogueOp, Guard, Op, RowAct, RowOp, SchemaChange, Stamps, Standing, Store, StoreFuture,
    WriteBatch,
};
use testing::{Hooked, OwnTurn, StoreHooks, UpkeepHooks, at_once, done};

/// The real store, to which others write between two commits of the engine.
struct Shared {
    inner: Arc<dyn Store>,
    /// Held by who writes: upkeep comes whenever the engine has nothing else to do.
    alone: Mutex<()>,
    /// [`Standing::others`].
    others: AtomicU64,
    /// Whether another process has the right to write.
    is_lost: AtomicBool,
}

impl StoreHooks for Shared {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn upkeep(&self) -> Option<&dyn UpkeepHooks> {
        Some(self)
    }
}

impl UpkeepHooks for Shared {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    fn standing(&self) -> StoreFuture<'_, Standing> {
        let stands = if self.is_lost.load(Ordering::SeqCst) {
            let detail = "another process has the store".to_owned();
            Err(StoreError::Unreachable { detail })
        } else {
            Ok(self.stands())
        };
        Box::pin(std::future::ready(stands))
    }

    fn rest(&self) {
        let _alone = self.alone.lock().unwrap();
        self.inner.rest();
    }

    fn run_upkeep(&self) -> StoreFuture<'_, bool> {
        let _alone = self.alone.lock().unwrap();
        Box::pin(std::future::ready(at_once(self.inner.run_upkeep())))
    }
}

impl Shared {
    /// Commits what another process would.
    fn commit_of_another(&self, ops: impl FnOnce(&Arc<Table>) -> Vec<Op>) -> Mark {
        let _alone = self.alone.lock().unwrap();
        let loaded = block_on(self.inner.load()).unwrap();
        let database = &loaded.catalogue.project("p").unwrap().databases["d"];
        let batch = WriteBatch {
            catalogue_epoch: loaded.catalogue.epoch,
            ops: ops(&database.tables["t"]),
            author: None,
            unchanged_since: None,
            meta: None,
            noted_in: None,
            space: store::SpaceLimit::Any,
        };
        let mark = Mark(loaded.horizon.0 + 1_000_000);
        let pending = block_on(self.inner.apply(&[batch], mark)).unwrap();
        assert!(done(block_on(pending.commit())).unwrap()[0].is_ok());
        mark
    }

    fn stands(&self) -> Standing {
        let _alone = self.alone.lock().unwrap();
        Standing {
            others: self.others.load(Ordering::SeqCst),
            ..at_once(self.inner.turn()).unwrap().standing()
        }
    }
}

struct Site {
    _directory: tempfile::TempDir,
    store: Arc<Hooked<Shared>>,
    engine: Arc<Engine>,
}

fn site() -> Site {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path());
    let store = Arc::new(Hooked(Shared {
        inner: fixture::open_store(&config),
        alone: Mutex::default(),
        others: AtomicU64::new(0),
        is_lost: AtomicBool::new(false),
    }));
    let engine = Engine::over(store.clone(), &config, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    Site {
        _directory: directory,
        store,
        engine,
    }
}

fn inserted(table: &Arc<Table>, id: &str, n: i64) -> Op {
    Op::Row(RowOp::now(
        table.clone(),
        RowId::new(id).unwrap(),
        RowAct::Insert {
            values: vec![Value::Int(n), Value::Null],
            permissions: vec![],
            stamps: Stamps::default(),
            guard: Guard::Open,
        },
    ))
}

fn create(engine: &Engine, id: &str) -> Result<Mark, EngineError> {
    let created = block_on(engine.create_row(&key(), PLACE, row(id, &[("n", 1)])));
    created.map(|row| row.mark)
}

fn list(engine: &Engine) -> ListAnswer {
    block_on(engine.list_rows(&key(), &list_rows_of(&[]), View::CURRENT)).unwrap()
}

#[test]
fn a_commit_of_another_process_is_in_the_lists_from_the_next_turn_on() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    create(engine, "a").unwrap();
    assert_eq!(list(engine).total, 1);
    let theirs = store.commit_of_another(|table| vec![inserted(table, "b", 2)]);
    let ours = create(engine, "c").unwrap();
    assert!(ours > theirs, "marks rise over both: {ours:?} {theirs:?}");
    assert_eq!(list(engine).total, 3);
    assert_eq!(list(engine).total, 3, "from memory");
    let standing = store.stands();
    assert_eq!((standing.mark, engine.status().mark), (ours, ours));
    engine.close().unwrap();
}

#[test]
fn a_schema_of_another_process_is_taken_in_before_the_next_write() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    create(engine, "a").unwrap();
    let indexes = || engine.get_index(&key(), PLACE, "by_n").is_ok();
    assert!(indexes());
    store.commit_of_another(|table| {
        let number = table.indexes[0].number;
        vec![Op::Catalogue(CatalogueOp::ChangeSchema {
            table: table.clone(),
            change: SchemaChange::DropIndex(number),
        })]
    });
    // Upkeep may take it in before, in a turn of its own.
    create(engine, "b").unwrap();
    assert!(!indexes());
    assert_eq!(list(engine).total, 2);
    engine.close().unwrap();
}

#[test]
fn a_write_of_another_process_without_a_mark_is_in_the_lists_from_the_next_turn_on() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    create(engine, "a").unwrap();
    let is_hit = || list(engine).cached.unwrap().is_hit;
    let write_elsewhere = |id| block_on(engine.create_table(&key(), "d", new_table(id))).unwrap();
    list(engine);
    write_elsewhere("u");
    assert!(is_hit());
    // It has shown what was due, say.
    store.others.store(1, Ordering::SeqCst);
    write_elsewhere("v");
    assert!(!is_hit());
    write_elsewhere("w");
    assert!(is_hit(), "taken in once");
    engine.close().unwrap();
}

#[test]
fn while_another_process_has_the_right_to_write_no_list_comes_from_memory() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    create(engine, "a").unwrap();
    assert_eq!(list(engine).total, 1);
    store.commit_of_another(|table| vec![inserted(table, "b", 2)]);
    store.is_lost.store(true, Ordering::SeqCst);
    create(engine, "lost").unwrap_err();
    assert_eq!(list(engine).total, 2);
    store.commit_of_another(|table| vec![inserted(table, "c", 3)]);
    assert_eq!(list(engine).total, 3);
    store.is_lost.store(false, Ordering::SeqCst);
    create(engine, "d").unwrap();
    assert_eq!(list(engine).total, 4);
    assert!(list(engine).cached.unwrap().is_hit);
    engine.close().unwrap();
}

#[test]
fn a_database_that_was_put_back_is_written_to_no_more() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    let mark = create(engine, "a").unwrap();
    {
        let _alone = store.alone.lock().unwrap();
        block_on(store.inner.rewind()).unwrap();
    }
    // Upkeep may have met it first.
    assert!(matches!(
        create(engine, "b"),
        Err(EngineError::Store(StoreError::Stopped)
            | EngineError::Unavailable(Unavailable::Stopped))
    ));
    let reason = engine.stop_reason().expect("writing has ended").to_owned();
    assert!(reason.contains("ends at mark 0,"), "{reason}");
    assert!(reason.contains(&mark.0.to_string()), "{reason}");
    assert_eq!(list(engine).total, 1, "reads go on");
}
