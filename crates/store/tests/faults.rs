//! Each way SQLite can fail: a caller that did not fail loses nothing, and whatever failed has left
//! nothing behind and succeeds when it is tried again.

mod suite;
mod vfs;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_executor::block_on;
use model::{Mark, Row, Timestamp, Value};
use store::{
    Boundaries, CatalogueOp, Changes, Committed, Durability, Listed, Listing, Loaded, Op, Options,
    Outcome, Pending, Point, Refusal, Snapshot, Store, StoreError, StoreFuture, WriteBatch,
};
use suite::db::{COUNT, Db, Place, TITLE, encode_row, note, notes_called, row_id};
use tempfile::TempDir;
use testing::{Hooked, OwnTurn, StoreHooks, UpkeepHooks, at_once};
use vfs::{Armed, Fault, Op as Call, Outcome as Ends, RecordingVfs, Role};

/// A data directory behind a VFS of its own.
struct Bench {
    root: TempDir,
    vfs: RecordingVfs,
}

impl Bench {
    fn new() -> Bench {
        // Names are shared by all tests of the process.
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let root = tempfile::tempdir().unwrap();
        let name = format!("faults-{}", NAMES.fetch_add(1, Ordering::Relaxed));
        let vfs = RecordingVfs::register(&name, root.path()).unwrap();
        Bench { root, vfs }
    }

    fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        store::open(Options {
            place: self.root.path().join("data").into(),
            durability: Durability::Full,
            encode_row,
            reader_cache_bytes: 1 << 20,
            read_limit_ms: 60_000,
            long_reads: suite::db::LONG_READS,
            vfs: Some(self.vfs.name().to_owned()),
        })
    }
}

impl Place for Bench {
    fn open(&self) -> Arc<dyn Store> {
        self.try_open().unwrap()
    }
}

const OLD_ROWS: i64 = 1_200;

/// The files of a store with `OLD_ROWS` rows, made once and copied for each fault. A store that
/// is opened again has read nothing yet, so that its first operations reach the disk.
fn template() -> TempDir {
    let bench = Bench::new();
    let mut db = Db::with_notes(&bench);
    let rows = (0..OLD_ROWS).map(|n| db.insert(&format!("r{n}"), counted(&format!("r{n}"), n)));
    db.ok(rows.collect());
    db.close();
    let Bench { root, .. } = bench;
    root
}

fn copied(template: &Path) -> Bench {
    let bench = Bench::new();
    let (from, to) = (template.join("data"), bench.root.path().join("data"));
    std::fs::create_dir(&to).unwrap();
    std::fs::copy(from.join("tidemark.db"), to.join("tidemark.db")).unwrap();
    bench
}

fn counted(title: &str, count: i64) -> Vec<Value> {
    let mut values = note(title);
    values[COUNT] = Value::Int(count);
    values
}

/// What the table `notes` should hold: the count of each id.
type Expected = BTreeMap<String, i64>;

fn old_rows() -> Expected {
    (0..OLD_ROWS).map(|n| (format!("r{n}"), n)).collect()
}

/// A batch of a group, and what it does if it is applied.
struct Member {
    batch: WriteBatch,
    effect: fn(&mut Expected),
    /// What it is refused with even when nothing fails.
    refusal: Option<Refusal>,
}

fn member(batch: WriteBatch, effect: fn(&mut Expected)) -> Member {
    Member {
        batch,
        effect,
        refusal: None,
    }
}

/// Sets the count of the rows that have one of two, far apart.
fn set_matching(db: &Db) -> Op {
    let counts = [50, 1_000].map(Value::Int).to_vec();
    let query = query::Query {
        filter: query::Filter::Field(model::Field::Column(COUNT), query::Test::In(counts)),
        ..db.all()
    };
    let patch = vec![(COUNT, Value::Int(-50))];
    Op::Matching(Box::new(store::MatchingOp {
        query,
        may_leave_rows: true,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act: store::MatchingAct::Update {
            patch: patch.into(),
            permissions: None,
            stamps: store::Stamps::default(),
            range: None,
        },
        rows_returned_max: 10,
    }))
}

