//! What stands beside rows, and what is encrypted, against the directory that it was copied from.

use std::fmt::Debug;
use std::sync::Arc;

use futures_executor::block_on;
use model::{
    DeploymentId, FunctionDefinition, FunctionId, Mark, ProjectId, Selection, Table, Timestamp,
    Value, VariableId,
};
use query::{Visibility, names};
use rusqlite::Connection;
use store::{
    AnswerOf, ArchivePart, ArchivePiece, CatalogueOp, DeploymentAct, ExecutionRecord,
    ExecutionStatus, ExecutionTrigger, FunctionName, FunctionOp, Listing, NewExecution, Once, Op,
    OperationsOf, Point, QUEUED_BYTES_MAX, QUEUED_MAX, QueueBounds, QueueOp, QueuedCall,
    QueuedExecution, RecordsOf, Share, StagedOperation, StoreConstraints, StoreError,
    StoreExecutions, StoreFunctions, StoreReads, StoreTransactions, StoreUsage, TransactionOp,
    TransactionStatus, WriteBatch,
};

use crate::copied::{Copied, data_of, turn};
use crate::db::{self, Db, Directory, PROJECT, TAGS, TITLE, create_project, note};

const OTHER_PROJECT: &str = "p2";
const BOUNDS: QueueBounds = QueueBounds {
    count_max: QUEUED_MAX,
    bytes_max: QUEUED_BYTES_MAX,
};

fn project(id: &str) -> ProjectId {
    ProjectId::new(id).unwrap()
}

fn name(id: &str) -> FunctionName {
    FunctionName {
        project: project(PROJECT),
        id: FunctionId::new(id).unwrap(),
    }
}

fn deployment(id: &str) -> DeploymentId {
    DeploymentId::new(id).unwrap()
}

fn function(op: FunctionOp) -> Op {
    Op::Function(op)
}

/// Two functions, with what belongs to them.
fn add_functions(db: &mut Db) {
    for id in ["f", "g"] {
        let definition = FunctionDefinition::new("F".to_owned(), "node-22".to_owned());
        let create = CatalogueOp::CreateFunction(name(id), Box::new(definition));
        db.ok(vec![Op::Catalogue(create)]);
    }
    for (id, secret) in [("open", false), ("hidden", true)] {
        db.ok(vec![function(FunctionOp::CreateVariable {
            function: name("f"),
            id: VariableId::new(id).unwrap(),
            key: format!("KEY_{id}"),
            value: format!("value of {id}, é"),
            secret,
        })]);
    }
    for (of, id) in [("f", "d1"), ("f", "d2"), ("g", "d3")] {
        db.ok(vec![function(FunctionOp::CreateDeployment {
            function: name(of),
            id: deployment(id),
            source_bytes: 30,
            activate: id == "d1",
            entrypoint: "main.js".to_owned(),
            commands: "make".to_owned(),
        })]);
    }
    let act = |id: &str, act| {
        function(FunctionOp::Deployment {
            function: name("f"),
            id: deployment(id),
            act,
        })
    };
    let piece = |part, start, bytes: &[u8]| {
        DeploymentAct::PutPiece(ArchivePiece {
            part,
            start,
            bytes: bytes.into(),
        })
    };
    for id in ["d1", "d2"] {
        db.ok(vec![act(id, piece(ArchivePart::Source, 0, &[0, 1, 255]))]);
        db.ok(vec![act(id, piece(ArchivePart::Source, 3, &[7; 27]))]);
    }
    db.ok(vec![act("d1", DeploymentAct::BeginBuild)]);
    db.ok(vec![act("d1", piece(ArchivePart::Log, 0, b"built"))]);
    db.ok(vec![act("d1", piece(ArchivePart::Output, 0, &[9; 12]))]);
    let is_ready = true;
    let build_ms = 1_234;
    db.ok(vec![act(
        "d1",
        DeploymentAct::EndBuild { is_ready, build_ms },
    )]);
}

fn queued(id: &str, due: i64) -> NewExecution {
    NewExecution {
        function: name("f"),
        function_seq: 1,
        queued: QueuedExecution {
            seq: 0,
            id: id.to_owned(),
            trigger: ExecutionTrigger::Event,
            deployment: deployment("d1"),
            due: Timestamp(due),
            is_scheduled: due > 100,
            attempt: 0,
            lease: None,
            method: "POST".to_owned(),
            path: "/a?b=c".to_owned(),
            depth: 3,
            created: Timestamp(1),
            updated: Timestamp(2),
        },
        call: QueuedCall {
            headers: vec![("x-a".to_owned(), "é\"".to_owned())],
            body: vec![0, 255, 1].into(),
        },
    }
}

