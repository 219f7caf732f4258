//! Functions and what belongs to them: the same on PostgreSQL as on SQLite.

use std::sync::Arc;

use model::Mark;
use testing_postgres::Cluster;

use super::draws::{BatchDraws, NEVER_DUE};
use super::function_draws::{EventsSeen, project, with_numbers};
use super::postgres::{dump_of, run, run_in_sqlite, writer};
use super::{FIRST_MARK, GROUPS, dump, lines_of, sorted, writer_in};
use crate::batch::WriteBatch;
use crate::postgres::write::writer::DatabaseWriter;
use crate::sqlite::commit::writer::Writer;
use crate::sqlite::schema::stored_reads;
use crate::stored::events;
use crate::vault::{Place, Vault, unhex};

const SEQUENCES: u8 = 4;
/// Between two groups: uploads and records grow too old after some.
const GROUP_US: i64 = 2 * 3_600 * 1_000_000;

/// What a database holds of functions, without numbers that only one database has given. What code
/// printed is text on one and bytes on the other, and what is sealed is so by another nonce each time.
const HELD: [&str; 18] = [
    "SELECT seq, project, id, body, created, updated, sf, st FROM function_",
    "SELECT function, id, key, secret, created, updated, length(value) FROM variable",
    "SELECT seq, function, id, status, activate, entrypoint, commands, bytes, received, output, \
     build_ms, created, updated FROM deployment",
    "SELECT deployment, part, start, bytes FROM deployment_piece",
    "SELECT deployment FROM pieces_gone",
    "SELECT function, id, deployment, cause, status, method, path, response_status, duration_us, \
     bytes, created, updated, request_headers, response_headers, due, (SELECT count(*) \
     FROM execution AS o WHERE o.function = e.function AND o.seq < e.seq) FROM execution AS e",
    "SELECT function, count, bytes FROM execution_kept",
    "SELECT function FROM executions_gone",
    "SELECT function, count_max, bytes_max, since FROM executions_old",
    "SELECT q.function, q.project, q.id, q.cause, q.deployment, q.due, q.scheduled, q.attempt, \
     q.lease, q.method, q.path, q.depth, q.bytes, q.created, q.updated, length(c.call) \
     FROM queued AS q JOIN queued_call AS c ON c.seq = q.seq",
    "SELECT count(*) FROM queued",
    "SELECT count(*) FROM queued_call",
    "SELECT count(*) FROM calls_gone",
    "SELECT project, count, bytes FROM queue_size",
    "SELECT function, minute FROM schedule",
    "SELECT function, tt FROM listening",
    "SELECT one, tt, tab, id FROM event_cursor",
    "SELECT project, tt, tab, id FROM event_apart",
];
const CALLS: &str = "SELECT 'call', q.function, q.id, c.call FROM queued AS q \
                     JOIN queued_call AS c ON c.seq = q.seq";
const VALUES: &str = "SELECT 'variable', function, id, value FROM variable";
const PRINTED: &str = "SELECT function, id, logs, errors FROM execution";

/// What was sealed, opened: of rows with the kind of its place, a function, an id and what stands
/// there.
fn opened(vault: &Vault, lines: Vec<String>) -> Vec<String> {
    let open = |line: String| {
        let parts: Vec<&str> = line.split('|').collect();
        let [kind, function, id, sealed] = parts[..] else {
            panic!("{line}");
        };
        let function = function.parse().unwrap();
        let place = match kind {
            "call" => Place::Call(function, id),
            _ => Place::Variable(function, id),
        };
        let sealed = unhex(sealed.strip_prefix("\\x").unwrap()).unwrap();
        format!("{kind} {id}: {:?}", vault.open_sealed(place, &sealed))
    };
    sorted(lines.into_iter().map(open).collect())
}

/// The number of the execution of this id.
fn number_in(lines: &[String], id: i64) -> i64 {
    let id = format!("e{id}|");
    let found = lines.iter().find_map(|line| line.strip_prefix(&id));
    found.map_or(-1, |number| number.parse().unwrap())
}

fn seen(sqlite: &Writer) -> EventsSeen {
    let connection = &sqlite.connection;
    EventsSeen {
        front: stored_reads::first(connection, &events::front()).unwrap(),
        own: stored_reads::first(connection, &events::own(&project())).unwrap(),
        apart: stored_reads::all(connection, &events::apart()).unwrap(),
    }
}

/// Compares all that both hold of functions.
#[track_caller]
fn compare(postgres: &DatabaseWriter, sqlite: &Writer, vault: &Vault, context: &str) {
    for sql in HELD {
        let found = sorted(postgres.lines(sql));
        assert_eq!(found, sorted(lines_of(sqlite, sql)), "{sql}, {context}");
    }
    for sql in [VALUES, CALLS] {
        let found = opened(vault, postgres.lines(sql));
        assert_eq!(found, opened(vault, lines_of(sqlite, sql)), "{context}");
    }
    let printed = PRINTED.replace("logs, errors", "CAST(logs AS blob), CAST(errors AS blob)");
    let found = sorted(postgres.lines(PRINTED));
    assert_eq!(found, sorted(lines_of(sqlite, &printed)), "{context}");
}

#[test]
fn functions_in_postgresql_are_those_of_sqlite() {
    let cluster = Cluster::shared().unwrap();
    let (mut done, mut refused, mut reached) = (0, 0, [false; HELD.len()]);
    for sequence in 0..SEQUENCES {
        let directory = tempfile::tempdir().unwrap();
        let vault = Vault::of_variables(directory.path());
        let mut sqlite = writer_in(directory.path());
        let catalogue = Arc::clone(&sqlite.state().catalogue);
        let name = format!("functions_{sequence}");
        let mut postgres = writer(&cluster, &name, &catalogue, directory.path());
        let mut draws = BatchDraws::of(sequence, NEVER_DUE);
        for group in 0..GROUPS * 2 {
            let first = Mark(FIRST_MARK + GROUP_US * group as i64);
            let batches = draws.function_group(first, &seen(&sqlite));
            let context = format!("sequence {sequence}, group {group}: {batches:#?}");
            let waiting = "SELECT id, seq FROM queued";
            let of = |lines: Vec<String>| -> Vec<WriteBatch> {
                let number = |id| number_in(&lines, id);
                let all = batches.iter();
                all.map(|batch| with_numbers(batch, number)).collect()
            };
            let own = of(lines_of(&sqlite, waiting));
            let expected = run_in_sqlite(&mut sqlite, &own, first);
            let own = of(postgres.lines(waiting));
            let found = run(&mut postgres, &own, first);
            assert_eq!(found, expected, "{context}");
            assert_eq!(dump_of(&postgres), dump(&sqlite), "{context}");
            compare(&postgres, &sqlite, &vault, &context);
            if group % 7 == 6 {
                let is_more = sqlite.run_upkeep().unwrap();
                assert_eq!(postgres.run_upkeep(), Ok(is_more), "{context}");
            }
            compare(&postgres, &sqlite, &vault, &context);
            for (nth, sql) in HELD.iter().enumerate() {
                let lines = lines_of(&sqlite, sql);
                reached[nth] |= !lines.is_empty() && lines != ["0"];
            }
            let count = |start: &str| expected.iter().filter(|one| one.starts_with(start)).count();
            done += count("Ok");
            refused += count("Err");
        }
    }
    assert!(
        done > 300 && refused > 100,
        "both happen: {done} and {refused}"
    );
    assert_eq!(reached, [true; HELD.len()], "each table holds something");
}
