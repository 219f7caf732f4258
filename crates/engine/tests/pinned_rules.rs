//! Two rules of answers at fixed coordinates, each of which one order of events alone can miss:
//! a sequence of events for each that ends badly without it. The other rules are missed by seeds of the
//! simulation.

mod fixture;

use std::sync::Arc;

use engine::{
    Caller, Engine, EngineError, ListRows, OptionsChange, ReadError, RowInput, TableChange, View,
};
use fixture::gate::Gate;
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, engine_over, guest, key, list_rows_of, open_past, row,
};
use futures_executor::block_on;
use list_cache::Rule;
use model::Mark;
use store::{Pending, Store, StoreFuture, WriteBatch};
use testing::{OwnTurn, StoreHooks, on_commit};

/// The real store, whose commits can be held just before they are durable.
struct HeldCommits {
    inner: Arc<dyn Store>,
    commits: Arc<Gate>,
}

impl StoreHooks for HeldCommits {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        Box::pin(async move {
            let applied = self.inner.apply(batches, first).await?;
            let commits = self.commits.clone();
            Ok(on_commit(applied, move |applied| {
                commits.pass();
                applied.commit()
            }))
        })
    }
}

/// What is known now, by its mark.
fn now(engine: &Engine) -> Mark {
    block_on(engine.heartbeat(&key(), "d")).unwrap()
}

fn total(engine: &Engine, caller: &Caller, as_of: Mark, bypass: bool) -> Result<u64, EngineError> {
    let texts = [format!(r#"{{"method":"asOf","values":[{}]}}"#, as_of.0)];
    let list = ListRows {
        bypass,
        ..list_rows_of(&texts)
    };
    block_on(engine.list_rows(caller, &list, View::CURRENT)).map(|answer| answer.total)
}

fn granting(permissions: &[&str]) -> RowInput {
    RowInput {
        permissions: Some(permissions.iter().map(ToString::to_string).collect()),
        ..row("a", &[("n", 1)])
    }
}

/// Whether the sequence ends well for a fresh engine, without the rule if one is named.
fn ends_well(off: Option<Rule>, tells: impl FnOnce(&Engine, &Gate) -> bool) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path());
    let commits = Arc::new(Gate::default());
    let clock = TickingClock::at(NEW_YEAR_US);
    let (_, engine) = engine_over(&config, clock, |inner| HeldCommits {
        inner,
        commits: commits.clone(),
    });
    open_past(&engine);
    if let Some(rule) = off {
        engine.list_rules().switch_off(rule);
    }
    let ended = tells(&engine, &commits);
    engine.close().unwrap();
    ended
}

/// A guest reads the past of a row while it becomes durable that guests may not.
fn a_grant_is_taken_back_in_flight(engine: &Engine, commits: &Gate) -> bool {
    let change = TableChange {
        permissions: Some(Vec::new()),
        row_security: Some(true),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, change)).unwrap();
    let open = granting(&["read(\"any\")"]);
    block_on(engine.create_row(&key(), PLACE, open)).unwrap();
    let then = now(engine);
    commits.close();
    std::thread::scope(|scope| {
        let closed = || block_on(engine.update_row(&key(), PLACE, granting(&[]), None)).map(drop);
        let closing = scope.spawn(closed);
        commits.wait_until_reached();
        assert_eq!(total(engine, &guest(), then, false), Ok(1));
        commits.open();
        closing.join().unwrap().unwrap();
    });
    total(engine, &guest(), then, false) == Ok(0)
}

/// The past of a table that keeps none is read, and goes with the next commit.
fn the_past_goes_with_the_next_commit(engine: &Engine, _: &Gate) -> bool {
    let change = OptionsChange {
        history: Some("none".to_owned()),
        ..OptionsChange::default()
    };
    block_on(engine.set_table_options(&key(), PLACE, &change)).unwrap();
    let create = |id| block_on(engine.create_row(&key(), PLACE, row(id, &[("n", 1)]))).unwrap();
    create("a");
    let then = now(engine);
    assert_eq!(total(engine, &key(), then, false), Ok(1));
    create("b");
    let is_gone = |bypass| {
        let read = total(engine, &key(), then, bypass);
        matches!(read, Err(EngineError::Read(ReadError::HistoryGone(_))))
    };
    assert!(is_gone(true));
    is_gone(false)
}

#[test]
fn each_story_ends_badly_without_its_rule() {
    let in_flight = a_grant_is_taken_back_in_flight;
    assert!(ends_well(None, in_flight));
    assert!(!ends_well(Some(Rule::FencesStandInFlight), in_flight));
    let goes = the_past_goes_with_the_next_commit;
    assert!(ends_well(None, goes));
    assert!(!ends_well(Some(Rule::NothingIsPinnedThatGoes), goes));
}
