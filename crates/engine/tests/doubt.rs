//! Commits of which the database does not say how they ended: never run again, and no caller is
//! answered before it is known, or before callers have waited long enough.

mod fixture;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use engine::{Engine, EngineError, Increment, StoreError, Unavailable, View, WriteError};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, config, engine_over, key, row};
use futures_executor::block_on;
use model::{Content, Json, Mark, RowId, Value};
use store::{Pending, Store, StoreFuture, WriteBatch};
use testing::{Hooked, OwnTurn, StoreHooks, in_doubt, on_commit};

/// How the next commits end.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Well,
    /// In doubt until the test lets the database answer; the callers do not wait so long.
    LeftOpen {
        is_done: bool,
    },
    /// In doubt for a few questions, done or not, by turns.
    ByTurns,
}

struct Doubtful {
    inner: Arc<dyn Store>,
    clock: Arc<TickingClock>,
    ends: Mutex<Ends>,
    commits: AtomicU64,
    /// Whether the database answers.
    answers: Arc<AtomicBool>,
}

fn silent() -> StoreError {
    StoreError::Io {
        detail: "no answer".to_owned(),
    }
}

impl StoreHooks for Doubtful {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        let ends = *self.ends.lock().unwrap();
        let turn = self.commits.fetch_add(1, Ordering::SeqCst);
        let (clock, answers) = (self.clock.clone(), self.answers.clone());
        Box::pin(async move {
            let applied = self.inner.apply(batches, first).await?;
            Ok(on_commit(applied, move |applied| match ends {
                Ends::LeftOpen { is_done } => in_doubt(applied, is_done, move || {
                    clock.pass_ms(10_000);
                    let answers = answers.load(Ordering::SeqCst);
                    if answers { Ok(()) } else { Err(silent()) }
                }),
                Ends::ByTurns if !turn.is_multiple_of(3) => {
                    let mut in_vain = turn % 4;
                    in_doubt(applied, turn % 3 == 1, move || {
                        let left = in_vain.checked_sub(1);
                        in_vain = left.unwrap_or(0);
                        left.map_or(Ok(()), |_| Err(silent()))
                    })
                }
                Ends::Well | Ends::ByTurns => applied.commit(),
            }))
        })
    }
}

fn doubtful(directory: &std::path::Path) -> (Arc<Hooked<Doubtful>>, Arc<Engine>) {
    let config = config(directory);
    let clock = TickingClock::at(NEW_YEAR_US);
    engine_over(&config, clock.clone(), |inner| Doubtful {
        inner,
        clock,
        ends: Mutex::new(Ends::Well),
        commits: AtomicU64::default(),
        answers: Arc::default(),
    })
}

fn create(engine: &Engine, id: &str) -> Result<Mark, EngineError> {
    let created = block_on(engine.create_row(&key(), PLACE, row(id, &[("n", 0)])));
    created.map(|row| row.mark)
}

fn is_there(engine: &Engine, id: &str) -> bool {
    let id = RowId::new(id).unwrap();
    let caller = key();
    let read = fixture::get_row(engine, &caller, PLACE, &id, &[], View::CURRENT);
    block_on(read).is_ok()
}

/// The mark of a write that was answered before its outcome was known.
#[track_caller]
fn left_open(written: Result<Mark, EngineError>) -> Mark {
    match written {
        Err(EngineError::Write(WriteError::CommitUnknown { mark: Some(mark) })) => mark,
        other => panic!("{other:?}"),
    }
}

const AWAITS: EngineError = EngineError::Unavailable(Unavailable::AwaitsCommit);

/// A commit is left open, and then the database answers.
fn leave_open(is_done: bool) {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = doubtful(directory.path());
    let before = create(&engine, "before").unwrap();
    *store.ends.lock().unwrap() = Ends::LeftOpen { is_done };
    let mark = left_open(create(&engine, "a"));
    assert!(mark > before && engine.awaits_commit());
    // No request waits any more: neither writes, nor a read as of that mark. Reads of now go on.
    assert_eq!(create(&engine, "b"), Err(AWAITS));
    assert_eq!(block_on(engine.reach(mark)), Err(AWAITS));
    assert_eq!(block_on(engine.reach(before)), Ok(()));
    assert!(is_there(&engine, "before"));
    assert_eq!(engine.stop_reason(), None);
    *store.ends.lock().unwrap() = Ends::Well;
    store.answers.store(true, Ordering::SeqCst);
    while engine.awaits_commit() {
        std::thread::yield_now();
    }
    let after = create(&engine, "c").unwrap();
    assert!(after > mark, "its mark is given to no other commit");
    assert_eq!(is_there(&engine, "a"), is_done);
    assert!(!is_there(&engine, "b"), "its caller was refused");
    assert_eq!(block_on(engine.reach(mark)), Ok(()));
    assert_eq!(engine.writes().unknown, 1);
    engine.close().unwrap();
}

#[test]
fn a_commit_that_is_left_open_comes_up_when_the_database_says_that_it_is_done() {
    leave_open(true);
}

#[test]
fn a_commit_that_is_left_open_never_comes_up_when_the_database_says_that_it_is_not_done() {
    leave_open(false);
}

#[test]
fn a_server_ends_though_the_database_never_says() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = doubtful(directory.path());
    *store.ends.lock().unwrap() = Ends::LeftOpen { is_done: true };
    let mark = left_open(create(&engine, "a"));
    engine.close().unwrap();
    assert!(engine.horizon() >= mark);
    assert!(engine.stop_reason().is_some());
    drop((store, engine));
    let engine = fixture::open(directory.path(), TickingClock::at(NEW_YEAR_US));
    assert!(is_there(&engine, "a"));
    assert!(create(&engine, "b").unwrap() > mark);
    engine.close().unwrap();
}

/// Eight writers add one to a row, each time again after a refusal. How much was acknowledged, and
/// how much the row holds.
fn add_up(ignores_doubt: bool) -> (i64, i64) {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = doubtful(directory.path());
    create(&engine, "sum").unwrap();
    *store.ends.lock().unwrap() = Ends::ByTurns;
    if ignores_doubt {
        engine.ignore_doubt();
    }
    let acknowledged = AtomicU64::new(0);
    let id = RowId::new("sum").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let one = Increment {
                        id: id.clone(),
                        column: "n",
                        is_down: false,
                        by: Json::Int(1),
                        bound: None,
                        unchanged_since: None,
                    };
                    if block_on(engine.increment_row(&key(), PLACE, &one)).is_ok() {
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    *store.ends.lock().unwrap() = Ends::Well;
    let select = [r#"{"method":"select","values":["n"]}"#.to_owned()];
    let (caller, view) = (key(), View::CURRENT);
    let read = fixture::get_row(&engine, &caller, PLACE, &id, &select, view);
    let read = block_on(read).unwrap().answer.rows.remove(0);
    let Content::Values(values) = read.content else {
        panic!("columns were selected");
    };
    let Value::Int(sum) = values[0] else {
        panic!("`n` holds an integer");
    };
    engine.close().unwrap();
    (acknowledged.into_inner() as i64, sum)
}

#[test]
fn increments_add_up_though_the_outcome_of_two_in_three_commits_is_unknown_at_first() {
    let (acknowledged, sum) = add_up(false);
    assert!(acknowledged > 0);
    assert_eq!(acknowledged, sum);
}

#[test]
fn increments_count_twice_where_doubt_is_ignored() {
    let (acknowledged, sum) = add_up(true);
    assert!(sum > acknowledged, "{sum} of {acknowledged}");
}
