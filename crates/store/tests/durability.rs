//! Acknowledged means on disk. A run is recorded call by call; at every point of it the power
//! goes off, all that no sync covered is gone, and the real store is opened on what is left.

mod suite;
mod vfs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use model::{
    Coordinates, DeploymentId, FunctionDefinition, FunctionId, Mark, ProjectId, Timestamp, Value,
};
use store::{
    CatalogueOp, Durability, ExecutionStatus, ExecutionTrigger, FunctionName, FunctionOp,
    NewExecution, Op, Options, QUEUED_BYTES_MAX, QUEUED_MAX, QueueBounds, QueueOp, QueuedCall,
    QueuedExecution, Store, StoreError, WriteBatch,
};
use suite::db::{
    COUNT, Db, Place, TITLE, content, create_database, create_project, encode_row, note, notes,
    notes_called,
};
use tempfile::TempDir;
use vfs::{Fault, Loss, Op as Call, Outcome as Ends, RecordingVfs, Role, What};

/// Groups of the recorded run.
const GROUPS: u64 = 32;
/// The group with which the log passes the 4 MiB that start a checkpoint.
const FULL_LOG: u64 = 8;

struct Directory {
    path: PathBuf,
    durability: Durability,
    vfs: Option<String>,
}

impl Place for Directory {
    fn open(&self) -> Arc<dyn Store> {
        store::open(Options {
            place: self.path.clone().into(),
            durability: self.durability,
            encode_row,
            reader_cache_bytes: 1 << 20,
            read_limit_ms: 60_000,
            long_reads: suite::db::LONG_READS,
            vfs: self.vfs.clone(),
        })
        .unwrap()
    }
}

/// What a store holds, as one text, by the mark of its last commit.
type States = BTreeMap<Mark, String>;

struct Recorded {
    _root: TempDir,
    vfs: RecordingVfs,
    states: States,
    /// The mark of each group, in order.
    marks: Vec<Mark>,
}

/// Everything a store shows: the rows of now, which must equal the versions at its own mark.
fn describe(db: &Db) -> String {
    let Some(project) = db.catalogue.project(suite::db::PROJECT) else {
        return "no project".to_owned();
    };
    let mut tables: Vec<String> = project
        .databases
        .values()
        .flat_map(|database| database.tables.keys().map(ToString::to_string))
        .collect();
    tables.sort();
    if !tables.iter().any(|id| id == "notes") {
        return format!("{} databases, {tables:?}", project.databases.len());
    }
    let rows = |at| {
        let mut query = db.all();
        query.at = at;
        let show = |row: &model::Row| format!("{} {}\n", row.seq, content(row, &db.table()));
        db.list(&query).rows.iter().map(show).collect::<String>()
    };
    let mark = db.load().mark;
    let now = rows(None);
    let versions = rows(Some(Coordinates {
        valid: mark.timestamp(),
        system: mark,
    }));
    assert_eq!(now, versions, "versions and rows of now differ");
    format!("{tables:?}\n{now}")
}

/// A group of three batches: everyday changes, now and then one that fills the log, so that
/// checkpoints fall into the run, and now and then a table.
fn group(db: &Db, number: u64) -> Vec<WriteBatch> {
    let id = |offset: u64| format!("r{}", (number + offset) % 7);
    let change = |offset: u64| {
        let id = id(offset);
        if db.get(&id).is_none() {
            return db.insert(&id, note(&id));
        }
        let count = vec![(COUNT, Value::Int(number as i64))];
        if (number + offset).is_multiple_of(5) {
            db.delete(&id)
        } else {
            db.update(&id, count)
        }
    };
    let mut batches = vec![
        db.batch(vec![change(0), change(1)]),
        db.batch(vec![
            db.insert(&format!("n{number}"), note(&format!("n{number}"))),
        ]),
    ];
    if number.is_multiple_of(8) {
        let wide = |n: u64| {
            let id = format!("w{number}-{n}");
            let mut values = note(&id);
            values[TITLE] = Value::Text(format!("{id}{}", "x".repeat(12_000)));
            db.insert(&id, values)
        };
        batches.push(db.batch((0..80).map(wide).collect()));
    }
    if number.is_multiple_of(10) {
        let table = notes_called(&format!("t{number}"));
        batches.push(
            db.batch(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
                table,
            )))]),
        );
    }
    batches
}