/// Small batches all over the table.
fn small_group(db: &Db) -> Vec<Member> {
    let count = |n| vec![(COUNT, Value::Int(n))];
    let table = Op::Catalogue(CatalogueOp::CreateTable(Box::new(notes_called("extra"))));
    vec![
        member(db.batch(vec![db.insert("n0", counted("n0", 10))]), |rows| {
            rows.insert("n0".into(), 10);
        }),
        member(
            db.batch(vec![
                db.update("r100", count(-1)),
                db.update("r900", count(-2)),
            ]),
            |rows| {
                rows.insert("r100".into(), -1);
                rows.insert("r900".into(), -2);
            },
        ),
        member(
            db.batch(vec![db.insert("n2", counted("n2", 12)), db.delete("r700")]),
            |rows| {
                rows.insert("n2".into(), 12);
                rows.remove("r700");
            },
        ),
        member(db.batch(vec![set_matching(db)]), |rows| {
            for id in ["r50", "r1000"] {
                rows.insert(id.into(), -50);
            }
        }),
        Member {
            refusal: Some(Refusal::RowExists(row_id("r5"))),
            ..member(
                db.batch(vec![
                    db.update("r6", count(-6)),
                    db.insert("r5", note("again")),
                ]),
                |_| unreachable!("refused"),
            )
        },
        member(
            db.batch(vec![
                db.delete("r1199"),
                db.insert("r1199", counted("n5", 5)),
            ]),
            |rows| {
                rows.insert("r1199".into(), 5);
            },
        ),
        member(db.batch(vec![table]), |_| {}),
    ]
}

/// One batch too large for the writer's cache, between two small ones: its pages go to the log
/// while it runs.
fn large_group(db: &Db) -> Vec<Member> {
    let wide = |n: i64| {
        let text = format!("{n}{}", "x".repeat(15_000));
        db.update(
            &format!("r{n}"),
            vec![(TITLE, Value::Text(text)), (COUNT, Value::Int(-n))],
        )
    };
    vec![
        member(db.batch(vec![db.insert("n0", counted("n0", 10))]), |rows| {
            rows.insert("n0".into(), 10);
        }),
        member(db.batch((0..1_000).map(wide).collect()), |rows| {
            rows.extend((0..1_000).map(|n| (format!("r{n}"), -n)));
        }),
        // Without an author: the others with one would wait for the next group.
        member(
            WriteBatch {
                author: None,
                ..db.batch(vec![db.delete("r1100")])
            },
            |rows| {
                rows.remove("r1100");
            },
        ),
    ]
}

/// What the table holds, read in both ways.
#[track_caller]
fn stored(db: &Db) -> Expected {
    let mut query = db.all();
    query.selection = model::Selection::Some {
        columns: vec![COUNT],
        fields: vec![],
        permissions: false,
    };
    let read = |rows: Vec<Row>| -> Expected {
        let pair = |row: Row| match row.content {
            model::Content::Values(values) => match values[..] {
                [Value::Int(count)] => (row.id.to_string(), count),
                _ => panic!("{values:?}"),
            },
            model::Content::Body(_) => panic!("one column was asked for"),
        };
        rows.into_iter().map(pair).collect()
    };
    let now = read(db.list(&query).rows);
    let mark = db.load().mark;
    query.at = Some(model::Coordinates {
        valid: mark.timestamp(),
        system: mark,
    });
    assert_eq!(
        read(db.list(&query).rows),
        now,
        "versions and rows of now differ"
    );
    now
}

