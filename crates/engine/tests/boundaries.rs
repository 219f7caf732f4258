//! Reads across an instant at which rows begin and end by themselves: whatever comes between two
//! of their steps, they show what could be seen at one instant.

mod fixture;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use engine::{
    BatchRead, Config, Engine, EngineError, Family, ListRows, NewRelationship, Place, ReadError,
    RowInput, View, WantedRows,
};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, key, list_rows_of, new_table, row,
};
use futures_executor::block_on;
use model::{Json, Mark, Page, Row, RowId, Timestamp};
use store::{
    DUE_ROWS_MAX, Listed, Listing, Pending, Point, Snapshot, Store, StoreError, StoreFuture,
    WriteBatch,
};
use testing::{Hooked, OwnTurn, StoreHooks, on_commit};

const SECOND_US: i64 = 1_000_000;

type Act = Box<dyn FnOnce(&Engine) + Send>;

/// The real store, in which something happens just before a read.
struct Meanwhile {
    inner: Arc<dyn Store>,
    clock: Arc<TickingClock>,
    engine: OnceLock<Arc<Engine>>,
    /// Before which of the reads to come, and what.
    act: Mutex<Option<(usize, Act)>>,
    reads: AtomicUsize,
    /// A boundary passes while the next commit is made durable.
    commits_across: Arc<AtomicBool>,
    /// What is due cannot be activated.
    activates_nothing: AtomicBool,
    /// So many slices of it come in before the next read is over.
    slices: AtomicUsize,
    /// Another one waits for that.
    slice_waits: AtomicBool,
}

impl Meanwhile {
    fn arm(&self, read: usize, act: impl FnOnce(&Engine) + Send + 'static) {
        self.reads.store(0, Ordering::SeqCst);
        *self.act.lock().unwrap() = Some((read, Box::new(act)));
    }

    fn is_armed(&self) -> bool {
        self.act.lock().unwrap().is_some()
    }

    fn pause_for_test(&self) {
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        let act = self.act.lock().unwrap().take_if(|(at, _)| *at == read);
        if let (Some((_, act)), Some(engine)) = (act, self.engine.get()) {
            // The thread that polls this one may not wait for others.
            std::thread::scope(|scope| {
                scope.spawn(|| act(engine));
            });
        }
    }
}

impl StoreHooks for Meanwhile {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.pause_for_test();
        let read = self.inner.list(listing);
        if self.slice_waits.load(Ordering::SeqCst) {
            self.slices.store(usize::MAX, Ordering::SeqCst);
        }
        read
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        self.pause_for_test();
        self.inner.get(point)
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        Box::pin(async move {
            let applied = self.inner.apply(batches, first).await?;
            let clock = self.clock.clone();
            let is_across = self.commits_across.swap(false, Ordering::SeqCst);
            Ok(on_commit(applied, move |applied| {
                if is_across {
                    clock.step_us(SECOND_US);
                }
                applied.commit()
            }))
        })
    }

    fn activate_due(&self, instant: Timestamp) -> StoreFuture<'_, Box<dyn Pending>> {
        if self.activates_nothing.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(StoreError::Full)));
        }
        let take = |left: usize| left.checked_sub(1);
        while self
            .slices
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
            .is_err()
        {
            self.slice_waits.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
        self.inner.activate_due(instant)
    }
}

/// A row that ends in a second, one that begins then, and one that stays.
fn with_rows(test: impl FnOnce(&Arc<Hooked<Meanwhile>>, &Engine)) {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let config = config(directory.path());
    let store = Arc::new(Hooked(Meanwhile {
        inner: fixture::open_store(&config),
        clock: clock.clone(),
        engine: OnceLock::new(),
        act: Mutex::default(),
        reads: AtomicUsize::new(0),
        commits_across: Arc::default(),
        activates_nothing: AtomicBool::new(false),
        slices: AtomicUsize::new(usize::MAX),
        slice_waits: AtomicBool::new(false),
    }));
    let engine = Engine::over(store.clone(), &config, clock).unwrap();
    assert!(store.engine.set(engine.clone()).is_ok());
    furnish(&engine);
    let instant = Json::Int(NEW_YEAR_US + SECOND_US);
    let over = |id: &str, name: &str| {
        let mut over = row(id, &[("n", 1)]);
        over.members.push((name.to_owned(), instant.clone()));
        over
    };
    for row in [
        row("stays", &[("n", 1)]),
        over("ends", "$validTo"),
        over("begins", "$validFrom"),
    ] {
        block_on(engine.create_row(&key(), PLACE, row)).unwrap();
    }
    test(&store, &engine);
    engine.close().unwrap();
}

fn update(engine: &Engine, row: RowInput) {
    block_on(engine.update_row(&key(), PLACE, row, None)).unwrap();
}

/// Just before a read, a commit becomes visible that has taken longer than the boundary.
fn commit_across(store: &Arc<Hooked<Meanwhile>>, id: &'static str) {
    let meanwhile = store.clone();
    store.activates_nothing.store(true, Ordering::SeqCst);
    store.arm(0, move |engine| {
        meanwhile.commits_across.store(true, Ordering::SeqCst);
        update(engine, row(id, &[("m", 7)]));
    });
}