/// Runs the groups on a recorded disk and notes when each was acknowledged.
fn record(name: &str, durability: Durability) -> Recorded {
    let root = tempfile::tempdir().unwrap();
    let vfs = RecordingVfs::register(name, root.path()).unwrap();
    let place = Directory {
        path: root.path().join("data"),
        durability,
        vfs: Some(vfs.name().to_owned()),
    };
    let mut db = Db::open(&place);
    let mut states = States::from([(Mark::ZERO, describe(&db))]);
    let (mut marks, mut failed) = (Vec::new(), 0);
    for number in 0..GROUPS {
        let batches = match number {
            0 => vec![db.batch(vec![Op::Catalogue(create_project(suite::db::PROJECT))])],
            1 => vec![db.batch(vec![Op::Catalogue(create_database(suite::db::DATABASE))])],
            2 => {
                let table = CatalogueOp::CreateTable(Box::new(notes()));
                vec![db.batch(vec![Op::Catalogue(table)])]
            }
            _ => group(&db, number),
        };
        // Now and then a sync fails: the group is not acknowledged, and the disk may have lost what
        // was written. The same group then comes again.
        if number % 9 == 4 && durability == Durability::Full {
            vfs.arm(Fault::new(Call::Sync, Ends::SyncError).on(Role::Wal));
        }
        let hold = (number == FULL_LOG).then(|| vfs.hold(Call::Sync, Role::Db));
        let committed = db.try_commit(&batches);
        vfs.disarm_all();
        failed += u64::from(committed.is_err());
        let outcomes = committed.unwrap_or_else(|_| db.commit(&batches));
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        vfs.log().note("acknowledged", number);
        if let Some(hold) = hold {
            // All pages are carried over, but not synced; what follows happens beside the sync.
            hold.wait_until_reached();
        }
        let mark = db.load().mark;
        marks.push(mark);
        states.insert(mark, describe(&db));
    }
    // A checkpoint that ran just then may have met a fault instead, but not each one.
    assert_eq!(failed > 0, durability == Durability::Full);
    db.close();
    Recorded {
        _root: root,
        vfs,
        states,
        marks,
    }
}

