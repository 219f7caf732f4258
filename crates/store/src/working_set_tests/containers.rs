//! Containers in PostgreSQL become what they become in SQLite.

use std::sync::Arc;

use model::{CatalogueChange, Mark, Table};
use query::names;
use testing_postgres::Cluster;

use super::container_draws::ContainerDraws;
use super::postgres::writer;
use super::{FIRST_MARK, lines_of, sorted, writer_in};
use crate::batch::{Applied, Outcome};
use crate::postgres::write::writer::{DatabaseWriter, GroupEnd};

const SEQUENCES: u8 = 4;
const GROUPS: usize = 100;

/// What became of a batch, as text. Containers within containers stand in no order.
fn told(outcome: Outcome) -> String {
    let applied = match outcome {
        Ok(applied) => applied,
        Err(refusal) => return format!("Err {refusal:?}"),
    };
    let Applied {
        mark,
        rows,
        changes,
        catalogue,
        catalogue_epoch,
        keeps,
        ..
    } = applied;
    let catalogue: Vec<String> = catalogue.into_iter().map(changed).collect();
    format!("Ok {mark:?} {rows:?} {changes:?} {catalogue:?} {catalogue_epoch} {keeps}")
}

fn changed(change: CatalogueChange) -> String {
    match change {
        CatalogueChange::DatabasePut(mut database) => {
            database.tables.clear();
            format!("{database:?}")
        }
        other => format!("{other:?}"),
    }
}

/// What selects what a database holds.
fn held<'t>(tables: impl Iterator<Item = &'t Arc<Table>>) -> Vec<String> {
    let mut all: Vec<String> = [
        "id, name, created, sf, st FROM project",
        "project, id, name, scopes, expires, hash, created, sf, st FROM api_key",
        "seq, project, id, name, kind, enabled, created, updated, sf, st FROM database_",
        "number, project, database_, id, name, enabled, row_security, permissions, created, \
         updated, schema_epoch, permission_epoch, pinned_max_age, history, kept_from, past, \
         ttl_max, sf, st FROM table_",
        "tab, number, key, kind, chars_max, low, high, elements, required, is_array, default_, \
         created, updated, encrypt, sf, st FROM column_",
        "tab, number, key, kind, columns, status, error, created, updated, sf, st FROM index_",
        "tab, task, seq FROM upkeep WHERE task <> 'drop'",
        "tab, bytes FROM table_bytes",
        "tt, n, prev FROM tx",
        "tt, tab, id FROM tx_row",
        "tt, n, database, tab, act, key FROM tx_schema",
        "mark, x_at, horizon, catalogue_epoch, next_table, next_database FROM meta",
    ]
    .map(|selected| format!("SELECT {selected}"))
    .into();
    for table in tables {
        // Each database has values of other kinds in its own way.
        let alike = table.columns.iter().filter(|column| {
            use model::Storage::{Int, Text};
            !column.array && matches!(column.kind.storage(), Int | Text)
        });
        let columns = alike.map(|column| format!(", {}", names::column(column.number)));
        let columns: String = columns.collect();
        let (now, versions) = (names::now(table.number), names::versions(table.number));
        all.push(format!(
            "SELECT seq, id, vf, vt, sf, updated, twin, perms, body_epoch, body{columns} FROM {now}"
        ));
        all.push(format!(
            "SELECT seq, id, vf, vt, sf, st, twin{columns} FROM {versions}"
        ));
    }
    all
}

fn run(writer: &mut DatabaseWriter, batches: &[crate::WriteBatch], first: Mark) -> Vec<String> {
    let group = writer.apply(batches, first).unwrap();
    match writer.commit(group) {
        GroupEnd::Done(outcomes) => outcomes.into_iter().map(told).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn containers_in_postgresql_become_what_they_become_in_sqlite() {
    let cluster = Cluster::shared().unwrap();
    let (mut done, mut refused, mut failed) = (0, 0, 0);
    for sequence in 0..SEQUENCES {
        let directory = tempfile::tempdir().unwrap();
        let mut sqlite = writer_in(directory.path());
        let catalogue = Arc::clone(&sqlite.state().catalogue);
        let name = format!("containers_{sequence}");
        let mut postgres = writer(&cluster, &name, &catalogue, directory.path());
        let mut draws = ContainerDraws::of(sequence);
        for group in 0..GROUPS {
            let first = Mark(FIRST_MARK + 1_000_000 * group as i64);
            let batches = match group {
                // It is known to the writers alone.
                0 => vec![ContainerDraws::without_first_table(&catalogue)],
                _ => draws.group(&sqlite.state().catalogue),
            };
            let expected = sqlite.apply(&batches, first).unwrap();
            let expected: Vec<String> = expected.into_iter().map(told).collect();
            sqlite.commit().unwrap();
            let found = run(&mut postgres, &batches, first);
            let context = format!("sequence {sequence}, group {group}: {batches:#?}");
            assert_eq!(found, expected, "{context}");
            for sql in held(sqlite.state().catalogue.tables()) {
                let found = sorted(postgres.lines(&sql));
                assert_eq!(found, sorted(lines_of(&sqlite, &sql)), "{sql}\n{context}");
            }
            let count = |part: &str| expected.iter().filter(|told| told.contains(part)).count();
            done += count("Ok Some");
            refused += count("Err");
            failed += count("Failed(\\\"");
        }
    }
    assert!(
        done > 200 && refused > 50 && failed > 3,
        "all of it happens: {done}, {refused} and {failed}"
    );
}
