//! How commits in PostgreSQL end, and how many round trips a group takes.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use model::history::Range;
use model::{
    Catalogue, Column, ColumnKey, ColumnKind, ColumnNumber, IndexStatus, Mark, OnDelete, Period,
    Relation, RelationKind, RowId, Side, Table, TableId, TableNumber, Timestamp, Value,
};
use testing::{plain_column, plain_table};
use testing_postgres::Cluster;

use super::draws::{NEVER_DUE, matching, table};
use super::postgres::writer;
use crate::StoreError;
use crate::batch::{
    CatalogueOp, ConstraintChange, Op, Outcome, SchemaChange, SpaceLimit, TableConstraints,
    WriteBatch,
};
use crate::postgres::write::writer::{DatabaseWriter, GroupEnd};
use crate::refusal::Refusal;
use crate::row_op::{Guard, RowAct, RowOp, Stamps};
use crate::sqlite::upkeep::tests::catalogue;
use crate::staged::{Since, TransactionRefusal};

struct Place {
    cluster: Arc<Cluster>,
    name: &'static str,
    writer: DatabaseWriter,
    table: Arc<Table>,
    next: Mark,
}

impl Place {
    fn new(name: &'static str) -> Place {
        Place::of(name, &table())
    }

    fn of(name: &'static str, table: &Table) -> Place {
        let cluster = Cluster::shared().unwrap();
        let catalogue: Arc<Catalogue> = catalogue(table);
        let writer = writer(&cluster, name, &catalogue, Path::new("unused"));
        let table = catalogue.table_by_number(TableNumber(1)).unwrap();
        Place {
            table: Arc::clone(table),
            cluster,
            name,
            writer,
            next: Mark(1_000),
        }
    }

    /// By another session.
    fn sql(&self, sql: &str) -> String {
        let path = "SET search_path = tidemark";
        let found = self.cluster.run_sql(self.name, &[path, sql]).unwrap();
        found.trim_end().to_owned()
    }

    fn put(&self, id: &str, x: &str) -> WriteBatch {
        let values = vec![Value::Text(x.to_owned()), Value::Int(1)];
        let act = RowAct::Put {
            patch: vec![(0, values[0].clone())].into(),
            insert: Ok(values),
            permissions: None,
            insert_permissions: vec![],
            stamps: Stamps::default(),
            guard: Guard::Open,
        };
        self.batch(Op::Row(RowOp::now(
            Arc::clone(&self.table),
            RowId::new(id).unwrap(),
            act,
        )))
    }

    fn insert(&self, table: &Arc<Table>, id: &str, values: Vec<Value>) -> WriteBatch {
        let act = RowAct::Insert {
            values,
            permissions: vec![],
            stamps: Stamps::default(),
            guard: Guard::Open,
        };
        let id = RowId::new(id).unwrap();
        self.batch(Op::Row(RowOp::now(Arc::clone(table), id, act)))
    }

    /// Rows whose unique text matches the expression go.
    fn matching(&self, pattern: &str) -> Op {
        Op::Matching(Box::new(matching(&self.table, pattern)))
    }

    fn batch(&self, op: Op) -> WriteBatch {
        WriteBatch {
            catalogue_epoch: self.writer.committed().catalogue.epoch,
            ops: vec![op],
            author: None,
            unchanged_since: None,
            meta: None,
            noted_in: None,
            space: SpaceLimit::Any,
        }
    }

    fn run(&mut self, batches: &[WriteBatch]) -> GroupEnd {
        let first = self.next;
        self.next = Mark(first.0 + 1_000);
        let group = self.writer.apply(batches, first).unwrap();
        self.writer.commit(group)
    }

    fn done(&mut self, batches: &[WriteBatch]) -> Vec<Outcome> {
        match self.run(batches) {
            GroupEnd::Done(outcomes) => outcomes,
            other => panic!("{other:?}"),
        }
    }

    /// What the rows of now have, in order.
    fn rows(&self) -> String {
        self.sql("SELECT string_agg(id || '=' || c1, ' ' ORDER BY id) FROM t1")
    }
}