fn list(engine: &Engine, bypass: bool, texts: &[String]) -> String {
    list_of(engine, PLACE, bypass, texts)
}

fn list_of(engine: &Engine, place: Place<'_>, bypass: bool, texts: &[String]) -> String {
    let list = ListRows {
        place,
        bypass,
        ..list_rows_of(texts)
    };
    let answer = block_on(engine.list_rows(&key(), &list, View::CURRENT)).unwrap();
    let rows = String::from_utf8(answer.rows.to_vec()).unwrap();
    assert_eq!(answer.total, rows.lines().count() as u64, "{rows}");
    rows
}

#[test]
fn a_list_shows_no_commit_without_what_began_and_ended_before_it() {
    for bypass in [false, true] {
        with_rows(|store, engine| {
            commit_across(store, "stays");
            let rows = list(engine, bypass, &[]);
            assert!(!store.is_armed());
            let has = |id: &str| rows.contains(&format!(" {id} "));
            let seen = (has("stays"), has("begins"), has("ends"));
            assert_eq!(seen, (true, true, false), "{rows}");
            assert!(rows.contains("Int(7)"), "{rows}");
        });
    }
}

#[test]
fn a_list_of_an_overdue_table_passes_the_next_boundary_as_well() {
    with_rows(|store, engine| {
        // The first boundary has passed and was not activated; another one follows.
        let mut later = row("later", &[("n", 1)]);
        let instant = Json::Int(NEW_YEAR_US + 2 * SECOND_US);
        later.members.push(("$validTo".to_owned(), instant));
        block_on(engine.create_row(&key(), PLACE, later)).unwrap();
        store.activates_nothing.store(true, Ordering::SeqCst);
        store.clock.step_us(SECOND_US);
        assert!(list(engine, false, &[]).contains(" later "));
        commit_across(store, "stays");
        let rows = list(engine, false, &[]);
        assert!(!store.is_armed());
        assert!(
            rows.contains("Int(7)") && !rows.contains(" later "),
            "{rows}"
        );
    });
}

#[test]
fn a_row_that_has_ended_shows_no_commit_that_came_after_its_end() {
    let ends = RowId::new("ends").unwrap();
    with_rows(|store, engine| {
        commit_across(store, "ends");
        let read = block_on(fixture::get_row(
            engine,
            &key(),
            PLACE,
            &ends,
            &[],
            View::CURRENT,
        ));
        assert!(!store.is_armed());
        assert!(
            matches!(read, Err(EngineError::Read(ReadError::RowNotFound(_)))),
            "{read:?}"
        );
    });
}

#[test]
fn a_row_that_has_ended_is_not_read_at_once_by_a_later_commit() {
    let ends = RowId::new("ends").unwrap();
    with_rows(|store, engine| {
        let table = engine.prepare_table(&key(), PLACE).unwrap();
        assert!(engine.row_at_once(&table, &ends, |_, _| ()).is_some());
        commit_across(store, "ends");
        assert!(engine.row_at_once(&table, &ends, |_, _| ()).is_none());
        assert!(!store.is_armed());
    });
}

#[test]
fn the_parts_of_one_answer_are_on_one_side_of_a_boundary() {
    with_rows(|store, engine| {
        let meanwhile = store.clone();
        store.arm(2, move |engine| {
            meanwhile.clock.step_us(SECOND_US);
            assert!(read_all(engine)[2], "it has been activated");
        });
        assert_eq!(read_all(engine), [true, false, true]);
        assert!(!store.is_armed());
    });
}

/// Just before a read, very many rows end, and only a part of that comes in.
fn end_in_part(store: &Arc<Hooked<Meanwhile>>) {
    let meanwhile = store.clone();
    store.slices.store(1, Ordering::SeqCst);
    store.arm(0, move |engine| {
        meanwhile.clock.step_us(SECOND_US);
        // The caller that meets what is due has it activated.
        let stays = RowId::new("stays").unwrap();
        block_on(fixture::get_row(
            engine,
            &key(),
            PLACE,
            &stays,
            &[],
            View::CURRENT,
        ))
        .unwrap();
        while !meanwhile.slice_waits.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    });
}

fn limit() -> String {
    r#"{"method":"limit","values":[5000]}"#.to_owned()
}

/// More rows than come in at once, all of which end in a second.
fn very_many() -> impl Iterator<Item = RowInput> {
    let instant = Json::Int(NEW_YEAR_US + SECOND_US);
    (0..DUE_ROWS_MAX + 500).map(move |n| {
        let mut ends = row(&format!("old{n}"), &[("n", 1)]);
        ends.members.push(("$validTo".to_owned(), instant.clone()));
        ends
    })
}

