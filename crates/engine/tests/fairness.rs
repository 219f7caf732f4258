//! Nothing holds up writers for long: neither very many rows that become due at one instant, nor
//! guests who ask what operations of their transactions would do.

mod fixture;

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use engine::{
    Act, BatchRead, Bulk, Caller, Engine, EngineError, ListAnswer, ListRows, NewColumn, NewIndex,
    Operation, OptionsChange, Place, ReadError, RowInput, Unavailable, View, WantedRows,
};
use fixture::gate::{Asked, Gate, enqueue, poll_once};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, guest, integer, key, list_rows_of,
    new_table, open_store, row,
};
use futures_executor::block_on;
use model::{Actor, IndexStatus, Json, Mark, Role, RoleSet, RowId, Timestamp};
use store::{
    CatalogueOp, DUE_ROWS_MAX, Listed, Listing, OffloadKind, Op, Pending, Preview, SchemaChange,
    Snapshot, Store, StoreError, StoreFuture, Trial, Work, WriteBatch,
};
use testing::{Hooked, OwnTurn, StoreHooks};

/// The real store, which notes what the writer asks of it, and at which the writer can be held.
struct Noted {
    inner: Arc<dyn Store>,
    /// Before slices of what is due.
    slices: Gate,
    /// Before groups.
    groups: Gate,
    steps: Mutex<Vec<Step>>,
    /// Whether each list, and work for a thread for long reads, was for a caller without a key.
    of_guests: Mutex<Vec<bool>>,
    /// Lists fail so, the second time they are polled.
    lists_stop: Mutex<Option<StoreError>>,
    /// After so many slices the gate before the next is closed.
    slices_open: AtomicUsize,
    /// Before parts of indexes.
    builds: Gate,
    /// So many parts of indexes find the disk full.
    builds_to_fail: AtomicUsize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Slice,
    Group(usize),
    DryRun,
    Build,
}

impl Noted {
    fn note(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }

    fn take_steps(&self) -> Vec<Step> {
        std::mem::take(&mut self.steps.lock().unwrap())
    }
}

impl StoreHooks for Noted {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.of_guests.lock().unwrap().push(listing.of_guest);
        let stopped = self.lists_stop.lock().unwrap().clone();
        if let Some(error) = stopped {
            // Those who join have time to.
            let mut was_polled = false;
            return Box::pin(poll_fn(move |context| {
                if std::mem::replace(&mut was_polled, true) {
                    return Poll::Ready(Err(error.clone()));
                }
                context.waker().wake_by_ref();
                Poll::Pending
            }));
        }
        self.inner.list(listing)
    }

    fn offload(&self, kind: OffloadKind, of_guest: bool, work: Work) -> StoreFuture<'static, ()> {
        self.of_guests.lock().unwrap().push(of_guest);
        self.inner.offload(kind, of_guest, work)
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        let builds = |op: &Op| match op {
            Op::Catalogue(CatalogueOp::ChangeSchema { change, .. }) => {
                matches!(change, SchemaChange::BuildIndex(_))
            }
            _ => false,
        };
        if batches.iter().flat_map(|batch| &batch.ops).any(builds) {
            self.builds.pass();
            self.note(Step::Build);
            let fewer = |left: usize| left.checked_sub(1);
            let left = &self.builds_to_fail;
            let fails = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
            if fails.is_ok() {
                return Box::pin(async { Err(StoreError::Full) });
            }
        } else {
            self.groups.pass();
            self.note(Step::Group(batches.len()));
        }
        self.inner.apply(batches, first)
    }

    fn activate_due(&self, instant: Timestamp) -> StoreFuture<'_, Box<dyn Pending>> {
        if self.slices_open.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.slices.close();
        }
        self.slices.pass();
        self.note(Step::Slice);
        self.inner.activate_due(instant)
    }

    fn preview<'a>(
        &'a self,
        trials: &'a [Trial],
        first: Mark,
        limit_ms: u64,
    ) -> StoreFuture<'a, Box<dyn Preview>> {
        assert!([100, 1_000].contains(&limit_ms), "of guests, or of keys");
        self.note(Step::DryRun);
        // None may end for being slow: a machine that does much else takes long for each.
        self.inner.preview(trials, first, PREVIEW_MS)
    }
}

struct Site {
    _directory: tempfile::TempDir,
    store: Arc<Hooked<Noted>>,
    engine: Arc<Engine>,
    clock: Arc<TickingClock>,
}

