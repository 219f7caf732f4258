//! The same of a real PostgreSQL, against changes that SQLite does one by one.

use std::sync::Arc;

use model::{Catalogue, Mark, Timestamp};
use proptest::test_runner::{RngAlgorithm, TestRng};
use testing_postgres::Cluster;

use super::draws::{BatchDraws, table};
use super::{FIRST_MARK, GROUPS, dump, held, run_at_once, told, writer_in};
use crate::batch::WriteBatch;
use crate::postgres::row_tables::{create_indexes, create_tables};
use crate::postgres::write::writer::{DatabaseWriter, GroupEnd};
use crate::sqlite::upkeep::tests::encode;
use crate::{DatabaseStore, DatabaseUrl};

/// Each group takes some round trips and a commit.
const SEQUENCES: u8 = 6;

/// A store of a database of its own, with the table of these tests.
pub(super) fn writer(cluster: &Cluster, name: &str, catalogue: &Arc<Catalogue>) -> DatabaseWriter {
    let made = format!("CREATE DATABASE {name}");
    cluster.run_sql("postgres", &[&made]).unwrap();
    let url = DatabaseUrl::parse(&cluster.url(name)).unwrap();
    let store = DatabaseStore::open(&url, None).unwrap();
    let table = table();
    let statements = [
        create_tables(table.number, &table.columns),
        create_indexes(&table),
        "INSERT INTO table_bytes (tab, bytes) VALUES (1, 0)".to_owned(),
    ];
    let script = format!("SET search_path = tidemark; {}", statements.join(";"));
    cluster.run_sql(name, &[&script]).unwrap();
    let writer = store.into_writer(encode).unwrap();
    writer.with_catalogue(Arc::clone(catalogue))
}

fn run(writer: &mut DatabaseWriter, batches: &[WriteBatch], first: Mark) -> Vec<String> {
    let group = writer.apply(batches, first).unwrap();
    match writer.commit(group) {
        GroupEnd::Done(outcomes) => outcomes.into_iter().map(told).collect(),
        other => panic!("{other:?}"),
    }
}

fn dump_of(writer: &DatabaseWriter) -> Vec<String> {
    let lines = held("nth").map(|sql| {
        let mut lines = writer.lines(&sql);
        lines.sort_unstable();
        lines
    });
    lines.concat()
}

#[test]
fn working_set_over_postgresql_leaves_answers_and_refuses_what_sqlite_does() {
    let cluster = Cluster::shared().unwrap();
    let (mut done, mut refused) = (0, 0);
    for sequence in 0..SEQUENCES {
        let directory = tempfile::tempdir().unwrap();
        let mut sqlite = writer_in(directory.path());
        let catalogue = Arc::clone(&sqlite.state().catalogue);
        let mut postgres = writer(&cluster, &format!("groups_{sequence}"), &catalogue);
        let seed = [sequence; 32];
        let mut draws = BatchDraws(TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        for group in 0..GROUPS {
            let first = Mark(FIRST_MARK + 1_000 * group as i64);
            let batches = draws.group(&catalogue, Timestamp(first.0));
            let expected = run_at_once(&mut sqlite, &batches, first);
            let found = run(&mut postgres, &batches, first);
            let context = format!("sequence {sequence}, group {group}: {batches:#?}");
            assert_eq!(found, expected, "{context}");
            assert_eq!(dump_of(&postgres), dump(&sqlite), "{context}");
            assert_eq!(postgres.committed().boundaries, sqlite.state().boundaries);
            let count = |start: &str| expected.iter().filter(|one| one.starts_with(start)).count();
            done += count("Ok");
            refused += count("Err");
        }
    }
    assert!(
        done > 250 && refused > 50,
        "both happen: {done} and {refused}"
    );
}