/// Applies the group with `fault` armed during `apply` alone, and holds the outcomes and what is
/// stored against each other. Says whether the fault struck.
#[track_caller]
fn check_apply(template: &Path, group: fn(&Db) -> Vec<Member>, fault: Fault) -> bool {
    let bench = copied(template);
    let mut db = Db::open(&bench);
    let members = group(&db);
    let batches: Vec<WriteBatch> = members.iter().map(|member| member.batch.clone()).collect();
    let armed = bench.vfs.arm(fault.clone());
    let applied = block_on(db.store.apply(&batches, db.next));
    bench.vfs.disarm_all();
    let struck = armed.strikes() > 0;
    let mut expected = old_rows();
    match applied {
        // No transaction could be begun: no caller was served, and nothing has happened.
        Err(_) => assert!(struck, "an error without a fault"),
        Ok(pending) => {
            let outcomes = testing::done(block_on(pending.commit())).unwrap();
            judge(&members, &outcomes, &mut expected, struck);
            db.next = Mark(db.next.0 + 1_000);
        }
    }
    db.catalogue = db.load().catalogue;
    assert_eq!(stored(&db), expected, "{fault:?}");
    // Whatever happened, the writer goes on, with what a restart would find.
    let has_extra = db.database().tables.contains_key("extra");
    db.ok(vec![db.insert("after", counted("after", 1))]);
    expected.insert("after".into(), 1);
    db.close();
    let db = Db::open(&bench);
    assert_eq!(stored(&db), expected, "reopened, {fault:?}");
    assert_eq!(db.database().tables.contains_key("extra"), has_extra);
    assert_record_is_whole(&bench, &db);
    struck
}

/// The numbers of the commits are dense, each names the one before, and each touched row has a
/// version that begins or ends with its commit.
#[track_caller]
fn assert_record_is_whole(bench: &Bench, db: &Db) {
    let connection = bench.vfs.open("data/tidemark.db").unwrap();
    let count = |sql: &str| -> i64 { connection.query_row(sql, (), |row| row.get(0)).unwrap() };
    let commits = "SELECT n, prev, lag(tt, 1, 0) OVER (ORDER BY tt) AS before, \
                   row_number() OVER (ORDER BY tt) AS place FROM tx";
    let odd = format!("SELECT count(*) FROM ({commits}) WHERE n <> place OR prev <> before");
    assert_eq!(count(&odd), 0, "commits are not numbered without a gap");
    let number = db.table().number.0;
    let touched = format!(
        "SELECT count(*) FROM tx_row AS r WHERE tab = {number} AND NOT EXISTS (\
         SELECT 1 FROM t{number}_v AS v WHERE v.id = r.id AND (v.sf = r.tt OR v.cut_tt = r.tt))"
    );
    assert_eq!(
        count(&touched),
        0,
        "a row is said to be touched, and has no version of that"
    );
    let versions = format!(
        "SELECT count(*) FROM t{number}_v AS v WHERE NOT EXISTS (\
         SELECT 1 FROM tx_row AS r WHERE r.tab = {number} AND r.id = v.id AND r.tt = v.sf)"
    );
    assert_eq!(
        count(&versions),
        0,
        "a version is there, and its commit does not say so"
    );
}

/// At most the one batch that met the fault has failed; all others are as without it.
#[track_caller]
fn judge(members: &[Member], outcomes: &[Outcome], expected: &mut Expected, struck: bool) {
    let mut failed = 0;
    for (member, outcome) in members.iter().zip(outcomes) {
        match outcome {
            Ok(applied) => {
                assert!(member.refusal.is_none(), "{applied:?}");
                assert!(applied.mark.is_some());
                (member.effect)(expected);
            }
            Err(Refusal::Failed(_)) => failed += 1,
            Err(refusal) => assert_eq!(Some(refusal), member.refusal.as_ref()),
        }
    }
    assert!(
        failed <= u32::from(struck),
        "{failed} batches failed of one fault"
    );
}

/// Lets the fault strike the first call, then one `stride` calls later, and so on until there are
/// no more; how often it struck.
fn sweep(template: &Path, group: fn(&Db) -> Vec<Member>, fault: Fault, stride: u64) -> u64 {
    let mut struck = 0;
    while check_apply(template, group, fault.clone().after(struck * stride)) {
        struck += 1;
    }
    struck
}