fn site() -> Site {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path());
    let clock = TickingClock::at(NEW_YEAR_US);
    let store = Arc::new(Hooked(Noted {
        inner: open_store(&config),
        slices: Gate::default(),
        groups: Gate::default(),
        steps: Mutex::default(),
        of_guests: Mutex::default(),
        lists_stop: Mutex::default(),
        slices_open: AtomicUsize::new(usize::MAX),
        builds: Gate::default(),
        builds_to_fail: AtomicUsize::new(0),
    }));
    let engine = Engine::over(store.clone(), &config, clock.clone()).unwrap();
    furnish(&engine);
    let mut open = new_table("open");
    let everybody = ["read", "create", "update"].map(|action| format!("{action}(\"any\")"));
    open.permissions = everybody.to_vec();
    block_on(engine.create_table(&key(), "d", open)).unwrap();
    Site {
        _directory: directory,
        store,
        engine,
        clock,
    }
}

const OPEN: Place<'static> = Place {
    database: "d",
    table: "open",
};

const PREVIEW_MS: u64 = 60_000;

/// So that many writes are done in as much time, however slow the machine.
const BUILD_TAKES: Duration = Duration::from_millis(900);

const DUE_IN_US: i64 = 60_000_000;

fn list(engine: &Engine, place: Place<'_>, queries: &[&str]) -> ListAnswer {
    let texts: Vec<String> = queries.iter().map(|text| (*text).to_owned()).collect();
    let asked = ListRows {
        place,
        ..list_rows_of(&texts)
    };
    block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap()
}

/// Half of the rows begin at one instant, and half of them end then and hand their numbers over.
fn schedule(engine: &Engine, count: usize) {
    let due = Json::Int(NEW_YEAR_US + DUE_IN_US);
    for kind in ["old", "new"] {
        for from in (0..count / 2).step_by(5_000) {
            let rows = (from..(from + 5_000).min(count / 2)).map(|nth| {
                let mut row = row(&format!("{kind}{nth}"), &[("n", nth as i64)]);
                let (key, other) = match kind {
                    "old" => ("$validTo", ("$validFrom", Json::Int(NEW_YEAR_US))),
                    _ => ("$validFrom", ("$validTo", Json::Null)),
                };
                row.members.push((key.to_owned(), due.clone()));
                row.members.push((other.0.to_owned(), other.1));
                row
            });
            block_on(engine.create_rows(&key(), PLACE, rows.collect())).unwrap();
        }
    }
}

type Created = Result<(), EngineError>;

fn create<'a>(engine: &'a Engine, place: Place<'a>, row: RowInput) -> Asked<'a, Created> {
    Box::pin(async move { engine.create_row(&key(), place, row).await.map(drop) })
}

fn update(engine: &Engine, row: RowInput) -> Asked<'_, Created> {
    Box::pin(async move { engine.update_row(&key(), PLACE, row, None).await.map(drop) })
}

#[test]
fn very_many_rows_that_become_due_at_once_hold_up_a_write_for_one_slice() {
    let is_night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let due: usize = if is_night { 50_000 } else { 10_000 };
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    schedule(engine, due);
    block_on(create(engine, PLACE, row("always", &[("n", -1)]))).unwrap();
    assert_eq!(
        list(engine, PLACE, &[]).total,
        5_000,
        "as many as are counted"
    );
    store.take_steps();
    store.slices_open.store(0, Ordering::SeqCst);
    site.clock.step_us(DUE_IN_US);
    let fifth = r#"{"method":"equal","attribute":"n","values":[4]}"#;
    // The caller that meets what is due has it activated.
    assert_eq!(list(engine, PLACE, &[fifth]).total, 1);
    store.slices.wait_until_reached();
    let writes = vec![
        create(engine, OPEN, row("beside", &[("n", 1)])),
        update(engine, row("always", &[("m", 1)])),
        // The last one that begins, and one that has ended.
        update(engine, row(&format!("new{}", due / 2 - 1), &[("m", 1)])),
        create(
            engine,
            PLACE,
            row(&format!("old{}", due / 2 - 1), &[("n", -2)]),
        ),
    ];
    let writes: Vec<_> = writes.into_iter().map(enqueue).collect();
    let texts = [fifth.to_owned()];
    let asked = Bulk {
        place: PLACE,
        texts: &texts,
        unchanged_since: None,
    };
    let changes = [("m".to_owned(), Json::Int(7))];
    let caller = key();
    // It looks at all rows, and so waits for all that are due.
    let matching: Asked<'_, _> = Box::pin(engine.update_rows(&caller, &asked, &changes));
    let mut matching = enqueue(matching);
    store.slices_open.store(3, Ordering::SeqCst);
    store.slices.open();
    for write in writes {
        assert_eq!(block_on(write), Ok(()));
    }
    store.slices.wait_until_reached();
    let steps = store.take_steps();
    assert_eq!(steps[..2], [Step::Slice, Step::Group(5)]);
    assert!(poll_once(&mut matching).is_pending());
    // Lists in between are as of now, and no reader takes them from the cache.
    for _ in 0..2 {
        let found = list(engine, PLACE, &[fifth]);
        assert_eq!((found.total, found.cached.is_some()), (1, false));
        assert!(String::from_utf8_lossy(&found.rows).contains(" new4 "));
    }
    store.slices_open.store(usize::MAX, Ordering::SeqCst);
    store.slices.open();
    assert_eq!(block_on(matching).unwrap().answer.total, 1);
    let steps = [steps, store.take_steps()].concat();
    let slices = steps.iter().filter(|step| **step == Step::Slice).count();
    // The first group activates as many more for the write that looks at all.
    assert_eq!(slices + 1, due / DUE_ROWS_MAX, "{steps:?}");
    list(engine, PLACE, &[fifth]);
    let found = list(engine, PLACE, &[fifth]);
    assert!(found.cached.is_some_and(|cached| cached.is_hit));
    assert!(String::from_utf8_lossy(&found.rows).contains("Int(7)"));
    engine.close().unwrap();
}