/// Opens what is left and says which mark it is at; whatever it is at must be whole.
fn reopen(directory: &Path, states: &States) -> Mark {
    let place = Directory {
        path: directory.join("data"),
        durability: Durability::Normal,
        vfs: None,
    };
    let look = || {
        let db = Db::open(&place);
        let mark = db.load().mark;
        let expected = states
            .get(&mark)
            .unwrap_or_else(|| panic!("half a group at {mark:?}"));
        assert_eq!(describe(&db), *expected, "at {mark:?}");
        mark
    };
    // A thread of its own, because each thread that reads keeps its connection.
    thread::scope(|scope| scope.spawn(look).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

/// Crashes at every point. How many acknowledged groups were missing, summed over the points, and
/// how many stores were opened.
fn crash_everywhere(recorded: &Recorded, loss: Loss) -> (u64, u64) {
    let rebuilt = tempfile::tempdir().unwrap();
    let mut crashes = recorded.vfs.log().crashes();
    let mut acknowledged: Option<usize> = None;
    let (mut seen, mut found): (Option<u64>, Option<Mark>) = (None, None);
    let (mut missing, mut opened) = (0, 0);
    while let Some(point) = crashes.advance() {
        let is_note = matches!(point.event().what, What::Note { .. });
        if let What::Note {
            label: "acknowledged",
            number,
        } = point.event().what
        {
            acknowledged = Some(number as usize);
        }
        // Where all that no sync covered is gone, points between two syncs leave the same files
        // and need one look. Otherwise each differs; a look at each sync and note is enough.
        let is_new = seen != Some(point.state_number());
        if is_new || (is_note && loss != Loss::Unsynced) {
            seen = Some(point.state_number());
            let directory = rebuilt.path().join(point.seq().to_string());
            point.write_to(&directory, loss).unwrap();
            found = Some(reopen(&directory, &recorded.states));
            std::fs::remove_dir_all(&directory).unwrap();
            opened += 1;
        }
        let needed = acknowledged.map_or(Mark::ZERO, |number| recorded.marks[number]);
        missing += u64::from(found.unwrap_or(Mark::ZERO) < needed);
    }
    assert_eq!(acknowledged, Some(recorded.marks.len() - 1));
    (missing, opened)
}

#[test]
fn an_acknowledged_group_survives_every_crash_whole() {
    let recorded = record("durability-full", Durability::Full);
    for loss in [Loss::Unsynced, Loss::UnsyncedOnly, Loss::Seeded(1)] {
        let (missing, opened) = crash_everywhere(&recorded, loss);
        assert_eq!(missing, 0, "acknowledged groups were gone, {loss:?}");
        assert!(opened >= GROUPS, "{opened}");
    }
}

/// Calls that wrote to the log while one row was committed, on a disk that is safe or is not.
fn writes_of_a_commit(name: &str, is_safe: bool) -> Vec<usize> {
    let root = tempfile::tempdir().unwrap();
    let vfs = RecordingVfs::register(name, root.path()).unwrap();
    if !is_safe {
        vfs.damage_neighbours();
    }
    let mut db = Db::with_notes(&Directory {
        path: root.path().join("data"),
        durability: Durability::Full,
        vfs: Some(name.to_owned()),
    });
    let before = vfs.log().events().len();
    let op = db.insert("r", note("r"));
    db.ok(vec![op]);
    let events = vfs.log().events();
    let written = events[before..]
        .iter()
        .filter_map(|event| match &event.what {
            What::Wrote { file, bytes, .. } if file.role == Role::Wal => Some(bytes.len()),
            _ => None,
        });
    written.collect()
}

#[test]
fn a_log_is_written_in_one_piece_only_where_a_torn_write_damages_nothing_else() {
    let safe = writes_of_a_commit("safe", true);
    assert_eq!(safe.len(), 1, "{safe:?}");
    let unsafe_ = writes_of_a_commit("unsafe", false);
    assert!(unsafe_.len() > 2, "{unsafe_:?}");
    assert!(unsafe_.iter().all(|bytes| *bytes <= 4_096), "{unsafe_:?}");
}

#[test]
fn normal_durability_may_lose_the_last_groups_but_never_a_part_of_one() {
    let recorded = record("durability-normal", Durability::Normal);
    let (missing, _) = crash_everywhere(&recorded, Loss::Unsynced);
    assert!(
        missing > 0,
        "without syncs something must be lost, or this test cannot see losses"
    );
    crash_everywhere(&recorded, Loss::Seeded(2));
    // The death of the process alone loses nothing.
    let (missing, _) = crash_everywhere(&recorded, Loss::Nothing);
    assert_eq!(missing, 0);
}

/// What became of a commit that met faults, and of its group after crashes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    struck: u64,
    is_unknown: bool,
    /// Crashes after which the group was there.
    came_up: u64,
}

/// Commits `a`, lets `b` meet the faults, commits `c`, and crashes at each point since `b` was
/// answered.
fn fail_one_commit(durability: Durability, is_new_log: bool, faults: &[Fault]) -> Verdict {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let root = tempfile::tempdir().unwrap();
    let name = format!("refused-{}", NAMES.fetch_add(1, Ordering::Relaxed));
    let vfs = RecordingVfs::register(&name, root.path()).unwrap();
    let place = Directory {
        path: root.path().join("data"),
        durability,
        vfs: Some(vfs.name().to_owned()),
    };
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("a"))]);
    if is_new_log {
        db.close();
        db = Db::open(&place);
    }
    let armed: Vec<_> = faults.iter().map(|fault| vfs.arm(fault.clone())).collect();
    let batches = [db.batch(vec![db.insert("b", note("b"))])];
    let failed = db.try_commit(&batches);
    vfs.disarm_all();
    let mut verdict = Verdict {
        struck: armed.iter().map(vfs::Armed::strikes).sum(),
        ..Verdict::default()
    };
    let Err(error) = failed else {
        return verdict;
    };
    verdict.is_unknown = matches!(error, StoreError::OutcomeUnknown { .. });
    let answered = vfs.log().note("answered", 0);
    let next = [db.batch(vec![db.insert("c", note("c"))])];
    let next = db.try_commit(&next);
    assert_eq!(next.is_err(), verdict.is_unknown, "{next:?}");
    if let Err(error) = next {
        assert_eq!(error, StoreError::Stopped);
        assert_eq!(db.ids(), ["a"], "what is known goes on being read");
    }
    let acknowledged = vfs.log().note("acknowledged", 0);
    db.close();
    verdict.came_up = crash_between(&vfs, answered, acknowledged, |loss, is_last, ids| {
        let has = |id: &str| ids.iter().any(|there| there == id);
        let told = format!("{ids:?} with {loss:?} after {faults:?}");
        if durability == Durability::Full || loss == Loss::Nothing {
            assert!(has("a"), "{told}");
            assert!(has("c") || verdict.is_unknown || !is_last, "{told}");
        }
        assert!(verdict.is_unknown || !has("b"), "{told}");
        has("b")
    });
    verdict
}

