//! The same of a real PostgreSQL, against changes that SQLite does one by one.

use std::path::Path;
use std::sync::Arc;

use model::{Catalogue, Mark, Timestamp};
use testing_postgres::Cluster;

use super::draws::{BatchDraws, NEVER_DUE, SOON_DUE, table};
use super::{FIRST_MARK, GROUPS, dump, held, told, writer_in};
use crate::batch::WriteBatch;
use crate::postgres::row_tables::{create_indexes, create_tables};
use crate::postgres::write::writer::{AppliedGroup, DatabaseWriter, GroupEnd};
use crate::sqlite::commit::writer::Writer;
use crate::sqlite::upkeep::tests::encode;
use crate::vault::StoreKeys;
use crate::{DatabaseStore, DatabaseUrl};

/// Each group takes some round trips and a commit.
const SEQUENCES: u8 = 6;

/// A store of a database of its own, with the table of these tests.
pub(super) fn writer(
    cluster: &Cluster,
    name: &str,
    catalogue: &Arc<Catalogue>,
    keys: &Path,
) -> DatabaseWriter {
    let made = format!("CREATE DATABASE {name}");
    cluster.run_sql("postgres", &[&made]).unwrap();
    let url = DatabaseUrl::parse(&cluster.url(name)).unwrap();
    let store = DatabaseStore::open(&url, None).unwrap();
    let table = table();
    let statements = [
        create_tables(table.number, &table.columns),
        create_indexes(&table),
        "INSERT INTO table_bytes (tab, bytes) VALUES (1, 0)".to_owned(),
        "UPDATE meta SET next_table = 2, next_database = 2".to_owned(),
    ];
    let script = format!("SET search_path = tidemark; {}", statements.join(";"));
    cluster.run_sql(name, &[&script]).unwrap();
    let writer = store.into_writer(encode, StoreKeys::of(keys)).unwrap();
    writer.with_catalogue(Arc::clone(catalogue))
}

/// What became of the batches, and what became due before them.
pub(super) fn run(writer: &mut DatabaseWriter, batches: &[WriteBatch], first: Mark) -> Vec<String> {
    let group = writer.apply(batches, first).unwrap();
    end(writer, group)
}

fn end(writer: &mut DatabaseWriter, group: AppliedGroup) -> Vec<String> {
    let due = format!("{:?}", group.due);
    match writer.commit(group) {
        GroupEnd::Done(outcomes) => outcomes.into_iter().map(told).chain([due]).collect(),
        other => panic!("{other:?}"),
    }
}

/// The same, done by single changes.
pub(super) fn run_in_sqlite(
    writer: &mut Writer,
    batches: &[WriteBatch],
    first: Mark,
) -> Vec<String> {
    let outcomes = writer.apply(batches, first).unwrap();
    let due = format!("{:?}", writer.take_due());
    writer.commit().unwrap();
    outcomes.into_iter().map(told).chain([due]).collect()
}

/// Shows what is due on both; whether anything was.
fn activate(postgres: &mut DatabaseWriter, sqlite: &mut Writer, instant: Timestamp) -> bool {
    sqlite.begin_due(instant).unwrap();
    let expected = format!("{:?}", sqlite.take_due());
    sqlite.commit().unwrap();
    let group = postgres.activate_due(instant).unwrap();
    assert_eq!(end(postgres, group), [expected.as_str()]);
    expected != "[]"
}

pub(super) fn dump_of(writer: &DatabaseWriter) -> Vec<String> {
    let lines = held("nth").map(|sql| {
        let mut lines = writer.lines(&sql);
        lines.sort_unstable();
        lines
    });
    lines.concat()
}

/// Runs random groups on both; how many batches were done and refused, and how often
/// something was due.
fn compare(name: &str, draws: impl Fn(u8) -> BatchDraws) -> (usize, usize, usize) {
    let cluster = Cluster::shared().unwrap();
    let (mut done, mut refused, mut due) = (0, 0, 0);
    for sequence in 0..SEQUENCES {
        let directory = tempfile::tempdir().unwrap();
        let mut sqlite = writer_in(directory.path());
        let catalogue = Arc::clone(&sqlite.state().catalogue);
        let name = format!("{name}_{sequence}");
        let mut postgres = writer(&cluster, &name, &catalogue, directory.path());
        let mut draws = draws(sequence);
        for group in 0..GROUPS {
            let first = Mark(FIRST_MARK + 1_000 * group as i64);
            if group % 3 == 2 {
                let instant = Timestamp(first.0 - 300);
                due += usize::from(activate(&mut postgres, &mut sqlite, instant));
            }
            let batches = draws.group(&catalogue, Timestamp(first.0));
            let expected = run_in_sqlite(&mut sqlite, &batches, first);
            let found = run(&mut postgres, &batches, first);
            let context = format!("sequence {sequence}, group {group}: {batches:#?}");
            assert_eq!(found, expected, "{context}");
            assert_eq!(dump_of(&postgres), dump(&sqlite), "{context}");
            assert_eq!(postgres.committed().boundaries, sqlite.state().boundaries);
            let count = |start: &str| expected.iter().filter(|one| one.starts_with(start)).count();
            done += count("Ok");
            refused += count("Err");
            due += usize::from(expected.last().is_some_and(|due| due != "[]"));
        }
    }
    (done, refused, due)
}

#[test]
fn working_set_over_postgresql_leaves_answers_and_refuses_what_sqlite_does() {
    let (done, refused, due) = compare("groups", |sequence| BatchDraws::of(sequence, NEVER_DUE));
    assert!(
        done > 250 && refused > 50,
        "both happen: {done} and {refused}"
    );
    assert_eq!(due, 0);
}

#[test]
fn rows_become_due_in_postgresql_as_they_do_in_sqlite() {
    let (done, refused, due) = compare("due_groups", |sequence| BatchDraws::of(sequence, SOON_DUE));
    assert!(
        done > 250 && refused > 50 && due > 30,
        "all of it happens: {done}, {refused} and {due}"
    );
}

#[test]
fn requests_and_transactions_in_postgresql_are_those_of_sqlite() {
    let (done, refused, _) = compare("groups_and_more", |sequence| {
        BatchDraws::of(sequence, SOON_DUE).with_more()
    });
    assert!(
        done > 200 && refused > 200,
        "both happen: {done} and {refused}"
    );
}