/// A table with too many rows for its index to be built at once.
const TEXTS: Place<'_> = Place {
    table: "texts",
    ..PLACE
};

fn texts(engine: &Engine) {
    let mut table = new_table("texts");
    table.columns.push(NewColumn {
        kind: "text".to_owned(),
        ..integer("text")
    });
    block_on(engine.create_table(&key(), "d", table)).unwrap();
    for part in 0..3 {
        let rows = (0..1_000).map(|nth| {
            let mut row = row(&format!("{part}-{nth}"), &[]);
            let text = Json::Text("words".to_owned());
            row.members.push(("text".to_owned(), text));
            row
        });
        block_on(engine.create_rows(&key(), TEXTS, rows.collect())).unwrap();
    }
}

fn index_texts(engine: &Engine) {
    let index = NewIndex {
        key: "words".to_owned(),
        kind: "fulltext".to_owned(),
        columns: vec!["text".to_owned()],
        ..NewIndex::default()
    };
    block_on(engine.create_index(&key(), TEXTS, &index)).unwrap();
}

/// A client that writes one row after the other is not waiting while its answer is on its way.
#[test]
fn an_index_lets_writers_that_wait_go_on_for_as_long_as_a_part_took() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    let write = |nth: i64| create(engine, OPEN, row(&format!("row{nth}"), &[("n", nth)]));
    texts(engine);
    store.builds.close();
    index_texts(engine);
    store.builds.wait_until_reached();
    let first = enqueue(write(0));
    let until = Instant::now() + BUILD_TAKES;
    while Instant::now() < until {
        std::thread::park_timeout(BUILD_TAKES);
    }
    store.take_steps();
    store.builds.open();
    block_on(first).unwrap();
    (1..20).for_each(|nth| block_on(write(nth)).unwrap());
    let steps = store.take_steps();
    let mut parts = steps.split(|step| *step == Step::Build);
    assert_eq!(parts.next(), Some(&[][..]), "{steps:?}");
    assert!(parts.next().unwrap().len() > 5, "{steps:?}");
    engine.close().unwrap();
}

#[test]
fn an_index_that_found_no_disk_is_built_when_there_is_some() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    texts(engine);
    store.builds_to_fail.store(1, Ordering::SeqCst);
    index_texts(engine);
    let status = || engine.get_index(&key(), TEXTS, "words").unwrap().1.status;
    let until = Instant::now() + Duration::from_mins(1);
    while status() == IndexStatus::Processing && Instant::now() < until {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_eq!(status(), IndexStatus::Available);
    assert_eq!(store.builds_to_fail.load(Ordering::SeqCst), 0);
    engine.close().unwrap();
}

fn user() -> Caller {
    let roles = ["any", "users", "user:ann", "user:ann/verified"];
    let roles = roles.map(|role| Role::parse(role).unwrap());
    Caller {
        project: key().project,
        actor: Actor::User {
            roles: Arc::new(RoleSet::new(roles.to_vec())),
        },
        request: None,
        meta: None,
        function: None,
    }
}

