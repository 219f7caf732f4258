//! How writes to a store in PostgreSQL go on when the database was gone, and how commits end of
//! which it did not say so.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;
mod relayed_store;

use std::sync::Arc;

use db::{COUNT, Db, Place, TITLE, column, listing, note};
use futures_executor::block_on;
use model::{ColumnKind, Field, Mark, Value};
use query::{Filter, Pattern, Query, Test};
use relayed_store::{Relayed, act_at_commit, answer, open_at, opens_transaction};
use store::{
    CatalogueOp, Committed, DatabaseUrl, InDoubt, IndexBuildEnd, Listing, Op, Refusal,
    SchemaChange, Store, StoreError, TotalCap, WriteBatch,
};
use testing::OwnTurn;
use testing_postgres::{Cluster, ClusterEnd, ClusterSettings};

/// Writes until the database takes it.
fn write_once_back(db: &mut Db, batch: &WriteBatch) {
    loop {
        match db.try_commit(std::slice::from_ref(batch)) {
            Ok(outcomes) => return assert!(outcomes[0].is_ok(), "{outcomes:?}"),
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
}

#[test]
fn writes_go_on_by_themselves_when_the_database_is_back() {
    let place = Relayed::new("served_back");
    let mut db = Db::with_notes(&place);
    for round in 0..3 {
        let id = format!("n{round}");
        let batch = db.batch(vec![db.insert(&id, note(&id))]);
        place.relay.cut();
        for _ in 0..2 {
            let refused = db.try_commit(std::slice::from_ref(&batch)).unwrap_err();
            assert!(
                matches!(refused, StoreError::Unreachable { .. }) && refused.is_retryable(),
                "{refused:?}"
            );
        }
        place.relay.go_on();
        write_once_back(&mut db, &batch);
    }
    // What ended while it was idle is no caller's concern.
    let end = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    place.sql(end);
    db.ok(vec![db.insert("last", note("last"))]);
    assert_eq!(place.sql("SELECT count(*) FROM t1"), "4");
    assert_eq!(db.load().mark, Mark(db.next.0 - 1_007));
}

#[test]
fn a_store_that_was_rewound_is_read_on_new_connections() {
    let place = Relayed::new("served_rewound");
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    let all = db.all();
    let read = || block_on(db.store.list(listing(&all, db.catalogue.epoch)));
    assert!(read().unwrap().mark > Mark::ZERO);
    block_on(db.store.rewind()).unwrap();
    place.sql(
        "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    assert_eq!(read().unwrap().mark, Mark::ZERO);
}

#[test]
fn a_store_that_went_back_is_not_written_to() {
    let place = Relayed::new("served_went_back");
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    place.relay.cut();
    place.sql("UPDATE meta SET mark = mark - 1");
    place.relay.go_on();
    let batch = db.batch(vec![db.insert("b", note("two"))]);
    let refused = loop {
        match db.try_commit(std::slice::from_ref(&batch)).unwrap_err() {
            StoreError::Unreachable { .. } => {}
            error => break error.to_string(),
        }
    };
    assert!(refused.contains("and was seen at"), "{refused}");
    assert_eq!(place.sql("SELECT count(*) FROM t1"), "1");
}

/// Commits a batch of which the database does not say how that ended.
#[track_caller]
fn in_doubt(db: &Db, batch: WriteBatch) -> Box<dyn InDoubt> {
    let pending = block_on(db.store.apply(&[batch], db.next)).unwrap();
    match block_on(pending.commit()) {
        Ok(Committed::Unknown(doubt)) => doubt,
        Ok(Committed::Done(outcomes)) => panic!("{outcomes:?}"),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_commit_in_doubt_is_found_done_or_not() {
    let place = Relayed::new("served_in_doubt");
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    let count = |db: &Db, number| db.batch(vec![db.update("a", vec![(COUNT, Value::Int(number))])]);
    for (act, is_done) in [
        ("RAISE WARNING 'not replicated'", true),
        ("PERFORM pg_terminate_backend(pg_backend_pid())", false),
    ] {
        place.at_commit("tx", act);
        let doubt = in_doubt(&db, count(&db, 100));
        assert_eq!(doubt.outcomes().len(), 1);
        assert_eq!(answer(doubt), is_done, "{act}");
        place.nothing_at_commit();
        let found = place.sql("SELECT c2 FROM t1");
        assert_eq!(found, if is_done { "100" } else { "1" }, "{act}");
        db.next = Mark(db.next.0 + 1_000);
        db.commit(&[count(&db, 1)]);
        // Without a mark.
        place.at_commit("staged", act);
        let doubt = in_doubt(&db, opens_transaction(&db, "t"));
        assert_eq!(answer(doubt), is_done, "{act}");
        place.nothing_at_commit();
        let found = place.sql("SELECT count(*) FROM staged");
        assert_eq!(found, if is_done { "1" } else { "0" }, "{act}");
        place.sql("DELETE FROM staged");
    }
    assert_eq!(place.sql("SELECT c2 FROM t1"), "1");
}

/// Another process writes without a mark.
const OF_ANOTHER: &str = "UPDATE meta SET groups = groups + 1, last_group = 'of another'";

#[test]
fn a_commit_in_doubt_behind_which_another_process_wrote_stays_so() {
    let place = Relayed::new("served_behind");
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    place.at_commit("tx", "PERFORM pg_terminate_backend(pg_backend_pid())");
    let batch = db.batch(vec![db.insert("b", note("two"))]);
    let mut doubt = in_doubt(&db, batch);
    place.nothing_at_commit();
    place.sql("UPDATE meta SET mark = mark + 1000000");
    place.sql(OF_ANOTHER);
    let refused = loop {
        match block_on(doubt.ask()) {
            Err(StoreError::Unreachable { .. }) => {}
            answer => break answer.unwrap_err(),
        }
    };
    assert!(
        matches!(refused, StoreError::OutcomeUnknown { .. }),
        "{refused:?}"
    );
    drop(doubt);
    let batch = db.batch(vec![db.insert("c", note("three"))]);
    assert_eq!(db.try_commit(&[batch]).unwrap_err(), StoreError::Stopped);
    db.close();
}

#[test]
fn a_turn_ends_where_another_process_wrote_after_it_began() {
    let place = Relayed::new("served_another");
    let mut db = Db::with_notes(&place);
    let before = block_on(db.store.turn()).unwrap().standing();
    let batches = [db.batch(vec![db.insert("a", note("one"))])];
    let turn = block_on(db.store.turn()).unwrap();
    let end = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    place.sql(end);
    place.sql(OF_ANOTHER);
    let refused = block_on(turn.apply(&batches, db.next)).err().unwrap();
    assert!(
        matches!(refused, StoreError::Unreachable { .. }) && refused.is_retryable(),
        "{refused:?}"
    );
    let after = block_on(db.store.turn()).unwrap().standing();
    assert_eq!((before.others, after.others), (0, 1));
    assert_eq!(after.mark, before.mark);
    db.commit(&batches);
    assert_eq!(place.sql("SELECT count(*) FROM t1"), "1");
}

#[test]
fn a_store_that_lost_what_takes_no_mark_is_not_written_to() {
    let place = Relayed::new("served_lost");
    let mut db = Db::with_notes(&place);
    let batch = db.batch(vec![db.insert("a", note("one"))]);
    place.relay.cut();
    place.sql("UPDATE meta SET groups = groups - 1");
    place.relay.go_on();
    let refused = loop {
        match db.try_commit(std::slice::from_ref(&batch)).unwrap_err() {
            StoreError::Unreachable { .. } => {}
            error => break error.to_string(),
        }
    };
    assert!(refused.contains("ends at commit"), "{refused}");
}

/// A primary with a standby; the store is opened on whichever takes writes.
struct Followed {
    primary: Cluster,
    standby: Cluster,
    keys: tempfile::TempDir,
}

impl Followed {
    fn new() -> Followed {
        let settings = ClusterSettings::default();
        let primary = Cluster::start(&settings).unwrap();
        primary
            .run_sql("postgres", &["CREATE DATABASE followed"])
            .unwrap();
        Followed {
            standby: primary.standby(&settings).unwrap(),
            primary,
            keys: tempfile::tempdir().unwrap(),
        }
    }

    /// From now on the standby gets nothing more, and has all that was written before.
    fn part(&self) {
        let written = self
            .primary
            .run_sql("postgres", &["SELECT pg_current_wal_lsn()"]);
        let is_behind = format!(
            "SELECT pg_last_wal_replay_lsn() < '{}'::pg_lsn",
            written.unwrap().trim()
        );
        let standby = |sql: &str| self.standby.run_sql("postgres", &[sql]).unwrap();
        while standby(&is_behind) == "t\n" {}
        standby("ALTER SYSTEM SET primary_conninfo = ''");
        standby("SELECT pg_reload_conf()");
        while standby("SELECT count(*) FROM pg_stat_wal_receiver") != "0\n" {}
    }
}

impl Place for Followed {
    fn open(&self) -> Arc<dyn Store> {
        let url = Cluster::url_of(&[&self.primary, &self.standby], "followed");
        open_at(&DatabaseUrl::parse(&url).unwrap(), self.keys.path())
    }
}

#[test]
fn a_commit_in_doubt_that_a_promotion_lost_was_not_done() {
    let mut place = Followed::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    let late = act_at_commit("staged", "RAISE WARNING 'not replicated'");
    let path = "SET search_path = tidemark";
    place.primary.run_sql("followed", &[path, &late]).unwrap();
    place.part();
    // Without a mark. The standby gives the number of its transaction again.
    let doubt = in_doubt(&db, opens_transaction(&db, "t"));
    let count = "SELECT count(*) FROM tidemark.staged";
    assert_eq!(place.primary.run_sql("followed", &[count]).unwrap(), "1\n");
    place.primary.end(ClusterEnd::Killed);
    place.standby.promote().unwrap();
    assert!(!answer(doubt));
    assert_eq!(place.standby.run_sql("followed", &[count]).unwrap(), "0\n");
    db.ok(vec![db.insert("b", note("two"))]);
}

#[test]
fn a_primary_that_comes_back_is_passed_by() {
    let mut place = Followed::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    place.part();
    let others = |db: &Db| block_on(db.store.turn()).unwrap().standing().others;
    assert_eq!(others(&db), 0);
    place.primary.end(ClusterEnd::Killed);
    place.standby.promote().unwrap();
    let batch = db.batch(vec![db.insert("b", note("two"))]);
    write_once_back(&mut db, &batch);
    assert_eq!(others(&db), 1, "caches may hold what was not handed on");
    // It is the first host of the URL, and takes writes.
    place
        .primary
        .start_again(&ClusterSettings::default())
        .unwrap();
    let end = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
               WHERE datname = 'followed' AND pid <> pg_backend_pid()";
    place.standby.run_sql("postgres", &[end]).unwrap();
    let batch = db.batch(vec![db.insert("c", note("three"))]);
    write_once_back(&mut db, &batch);
    assert!(db.get("c").is_some());
    db.close();
    // Nor does a start take it.
    let mut db = Db::open(&place);
    assert_eq!(db.ids(), ["a", "b", "c"]);
    db.ok(vec![db.insert("d", note("four"))]);
    let count = "SELECT count(*) FROM tidemark.t1";
    assert_eq!(place.standby.run_sql("followed", &[count]).unwrap(), "4\n");
    assert_eq!(place.primary.run_sql("followed", &[count]).unwrap(), "1\n");
}

#[test]
fn a_commit_in_doubt_that_is_left_is_the_last_one() {
    let place = Relayed::new("served_left");
    let mut db = Db::with_notes(&place);
    place.at_commit("tx", "RAISE WARNING 'not replicated'");
    let batch = db.batch(vec![db.insert("a", note("one"))]);
    drop(in_doubt(&db, batch));
    place.nothing_at_commit();
    let batch = db.batch(vec![db.insert("b", note("two"))]);
    assert_eq!(db.try_commit(&[batch]).unwrap_err(), StoreError::Stopped);
    db.close();
}

/// The same as a user who is no superuser.
struct Plain(Relayed);

impl Place for Plain {
    fn open(&self) -> Arc<dyn Store> {
        let url = self.0.cluster.url(self.0.database);
        let url = url.replacen("//tidemark@", "//plain@", 1);
        open_at(&DatabaseUrl::parse(&url).unwrap(), self.0.keys.path())
    }
}

#[test]
fn a_right_that_is_revoked_is_named_and_what_does_not_need_it_is_written() {
    let place = Plain(Relayed::new("served_revoked"));
    place.0.sql("CREATE ROLE plain LOGIN");
    place
        .0
        .sql("GRANT CREATE ON DATABASE served_revoked TO plain");
    let mut db = Db::with_notes(&place);
    place.0.sql("REVOKE ALL ON t1 FROM plain");
    let transaction = opens_transaction(&db, "t");
    let row = db.batch(vec![db.insert("a", note("one"))]);
    // The writer of the engine runs the batches of such a group one by one.
    let both = [transaction.clone(), row.clone()];
    for batches in [&both[..], &both[1..]] {
        let refused = db.try_commit(batches).unwrap_err();
        assert!(
            matches!(&refused, StoreError::DatabaseUnfit(finding)
                if finding.found.contains("permission denied")),
            "{refused:?}"
        );
    }
    let outcomes = db.try_commit(&[transaction]).unwrap();
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    place.0.sql("GRANT ALL ON t1 TO plain");
    let outcomes = db.try_commit(&[row]).unwrap();
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(place.0.sql("SELECT count(*) FROM t1"), "1");
    db.close();
}

#[test]
fn round_trips_and_rows_of_commits_are_counted_and_so_are_connections() {
    let place = Relayed::new("served_counts");
    let mut db = Db::with_notes(&place);
    let counts = |db: &Db| db.store.counts().database.unwrap();
    let before = counts(&db);
    assert!(before.connections_busy <= before.connections, "{before:?}");
    let inserts = |round: usize| {
        let ids = (0..3).map(|n| format!("n{round}-{n}"));
        ids.map(|id| db.batch(vec![db.insert(&id, note(&id))]))
            .collect::<Vec<_>>()
    };
    let groups: Vec<_> = (0..4).map(inserts).collect();
    for group in &groups {
        assert!(db.commit(group).iter().all(Result::is_ok));
    }
    let after = counts(&db);
    let of = |of: fn(&store::DatabaseCounts) -> &store::tally::Distribution| {
        let (before, after) = (of(&before), of(&after));
        (after.count() - before.count(), after.sum - before.sum)
    };
    let (groups, trips) = of(|counts| &counts.round_trips);
    // The first ones prepare statements.
    assert_eq!(groups, 4);
    assert!((8..20).contains(&trips), "{trips} round trips");
    assert_eq!(of(|counts| &counts.held_rows), (4, 12));
    let (_, bytes) = of(|counts| &counts.held_bytes);
    assert!(bytes > 12 * 100, "{bytes}");
    // The writer's, one of the reads that opened the store, and its successor.
    assert_eq!(db.load().mark.0 + 1_007, db.next.0);
    let open = counts(&db);
    assert!((2..=3).contains(&open.connections), "{open:?}");
    assert_eq!(open.connections_busy, 0, "{open:?}");
    assert!(open.connections < open.connections_max, "{open:?}");
    place.relay.cut();
    let batch = db.batch(vec![db.delete("n0-0")]);
    db.try_commit(&[batch]).unwrap_err();
    while counts(&db).connections > 0 {}
}

#[test]
fn an_index_is_built_outside_of_commits() {
    let place = Relayed::new("served_builds");
    let db = Db::with_notes(&place);
    let table = db.table();
    let number = table.indexes[0].number;
    place.sql(&format!("DROP INDEX t1_i{number}"));
    let built = "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid = ";
    let built = format!("{built} to_regclass('t1_i{number}')");
    assert_eq!(place.sql(&built), "0");
    assert_eq!(
        block_on(db.store.build(&table, number)),
        Ok(IndexBuildEnd::Ready)
    );
    assert_eq!(place.sql(&built), "1");
    db.close();
}

/// A server that vacuums by itself, very slowly.
struct Vacuuming {
    cluster: Cluster,
    keys: tempfile::TempDir,
}

impl Vacuuming {
    fn new() -> Vacuuming {
        let settings = ClusterSettings {
            further: &[
                "autovacuum_naptime=1s",
                "autovacuum_vacuum_cost_delay=100ms",
                "autovacuum_vacuum_cost_limit=1",
            ],
            ..ClusterSettings::default()
        };
        let cluster = Cluster::start(&settings).unwrap();
        let made = "CREATE DATABASE vacuuming";
        cluster.run_sql("postgres", &[made]).unwrap();
        Vacuuming {
            cluster,
            keys: tempfile::tempdir().unwrap(),
        }
    }

    fn sql(&self, statements: &[&str]) -> String {
        let mut all = vec!["SET search_path = tidemark"];
        all.extend(statements);
        let found = self.cluster.run_sql("vacuuming", &all).unwrap();
        found.trim_end().to_owned()
    }
}

impl Place for Vacuuming {
    fn open(&self) -> Arc<dyn Store> {
        let url = DatabaseUrl::parse(&self.cluster.url("vacuuming")).unwrap();
        open_at(&url, self.keys.path())
    }
}

/// Each try waits for a tenth of a second; the vacuum takes longer than all of them.
const TRIES_MAX: usize = 300;

#[test]
fn a_table_that_the_server_vacuums_is_changed_by_and_by() {
    let place = Vacuuming::new();
    let mut db = Db::with_notes(&place);
    let rows = "INSERT INTO t1 (seq, vf, sf, origin, created, updated, rid, twin, body_epoch, id, \
                perms, c1) SELECT g, 1, 1, 1, 1, 1, g, 1, 0, 'g' || g, '', repeat('x', 100) \
                FROM generate_series(1, 50000) AS g";
    place.sql(&[rows, "DELETE FROM t1"]);
    let is_vacuumed = "SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 't1'::regclass";
    while place.sql(&[is_vacuumed]) == "0" {}
    let add = |db: &Db| {
        Op::Catalogue(CatalogueOp::ChangeSchema {
            table: db.table(),
            change: SchemaChange::AddColumn(column(0, "z", ColumnKind::Boolean, false)),
        })
    };
    let mut tries = 0;
    loop {
        let op = add(&db);
        match db.try_ops(vec![op]) {
            Ok(_) => break,
            Err(Refusal::TablesBusy) => tries += 1,
            Err(refusal) => panic!("{refusal:?}"),
        }
        assert!(tries < TRIES_MAX, "the vacuum does not give way");
    }
    assert!(tries > 0, "the vacuum is in the way");
    db.close();
}

/// More rows than a preview once took at a time.
const TESTED_ROWS: usize = 100_001;

#[test]
fn a_preview_tests_as_many_rows_as_its_time_allows() {
    let place = Relayed::new("served_tested");
    let db = Db::with_notes(&place);
    place.sql(&format!(
        "INSERT INTO t1 (seq, vf, sf, origin, created, updated, rid, twin, body_epoch, id, perms, \
         c1) SELECT g, 1, 1, 1, 1, 1, g, 1, 0, 'g' || g, '', \
         'x' || g || left('z', g / {TESTED_ROWS}) FROM generate_series(1, {TESTED_ROWS}) AS g"
    ));
    let pattern = Pattern::parse("^(?:x[0-9]+y|x[0-9]+z)$").unwrap();
    let query = Query {
        filter: Filter::Field(Field::Column(TITLE), Test::Matches(pattern)),
        ..db.all()
    };
    let preview = block_on(db.store.preview(&[], db.next, 600_000)).unwrap();
    let listed = block_on(preview.list(Listing {
        total: Some(TotalCap::None),
        ..listing(&query, db.catalogue.epoch)
    }));
    let listed = listed.unwrap();
    let ids: Vec<String> = listed.rows.iter().map(|row| row.id.to_string()).collect();
    assert_eq!((ids, listed.total), (vec![format!("g{TESTED_ROWS}")], 1));
    // A page that is full leaves the rest where it is, and the next list finds no cursor.
    let first = Pattern::parse("^(?:x[0-9]+|y)$").unwrap();
    let first = Query {
        filter: Filter::Field(Field::Column(TITLE), Test::Matches(first)),
        limit: 1,
        ..db.all()
    };
    for _ in 0..2 {
        let listed = block_on(preview.list(listing(&first, db.catalogue.epoch))).unwrap();
        assert_eq!(listed.rows[0].id.to_string(), "g1");
    }
    drop(preview);
    db.close();
}