fn record(id: &str, status: ExecutionStatus, now: Timestamp) -> ExecutionRecord {
    ExecutionRecord {
        seq: 0,
        id: id.to_owned(),
        trigger: ExecutionTrigger::Schedule,
        deployment: deployment("d1"),
        status,
        method: "GET".to_owned(),
        path: "/".to_owned(),
        request_headers: vec![("host".to_owned(), "a".to_owned())],
        response_status: 503,
        response_headers: vec![("x".to_owned(), "y".to_owned())],
        logs: "first\nsecond \u{0} é".to_owned(),
        errors: "\u{0}".to_owned(),
        duration_us: 17,
        scheduled: (id == "e1").then_some(Timestamp(5)),
        created: now,
        updated: now,
    }
}

/// What waits, and what has ended.
fn add_executions(db: &mut Db) {
    let all: Vec<NewExecution> = [("w1", 50), ("w2", 40), ("w3", 9_000)]
        .iter()
        .map(|(id, due)| queued(id, *due))
        .collect();
    db.ok(vec![function(FunctionOp::Queue(QueueOp::Put(
        all.into(),
        BOUNDS,
    )))]);
    let minute = Box::new(queued("w4", 60));
    let minute = QueueOp::PutMinute(minute, Timestamp(60_000_000), BOUNDS);
    db.ok(vec![function(FunctionOp::Queue(minute))]);
    db.ok(vec![function(FunctionOp::Queue(QueueOp::Start {
        seqs: vec![2],
        now: Timestamp(70),
        until: Timestamp(700),
    }))]);
    let now = Timestamp(db.next.0);
    let records = [
        ("f", 1, record("e1", ExecutionStatus::Completed, now)),
        ("f", 1, record("e2", ExecutionStatus::Failed, now)),
        ("g", 2, record("e3", ExecutionStatus::Completed, now)),
    ];
    let records = records.map(|(of, seq, record)| (name(of), seq, record));
    db.ok(vec![function(FunctionOp::KeepExecutions(
        Vec::from(records).into(),
    ))]);
}

/// Transactions of which one is open, and requests with answers.
fn add_staged(db: &mut Db) {
    let share = Share {
        own: store::staged::Bound::WHOLE,
        class: store::staged::Bound::WHOLE,
    };
    let now = Timestamp(db.next.0);
    for id in ["open", "ended"] {
        db.ok(vec![Op::Transaction(TransactionOp::Create {
            project: project(PROJECT),
            id: id.to_owned(),
            owner: "key k".to_owned(),
            now,
            expires: Timestamp(now.0 + 60_000_000),
            share,
        })]);
        let operation = |place: &str, row: Option<&str>| StagedOperation {
            seen: Mark(17),
            place: place.to_owned(),
            row: row.map(str::to_owned),
            body: format!("{{\"of\":\"{place}\",\"é\":1}}").into(),
        };
        db.ok(vec![Op::Transaction(TransactionOp::Stage {
            project: project(PROJECT),
            id: id.to_owned(),
            now,
            operations: vec![
                operation("notes", Some("n1")),
                operation("it's \"other\"", None),
                operation("notes", Some("n2")),
            ],
            share,
        })]);
    }
    db.ok(vec![Op::Transaction(TransactionOp::End {
        project: project(PROJECT),
        id: "ended".to_owned(),
        now,
        status: TransactionStatus::Failed,
        operation_count: None,
    })]);
    for (key, answer) in [("key k a", Some("answer, é")), ("key k b", None)] {
        let once = Once {
            project: project(PROJECT),
            key: key.to_owned(),
            part: 0,
            request: 0x1234_5678,
            now,
            answer: answer.map(|answer| AnswerOf(Arc::new(move |_| answer.as_bytes().to_vec()))),
            answers_bytes_max: 1 << 20,
        };
        let insert = db.insert(&format!("once {key}").replace(' ', "-"), note(key));
        db.ok(vec![Op::Once(once), insert]);
    }
}