#[test]
fn a_group_takes_two_round_trips_however_many_batches_it_has() {
    let mut place = Place::new("two_round_trips");
    let group = |round: usize| -> Vec<(String, String)> {
        let names = (0..20).map(|n| (format!("r{n}"), format!("x{n} {round}")));
        names.collect()
    };
    let mut trips = Vec::new();
    // The first ones prepare statements: of inserts, and of changes that move unique values.
    for round in 0..6 {
        let batches: Vec<WriteBatch> = group(round)
            .iter()
            .map(|(id, x)| place.put(id, x))
            .collect();
        let before = place.writer.round_trips();
        let outcomes = place.done(&batches);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        trips.push(place.writer.round_trips() - before);
    }
    assert_eq!(trips[4..], [2, 2], "{trips:?}");
    assert_eq!(place.sql("SELECT count(*) FROM t1"), "20");
    assert_eq!(place.sql("SELECT max(n) FROM tx"), "120");
}

#[test]
fn rows_that_are_referred_to_are_looked_for_many_at_once() {
    let mut place = Place::new("many_referred");
    let referring: Vec<WriteBatch> = (0..130)
        .map(|n| place.put(&format!("r{n}"), &format!("gone{n}")))
        .collect();
    place.done(&referring);
    let refs = vec![(place.table.columns[0].number, place.table.number)];
    let unique = Vec::new();
    let declare = place.batch(Op::Catalogue(CatalogueOp::Constrain {
        table: Arc::clone(&place.table),
        change: ConstraintChange::Add(TableConstraints { unique, refs }),
    }));
    let before = place.writer.round_trips();
    let outcomes = place.done(&[declare]);
    let trips = place.writer.round_trips() - before;
    let [Err(Refusal::NotKept { violations, .. })] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert_eq!((violations.found.len(), violations.more), (100, true));
    assert!(trips < 30, "{trips} round trips");
}

/// One end of a relationship between the table `parents` and that of `children`, which hold the links.
fn end_at(side: Side) -> Column {
    let (key, partner_key, related) = match side {
        Side::Parent => ("children", "parent", "children"),
        Side::Child => ("parent", "children", "parents"),
    };
    let relation = Relation {
        related: TableId::new(related).unwrap(),
        partner: ColumnNumber(0),
        partner_key: ColumnKey::new(partner_key).unwrap(),
        kind: RelationKind::OneToMany,
        two_way: true,
        on_delete: OnDelete::SetNull,
        side,
        has_ended: false,
    };
    plain_column(0, key, ColumnKind::Relationship(relation))
}

/// A place with tables of parents and of children.
fn related(name: &'static str) -> (Place, Arc<Table>, Arc<Table>) {
    let mut place = Place::new(name);
    for (number, name) in [(2, "parents"), (3, "children")] {
        let text = plain_column(1, "x", ColumnKind::Text);
        let table = Table {
            number: TableNumber(number),
            ..plain_table(name, vec![text])
        };
        let create = CatalogueOp::CreateTable(Box::new(table));
        place.done(&[place.batch(Op::Catalogue(create))]);
    }
    let numbered = |place: &Place, number| {
        let catalogue = &place.writer.committed().catalogue;
        Arc::clone(catalogue.table_by_number(TableNumber(number)).unwrap())
    };
    let relate = CatalogueOp::ChangeSchema {
        table: numbered(&place, 2),
        change: SchemaChange::AddRelationship {
            related: numbered(&place, 3),
            column: end_at(Side::Parent),
            partner: end_at(Side::Child),
        },
    };
    let related = place.done(&[place.batch(Op::Catalogue(relate))]);
    assert!(related[0].is_ok(), "{related:?}");
    let (parents, children) = (numbered(&place, 2), numbered(&place, 3));
    (place, parents, children)
}