#[test]
fn a_read_that_fails_inside_a_batch_concerns_that_batch_alone() {
    let template = template();
    for (ends, stride) in [
        (Ends::ReadError, 1),
        (Ends::OutOfMemory, 2),
        (Ends::OutOfMemoryInIo, 3),
        (Ends::Interrupt, 2),
    ] {
        let fault = Fault::new(Call::Read, ends).on(Role::Db);
        let struck = sweep(template.path(), small_group, fault, stride);
        assert!(struck * stride > 20, "{ends:?} struck {struck} times only");
    }
}

#[test]
fn a_write_that_fails_inside_a_batch_concerns_that_batch_alone() {
    let template = template();
    for ends in [
        Ends::Full,
        Ends::ShortWrite,
        Ends::WriteError,
        Ends::OutOfMemoryInIo,
        Ends::Interrupt,
    ] {
        let fault = Fault::new(Call::Write, ends).on(Role::Wal);
        let struck = sweep(template.path(), large_group, fault, 41);
        assert!(struck > 1, "{ends:?} struck {struck} times only");
    }
}

#[test]
fn a_disk_that_stays_full_serves_nobody_and_harms_nobody() {
    let template = template();
    let bench = copied(template.path());
    let mut db = Db::open(&bench);
    let batches: Vec<WriteBatch> = large_group(&db)
        .into_iter()
        .map(|member| member.batch)
        .collect();
    let armed = bench
        .vfs
        .arm(Fault::new(Call::Write, Ends::Full).on(Role::Wal).always());
    let pending = block_on(db.store.apply(&batches, db.next)).unwrap();
    assert_eq!(
        pending.outcomes()[1].as_ref().unwrap_err(),
        &Refusal::Failed(StoreError::Full)
    );
    assert!(pending.outcomes()[0].is_ok() && pending.outcomes()[2].is_ok());
    assert_eq!(
        testing::done(block_on(pending.commit())).unwrap_err(),
        StoreError::Full
    );
    assert!(armed.strikes() > 1);
    assert_eq!(stored(&db), old_rows());
    bench.vfs.disarm_all();
    assert!(db.commit(&batches).iter().all(Result::is_ok));
    assert_eq!(stored(&db).len(), old_rows().len());
}

#[test]
fn a_commit_that_fails_shows_nothing_and_succeeds_again() {
    let faults = [
        (Call::Write, Ends::Full),
        (Call::Write, Ends::ShortWrite),
        (Call::Write, Ends::WriteError),
        (Call::Write, Ends::OutOfMemoryInIo),
        (Call::Sync, Ends::SyncError),
    ];
    let template = template();
    for (call, ends) in faults {
        // The log is written in few pieces: each of them fails once.
        for skip in 0.. {
            let bench = copied(template.path());
            let mut db = Db::open(&bench);
            let members = small_group(&db);
            let batches: Vec<WriteBatch> =
                members.iter().map(|member| member.batch.clone()).collect();
            let pending = block_on(db.store.apply(&batches, db.next)).unwrap();
            let armed = bench
                .vfs
                .arm(Fault::new(call, ends).on(Role::Wal).after(skip));
            let committed = testing::done(block_on(pending.commit()));
            bench.vfs.disarm_all();
            if armed.strikes() == 0 {
                assert!(committed.is_ok() && skip > 0, "{call:?} {ends:?}");
                break;
            }
            assert!(committed.is_err(), "{call:?} {ends:?} after {skip}");
            assert_eq!(stored(&db), old_rows(), "{call:?} {ends:?} after {skip}");
            let mut expected = old_rows();
            let outcomes = db.commit(&batches);
            judge(&members, &outcomes, &mut expected, false);
            assert_eq!(stored(&db), expected);
            db.close();
            assert_eq!(stored(&Db::open(&bench)), expected);
        }
    }
}

