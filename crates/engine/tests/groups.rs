//! Requests that share a commit share nothing else: one that fails takes nothing from the others.

mod fixture;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use engine::{
    Bulk, Config, Engine, EngineError, ReadError, StoreError, Unavailable, View, WriteError,
};
use fixture::gate::{Asked, Gate, enqueue, poll_once};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, config, engine_over, furnish, key, row};
use futures_executor::block_on;
use model::{Json, Mark, Marked, Page, Table, Value};
use store::{Committed, Op, Pending, Store, StoreFuture, WriteBatch};
use testing::{Hooked, OwnTurn, StoreHooks, in_doubt, on_commit};

/// The real store, with commits that fail when they contain a row called so.
const POISON: &str = "poison";
/// It panics while a group with such a row is applied.
const PANIC: &str = "panic";
/// It panics while a group with such a row is committed.
const PANIC_LATE: &str = "panic-late";
/// What becomes of a group with such a row is not known.
const UNKNOWN: &str = "unknown";

struct Fragile {
    inner: Arc<dyn Store>,
    gate: Gate,
    /// Requests of each group, in order.
    groups: Mutex<Vec<usize>>,
    commits_failed: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Well,
    Failing,
    Panicking,
    Unknown,
}

impl Ends {
    fn end(self, applied: Box<dyn Pending>) -> StoreFuture<'static, Committed> {
        let error = match self {
            Ends::Well => return applied.commit(),
            Ends::Failing => StoreError::Full,
            Ends::Panicking => panic!("a fault in a commit"),
            // Only a restart tells.
            Ends::Unknown => return in_doubt(applied, false, || Err(unknown())),
        };
        drop(applied);
        Box::pin(std::future::ready(Err(error)))
    }
}

impl StoreHooks for Fragile {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        self.gate.pass();
        self.groups.lock().unwrap().push(batches.len());
        let has = |id: &str| {
            let is_it = |op: &Op| matches!(op, Op::Row(op) if op.id.as_str() == id);
            batches.iter().flat_map(|batch| &batch.ops).any(is_it)
        };
        assert!(!has(PANIC), "a fault in a batch");
        let ends = match () {
            () if has(POISON) => Ends::Failing,
            () if has(PANIC_LATE) => Ends::Panicking,
            () if has(UNKNOWN) => Ends::Unknown,
            () => Ends::Well,
        };
        self.commits_failed
            .fetch_add(usize::from(ends == Ends::Failing), Ordering::Relaxed);
        Box::pin(async move {
            let applied = self.inner.apply(batches, first).await?;
            Ok(on_commit(applied, move |applied| ends.end(applied)))
        })
    }
}

fn unknown() -> StoreError {
    StoreError::OutcomeUnknown {
        detail: "neither here nor there".to_owned(),
    }
}

/// Content of a row that the encoder of the store stumbles over.
const STUMBLE: i64 = 13_131_313;

fn stumble(_: &Table, values: &[Value], out: &mut Vec<u8>) {
    assert!(!values.contains(&Value::Int(STUMBLE)), "a fault inside");
    out.extend_from_slice(format!("{values:?}").as_bytes());
}

fn fragile(directory: &std::path::Path) -> (Arc<Hooked<Fragile>>, Arc<Engine>) {
    fragile_with(directory, config(directory).writes_waiting_max)
}

fn fragile_with(
    directory: &std::path::Path,
    writes_waiting_max: usize,
) -> (Arc<Hooked<Fragile>>, Arc<Engine>) {
    let config = Config {
        encode_row: stumble,
        writes_waiting_max,
        ..config(directory)
    };
    engine_over(&config, TickingClock::at(NEW_YEAR_US), |inner| Fragile {
        inner,
        gate: Gate::default(),
        groups: Mutex::default(),
        commits_failed: AtomicUsize::default(),
    })
}

type Written<'a> = Asked<'a, Result<Marked<Page>, EngineError>>;

fn create<'a>(engine: &'a Engine, id: &str) -> Written<'a> {
    let row = row(id, &[("n", 1)]);
    Box::pin(async move { engine.create_row(&key(), PLACE, row).await })
}

/// Has the rows wait behind a held group, then lets all go; what became of each.
fn together(store: &Fragile, engine: &Engine, ids: &[&str]) -> Vec<Result<(), EngineError>> {
    store.gate.close();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(create(engine, "held")).unwrap());
        store.gate.wait_until_reached();
        let waiting: Vec<Written<'_>> = ids.iter().map(|id| enqueue(create(engine, id))).collect();
        store.gate.open();
        held.join().unwrap();
        waiting
            .into_iter()
            .map(|written| block_on(written).map(drop))
            .collect()
    })
}

fn is_there(engine: &Engine, id: &str) -> bool {
    block_on(fixture::get_row(
        engine,
        &key(),
        PLACE,
        &model::RowId::new(id).unwrap(),
        &[],
        View::CURRENT,
    ))
    .is_ok()
}