#[test]
fn rows_that_hold_links_to_one_that_goes_are_read_many_at_once() {
    let (mut place, parents, children) = related("many_holders");
    let parent = vec![Value::Text("x9".into()), Value::Null];
    place.done(&[place.insert(&parents, "p", parent)]);
    let held = (0..130).map(|n| {
        let values = vec![Value::Text("x".into()), Value::Text("p".into())];
        place.insert(&children, &format!("c{n}"), values)
    });
    let held: Vec<WriteBatch> = held.collect();
    place.done(&held);
    let linked = "SELECT count(*) FROM t3 WHERE c2 = 'p'";
    assert_eq!(place.sql(linked), "130");
    let gone = Op::Matching(Box::new(matching(&parents, "x9")));
    let before = place.writer.round_trips();
    let outcomes = place.done(&[place.batch(gone)]);
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    let trips = place.writer.round_trips() - before;
    assert!(trips < 30, "{trips} round trips");
    assert_eq!(place.sql(linked), "0");
    assert_eq!(place.sql("SELECT count(*) FROM t2"), "0");
    assert_eq!(place.sql("SELECT count(*) FROM t3"), "130");
    let many = (0..80).map(|n| {
        let parent = vec![Value::Text("y9".into()), Value::Null];
        place.insert(&parents, &format!("p{n}"), parent)
    });
    let many: Vec<WriteBatch> = many.collect();
    place.done(&many);
    let held = (0..120).map(|n| {
        let parent = Value::Text(format!("p{}", n % 60));
        let values = vec![Value::Text("x".into()), parent];
        place.insert(&children, &format!("d{n}"), values)
    });
    let held: Vec<WriteBatch> = held.collect();
    place.done(&held);
    let linked = "SELECT count(c2) FROM t3";
    assert_eq!(place.sql(linked), "120");
    let gone = Op::Matching(Box::new(matching(&parents, "y9")));
    let before = place.writer.round_trips();
    let outcomes = place.done(&[place.batch(gone)]);
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    let trips = place.writer.round_trips() - before;
    assert!(trips < 30, "{trips} round trips for 80 parents");
    assert_eq!(place.sql(linked), "0");
}

/// A child that is to come has one of 80 parents.
#[test]
fn rows_that_will_hold_links_to_those_that_go_are_looked_for_at_once() {
    let (mut place, parents, children) = related("holders_to_come");
    let many = (0..80).map(|n| {
        let parent = vec![Value::Text("z9".into()), Value::Null];
        place.insert(&parents, &format!("q{n}"), parent)
    });
    let many: Vec<WriteBatch> = many.collect();
    place.done(&many);
    let act = RowAct::Insert {
        values: vec![Value::Text("x".into()), Value::Text("q7".into())],
        permissions: vec![],
        stamps: Stamps::default(),
        guard: Guard::Open,
    };
    let to_come = Period::new(Timestamp(NEVER_DUE), None).unwrap();
    let id = RowId::new("f").unwrap();
    let to_come = RowOp::over(Arc::clone(&children), id, to_come.into(), act);
    let outcomes = place.done(&[place.batch(Op::Row(to_come))]);
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    let planned = "SELECT string_agg(coalesce(c2, 'none'), ' ') FROM t3_v \
                   WHERE id = 'f' AND st = 9223372036854775807 AND twin = 0";
    assert_eq!(place.sql(planned), "q7");
    let gone = Op::Matching(Box::new(matching(&parents, "z9")));
    let before = place.writer.round_trips();
    let outcomes = place.done(&[place.batch(gone)]);
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    let trips = place.writer.round_trips() - before;
    assert!(
        trips < 40,
        "{trips} round trips for 80 parents, with a child to come"
    );
    assert_eq!(place.sql(planned), "none");
    assert_eq!(place.sql("SELECT count(*) FROM t2"), "0");
}

