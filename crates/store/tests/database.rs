//! A store in a schema of a PostgreSQL database: how one is made, owned and refused.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use model::Timestamp;
use store::{
    DatabaseStore, DatabaseUrl, Maintained, StoreError, Verdict, accept_restore, examine_database,
    maintain_database,
};
use testing_postgres::{Cluster, ClusterEnd, ClusterSettings};

fn cluster() -> Arc<Cluster> {
    Cluster::shared().unwrap()
}

/// A database of a test's own.
fn database(cluster: &Cluster, name: &str) {
    let make = format!("CREATE DATABASE {name}");
    cluster.run_sql("postgres", &[&make]).unwrap();
}

fn url(text: &str) -> DatabaseUrl {
    DatabaseUrl::parse(text).unwrap()
}

/// The same place by the name of another user.
fn by_user(text: &str, user: &str) -> DatabaseUrl {
    url(&text.replacen("//tidemark@", &format!("//{user}@"), 1))
}

fn open(url: &DatabaseUrl) -> Result<DatabaseStore, StoreError> {
    DatabaseStore::open(url, None)
}

#[track_caller]
fn check_refused(url: &DatabaseUrl, found: &str, advice: &str) {
    let refused = open(url).err().expect("no store can be there");
    assert!(
        matches!(refused, StoreError::DatabaseUnfit(_)),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(text.contains(found), "`{found}` is not in: {text}");
    assert!(text.contains(advice), "`{advice}` is not in: {text}");
    assert!(text.ends_with('.') && !text.ends_with(".."), "{text}");
}

#[test]
fn a_first_start_makes_a_store_and_the_next_one_finds_it() {
    let cluster = cluster();
    database(&cluster, "first");
    let place = url(&cluster.url("first"));
    let store = open(&place).unwrap();
    let lineage = store.lineage().to_owned();
    assert_eq!(lineage.len(), 32, "{lineage}");
    store.close();
    let store = open(&place).unwrap();
    assert_eq!(store.lineage(), lineage);
    // Texts compare by bytes wherever they stand.
    let other = "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
                 JOIN pg_collation l ON l.oid = a.attcollation \
                 WHERE c.relnamespace = 'tidemark'::regnamespace AND l.collname <> 'C'";
    assert_eq!(cluster.run_sql("first", &[other]).unwrap(), "0\n");
}

#[test]
fn a_store_has_one_owner_who_is_named_to_others() {
    let cluster = cluster();
    database(&cluster, "owned");
    let text = cluster.url("owned");
    let place = url(&text);
    let first = open(&place).unwrap();
    let refused = open(&place).err().unwrap();
    let StoreError::Locked {
        holder: Some(holder),
        ..
    } = &refused
    else {
        panic!("{refused:?}");
    };
    let holder_pid = holder.split(' ').nth(1).unwrap();
    let owner = "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                 WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    let pids = cluster.run_sql("owned", &[owner]).unwrap();
    assert_eq!(pids.trim(), holder_pid, "{refused}");
    // Another schema of the same database is another store.
    let beside = open(&url(&format!("{text}&schema=beside"))).unwrap();
    assert_ne!(beside.lineage(), first.lineage());
    first.close();
    open(&place).unwrap().close();
}

#[test]
fn first_starts_at_one_time_make_one_store() {
    let cluster = cluster();
    database(&cluster, "raced");
    let place = url(&cluster.url("raced"));
    let starts = thread::scope(|scope| {
        let start = || scope.spawn(|| open(&place));
        let threads: Vec<_> = (0..4).map(|_| start()).collect();
        let ends = threads.into_iter().map(|thread| thread.join().unwrap());
        ends.collect::<Vec<_>>()
    });
    let owners: Vec<_> = starts
        .iter()
        .filter_map(|start| start.as_ref().ok())
        .collect();
    assert_eq!(owners.len(), 1);
    let others = starts.iter().filter_map(|start| start.as_ref().err());
    for error in others {
        assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    }
}

#[test]
fn a_database_that_cannot_hold_a_store_is_refused_with_what_is_missing() {
    let cluster = cluster();
    let made = [
        "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0",
        "CREATE DATABASE narrow",
        "CREATE ROLE guest LOGIN",
    ];
    cluster.run_sql("postgres", &made).unwrap();
    check_refused(
        &url(&cluster.url("nowhere")),
        "\"nowhere\" does not exist",
        "CREATE DATABASE \"nowhere\" ENCODING 'UTF8'.",
    );
    check_refused(
        &url(&cluster.url("ascii")),
        "ascii has the encoding SQL_ASCII",
        "ENCODING 'UTF8' TEMPLATE template0.",
    );
    let text = cluster.url("narrow");
    check_refused(
        &by_user(&text, "guest"),
        "`tidemark` is not there, and the user `guest` may not make it.",
        "CREATE SCHEMA \"tidemark\" AUTHORIZATION \"guest\".",
    );
    cluster
        .run_sql("narrow", &["CREATE SCHEMA tidemark"])
        .unwrap();
    check_refused(
        &by_user(&text, "guest"),
        "the user `guest` may not make tables in it.",
        "GRANT USAGE, CREATE ON SCHEMA \"tidemark\" TO \"guest\".",
    );
    let others = "CREATE TABLE tidemark.meta (mark bigint)";
    cluster.run_sql("narrow", &[others]).unwrap();
    check_refused(
        &url(&text),
        "`tidemark` holds 1 tables, indexes or others of something else.",
        "?schema=",
    );
    // The rights that the sentences name are enough.
    let given = "CREATE SCHEMA own AUTHORIZATION guest";
    cluster.run_sql("narrow", &[given]).unwrap();
    let own = by_user(&format!("{text}&schema=own"), "guest");
    open(&own).unwrap().close();
}

#[test]
fn a_store_of_a_newer_format_is_left_alone() {
    let cluster = cluster();
    database(&cluster, "newer");
    let place = url(&cluster.url("newer"));
    open(&place).unwrap().close();
    let raise = "UPDATE tidemark.meta SET format = format + 1";
    cluster.run_sql("newer", &[raise]).unwrap();
    let refused = open(&place).err().unwrap();
    assert!(
        matches!(refused, StoreError::Format { found, newest } if found == newest + 1),
        "{refused:?}"
    );
}

#[test]
fn a_store_that_was_taken_elsewhere_is_refused_until_that_is_accepted() {
    let cluster = cluster();
    database(&cluster, "restored");
    let place = url(&cluster.url("restored"));
    let run = |sql: &str| cluster.run_sql("restored", &[sql]).unwrap();
    let is_kept = "SELECT system = (SELECT system_identifier::text FROM pg_control_system()), \
                   timeline FROM tidemark.meta";
    let store = open(&place).unwrap();
    let first = store.lineage().to_owned();
    store.close();
    assert_eq!(run(is_kept), "t|1\n");
    assert_eq!(said_of(&place, "lineage").0, Verdict::Good);
    // As if a backup of another cluster, or of a later timeline, had been put here.
    for (taken, said) in [
        ("system = '17'", "and was in 17."),
        ("timeline = 3", "another one was on 3."),
    ] {
        run(&format!("UPDATE tidemark.meta SET {taken}"));
        check_refused(&place, said, "doctor --accept-restore");
        let (verdict, found) = said_of(&place, "lineage");
        assert!(verdict == Verdict::Bad && found.contains(said), "{found}");
        let lineage = accept_restore(&place, None).unwrap();
        let store = open(&place).unwrap();
        assert_eq!(store.lineage(), lineage);
        assert_ne!(lineage, first);
        store.close();
        assert_eq!(run(is_kept), "t|1\n");
    }
    // A promotion is no loss.
    let store = open(&place).unwrap();
    let last = store.lineage().to_owned();
    store.close();
    run("UPDATE tidemark.meta SET timeline = 0");
    let promoted = said_of(&place, "lineage");
    assert!(promoted.1.contains("promoted"), "{}", promoted.1);
    let store = open(&place).unwrap();
    assert_eq!(store.lineage(), last);
    let refused = accept_restore(&place, None).err().unwrap();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    store.close();
    assert_eq!(run(is_kept), "t|1\n");
}

#[test]
fn a_store_goes_on_in_a_standby_that_is_promoted() {
    let settings = ClusterSettings::default();
    let mut primary = Cluster::start(&settings).unwrap();
    database(&primary, "followed");
    let standby = primary.standby(&settings).unwrap();
    let place = url(&Cluster::url_of(&[&primary, &standby], "followed"));
    let store = open(&place).unwrap();
    let lineage = store.lineage().to_owned();
    store.close();
    let written = primary.run_sql("postgres", &["SELECT pg_current_wal_lsn()"]);
    let behind = format!(
        "SELECT pg_last_wal_replay_lsn() < '{}'::pg_lsn",
        written.unwrap().trim()
    );
    while standby.run_sql("postgres", &[&behind]).unwrap() == "t\n" {}
    primary.end(ClusterEnd::Killed);
    // Until it is promoted it takes no writes.
    check_refused(&place, "is a standby", "Look at the host");
    standby.promote().unwrap();
    let store = open(&place).unwrap();
    assert_eq!(store.lineage(), lineage);
    store.close();
    let timeline = "SELECT timeline FROM tidemark.meta";
    assert_eq!(standby.run_sql("followed", &[timeline]).unwrap(), "2\n");
}

#[test]
fn a_restore_is_accepted_only_where_a_store_is() {
    let cluster = cluster();
    database(&cluster, "unrestored");
    let place = url(&cluster.url("unrestored"));
    let refused = accept_restore(&place, None).err().unwrap().to_string();
    assert!(
        refused.contains("holds no store that was restored"),
        "{refused}"
    );
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'tidemark'";
    assert_eq!(cluster.run_sql("unrestored", &[schemas]).unwrap(), "0\n");
}

#[test]
fn a_database_that_only_reads_is_refused_with_its_own_words() {
    let cluster = cluster();
    database(&cluster, "reading");
    let readonly = "ALTER DATABASE reading SET default_transaction_read_only = on";
    cluster.run_sql("postgres", &[readonly]).unwrap();
    let refused = open(&url(&cluster.url("reading"))).err().unwrap();
    let text = refused.to_string();
    assert!(text.contains("read-only transaction"), "{text}");
}

/// What the doctor says of the store that is there: its verdict, and both sentences.
fn said_of(url: &DatabaseUrl, check: &str) -> (Verdict, String) {
    let findings = examine_database(url, None, Path::new("none"), &|| Timestamp(0));
    let finding = findings.into_iter().find(|one| one.check == check);
    let finding = finding.unwrap_or_else(|| panic!("nothing is said of {check}"));
    let advice = finding.advice.unwrap_or_default();
    (finding.verdict, format!("{} {advice}", finding.found))
}

#[test]
fn a_store_that_needs_its_operator_is_found() {
    let cluster = cluster();
    database(&cluster, "worn");
    let place = url(&cluster.url("worn"));
    open(&place).unwrap().close();
    let checks = ["indexes", "dead rows", "heap-only updates", "key"];
    for check in checks {
        let (verdict, said) = said_of(&place, check);
        assert_eq!(verdict, Verdict::Good, "{said}");
    }
    // As the tables of rows are, but with no room for a second version in a page.
    let wear = [
        "CREATE TABLE tidemark.t7 (seq bigint PRIMARY KEY, id text UNIQUE, body text) \
         WITH (autovacuum_enabled = off)",
        "INSERT INTO tidemark.t7 SELECT n, n, repeat('x', 200) FROM generate_series(1, 12000) AS n",
        "UPDATE tidemark.t7 SET body = repeat('y', 200)",
        "CREATE TABLE tidemark.t8 (seq bigint)",
        "INSERT INTO tidemark.t8 VALUES (1), (1)",
        "SELECT pg_stat_force_next_flush()",
    ];
    cluster.run_sql("worn", &wear).unwrap();
    let build = "CREATE UNIQUE INDEX CONCURRENTLY broken ON tidemark.t8 (seq)";
    cluster.run_sql("worn", &[build]).unwrap_err();
    for (check, parts) in checks.into_iter().zip([
        [
            "building of broken",
            "DROP INDEX CONCURRENTLY \"tidemark\".\"broken\"",
        ],
        ["in `t7` 12000 are dead", "VACUUM \"tidemark\".\"t7\""],
        [
            "Of 12000 updates of `t7`",
            "VACUUM (FULL) \"tidemark\".\"t7\"",
        ],
    ]) {
        let (verdict, said) = said_of(&place, check);
        assert_eq!(verdict, Verdict::Warning, "{said}");
        for part in parts {
            assert!(said.contains(part), "`{part}` is not in: {said}");
        }
    }
    let seal = "UPDATE tidemark.meta SET key_id = 'k'";
    cluster.run_sql("worn", &[seal]).unwrap();
    let (verdict, said) = said_of(&place, "key");
    assert_eq!(verdict, Verdict::Bad, "{said}");
    assert!(said.contains("none/tidemark.key is not there"), "{said}");
}

#[test]
fn bytes_of_erased_rows_are_told_of_until_their_tables_are_rewritten() {
    let cluster = cluster();
    database(&cluster, "erased");
    let place = url(&cluster.url("erased"));
    open(&place).unwrap().close();
    let run = |sql: &str| cluster.run_sql("erased", &[sql]).unwrap();
    let need = |verdict, part: &str| {
        let (found, said) = said_of(&place, "erased rows");
        assert_eq!(found, verdict, "{said}");
        assert!(said.contains(part), "`{part}` is not in: {said}");
    };
    for table in ["t7", "t7_v", "t8"] {
        run(&format!("CREATE TABLE tidemark.{table} (seq bigint)"));
    }
    need(Verdict::Good, "No table");
    run("INSERT INTO tidemark.erasure VALUES (7, 1)");
    let all = ["request_key", "staged_op", "t7", "t7_v", "tx_row"];
    need(Verdict::Warning, &format!(": {}.", all.join(", ")));
    // These free old transactions of what they take over, or make the table's entry again.
    run("VACUUM (FREEZE) tidemark.t7");
    run("ALTER TABLE tidemark.t7_v ADD COLUMN n bigint");
    need(Verdict::Warning, &format!(": {}.", all.join(", ")));
    run("VACUUM (FULL) tidemark.t7");
    need(Verdict::Warning, ": request_key, staged_op, t7_v, tx_row.");
    let maintain = || {
        let mut begun = Vec::new();
        let mut begins = |table: &str| begun.push(table.to_owned());
        let maintained = maintain_database(&place, None, &mut begins).unwrap();
        (begun, maintained)
    };
    let (begun, maintained) = maintain();
    assert_eq!(begun, ["request_key", "staged_op", "t7_v", "tx_row"]);
    assert_eq!((maintained.rewritten, maintained.left), (begun, vec![]));
    need(Verdict::Good, "No table");
    let nothing = (Vec::new(), Maintained::default());
    assert_eq!(maintain(), nothing, "all is done");
    thread::scope(|scope| {
        // What an old snapshot may read is kept by a rewrite, too.
        let reads = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT pg_sleep(600)";
        let reading = scope.spawn(|| cluster.run_sql("erased", &[reads]));
        let sleeper = "FROM pg_stat_activity WHERE datname = current_database() \
                       AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
        let has_begun = format!("SELECT count(*) {sleeper} AND backend_xmin IS NOT NULL");
        while run(&has_begun) == "0\n" {}
        run("UPDATE tidemark.erasure SET tt = 2");
        need(Verdict::Warning, &format!(": {}.", all.join(", ")));
        let (_, maintained) = maintain();
        run(&format!(
            "SELECT pg_terminate_backend(pid, 60000) {sleeper}"
        ));
        reading.join().unwrap().unwrap_err();
        assert_eq!(
            (maintained.left, maintained.rewritten),
            (all.map(str::to_owned).into(), vec![])
        );
    });
    assert_eq!(maintain().1.rewritten, all);
    need(Verdict::Good, "No table");
    // What one transaction makes of both is a copy, which has no erased row.
    let copied = "BEGIN; CREATE TABLE tidemark.t9 (seq bigint); \
                  DELETE FROM tidemark.erasure; INSERT INTO tidemark.erasure VALUES (9, 1); COMMIT";
    run(copied);
    need(Verdict::Good, "No table");
}

#[test]
fn an_index_that_is_being_built_is_not_taken_for_one_that_was_given_up() {
    let cluster = cluster();
    database(&cluster, "building");
    let place = url(&cluster.url("building"));
    open(&place).unwrap().close();
    let run = |sql: &str| cluster.run_sql("building", &[sql]).unwrap();
    run("CREATE TABLE tidemark.t8 (seq bigint)");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND query LIKE '%pg_sleep%' \
               AND pid <> pg_backend_pid()";
    thread::scope(|scope| {
        // It waits for the session that has written to the table.
        let writes = "BEGIN; INSERT INTO tidemark.t8 VALUES (1); SELECT pg_sleep(600)";
        let writing = scope.spawn(|| cluster.run_sql("building", &[writes]));
        let build = "CREATE INDEX CONCURRENTLY waits ON tidemark.t8 (seq)";
        let is_held = "SELECT count(*) FROM pg_locks WHERE relation = 'tidemark.t8'::regclass";
        while run(is_held) == "0\n" {}
        let building = scope.spawn(|| cluster.run_sql("building", &[build]));
        let is_begun = "SELECT count(*) FROM pg_stat_progress_create_index p \
                        JOIN pg_class c ON c.oid = p.index_relid WHERE c.relname = 'waits'";
        while run(is_begun) == "0\n" {
            assert!(!building.is_finished(), "it waited for nothing");
        }
        let said = said_of(&place, "indexes");
        run(end);
        writing.join().unwrap().unwrap_err();
        building.join().unwrap().unwrap();
        assert_eq!(said.0, Verdict::Good, "{}", said.1);
    });
}