/// Changes of one row of 5 MB, each of which fills a group.
#[test]
fn large_rows_of_callers_without_a_key_are_written_behind_what_keys_write() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    let user = user();
    let mut table = new_table("wide");
    table.permissions = vec!["update(\"any\")".to_owned()];
    table.columns.push(NewColumn {
        kind: "longtext".to_owned(),
        ..integer("text")
    });
    block_on(engine.create_table(&key(), "d", table)).unwrap();
    let wide = Place {
        table: "wide",
        ..PLACE
    };
    let mut large = row("large", &[("n", 0)]);
    let text = Json::Text("x".repeat(5 << 20));
    large.members.push(("text".to_owned(), text));
    block_on(engine.create_row(&key(), wide, large)).unwrap();
    let change = |nth: i64| -> Asked<'_, Created> {
        let user = &user;
        Box::pin(async move {
            let row = row("large", &[("n", nth)]);
            engine.update_row(user, wide, row, None).await.map(drop)
        })
    };
    store.groups.close();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(create(engine, OPEN, row("held", &[("n", 1)]))));
        store.groups.wait_until_reached();
        store.take_steps();
        let changes = [1, 2, 3].map(|nth| enqueue(change(nth)));
        let mut of_key = enqueue(create(engine, OPEN, row("a", &[("n", 1)])));
        store.groups.open();
        held.join().unwrap().unwrap();
        for (left, change) in (0..3).rev().zip(changes) {
            block_on(change).unwrap();
            // The first group with a change has the key's row as well.
            assert!(left < 2 || poll_once(&mut of_key).is_ready());
        }
        let groups = [Step::Group(4), Step::Group(2), Step::Group(1)];
        assert!(store.take_steps().ends_with(&groups));
    });
    engine.close().unwrap();
}

#[test]
fn guests_who_try_much_take_no_place_from_writers_nor_from_keys() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    let (user, key) = (user(), key());
    let asked = ListRows {
        place: OPEN,
        ..list_rows_of(&[])
    };
    let dry_run = |caller| -> Asked<'_, _> {
        let read = engine.list_rows(caller, &asked, View::Staged("t"));
        Box::pin(async move { read.await.map(|answer| answer.total) })
    };
    block_on(engine.create_transaction(&user, "t", 600)).unwrap();
    let staged = Operation {
        database: "d".into(),
        table: "open".into(),
        act: Act::Create(row("staged", &[("n", 1)])),
        unchanged_since: None,
    };
    block_on(engine.stage(&user, "t", vec![staged])).unwrap();
    store.groups.close();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(create(engine, OPEN, row("held", &[("n", 1)]))));
        store.groups.wait_until_reached();
        store.take_steps();
        let mut dry_runs = Vec::new();
        let refused = loop {
            let mut one = dry_run(&user);
            match poll_once(&mut one) {
                Poll::Pending => dry_runs.push(one),
                Poll::Ready(answer) => break answer.unwrap_err(),
            }
        };
        let waiting_max = dry_runs.len();
        assert_eq!(
            refused,
            EngineError::Unavailable(Unavailable::DryRunsBusy { waiting_max })
        );
        // Neither a write nor who has a key is refused for that.
        let write = enqueue(create(engine, OPEN, row("a", &[("n", 1)])));
        let of_key = enqueue(dry_run(&key));
        assert_eq!(engine.writes().waiting, 1);
        store.groups.open();
        assert_eq!(held.join().unwrap(), Ok(()));
        assert_eq!(block_on(write), Ok(()));
        // It goes before those of guests, after the group that was held.
        assert_eq!(block_on(of_key), Ok(2));
        for dry_run in dry_runs {
            assert!(block_on(dry_run).unwrap() >= 2);
        }
        let steps = store.take_steps();
        let tried = steps.iter().filter(|step| **step == Step::DryRun).count();
        assert_eq!(tried, waiting_max + 1);
    });
    engine.close().unwrap();
}

/// So many rows that they are read on a thread for long reads.
fn many(as_of: Option<Mark>) -> Vec<BatchRead> {
    let id = RowId::new("a").unwrap();
    vec![BatchRead {
        table: "open".to_owned(),
        rows: WantedRows::Ids(vec![id; 60]),
        texts: Vec::new(),
        as_of,
        valid_at: None,
    }]
}