#[test]
fn a_request_that_makes_the_commit_fail_takes_nothing_from_its_neighbours() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile(directory.path());
    let outcomes = together(&store, &engine, &["a", "b", POISON, "c"]);
    let failed = EngineError::Store(StoreError::Full);
    assert_eq!(outcomes, [Ok(()), Ok(()), Err(failed), Ok(())]);
    for (id, there) in [("a", true), ("b", true), (POISON, false), ("c", true)] {
        assert_eq!(is_there(&engine, id), there, "{id}");
    }
    let groups = store.groups.lock().unwrap().clone();
    assert!(
        groups.ends_with(&[1, 4, 1, 1, 1, 1]),
        "held, all, then one by one: {groups:?}"
    );
    assert_eq!(
        store.commits_failed.load(Ordering::Relaxed),
        2,
        "with the others and alone"
    );
    engine.close().unwrap();
}

#[test]
fn waiting_writers_share_a_commit_and_get_a_mark_each() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile(directory.path());
    let before = engine.status().mark;
    let outcomes = together(&store, &engine, &["a", "b", "b", "c"]);
    let exists = Err(EngineError::Write(WriteError::RowExists(
        model::RowId::new("b").unwrap(),
    )));
    assert_eq!(outcomes, [Ok(()), Ok(()), exists, Ok(())]);
    assert!(store.groups.lock().unwrap().ends_with(&[1, 4]));
    assert!(engine.status().mark.0 >= before.0 + 4, "held, a, b and c");
    engine.close().unwrap();
}

#[test]
fn a_mark_that_is_being_written_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile(directory.path());
    let engine = &*engine;
    let published = engine.status().mark;
    assert_eq!(block_on(engine.reach(published)), Ok(()));
    store.gate.close();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(create(engine, "held")).unwrap().mark);
        store.gate.wait_until_reached();
        // Above every mark that is given now: the commit that runs might have it.
        let reached = enqueue(Box::pin(engine.reach(Mark(i64::MAX))));
        // What was published before is not held up.
        assert_eq!(block_on(engine.reach(published)), Ok(()));
        store.gate.open();
        let mark = held.join().unwrap();
        let refused = block_on(reached).unwrap_err();
        assert!(
            matches!(refused, EngineError::Read(ReadError::FutureMark { .. })),
            "{refused}"
        );
        assert!(engine.has_reached(mark) && !engine.has_reached(mark.next()));
        assert_eq!(block_on(engine.reach(mark)), Ok(()));
    });
    engine.close().unwrap();
}

#[test]
fn a_full_queue_refuses_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    config.writes_waiting_max = 2;
    let engine = fixture::start(config, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    // No other writer is there: polled in one breath, the third finds two waiting, or fewer if the
    // writer was quick. Some of many must be refused, and every other one is served.
    let mut waiting: Vec<Written<'_>> = Vec::new();
    let mut refused = 0;
    for turn in 0..200 {
        let mut written = create(&engine, &format!("r{turn}"));
        match poll_once(&mut written) {
            Poll::Ready(Err(EngineError::Unavailable(Unavailable::Overloaded))) => refused += 1,
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => waiting.push(written),
        }
    }
    assert!(refused > 0, "two places cannot hold two hundred");
    for written in waiting {
        block_on(written).unwrap();
    }
    engine.close().unwrap();
}

fn panicked(detail: &str) -> EngineError {
    let detail = detail.to_owned();
    EngineError::Store(StoreError::Panicked { detail })
}

#[test]
fn a_fault_while_a_group_is_applied_fails_the_request_that_met_it_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile(directory.path());
    let outcomes = together(&store, &engine, &["a", PANIC, "b"]);
    let fault = Err(panicked("a fault in a batch"));
    assert_eq!(outcomes, [Ok(()), fault, Ok(())]);
    block_on(create(&engine, "c")).unwrap();
    let change = row("c", &[("n", STUMBLE)]);
    let stumbled = block_on(engine.update_row(&key(), PLACE, change, None));
    assert_eq!(stumbled.map(drop), Err(panicked("a fault inside")));
    block_on(create(&engine, "d")).unwrap();
    assert_eq!(engine.stop_reason(), None);
    assert_eq!(engine.writes().panics, 3, "in the group, and alone");
    for (id, there) in [
        ("a", true),
        (PANIC, false),
        ("b", true),
        ("c", true),
        ("d", true),
    ] {
        assert_eq!(is_there(&engine, id), there, "{id}");
    }
    engine.close().unwrap();
}

#[test]
fn a_row_that_is_inserted_is_encoded_by_who_asks_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let (_store, engine) = fragile(directory.path());
    let create = || block_on(engine.create_row(&key(), PLACE, row("a", &[("n", STUMBLE)])));
    let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(create));
    assert!(asked.is_err(), "{asked:?}");
    assert_eq!(engine.writes().panics, 0);
    engine.close().unwrap();
}