/// A commit that says something of itself.
fn add_note(db: &mut Db, id: &str, meta: &str) -> Mark {
    let batch = WriteBatch {
        meta: Some(meta.into()),
        ..db.batch(vec![db.insert(id, note(id))])
    };
    let applied = db.commit(&[batch]).remove(0).unwrap();
    applied.mark.unwrap()
}

/// A closed directory with all of it, and the mark of a commit with a note. The titles and tags of
/// notes are encrypted, or not.
pub fn history(is_sealed: bool) -> (Directory, Mark) {
    let directory = Directory::new();
    let mut db = Db::open(&directory);
    for id in [PROJECT, OTHER_PROJECT] {
        db.ok(vec![Op::Catalogue(create_project(id))]);
    }
    let database = db::create_database(db::DATABASE);
    db.ok(vec![Op::Catalogue(database)]);
    let mut table = db::notes();
    if is_sealed {
        for position in [TITLE, TAGS] {
            table.columns[position].encrypt = true;
        }
        table
            .indexes
            .retain(|index| index.key.as_str() != "by_count");
    }
    let table = CatalogueOp::CreateTable(Box::new(table));
    db.ok(vec![Op::Catalogue(table)]);
    db.ok(vec![db.insert("n1", note("first"))]);
    let mut empty = note("empty");
    (empty[TITLE], empty[TAGS]) = (Value::Null, Value::List(Vec::new()));
    db.ok(vec![db.insert("n2", empty)]);
    db.ok(vec![
        db.update("n1", vec![(TITLE, Value::Text("second".into()))]),
    ]);
    add_functions(&mut db);
    add_executions(&mut db);
    add_staged(&mut db);
    let noted = add_note(&mut db, "n3", "{\"why\":\"é\"}");
    let number = db.table().number.0;
    db.close();
    let file = Connection::open(data_of(&directory).join("tidemark.db")).unwrap();
    let events = format!(
        "DELETE FROM listening; INSERT INTO listening VALUES (2, 5), (1, 3);
         DELETE FROM event_cursor; INSERT INTO event_cursor VALUES (1, {}, {number}, 'n2');
         INSERT INTO event_apart VALUES ('{OTHER_PROJECT}', 0, 0, '');",
        noted.0 - 1
    );
    file.execute_batch(&events).unwrap();
    (directory, noted)
}

/// What is built next: of all functions, and without two of them.
fn next_builds(store: &(impl StoreFunctions + ?Sized)) -> impl Debug {
    [&[][..], &[7, 1]].map(|passed| block_on(store.next_build(passed)))
}

/// Every answer about what stands beside rows, a line each.
pub fn answers<S>(store: &S) -> Vec<String>
where
    S: StoreTransactions + StoreFunctions + StoreExecutions + StoreUsage + ?Sized,
{
    let mut lines = Vec::new();
    let mut say = |what: &str, answer: &dyn Debug| lines.push(format!("{what}: {answer:?}"));
    for id in [PROJECT, OTHER_PROJECT, "absent"] {
        let project = project(id);
        say("transactions", &block_on(store.transactions(&project)));
        let places = ["notes".to_owned(), "it's \"other\"".to_owned()];
        for id in ["open", "ended", "absent"] {
            for operations in [
                OperationsOf::Nothing,
                OperationsOf::Everything,
                OperationsOf::Places(&places[..1]),
                OperationsOf::Places(&places),
                OperationsOf::Places(&[]),
            ] {
                let staged = block_on(store.transaction(&project, id, operations));
                say("transaction", &staged);
            }
        }
        for key in ["key k a", "key k b", "absent"] {
            say("request", &block_on(store.kept_request(&project, key)));
        }
        for limit in [0, 1, 2, 100] {
            let changed = block_on(store.changed_rows(Some(&project), limit));
            say("changed of one", &changed);
        }
    }
    for limit in [0, 1, 100] {
        say("changed", &block_on(store.changed_rows(None, limit)));
    }
    for seq in 0..4 {
        say("variables", &block_on(store.variables(seq)));
        say("revealed", &block_on(store.revealed_variables(seq)));
        say("deployments", &block_on(store.deployments(seq)));
        say("latest", &block_on(store.latest_deployment(seq)));
        for part in [ArchivePart::Source, ArchivePart::Output, ArchivePart::Log] {
            for from in [0, 1, 3, 4, u64::MAX] {
                say("piece", &block_on(store.piece(seq, part, from)));
            }
        }
        say("extents", &block_on(store.source_extents(seq)));
        say("queued", &block_on(store.queued_executions(seq)));
        say("minute", &block_on(store.schedule_minute(seq)));
        say("records", &block_on(store.executions(seq)));
        for id in ["w1", "w2", "e1", "e2", "e3", "absent"] {
            say("queued", &block_on(store.queued_execution(seq, id)));
            say("record", &block_on(store.execution(seq, id)));
        }
        for waiting in 0..6 {
            say("call", &block_on(store.queued_call(seq, waiting)));
        }
    }
    for (now, limit) in [(0, 9), (80, 9), (80, 1), (800, 9)] {
        let due = block_on(store.due_executions(Timestamp(now), &[], limit));
        say("due", &due);
    }
    let due = block_on(store.due_executions(Timestamp(80), &[7, 1], 9));
    say("due of others", &due);
    say("builds", &next_builds(store));
    say("open", &block_on(store.open_transactions()));
    say("kept", &block_on(store.kept_answer_bytes()));
    let mut bytes = block_on(store.table_bytes()).unwrap();
    bytes.sort_unstable();
    say("bytes", &bytes);
    assert!(block_on(store.data_bytes()).unwrap() > 0);
    lines
}