#[test]
fn no_thread_for_long_reads_is_held_while_the_writer_is_busy() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    block_on(create(engine, OPEN, row("a", &[("n", 1)]))).unwrap();
    store.groups.close();
    let key = key();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| block_on(create(engine, OPEN, row("held", &[("n", 1)]))));
        store.groups.wait_until_reached();
        store.of_guests.lock().unwrap().clear();
        // A commit may still take this mark.
        let pending = Mark(site.clock.look().0);
        let asked = many(Some(pending));
        let mut waiting: Vec<Asked<'_, _>> = (0..8)
            .map(|_| -> Asked<'_, _> { Box::pin(engine.read_batch(&key, "d", asked.clone())) })
            .collect();
        assert!(waiting.iter_mut().all(|one| poll_once(one).is_pending()));
        let (noted, read) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let found = block_on(engine.read_batch(&fixture::key(), "d", many(None)));
            noted.send(found.map(|found| found.answer.len())).unwrap();
        });
        let read = read.recv_timeout(Duration::from_mins(1));
        store.groups.open();
        assert_eq!(read.expect("a thread is free"), Ok(1));
        assert_eq!(held.join().unwrap(), Ok(()));
        for one in waiting {
            let found = block_on(one).unwrap().answer;
            let at = found[0].as_ref().unwrap().at.unwrap();
            assert_eq!(at.system, pending);
        }
        // Each began again once: it had waited for what it needs.
        assert_eq!(store.of_guests.lock().unwrap().len(), 17);
    });
    engine.close().unwrap();
}

#[test]
fn reads_of_guests_count_in_their_share() {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    block_on(create(engine, OPEN, row("a", &[("n", 1)]))).unwrap();
    let open_past = OptionsChange {
        past: Some("now".to_owned()),
        ..OptionsChange::default()
    };
    block_on(engine.set_table_options(&key(), OPEN, &open_past)).unwrap();
    for (caller, of_guest) in [(user(), true), (fixture::guest(), true), (key(), false)] {
        // No other caller's answer is kept.
        let id = format!("b{}", site.clock.look().0);
        block_on(create(engine, OPEN, row(&id, &[("n", 1)]))).unwrap();
        let mark = format!(r#"{{"method":"asOf","values":[{}]}}"#, site.clock.look().0);
        let past = [mark];
        store.of_guests.lock().unwrap().clear();
        for (texts, ttl_s) in [(&[][..], 0), (&[][..], 60), (&past[..], 0)] {
            let asked = ListRows {
                place: OPEN,
                ttl_s,
                bypass: true,
                ..list_rows_of(texts)
            };
            block_on(engine.list_rows(&caller, &asked, View::CURRENT)).unwrap();
        }
        block_on(engine.list_rows_pinned(&caller, OPEN, &[], None)).unwrap();
        block_on(engine.read_batch(&caller, "d", many(None))).unwrap();
        let noted = std::mem::take(&mut *store.of_guests.lock().unwrap());
        assert!(noted.len() >= 4, "{noted:?}");
        assert!(noted.iter().all(|one| *one == of_guest), "{noted:?}");
    }
    engine.close().unwrap();
}

/// How many reads of the store four lists of the same rows begin that are asked for at once, each
/// of which is stopped by `error`, and what they answer.
fn lists_stopped_by(error: &StoreError, caller: &Caller) -> (usize, Vec<EngineError>) {
    let site = site();
    let (engine, store) = (&*site.engine, &*site.store);
    *store.lists_stop.lock().unwrap() = Some(error.clone());
    store.of_guests.lock().unwrap().clear();
    let asked = ListRows {
        place: OPEN,
        ..list_rows_of(&[])
    };
    let lists = (0..4)
        .map(|_| -> Asked<'_, _> { Box::pin(engine.list_rows(caller, &asked, View::CURRENT)) });
    let lists: Vec<_> = lists.map(enqueue).collect();
    let answers = lists.into_iter().map(|list| block_on(list).unwrap_err());
    let answers = answers.collect();
    let begun = store.of_guests.lock().unwrap().len();
    engine.close().unwrap();
    (begun, answers)
}

#[test]
fn a_list_that_is_stopped_at_its_limit_is_not_begun_again_by_those_who_joined_it() {
    let limit_ms = 10_000;
    for caller in [key(), guest()] {
        let (begun, answers) = lists_stopped_by(&StoreError::Timeout { limit_ms }, &caller);
        assert_eq!(begun, 1);
        assert_eq!(
            answers,
            vec![EngineError::Read(ReadError::Timeout { limit_ms }); 4]
        );
    }
}

#[test]
fn a_list_for_which_no_thread_is_free_is_begun_again_by_keys_alone() {
    let busy = StoreError::ReadersBusy { waiting_max: 1 };
    let (begun, answers) = lists_stopped_by(&busy, &guest());
    assert_eq!(begun, 1);
    assert_eq!(
        answers,
        vec![EngineError::Read(ReadError::ReadersBusy { waiting_max: 1 }); 4]
    );
    // What they joined may have been read for a guest, who has fewer places.
    let (begun, answers) = lists_stopped_by(&busy, &key());
    assert!(begun >= 4, "{begun}");
    assert_eq!(
        answers,
        vec![EngineError::Read(ReadError::ReadersBusy { waiting_max: 1 }); 4]
    );
}