#[test]
fn last_changes_of_the_rows_of_a_transaction_are_read_with_them() {
    let mut place = Place::new("asked_of_rows");
    let rows: Vec<WriteBatch> = (0..40)
        .map(|n| place.put(&format!("r{n}"), &format!("x{n}")))
        .collect();
    place.done(&rows);
    let gone_since = |place: &Place, mark: i64| {
        let (mark, instant) = (Some(Mark(mark)), None);
        let mut batch = place.batch(Op::Since(Since { mark, instant }));
        let guard = || Guard::Open;
        let gone = rows.iter().map(|row| match &row.ops[0] {
            Op::Row(op) => (op.id.clone(), RowAct::Delete { guard: guard() }),
            other => panic!("{other:?}"),
        });
        let table = || Arc::clone(&place.table);
        let gone = gone.map(|(id, act)| RowOp::over(table(), id, Range::default(), act));
        batch.ops.extend(gone.map(Op::Row));
        batch
    };
    // The first row was written at the mark 1,000.
    let refused = place.done(&[gone_since(&place, 1_000)]);
    let [Err(Refusal::Transaction(TransactionRefusal::Conflict(id)))] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(id.as_str(), "r1");
    let before = place.writer.round_trips();
    let done = place.done(&[gone_since(&place, 1_050)]);
    assert!(done[0].is_ok(), "{done:?}");
    let trips = place.writer.round_trips() - before;
    assert!(trips < 20, "{trips} round trips");
    assert_eq!(place.sql("SELECT count(*) FROM t1"), "0");
}

#[test]
fn a_batch_that_fails_takes_nothing_from_its_neighbours() {
    let mut place = Place::new("fails_alone");
    // The second operation sends the first one, which the database refuses.
    place.sql("ALTER TABLE t1 ADD CHECK (c1 <> 'wrong')");
    let mut failing = place.put("w", "wrong");
    failing.ops.push(place.matching("x9"));
    let batches = [
        place.put("a", "x1"),
        failing,
        place.put("b", "x1"),
        place.put("c", "x2"),
    ];
    let outcomes = place.done(&batches);
    assert!(
        matches!(outcomes[1], Err(Refusal::Failed(StoreError::Io { .. }))),
        "{outcomes:?}"
    );
    assert!(
        outcomes[2].as_ref().is_err_and(Refusal::is_unique),
        "{outcomes:?}"
    );
    assert_eq!(place.rows(), "a=x1 c=x2");
    assert_eq!(
        place.sql("SELECT string_agg(n::text, ' ' ORDER BY n) FROM tx"),
        "1 2"
    );
}

/// A text in which the expression of the next test finds no short way.
fn hard_text() -> String {
    let mut state = 1_u64;
    let letters = (0..100_000).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if state >> 40 & 1 == 0 { 'a' } else { 'b' }
    });
    // What PostgreSQL looks for.
    std::iter::once('c').chain(letters).collect()
}

#[test]
fn a_search_that_fails_ends_its_batch_alone() {
    let mut place = Place::new("search_fails");
    place.done(&[place.put("long", &hard_text())]);
    let mut hard = place.put("h", "x5");
    hard.ops.push(place.matching("[ab]*a[ab]{200}c"));
    let hard = [place.put("a", "x1"), hard, place.put("b", "x2")];
    let mut easy = place.put("h", "x5");
    easy.ops.push(place.matching("x9"));
    let easy = [place.put("a", "x1"), easy, place.put("b", "x2")];
    // What is prepared once is known from then on.
    place.done(&hard);
    place.done(&easy);
    let trips = |place: &mut Place, batches: &[WriteBatch]| {
        let before = place.writer.round_trips();
        let outcomes = place.done(batches);
        (outcomes, place.writer.round_trips() - before)
    };
    let (outcomes, hard) = trips(&mut place, &hard);
    // On a busy machine its time is over before.
    assert!(
        matches!(
            outcomes[..],
            [
                Ok(_),
                Err(Refusal::Failed(
                    StoreError::PatternTooHard | StoreError::Timeout { .. }
                )),
                Ok(_)
            ]
        ),
        "{outcomes:?}"
    );
    let (outcomes, easy) = trips(&mut place, &easy);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    // What was read of rows that the batch had changed is read again, and no more.
    assert!(hard <= easy + 2, "nothing runs again: {hard} and {easy}");
}