#[track_caller]
pub fn compare(of_database: &[String], of_directory: &[String]) {
    for (found, expected) in of_database.iter().zip(of_directory) {
        assert_eq!(found, expected);
    }
    assert_eq!(of_database.len(), of_directory.len());
}

/// Whether answers of this kind show this.
#[track_caller]
fn need(answers: &[String], kind: &str, shown: &str) {
    let is_shown = |line: &&String| line.starts_with(kind) && line.contains(shown);
    assert!(
        answers.iter().any(|line| is_shown(&line)),
        "{kind} shows no {shown}"
    );
}

#[test]
fn answers_next_to_rows_are_those_of_the_directory() {
    let _turn = turn();
    for is_sealed in [false, true] {
        let (directory, _) = history(is_sealed);
        let copied = Copied::new(directory, &format!("beside_{is_sealed}"));
        let of_directory = answers(&*copied.db.store);
        compare(&answers(&copied.reads), &of_directory);
        // Neither says so by being empty.
        for (kind, shown) in [
            ("transaction", "\\\"é\\\":1"),
            ("request", "answer: Some([97"),
            ("changed of one", "Some(ChangedRows"),
            ("changed", "id: \"n3\""),
            ("variables", "value of open"),
            ("revealed", "value of hidden"),
            ("piece", "Output"),
            ("records", "e2"),
            ("record", "second"),
            ("call", "x-a"),
            ("due", "w1"),
            ("minute", "60000000"),
            ("build", "d2"),
            ("open", "count: 1"),
        ] {
            need(&of_directory, kind, shown);
        }
    }
}

/// One row, and all of them with a part of their columns, as either database gives them.
fn rows(copied: &Copied, store: &dyn StoreReads, table: &Arc<Table>) -> Vec<String> {
    let some = Selection::Some {
        columns: vec![TAGS, TITLE],
        fields: Vec::new(),
        permissions: false,
    };
    let epoch = copied.db.catalogue.epoch;
    let mut lines = Vec::new();
    for selection in [&Selection::All, &some] {
        for at in [None, Some(copied.db.load().mark)] {
            let at = at.map(|mark| model::Coordinates {
                valid: mark.timestamp(),
                system: mark,
            });
            for id in ["n1", "n2", "n3", "absent"] {
                let found = block_on(store.get(Point {
                    table,
                    id: &db::row_id(id),
                    selection,
                    visibility: &Visibility::Everything,
                    at,
                    shows_span: at.is_some(),
                    catalogue_epoch: epoch,
                }));
                lines.push(format!("{id}: {:?}", found.map(|found| found.answer)));
            }
            for shows_damaged in [false, true] {
                let query = query::Query {
                    selection: selection.clone(),
                    at,
                    shows_span: at.is_some(),
                    ..copied.db.all()
                };
                let listing = Listing {
                    shows_damaged,
                    ..db::listing(&query, epoch)
                };
                let found = block_on(store.list(listing));
                lines.push(format!("{:?}", found.map(|found| found.answer.rows)));
            }
        }
    }
    lines
}