#[test]
fn opening_survives_every_fault() {
    let template = template();
    for (call, role, ends) in [
        (Call::Open, Role::Db, Ends::CannotOpen),
        (Call::Open, Role::Wal, Ends::CannotOpen),
        (Call::Read, Role::Db, Ends::ReadError),
        (Call::Read, Role::Db, Ends::OutOfMemory),
        (Call::Write, Role::Wal, Ends::Full),
        (Call::Sync, Role::Wal, Ends::SyncError),
    ] {
        // A new directory and an old one.
        for old in [false, true] {
            let mut skip = 0;
            loop {
                let bench = if old {
                    copied(template.path())
                } else {
                    Bench::new()
                };
                let armed = bench.vfs.arm(Fault::new(call, ends).on(role).after(skip));
                let opened = bench.try_open();
                bench.vfs.disarm_all();
                if armed.strikes() == 0 {
                    opened.map(drop).unwrap();
                    break;
                }
                drop(opened);
                let db = Db::open(&bench);
                if old {
                    assert_eq!(stored(&db), old_rows(), "{call:?} {ends:?} after {skip}");
                } else {
                    assert_eq!(db.load().mark, Mark::ZERO);
                }
                skip += 1;
            }
        }
    }
}

/// A store whose calls meet a fault now and then. One that fails is made again without a fault,
/// and must then succeed as if it had never been made before.
struct Retrying {
    inner: Arc<dyn Store>,
    faults: Arc<Faults>,
}

/// Where the faults come from, and how many have struck.
struct Faults {
    bench: Bench,
    chance: AtomicU64,
    struck: AtomicU64,
}

impl Faults {
    /// A number below `bound`, from a sequence that is the same in every run: the generator of
    /// Lehmer with the constants of Park and Miller (Communications of the ACM 31, 1988).
    fn draw(&self, bound: u64) -> u64 {
        let step = |state: u64| Some(state * 48_271 % 0x7fff_ffff);
        let state = self
            .chance
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
        state.expect("the step always gives a state") % bound
    }

    /// Arms one fault of some kind for one of the next calls.
    fn arm(&self) -> Armed {
        const FAULTS: &[(Call, Role, Ends)] = &[
            (Call::Write, Role::Wal, Ends::Full),
            (Call::Write, Role::Wal, Ends::ShortWrite),
            (Call::Write, Role::Wal, Ends::WriteError),
            (Call::Sync, Role::Wal, Ends::SyncError),
            (Call::Read, Role::Db, Ends::ReadError),
            (Call::Read, Role::Wal, Ends::ReadError),
            (Call::Read, Role::Wal, Ends::OutOfMemory),
            (Call::Read, Role::Db, Ends::OutOfMemoryInIo),
            (Call::Read, Role::Wal, Ends::Interrupt),
            (Call::Write, Role::Wal, Ends::Interrupt),
            (Call::Write, Role::Db, Ends::WriteError),
        ];
        let (call, role, ends) = FAULTS[self.draw(FAULTS.len() as u64) as usize];
        self.bench
            .vfs
            .arm(Fault::new(call, ends).on(role).after(self.draw(4)))
    }

    /// Makes a call with a fault armed; if it fails of it, once more without.
    fn call<T>(&self, call: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let armed = self.arm();
        let answer = call();
        self.bench.vfs.disarm_all();
        self.struck.fetch_add(armed.strikes(), Ordering::SeqCst);
        if answer.is_err() && armed.strikes() > 0 {
            call()
        } else {
            answer
        }
    }
}