#[test]
fn rows_that_begin_and_end_at_one_instant_are_seen_together() {
    for bypass in [false, true] {
        with_rows(|store, engine| {
            block_on(engine.create_rows(&key(), PLACE, very_many().collect())).unwrap();
            assert_eq!(
                list(engine, true, &[limit()]).lines().count(),
                DUE_ROWS_MAX + 502
            );
            end_in_part(store);
            let rows = list(engine, bypass, &[limit()]);
            assert!(!store.is_armed());
            assert_eq!(rows.lines().count(), 2, "{rows}");
        });
    }
}

/// Another table, each row of which is about one of the first.
const NOTES: Place<'static> = Place {
    database: "d",
    table: "notes",
};

/// A note on the row that stays.
fn note(mut row: RowInput) -> RowInput {
    let of = Json::Text("stays".to_owned());
    row.members.push(("of".to_owned(), of));
    row
}

fn write_notes(engine: &Engine, rows: impl IntoIterator<Item = RowInput>) {
    block_on(engine.create_table(&key(), "d", new_table("notes"))).unwrap();
    let relationship = NewRelationship {
        related: "t".into(),
        kind: "manyToOne".into(),
        two_way: false,
        key: Some("of".into()),
        partner_key: None,
        on_delete: None,
    };
    block_on(engine.create_relationship(&key(), NOTES, &relationship)).unwrap();
    for row in rows {
        block_on(engine.create_row(&key(), NOTES, note(row))).unwrap();
    }
}

fn list_notes(engine: &Engine, bypass: bool) -> String {
    let of = r#"{"method":"equal","attribute":"of","values":["stays"]}"#;
    list_of(engine, NOTES, bypass, &[limit(), of.to_owned()])
}

#[test]
fn a_filter_on_related_rows_sees_one_instant_as_well() {
    with_rows(|store, engine| {
        write_notes(engine, very_many().chain([row("new", &[])]));
        assert_eq!(list_notes(engine, true).lines().count(), DUE_ROWS_MAX + 501);
        end_in_part(store);
        let rows = list_notes(engine, true);
        assert_eq!(rows.lines().count(), 1, "{rows}");
        assert!(!store.is_armed());
    });
}

#[test]
fn a_filter_on_related_rows_is_answered_while_nothing_can_be_brought_in() {
    for bypass in [false, true] {
        with_rows(|store, engine| {
            let over = |id: &str, name: &str| {
                let mut over = row(id, &[]);
                let instant = Json::Int(NEW_YEAR_US + SECOND_US);
                over.members.push((name.to_owned(), instant));
                over
            };
            let notes = [over("begun", "$validFrom"), over("ended", "$validTo")];
            write_notes(engine, notes.into_iter().chain([row("new", &[])]));
            store.activates_nothing.store(true, Ordering::SeqCst);
            store.clock.step_us(SECOND_US);
            let rows = list_notes(engine, bypass);
            let has = |id: &str| rows.contains(&format!(" {id} "));
            let seen = (has("new"), has("begun"), has("ended"));
            assert_eq!(seen, (true, true, false), "{rows}");
        });
    }
}

/// Whether each row is there.
fn read_all(engine: &Engine) -> [bool; 3] {
    let ids = ["stays", "ends", "begins"].map(|id| RowId::new(id).unwrap());
    let asked = BatchRead {
        table: "t".to_owned(),
        rows: WantedRows::Ids(ids.to_vec()),
        texts: Vec::new(),
        as_of: None,
        valid_at: None,
    };
    let read = block_on(engine.read_batch(&key(), "d", vec![asked])).unwrap();
    let part = read.answer.into_iter().next().unwrap().unwrap();
    [0, 1, 2].map(|at| part.places[at].is_some())
}

/// Whose time passes while the next page is encoded.
static CROSSING: Mutex<Option<Arc<TickingClock>>> = Mutex::new(None);
/// Pages that were encoded.
static ENCODED: AtomicUsize = AtomicUsize::new(0);

fn encode_across(page: &Page, family: Family) -> Vec<u8> {
    ENCODED.fetch_add(1, Ordering::SeqCst);
    if let Some(clock) = CROSSING.lock().unwrap().take() {
        clock.step_us(SECOND_US);
    }
    fixture::encode_page(page, family)
}

#[test]
fn boundaries_that_pass_while_a_list_is_encoded_do_not_repeat_it() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let config = Config {
        encode_page: encode_across,
        ..config(directory.path())
    };
    let engine = fixture::start(config, clock.clone()).unwrap();
    furnish(&engine);
    let mut ends = row("ends", &[("n", 1)]);
    let instant = Json::Int(NEW_YEAR_US + SECOND_US);
    ends.members.push(("$validTo".to_owned(), instant));
    block_on(engine.create_row(&key(), PLACE, ends)).unwrap();
    block_on(engine.create_row(&key(), PLACE, row("stays", &[("n", 1)]))).unwrap();
    ENCODED.store(0, Ordering::SeqCst);
    *CROSSING.lock().unwrap() = Some(clock);
    assert!(list(&engine, false, &[]).contains(" ends "));
    assert_eq!(ENCODED.swap(0, Ordering::SeqCst), 1);
    assert!(!list(&engine, false, &[]).contains(" ends "));
    engine.close().unwrap();
}