/// As many rows as one search tests, and one more, each with such a text.
fn add_many(place: &Place, text: &str) {
    place.sql(&format!(
        "INSERT INTO t1 (seq, vf, sf, origin, created, updated, rid, twin, body_epoch, id, perms, \
         c1) SELECT 1000 + g, 1, 1, 1, 1, 1, 1000 + g, 1, 0, 'g' || g, '', '{text}' || g \
         FROM generate_series(1, 100001) AS g"
    ));
}

#[test]
fn a_search_reads_no_further_than_to_the_last_row_that_it_wants() {
    let mut place = Place::new("search_is_short");
    let first: Vec<WriteBatch> = (0..150)
        .map(|n| place.put(&format!("r{n}"), &format!("m{n}")))
        .collect();
    place.done(&first);
    add_many(&place, "xm");
    // It wants a hundred, of rows that each have the letter.
    let searching = place.batch(place.matching("^m[0-9]+$"));
    let before = place.writer.round_trips();
    let outcomes = place.done(&[searching]);
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    let trips = place.writer.round_trips() - before;
    assert!(trips < 20, "{trips} round trips");
    assert_eq!(
        place.sql("SELECT count(*) FROM t1 WHERE c1 LIKE 'm%'"),
        "50"
    );
}

#[test]
fn a_search_through_too_many_rows_takes_too_long_for_its_batch_alone() {
    let mut place = Place::new("search_is_long");
    add_many(&place, "x");
    let searching = place.batch(place.matching("^x[0-9]+y$|^x[0-9]+z$"));
    let outcomes = place.done(&[place.put("a", "y1"), searching, place.put("b", "y2")]);
    assert!(
        matches!(
            outcomes[..],
            [
                Ok(_),
                Err(Refusal::Failed(StoreError::Timeout { limit_ms: 5_000 })),
                Ok(_)
            ]
        ),
        "{outcomes:?}"
    );
    assert_eq!(place.sql("SELECT count(*) FROM t1 WHERE c1 LIKE 'y%'"), "2");
}

#[test]
fn a_group_that_is_given_up_leaves_nothing() {
    let mut place = Place::new("given_up");
    place.done(&[place.put("a", "x1")]);
    // Its first batch is sent before the second one searches.
    let given_up = [place.put("b", "x2"), place.batch(place.matching("x9"))];
    let first = place.next;
    place.next = Mark(first.0 + 100);
    let group = place.writer.apply(&given_up, first).unwrap();
    assert!(group.outcomes.iter().all(Result::is_ok));
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' \
                AND datname = current_database()";
    assert_eq!(place.sql(open), "1");
    drop(group);
    place.done(&[place.put("c", "x2")]);
    assert_eq!(place.rows(), "a=x1 c=x2");
    assert_eq!(place.sql("SELECT max(n) FROM tx"), "2");
}

#[test]
fn a_row_that_the_database_has_no_room_for_is_named_and_others_can_follow() {
    let mut place = Place::new("no_room");
    // So the texts of this column stand in the row, as numbers do.
    place.sql("ALTER TABLE t1 ALTER c1 SET STORAGE PLAIN");
    place.sql("ALTER TABLE t1_v ALTER c1 SET STORAGE PLAIN");
    let wide = "x".repeat(9_000);
    let batches = [
        place.put("a", "x1"),
        place.put("w", &wide),
        place.put("b", "x2"),
    ];
    // The writer of the engine runs the batches of such a group one by one.
    let GroupEnd::Nothing(error @ StoreError::RowTooLarge { .. }) = place.run(&batches) else {
        panic!("the row fits");
    };
    assert!(error.to_string().contains("maximum size 8160"), "{error}");
    let ends = batches.map(|batch| place.run(&[batch]));
    assert!(
        matches!(
            ends,
            [
                GroupEnd::Done(_),
                GroupEnd::Nothing(StoreError::RowTooLarge { .. }),
                GroupEnd::Done(_)
            ]
        ),
        "{ends:?}"
    );
    assert_eq!(place.rows(), "a=x1 b=x2");
}

