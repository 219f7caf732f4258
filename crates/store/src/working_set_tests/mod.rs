//! The laws of writing over a working set: random batches leave the same in the database, and are
//! answered and refused alike, whether each change is done at once or all of a group at its end.

mod bare_groups;
mod beside_draws;
mod commit_ends;
mod container_draws;
mod containers;
mod draws;
mod function_draws;
mod functions;
mod index_builds;
mod postgres;
mod sqlite_rows;

use std::path::Path;

use model::{Mark, Timestamp};
use rusqlite::types::Value as Cell;

use self::draws::{BatchDraws, NEVER_DUE, table};
use crate::batch::{Applied, WriteBatch};
use crate::laws::halt::{Halt, Step};
use crate::laws::named::named;
use crate::laws::perform::{BatchStore, RecordToWrite};
use crate::laws::run::{Run, RunManner};
use crate::laws::settled::BatchEnd;
use crate::laws::touched::Touched;
use crate::laws::working_set::WorkingSet;
use crate::refusal::Refusal;
use crate::sqlite::commit::writer::Writer;
use crate::sqlite::upkeep::tests::writer;
use crate::sqlite::write::stored_rows::SqliteRows;
use crate::vault::hex;

/// Groups of one sequence.
const GROUPS: usize = 60;
const SEQUENCES: u8 = 12;
/// Above all instants that operations name but those to come.
const FIRST_MARK: i64 = 1_000_000;

const MANNER: RunManner = RunManner {
    blames: false,
    judges_end: true,
};

/// Batches of these tests have rows alone.
impl BatchStore for WorkingSet<SqliteRows<'_>> {
    /// At once, as no batch is refused after its record.
    fn record(run: &mut Run<'_, Self>, record: &RecordToWrite<'_>) -> Step<()> {
        let connection = run.rows.database().connection;
        connection
            .prepare_cached("INSERT INTO tx (tt, n, prev, erased) VALUES (?1, ?2, ?3, ?4)")
            .map_err(crate::StoreError::from)?
            .execute((
                run.mark.0,
                run.state.number,
                record.previous.0,
                (record.erased > 0).then_some(record.erased as i64),
            ))
            .map_err(crate::StoreError::from)?;
        for (table, id) in run.touched.ids() {
            connection
                .execute(
                    "INSERT INTO tx_row (tt, tab, id) VALUES (?1, ?2, ?3)",
                    (run.mark.0, table.0, id.as_str()),
                )
                .map_err(crate::StoreError::from)?;
        }
        Ok(())
    }
}

/// What became of a batch, as text. Of the numbers of transactions only their order counts.
fn told(outcome: Result<Applied, Refusal>) -> String {
    const NUMBERED: &str = "Transaction { seq: ";
    let text = format!("{outcome:?}");
    let mut parts = text.split(NUMBERED);
    let first = parts.next().unwrap_or_default().to_owned();
    let digits = |part: &str| {
        part.trim_start_matches(|c: char| c.is_ascii_digit())
            .to_owned()
    };
    parts.fold(first, |told, part| told + NUMBERED + &digits(part))
}

/// Does each change at once; what became of the batches.
fn run_at_once(writer: &mut Writer, batches: &[WriteBatch], first: Mark) -> Vec<String> {
    writer.begin().unwrap();
    let mut mark = first;
    let outcomes = batches.iter().map(|batch| match writer.run(batch, mark) {
        Ok(applied) => {
            mark = applied.mark.map_or(mark, Mark::next);
            told(Ok(applied))
        }
        Err(BatchEnd::Alone(refusal)) => told(Err(refusal)),
        Err(BatchEnd::WithAll(error)) => panic!("{error:?}"),
    });
    let outcomes = outcomes.collect();
    writer.commit().unwrap();
    outcomes
}

/// Does all of the group at its end.
fn run_in_memory(writer: &mut Writer, batches: &[WriteBatch], first: Mark) -> Vec<String> {
    writer.begin().unwrap();
    let (mut mark, mut outcomes) = (first, Vec::new());
    let mut state = writer.state().clone();
    {
        let set = WorkingSet::new(writer.rows(), first);
        set.read_ahead(named(batches)).unwrap();
        for batch in batches {
            set.begin();
            let parts = (writer.coding.encode_row, &writer.totals);
            let mut run = Run::new(set.clone(), parts, state.clone(), mark, MANNER);
            run.touched = Touched::new(batch.ops.len(), batch.meets_rows_again());
            run.unchanged_since = batch.unchanged_since;
            match run.run(batch).0 {
                Ok((applied, _)) if applied.mark.is_none() && !applied.keeps => {
                    set.drop_batch().unwrap();
                    outcomes.push(told(Ok(applied)));
                }
                Ok((applied, after)) => {
                    set.keep().unwrap();
                    state = after;
                    state.growth.settle();
                    mark = applied.mark.map_or(mark, Mark::next);
                    outcomes.push(told(Ok(applied)));
                }
                Err(halt) => {
                    set.drop_batch().unwrap();
                    match halt {
                        Halt::Refused(refusal) => outcomes.push(told(Err(refusal))),
                        Halt::Failed(error) => panic!("{error:?}"),
                    }
                }
            }
        }
        let left = set.take_unsent().unwrap();
        crate::laws::bulk_rows::BulkRows::send(&writer.rows(), &left).unwrap();
    }
    writer.state = state;
    writer.commit().unwrap();
    outcomes
}