#[test]
fn a_row_is_not_encoded_that_a_full_queue_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile_with(directory.path(), 1);
    store.gate.close();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(create(&engine, "held")).unwrap());
        store.gate.wait_until_reached();
        let waiting = enqueue(create(&engine, "waiting"));
        // To encode this one panics.
        let refused = block_on(engine.create_row(&key(), PLACE, row("a", &[("n", STUMBLE)])));
        let full = EngineError::Unavailable(Unavailable::Overloaded);
        store.gate.open();
        assert_eq!(refused.map(drop), Err(full));
        assert_eq!(engine.writes().refused, 1);
        held.join().unwrap();
        block_on(waiting).unwrap();
    });
    engine.close().unwrap();
}

/// Writes `last` with others, after which nothing can be written, and looks at who waits.
fn end_writing_with(last: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile(directory.path());
    let outcomes = together(&store, &engine, &["a", last, "b"]);
    let is_unknown = |outcome: &Result<(), EngineError>| {
        matches!(
            outcome,
            Err(EngineError::Store(StoreError::OutcomeUnknown { .. }))
        )
    };
    assert!(outcomes.iter().all(is_unknown), "{outcomes:?}");
    let groups = store.groups.lock().unwrap().clone();
    assert!(groups.ends_with(&[1, 3]), "none is run again: {groups:?}");
    assert!(!block_on(engine.stopped()).is_empty());
    assert_eq!(
        block_on(create(&engine, "c")).map(drop),
        Err(EngineError::Unavailable(Unavailable::Stopped))
    );
    assert!(is_there(&engine, "held"), "reads go on");
    // What was given the marks of that group may come up yet.
    let given = Mark(engine.horizon().0 + 1);
    assert_eq!(
        block_on(engine.reach(given)),
        Err(EngineError::Unavailable(Unavailable::Stopped))
    );
    engine.close().unwrap();
    drop((store, engine));
    let engine = fixture::open(directory.path(), TickingClock::at(NEW_YEAR_US));
    assert!(is_there(&engine, "held") && !is_there(&engine, "a"));
    block_on(create(&engine, "c")).unwrap();
    engine.close().unwrap();
}

#[test]
fn a_fault_while_a_group_is_committed_ends_writing_and_nobody_waits() {
    end_writing_with(PANIC_LATE);
}

#[test]
fn a_commit_of_unknown_outcome_ends_writing_and_nobody_waits() {
    end_writing_with(UNKNOWN);
}

/// Its rows have nothing in `m`, on which there is no index.
#[test]
fn a_bulk_change_covers_what_was_committed_before_its_mark() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile(directory.path());
    let no_m = [r#"{"method":"isNull","attribute":"m"}"#.to_owned()];
    let bulk = Bulk {
        place: PLACE,
        texts: &no_m,
        unchanged_since: None,
    };
    let (caller, members) = (key(), [("m".to_owned(), Json::Int(7))]);
    store.gate.close();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(create(&engine, "held")).unwrap());
        store.gate.wait_until_reached();
        let created: Vec<_> = ["a", "b", "c"]
            .map(|id| enqueue(create(&engine, id)))
            .into();
        let mut changed: Asked<'_, _> =
            Box::pin(async { engine.update_rows(&caller, &bulk, &members).await });
        assert!(poll_once(&mut changed).is_pending());
        store.gate.open();
        held.join().unwrap();
        let created = created.into_iter().map(|row| block_on(row).unwrap().mark);
        let last = created.max().unwrap();
        let changed = block_on(changed).unwrap();
        assert!(changed.mark > last);
        assert_eq!(changed.answer.total, 4, "all that have lower marks");
    });
    engine.close().unwrap();
}

/// Rows that follow it in its own group are in no answer of its mark.
#[test]
fn a_bulk_change_that_finds_nothing_is_answered_with_what_it_has_seen() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = fragile(directory.path());
    let bulk = Bulk {
        place: PLACE,
        texts: &[],
        unchanged_since: None,
    };
    let caller = key();
    store.gate.close();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(engine.delete_rows(&caller, &bulk, &[])).unwrap());
        store.gate.wait_until_reached();
        let mut deleted: Asked<'_, _> =
            Box::pin(async { engine.delete_rows(&caller, &bulk, &[]).await });
        assert!(poll_once(&mut deleted).is_pending());
        let created: Vec<_> = ["a", "b"].map(|id| enqueue(create(&engine, id))).into();
        store.gate.open();
        assert_eq!(held.join().unwrap().answer.total, 0);
        let created = created.into_iter().map(|row| block_on(row).unwrap().mark);
        let first = created.min().unwrap();
        let deleted = block_on(deleted).unwrap();
        assert_eq!(deleted.answer.total, 0);
        assert!(deleted.mark < first, "{:?} and {first:?}", deleted.mark);
    });
    engine.close().unwrap();
}