#[test]
fn a_commit_of_which_a_statement_fails_comes_to_nothing_and_the_next_one_follows() {
    let mut place = Place::new("comes_to_nothing");
    place.sql("ALTER TABLE t1 ADD CHECK (c1 <> 'wrong')");
    let end = place.run(&[place.put("a", "x1"), place.put("b", "wrong")]);
    assert!(
        matches!(end, GroupEnd::Nothing(StoreError::Io { .. })),
        "{end:?}"
    );
    assert_eq!(place.rows(), "");
    place.done(&[place.put("a", "x2")]);
    assert_eq!(place.rows(), "a=x2");
    // At the commit itself.
    place.sql(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'not this one'; END $$; \
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tx DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION fail()",
    );
    let end = place.run(&[place.put("a", "x3")]);
    assert!(matches!(end, GroupEnd::Nothing(_)), "{end:?}");
    place.sql("DROP TRIGGER late ON tx");
    place.done(&[place.put("c", "x4")]);
    assert_eq!(place.rows(), "a=x2 c=x4");
    assert_eq!(
        place.sql("SELECT string_agg(n::text, ' ' ORDER BY n) FROM tx"),
        "1 2"
    );
}

#[test]
fn a_commit_with_a_warning_is_not_acknowledged() {
    let mut place = Place::new("warned");
    place.sql(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE WARNING 'not replicated'; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tx DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION warn()",
    );
    let end = place.run(&[place.put("a", "x1")]);
    let GroupEnd::Unknown(end) = end else {
        panic!("{end:?}");
    };
    let cause = &end.cause;
    assert!(
        matches!(cause, StoreError::Unreachable { detail } if detail.contains("not replicated")),
        "what is taken again asks: {cause:?}"
    );
    assert!(end.outcomes.iter().all(Result::is_ok), "{end:?}");
}

#[test]
fn a_commit_that_is_never_sent_comes_to_nothing() {
    let mut place = Place::new("never_sent");
    place.done(&[place.put("a", "x1")]);
    let batches = [place.put("a", "x2")];
    let group = place.writer.apply(&batches, Mark(50_000)).unwrap();
    let ended = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert_eq!(place.sql(ended), "t");
    // It may have gone out before the end of the connection was seen: then that is not known.
    let end = place.writer.commit(group);
    assert!(!matches!(end, GroupEnd::Done(_)), "{end:?}");
    assert_eq!(place.rows(), "a=x1");
    let gone = place.writer.apply(&batches, Mark(60_000)).err().unwrap();
    assert!(
        matches!(gone, StoreError::Unreachable { .. }) && gone.is_retryable(),
        "{gone:?}"
    );
}

#[test]
fn a_transaction_may_be_idle_for_long_and_one_that_was_for_too_long_says_so() {
    let mut place = Place::new("idle");
    let limit = "SHOW idle_in_transaction_session_timeout";
    assert_eq!(place.writer.lines(limit), ["2min"]);
    let group = place.writer.apply(&[place.put("a", "x1")], Mark(50_000));
    let group = group.unwrap();
    // Of the transaction that is open: on a busy machine `apply` itself is idle for longer.
    place
        .writer
        .lines("SET idle_in_transaction_session_timeout = '1ms'");
    let is_gone = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while place.sql(is_gone) != "0" {}
    let GroupEnd::Nothing(StoreError::Unreachable { detail }) = place.writer.commit(group) else {
        panic!("its transaction has ended");
    };
    assert!(detail.contains("idle-in-transaction timeout"), "{detail}");
}