const VERSION: &str =
    "id, vf, vt, sf, cut_tt, cut_vt, st, origin, seq, created, updated, twin, c1, c2";
const NOW: &str =
    "id, vf, vt, sf, origin, seq, created, updated, twin, perms, body, body_epoch, c1, c2";

/// What selects what a database holds, without the numbers of versions: where a version was
/// written and taken back inside a group, a number may be given again, or not. `nth` is the order
/// of grants.
fn held(nth: &str) -> [String; 13] {
    [
        format!("SELECT {VERSION} FROM t1_v"),
        format!(
            "SELECT {NOW}, (SELECT vf || ' ' || sf || ' ' || twin FROM t1_v AS v \
             WHERE v.rid = x.rid AND v.id = x.id) FROM t1 AS x"
        ),
        format!(
            "SELECT seq, role, actions, sf, st, \
             row_number() OVER (PARTITION BY seq ORDER BY {nth}) FROM t1_perm"
        ),
        "SELECT id, at FROM t1_sched".to_owned(),
        "SELECT tt, n, prev, erased FROM tx".to_owned(),
        "SELECT tt, tab, id FROM tx_row".to_owned(),
        "SELECT tab, bytes FROM table_bytes".to_owned(),
        "SELECT tab, tt FROM erasure".to_owned(),
        "SELECT mark, x_at, horizon FROM meta".to_owned(),
        "SELECT project, key, part, request, mark, at, answer, bytes FROM request_key".to_owned(),
        // A row may be left where nothing is kept any more.
        "SELECT project, owner, bytes FROM kept_bytes WHERE bytes <> 0".to_owned(),
        "SELECT id, owner, status, created, updated, expires, keep, count, bytes FROM staged"
            .to_owned(),
        "SELECT s.id, o.n, o.seen, o.place, o.id, o.body \
         FROM staged_op AS o JOIN staged AS s ON s.seq = o.tx"
            .to_owned(),
    ]
}

/// What the database holds, in the text form of PostgreSQL.
fn dump(writer: &Writer) -> Vec<String> {
    let all = held("rowid");
    let all = all.iter().map(|sql| sorted(lines_of(writer, sql)));
    all.flatten().collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

/// What a statement gives, a line a row, in the text form of PostgreSQL.
fn lines_of(writer: &Writer, sql: &str) -> Vec<String> {
    let mut statement = writer.connection.prepare(sql).unwrap();
    let count = statement.column_count();
    let mut rows = statement.query(()).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = (0..count).map(|at| cell_text(&row.get(at).unwrap()));
        lines.push(cells.collect::<Vec<_>>().join("|"));
    }
    lines
}

fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Blob(bytes) => format!("\\x{}", hex(bytes)),
    }
}

fn writer_in(directory: &Path) -> Writer {
    std::fs::create_dir_all(directory).unwrap();
    let writer = writer(directory, &table());
    let counted = "INSERT OR IGNORE INTO table_bytes (tab, bytes) VALUES (1, 0)";
    writer.connection.execute_batch(counted).unwrap();
    writer
}

#[test]
fn working_set_leaves_answers_and_refuses_what_single_changes_do() {
    let (mut done, mut refused) = (0, 0);
    for sequence in 0..SEQUENCES {
        let directory = tempfile::tempdir().unwrap();
        let mut at_once = writer_in(&directory.path().join("a"));
        let mut in_memory = writer_in(&directory.path().join("b"));
        let mut draws = BatchDraws::of(sequence, NEVER_DUE);
        for group in 0..GROUPS {
            let first = Mark(FIRST_MARK + 1_000 * group as i64);
            let batches = draws.group(&at_once.state().catalogue, Timestamp(first.0));
            let expected = run_at_once(&mut at_once, &batches, first);
            let found = run_in_memory(&mut in_memory, &batches, first);
            let context = format!("sequence {sequence}, group {group}: {batches:#?}");
            assert_eq!(found, expected, "{context}");
            assert_eq!(dump(&in_memory), dump(&at_once), "{context}");
            done += expected
                .iter()
                .filter(|told| told.starts_with("Ok"))
                .count();
            refused += expected
                .iter()
                .filter(|told| told.starts_with("Err"))
                .count();
        }
    }
    assert!(
        done > 500 && refused > 100,
        "both happen: {done} and {refused}"
    );
}
