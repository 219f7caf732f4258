//! Groups whose batches have no savepoints leave, answer and refuse what groups do that have one
//! for each batch.

use model::{Mark, Timestamp};
use rusqlite::StatementStatus;

use super::draws::{BatchDraws, NEVER_DUE};
use super::{FIRST_MARK, GROUPS, SEQUENCES, dump, run_at_once, told, writer_in};
use crate::batch::WriteBatch;
use crate::sqlite::commit::writer::Writer;

/// Writes a group as the store does.
fn run_as_group(writer: &mut Writer, batches: &[WriteBatch], first: Mark) -> Vec<String> {
    let outcomes = writer.apply(batches, first).unwrap();
    writer.commit().unwrap();
    outcomes.into_iter().map(told).collect()
}

/// How many savepoints there were so far.
fn savepoints(writer: &Writer) -> i32 {
    let statement = writer.connection.prepare_cached("SAVEPOINT batch");
    statement.unwrap().get_status(StatementStatus::Run)
}

#[test]
fn groups_without_savepoints_leave_answer_and_refuse_what_those_with_them_do() {
    let (mut bare, mut again) = (0, 0);
    for sequence in 0..SEQUENCES {
        let directory = tempfile::tempdir().unwrap();
        let mut at_once = writer_in(&directory.path().join("a"));
        let mut grouped = writer_in(&directory.path().join("b"));
        let mut draws = BatchDraws::of(sequence, NEVER_DUE);
        for group in 0..GROUPS {
            let first = Mark(FIRST_MARK + 1_000 * group as i64);
            let batches = draws.group(&at_once.state().catalogue, Timestamp(first.0));
            let expected = run_at_once(&mut at_once, &batches, first);
            let before = savepoints(&grouped);
            let found = run_as_group(&mut grouped, &batches, first);
            let context = format!("sequence {sequence}, group {group}: {batches:#?}");
            assert_eq!(found, expected, "{context}");
            assert_eq!(dump(&grouped), dump(&at_once), "{context}");
            if savepoints(&grouped) == before {
                bare += 1;
            } else if grouped.guarded_groups > 0 {
                again += 1;
            }
            // As if so many groups had come between them.
            grouped.guarded_groups = 0;
        }
    }
    assert!(bare > 50 && again > 50, "both happen: {bare} and {again}");
}

#[test]
fn refused_writes_have_few_groups_run_twice() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer_in(directory.path());
    let mut draws = BatchDraws::of(0, NEVER_DUE);
    let mut twice = 0;
    for group in 0..GROUPS {
        let first = Mark(FIRST_MARK + 1_000 * group as i64);
        let batches = draws.group(&writer.state().catalogue, Timestamp(first.0));
        let guarded = writer.guarded_groups;
        run_as_group(&mut writer, &batches, first);
        twice += usize::from(writer.guarded_groups > guarded);
    }
    assert_eq!(
        twice, 1,
        "each of the others has savepoints from its beginning"
    );
}