#[test]
fn a_commit_of_another_process_stops_the_writer() {
    let mut place = Place::new("another_process");
    place.done(&[place.put("a", "x1")]);
    place.sql("UPDATE meta SET mark = mark + 1");
    let batches = [place.put("a", "x2")];
    let refused = place.writer.apply(&batches, Mark(50_000)).err();
    assert!(
        matches!(refused, Some(StoreError::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(place.rows(), "a=x1");
}

#[test]
fn a_change_of_a_table_that_is_read_for_long_is_put_aside() {
    let mut place = Place::new("read_for_long");
    // The first table is known to the writer alone.
    let made = plain_table("u", vec![plain_column(1, "x", ColumnKind::Text)]);
    let made = place.batch(Op::Catalogue(CatalogueOp::CreateTable(Box::new(made))));
    assert!(place.done(&[made])[0].is_ok());
    let known = &place.writer.committed().catalogue;
    let table = Arc::clone(known.table_by_number(TableNumber(2)).unwrap());
    let change = SchemaChange::AddColumn(plain_column(0, "z", ColumnKind::Text));
    let change = CatalogueOp::ChangeSchema { table, change };
    let change = place.batch(Op::Catalogue(change));
    let batches = [place.put("a", "x1"), change.clone(), place.put("b", "x2")];
    // The reader ends when the writer lets go of this lock.
    place.writer.lines("SELECT pg_advisory_lock(7)");
    let cluster = Arc::clone(&place.cluster);
    let reader = thread::spawn(move || {
        let all = [
            "BEGIN",
            "LOCK TABLE tidemark.t2 IN ACCESS SHARE MODE",
            "SELECT pg_advisory_xact_lock(7)",
            "COMMIT",
        ];
        cluster.run_sql("read_for_long", &all).unwrap()
    });
    let waits = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                 WHERE l.locktype = 'advisory' AND NOT l.granted \
                 AND d.datname = current_database()";
    while place.sql(waits) != "1" {}
    let outcomes = place.done(&batches);
    assert!(
        matches!(outcomes[..], [Ok(_), Err(Refusal::TablesBusy), Ok(_)]),
        "{outcomes:?}"
    );
    assert_eq!(place.rows(), "a=x1 b=x2");
    place.writer.lines("SELECT pg_advisory_unlock(7)");
    reader.join().unwrap();
    let outcomes = place.done(&[change]);
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(place.sql("SELECT count(c2) FROM t2"), "0");
}

#[test]
fn a_value_that_an_index_has_while_it_is_built_is_a_conflict() {
    let mut waiting = table();
    waiting.indexes[0].status = IndexStatus::Processing;
    let key = waiting.indexes[0].key.to_string();
    let mut place = Place::of("being_built", &waiting);
    place.done(&[place.put("a", "x1")]);
    let taken = StoreError::NotUnique { index: key };
    let GroupEnd::Nothing(error) = place.run(&[place.put("b", "x1")]) else {
        panic!("the index keeps values apart");
    };
    assert_eq!(error, taken);
    // One that is sent before the end of its batch.
    let mut sent = place.put("b", "x1");
    sent.ops.push(place.matching("x9"));
    let outcomes = place.done(&[sent, place.put("c", "x2")]);
    assert!(
        matches!(&outcomes[..], [Err(Refusal::Failed(error)), Ok(_)] if *error == taken),
        "{outcomes:?}"
    );
    assert_eq!(place.rows(), "a=x1 c=x2");
}

#[test]
fn a_commit_takes_an_index_that_was_built_before_it_but_none_that_is_half_built() {
    let mut waiting = table();
    waiting.indexes[0].status = IndexStatus::Processing;
    let number = waiting.indexes[0].number;
    for (name, is_half_built) in [("built_before", false), ("half_built", true)] {
        let mut place = Place::of(name, &waiting);
        let made = "SELECT indexrelid FROM pg_index WHERE indexrelid = 't1_i1'::regclass \
                    AND indisvalid";
        let before = place.sql(made);
        if is_half_built {
            place
                .sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't1_i1'::regclass");
        }
        let build = CatalogueOp::ChangeSchema {
            table: Arc::clone(&place.table),
            change: SchemaChange::BuildIndex(number),
        };
        let build = place.batch(Op::Catalogue(build));
        let outcomes = place.done(&[build]);
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        let after = place.sql(made);
        assert_ne!(after, "", "it can be used");
        assert_eq!(after != before, is_half_built, "{name}");
    }
}