impl StoreHooks for Retrying {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn upkeep(&self) -> Option<&dyn UpkeepHooks> {
        Some(self)
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        let listed = self.faults.call(|| block_on(self.inner.list(listing)));
        Box::pin(std::future::ready(listed))
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        let found = self.faults.call(|| block_on(self.inner.get(point)));
        Box::pin(std::future::ready(found))
    }

    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        let applied = self.faults.call(|| {
            let pending = at_once(self.inner.apply(batches, first))?;
            // A batch that failed is a failed call here: dropped and run again, all of it.
            let failed = pending.outcomes().iter().find_map(|outcome| match outcome {
                Err(Refusal::Failed(error)) => Some(error.clone()),
                _ => None,
            });
            failed.map_or(Ok(pending), Err)
        });
        let pending = applied.map(|pending| -> Box<dyn Pending> {
            Box::new(RetryingPending {
                pending: Some(pending),
                batches: batches.to_vec(),
                first,
                inner: self.inner.clone(),
                faults: self.faults.clone(),
            })
        });
        Box::pin(std::future::ready(pending))
    }

    fn activate_due(&self, instant: Timestamp) -> StoreFuture<'_, Box<dyn Pending>> {
        let activated = self
            .faults
            .call(|| at_once(self.inner.activate_due(instant)));
        Box::pin(std::future::ready(activated))
    }
}

impl UpkeepHooks for Retrying {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    fn load(&self) -> StoreFuture<'_, Loaded> {
        let loaded = self.faults.call(|| block_on(self.inner.load()));
        Box::pin(std::future::ready(loaded))
    }

    fn reserve(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        let reserved = self.faults.call(|| at_once(self.inner.reserve(horizon)));
        Box::pin(std::future::ready(reserved))
    }

    fn run_upkeep(&self) -> StoreFuture<'_, bool> {
        let done = self.faults.call(|| at_once(self.inner.run_upkeep()));
        Box::pin(std::future::ready(done))
    }

    fn close(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        let closed = self.faults.call(|| block_on(self.inner.close(horizon)));
        Box::pin(std::future::ready(closed))
    }
}

struct RetryingPending {
    pending: Option<Box<dyn Pending>>,
    batches: Vec<WriteBatch>,
    first: Mark,
    inner: Arc<dyn Store>,
    faults: Arc<Faults>,
}

impl Pending for RetryingPending {
    fn outcomes(&self) -> &[Outcome] {
        self.pending
            .as_ref()
            .expect("taken by the commit alone")
            .outcomes()
    }

    fn due(&self) -> &[Changes] {
        self.pending
            .as_ref()
            .expect("taken by the commit alone")
            .due()
    }

    fn boundaries(&self) -> Boundaries {
        self.pending
            .as_ref()
            .expect("taken by the commit alone")
            .boundaries()
    }

    fn commit(mut self: Box<Self>) -> StoreFuture<'static, Committed> {
        let mut first_try = self.pending.take();
        let pending = std::cell::RefCell::new(&mut first_try);
        let committed = self.faults.call(|| {
            let pending = match pending.borrow_mut().take() {
                Some(pending) => pending,
                // Nothing of it was visible, so the same marks are free.
                None => block_on(self.inner.apply(&self.batches, self.first))?,
            };
            testing::done(block_on(pending.commit()))
        });
        Box::pin(std::future::ready(committed.map(Committed::Done)))
    }
}

struct FaultyPlace(Arc<Faults>);

impl Place for FaultyPlace {
    fn open(&self) -> Arc<dyn Store> {
        let inner = self.0.call(|| self.0.bench.try_open()).unwrap();
        Arc::new(Hooked(Retrying {
            inner,
            faults: self.0.clone(),
        }))
    }
}

#[test]
fn the_contract_holds_when_calls_fail_now_and_then() {
    let mut struck = 0;
    let mut failed = Vec::new();
    for (number, (name, case)) in suite::CASES.iter().enumerate() {
        let faults = Arc::new(Faults {
            bench: Bench::new(),
            chance: AtomicU64::new(number as u64 * 7_919 + 1),
            struck: AtomicU64::new(0),
        });
        let place = FaultyPlace(faults.clone());
        if catch_unwind(AssertUnwindSafe(|| case(&place))).is_err() {
            failed.push(*name);
        }
        struck += faults.struck.load(Ordering::SeqCst);
    }
    assert!(failed.is_empty(), "failed: {failed:#?}");
    assert!(struck > 100, "only {struck} faults struck");
}