/// Crashes at each point between two notes, and hands over what is found then: how the crash was,
/// whether it was at the second note, and the rows. How often that said yes.
fn crash_between(
    vfs: &RecordingVfs,
    from: u64,
    to: u64,
    look: impl Fn(Loss, bool, &[String]) -> bool,
) -> u64 {
    let rebuilt = tempfile::tempdir().unwrap();
    let mut yes = 0;
    for loss in [
        Loss::Unsynced,
        Loss::UnsyncedOnly,
        Loss::Nothing,
        Loss::Seeded(7),
    ] {
        let mut crashes = vfs.log().crashes();
        while let Some(point) = crashes.advance() {
            let seq = point.seq();
            if (from..=to).contains(&seq) {
                let directory = rebuilt.path().join(format!("{seq}-{loss:?}"));
                point.write_to(&directory, loss).unwrap();
                yes += u64::from(look(loss, seq == to, &ids_in(&directory)));
                std::fs::remove_dir_all(&directory).unwrap();
            }
        }
    }
    yes
}

/// The rows of a store that is opened there.
fn ids_in(directory: &Path) -> Vec<String> {
    let place = Directory {
        path: directory.join("data"),
        durability: Durability::Normal,
        vfs: None,
    };
    let look = || match Db::open(&place) {
        db if db.catalogue.project(suite::db::PROJECT).is_some() => db.ids(),
        _ => Vec::new(),
    };
    thread::scope(|scope| scope.spawn(look).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

const FAILED_WRITES: [Ends; 3] = [Ends::Full, Ends::ShortWrite, Ends::WriteError];

#[test]
fn a_refused_commit_stays_refused_after_every_crash() {
    // Without syncs the log is written in two calls a page.
    for (durability, is_new_log, stride) in [
        (Durability::Full, false, 1),
        (Durability::Full, true, 1),
        (Durability::Normal, false, 9),
    ] {
        let writes = FAILED_WRITES.map(|ends| (Call::Write, ends));
        let mut refused = 0;
        for (call, ends) in writes.into_iter().chain([(Call::Sync, Ends::SyncError)]) {
            for skip in (0..).step_by(stride) {
                let fault = Fault::new(call, ends).on(Role::Wal).after(skip);
                let verdict = fail_one_commit(durability, is_new_log, &[fault]);
                if verdict.struck == 0 {
                    break;
                }
                assert!(!verdict.is_unknown, "{call:?} {ends:?} after {skip}");
                refused += 1;
            }
        }
        assert!(refused >= 4, "{refused} commits failed, {durability:?}");
    }
}

#[test]
fn a_commit_that_cannot_be_taken_back_is_of_unknown_outcome() {
    let mut came_up = 0;
    for second in [
        Fault::new(Call::Truncate, Ends::TruncateError),
        Fault::new(Call::Sync, Ends::SyncError).after(1),
    ] {
        let first = Fault::new(Call::Sync, Ends::SyncError).on(Role::Wal);
        let faults = [first, second.on(Role::Wal)];
        let verdict = fail_one_commit(Durability::Full, false, &faults);
        assert!(verdict.is_unknown, "{verdict:?}");
        came_up += verdict.came_up;
    }
    assert!(came_up > 0, "a log that was not cut brings it up");
}

/// 2026-01-01T00:00:00Z, where the marks of tests begin.
const NEW_YEAR_US: i64 = 1_767_225_600_000_000;

/// An execution that waits: the answer 202 is sent when its commit has returned.
fn execution(id: &str) -> NewExecution {
    NewExecution {
        function: FunctionName {
            project: ProjectId::new(suite::db::PROJECT).unwrap(),
            id: FunctionId::new("f").unwrap(),
        },
        function_seq: 1,
        queued: QueuedExecution {
            seq: 0,
            id: id.to_owned(),
            trigger: ExecutionTrigger::Http,
            deployment: DeploymentId::new("d").unwrap(),
            due: Timestamp(1),
            is_scheduled: false,
            attempt: 0,
            lease: None,
            method: "POST".to_owned(),
            path: "/".to_owned(),
            depth: 0,
            // Records of long ago are not kept.
            created: Timestamp(NEW_YEAR_US),
            updated: Timestamp(NEW_YEAR_US),
        },
        call: QueuedCall::default(),
    }
}

/// How many executions wait in what a crash has left, and how many have ended; none before there
/// is a database.
fn executions_in(directory: &Path) -> (usize, usize) {
    let place = Directory {
        path: directory.join("data"),
        durability: Durability::Normal,
        vfs: None,
    };
    let look = || {
        let store = Db::open(&place).store;
        let waits = futures_executor::block_on(store.queued_executions(1)).unwrap();
        let ended = futures_executor::block_on(store.executions(1)).unwrap();
        (waits.len(), ended.len())
    };
    thread::scope(|scope| scope.spawn(look).join()).unwrap()
}

/// Queues executions on a recorded disk, and ends every other one; notes when each was answered.
fn record_executions(place: &Directory, (vfs, count): (&RecordingVfs, usize)) {
    let mut db = Db::open(place);
    db.ok(vec![Op::Catalogue(create_project(suite::db::PROJECT))]);
    let new = execution("");
    let definition = FunctionDefinition::new("F".to_owned(), "node-22".to_owned());
    let create = CatalogueOp::CreateFunction(new.function.clone(), Box::new(definition));
    db.ok(vec![Op::Catalogue(create)]);
    let bounds = QueueBounds {
        count_max: QUEUED_MAX,
        bytes_max: QUEUED_BYTES_MAX,
    };
    let queue = |op| vec![Op::Function(FunctionOp::Queue(op))];
    for nth in 0..count {
        let new = execution(&format!("e{nth}"));
        let put = QueueOp::Put(Arc::from([new]), bounds);
        db.ok(queue(put));
        vfs.log().note("accepted", nth as u64 + 1);
        // Every other one ends at once, which its caller may read then.
        if nth % 2 == 1 {
            let id = format!("e{nth}");
            let waits = db.store.queued_execution(1, &id);
            let waits = futures_executor::block_on(waits).unwrap().unwrap();
            let mut record = waits.record(Timestamp(NEW_YEAR_US));
            record.status = ExecutionStatus::Completed;
            db.ok(queue(QueueOp::End {
                seq: waits.seq,
                function: execution("").function,
                function_seq: 1,
                record: Box::new(record),
            }));
            vfs.log().note("ended", nth as u64 / 2 + 1);
        }
    }
    db.close();
}

#[test]
fn executions_that_are_accepted_or_ended_are_on_disk_before_that_is_said() {
    const COUNT: usize = 12;
    let root = tempfile::tempdir().unwrap();
    let vfs = RecordingVfs::register("accepted-executions", root.path()).unwrap();
    let place = Directory {
        path: root.path().join("data"),
        durability: Durability::Full,
        vfs: Some(vfs.name().to_owned()),
    };
    record_executions(&place, (&vfs, COUNT));
    let rebuilt = tempfile::tempdir().unwrap();
    let mut crashes = vfs.log().crashes();
    let (mut accepted, mut ended, mut seen, mut looks) = (0, 0, None, 0);
    let mut found = (0, 0);
    while let Some(point) = crashes.advance() {
        match point.event().what {
            What::Note {
                label: "accepted",
                number,
            } => accepted = number as usize,
            What::Note {
                label: "ended",
                number,
            } => ended = number as usize,
            _ => {}
        }
        if accepted == 0 {
            continue;
        }
        if seen != Some(point.state_number()) {
            seen = Some(point.state_number());
            let directory = rebuilt.path().join(point.seq().to_string());
            point.write_to(&directory, Loss::Unsynced).unwrap();
            found = executions_in(&directory);
            looks += 1;
        }
        assert!(
            found.0 + found.1 >= accepted,
            "{accepted} accepted: {found:?}"
        );
        assert!(found.1 >= ended, "{ended} ended: {found:?}");
    }
    assert_eq!((accepted, ended), (COUNT, COUNT / 2));
    assert!(looks > COUNT, "{looks}");
}