fn records(copied: &Copied, store: &dyn StoreReads) -> Vec<store::Recorded> {
    let request = RecordsOf {
        after: Mark::ZERO,
        upto: copied.db.load().mark,
        limit: 1_000,
        database: copied.db.database().seq,
        tables: vec![copied.db.table().number],
        changed: None,
        filter: None,
    };
    let mut found = block_on(store.recorded(request)).unwrap();
    for record in &mut found {
        record.rows.sort();
    }
    found
}

#[test]
fn encrypted_values_are_opened_and_damaged_ones_named_alike() {
    let _turn = turn();
    let (directory, noted) = history(true);
    let other = add_damage(&directory, noted);
    let copied = Copied::new(directory, "encrypted");
    let table = copied.db.table();
    let of_directory = rows(&copied, &*copied.db.store, &table);
    compare(&rows(&copied, &copied.reads, &table), &of_directory);
    need(&of_directory, "n1", "second");
    need(&of_directory, "n3", "SealBroken");
    need(&of_directory, "Ok([Row", "damaged: [");
    let found = records(&copied, &copied.reads);
    assert_eq!(found, records(&copied, &*copied.db.store));
    let of = |mark| found.iter().find(|record| record.mark == mark).unwrap();
    assert!(of(noted).is_damaged && of(noted).meta.is_none());
    assert_eq!(of(other).meta.as_deref(), Some("{\"why\":\"whole\"}"));
    assert!(copied.reads.counts().damaged > 0);
    let numbers = [table.number];
    let constraints = |store: &dyn StoreConstraints| block_on(store.constraints(numbers[0]));
    assert_eq!(constraints(&copied.reads), constraints(&*copied.db.store));
}

/// Damages the row `n3` and the note of its commit; the mark of another commit with a note.
fn add_damage(directory: &Directory, noted: Mark) -> Mark {
    let mut db = Db::open(directory);
    let other = add_note(&mut db, "n4", "{\"why\":\"whole\"}");
    let table = db.table();
    db.close();
    let title = names::column(table.columns[TITLE].number);
    let file = Connection::open(data_of(directory).join("tidemark.db")).unwrap();
    for physical in [names::now(table.number), names::versions(table.number)] {
        let damage = format!("UPDATE {physical} SET {title} = x'00' WHERE id = 'n3'");
        assert_eq!(file.execute(&damage, ()).unwrap(), 1);
    }
    let damage = "UPDATE tx SET meta = x'0102' WHERE tt = ?1";
    assert_eq!(file.execute(damage, [noted.0]).unwrap(), 1);
    other
}

#[test]
fn a_key_that_is_missing_or_wrong_is_named() {
    let _turn = turn();
    let (directory, _) = history(true);
    let copied = Copied::new(directory, "keys");
    let url = copied.cluster.url("keys");
    let url = store::DatabaseUrl::parse(&url).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let open = || {
        let options = crate::copied::options(&url);
        store::DatabaseReads::open(&options, None, elsewhere.path()).unwrap()
    };
    let reads = open();
    let variables = || block_on(reads.revealed_variables(1));
    let call = || block_on(reads.queued_call(1, 1));
    let is_missing = |error: StoreError| matches!(error, StoreError::KeyMissing { .. });
    assert!(is_missing(variables().unwrap_err()));
    assert!(is_missing(call().unwrap_err()));
    let request = || block_on(reads.kept_request(&project(PROJECT), "key k a"));
    assert!(is_missing(request().unwrap_err()));
    for file in ["tidemark.key", "secret.key"] {
        std::fs::write(elsewhere.path().join(file), "17".repeat(32)).unwrap();
    }
    let is_broken = |error: StoreError| matches!(error, StoreError::SealBroken { .. });
    assert!(is_broken(variables().unwrap_err()));
    assert!(is_broken(request().unwrap_err()));
    let wrong = call().unwrap_err();
    assert!(matches!(wrong, StoreError::KeyWrong { .. }), "{wrong:?}");
    // A file that an operator names comes before one in the directory.
    let named = open();
    named.name_variables_key(data_of(&copied.directory).join("secret.key"));
    let found = block_on(named.revealed_variables(1)).unwrap();
    assert_eq!(found[1].value, "value of hidden, é");
}
