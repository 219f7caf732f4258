//! Indexes that are built on PostgreSQL while others write.

use std::sync::Arc;
use std::thread;

use model::{Index, Table, TableNumber};
use testing_postgres::Cluster;
use tokio::runtime::{Builder, Runtime};

use super::draws::table;
use crate::postgres::row_tables::create_tables;
use crate::postgres::write::index_builds::build_index;
use crate::{DatabaseStore, DatabaseUrl, IndexBuildEnd, StoreError};

/// A store with the tables of a table, and none of its indexes.
struct Place {
    cluster: Arc<Cluster>,
    name: &'static str,
    url: DatabaseUrl,
    table: Table,
    runtime: Runtime,
}

impl Place {
    fn new(name: &'static str) -> Place {
        let cluster = Cluster::shared().unwrap();
        let make = format!("CREATE DATABASE {name}");
        cluster.run_sql("postgres", &[&make]).unwrap();
        let url = DatabaseUrl::parse(&cluster.url(name)).unwrap();
        DatabaseStore::open(&url, None).unwrap().close();
        let place = Place {
            cluster,
            name,
            url,
            table: table(),
            runtime: Builder::new_current_thread().enable_all().build().unwrap(),
        };
        assert_eq!(place.table.number, TableNumber(1));
        place.sql(&create_tables(place.table.number, &place.table.columns));
        place
    }

    fn try_sql(&self, sql: &str) -> Result<String, String> {
        let path = "SET search_path = tidemark";
        let found = self.cluster.run_sql(self.name, &[path, sql]);
        found
            .map(|found| found.trim_end().to_owned())
            .map_err(|error| error.to_string())
    }

    fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap()
    }

    /// Adds rows of now with these texts in the unique column.
    fn add(&self, texts: &[&str]) {
        for text in texts {
            self.sql(&format!(
                "INSERT INTO t1 (seq, vf, sf, origin, created, updated, rid, twin, body_epoch, id, \
                 perms, c1) SELECT n, 0, 0, 0, 0, 0, n, 0, 0, 'r' || n, '', '{text}' \
                 FROM (SELECT count(*) + 1 AS n FROM t1) AS t"
            ));
        }
    }

    fn build(&self) -> Result<IndexBuildEnd, StoreError> {
        let index: &Index = &self.table.indexes[0];
        let build = build_index(&self.url, None, (&self.table, index));
        self.runtime.block_on(build)
    }

    /// The indexes that are not the table's own, and whether they can be used.
    fn indexes(&self) -> String {
        self.sql(
            "SELECT string_agg(c.relname || ' ' || i.indisvalid, ', ' ORDER BY c.relname) \
             FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
             WHERE c.relnamespace = 'tidemark'::regnamespace AND NOT i.indisprimary \
             AND i.indrelid IN ('t1'::regclass, 't1_v'::regclass)",
        )
    }
}

/// The session that builds.
const BUILDS: &str = "FROM pg_stat_activity WHERE datname = current_database() \
                      AND query LIKE 'CREATE %INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'";

#[test]
fn an_index_is_built_beside_writes_and_again_after_a_try_that_ended_half_way() {
    let place = Place::new("built_again");
    place.add(&["a", "b"]);
    let both = "t1_i1 true, t1_v_i1 true";
    thread::scope(|scope| {
        let opens = "BEGIN; UPDATE t1 SET c2 = 1 WHERE id = 'r1'; SELECT pg_sleep(600)";
        let writing = scope.spawn(|| place.try_sql(opens));
        let is_open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND wait_event = 'PgSleep'";
        while place.sql(is_open) == "0" {}
        let building = scope.spawn(|| {
            let place = &place;
            let index = &place.table.indexes[0];
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(build_index(&place.url, None, (&place.table, index)))
        });
        while place.sql(&format!("SELECT count(*) {BUILDS}")) == "0" {}
        // Others write meanwhile.
        place.sql("SET lock_timeout = '1s'; UPDATE t1 SET c2 = 2 WHERE id = 'r2'");
        place.sql(&format!("SELECT pg_terminate_backend(pid) {BUILDS}"));
        let ended = building.join().unwrap();
        assert!(
            matches!(ended, Err(StoreError::Unreachable { .. })),
            "{ended:?}"
        );
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event = 'PgSleep'";
        place.sql(end);
        writing.join().unwrap().unwrap_err();
    });
    assert!(place.indexes().contains("false"), "{}", place.indexes());
    assert_eq!(place.build(), Ok(IndexBuildEnd::Ready));
    assert_eq!(place.indexes(), both);
    let is_made = "SELECT string_agg(indexrelid::text, ' ' ORDER BY indexrelid) FROM pg_index \
                   WHERE indrelid IN ('t1'::regclass, 't1_v'::regclass)";
    let made = place.sql(is_made);
    place.build().unwrap();
    assert_eq!(place.sql(is_made), made, "what is there stays");
}

#[test]
fn an_index_that_would_not_be_unique_leaves_nothing() {
    let place = Place::new("not_unique");
    place.add(&["a", "a"]);
    assert_eq!(place.build(), Ok(IndexBuildEnd::NotUnique));
    assert_eq!(place.indexes(), "");
    // No write meets what is left of it.
    place.add(&["a"]);
}
