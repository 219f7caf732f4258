use super::super::{Filter, Order};
use super::*;

/// Writes of one row, each from `sent` to `answered`, with the mark of the middle; the version
/// is the place, from 1.
fn writes(times: &[(Instant, Instant)]) -> Vec<Write> {
    let write = |(place, (sent, answered)): (usize, &(Instant, Instant))| {
        let row = Row {
            group: 0,
            number: 0,
            version: place as i64 + 1,
            sequence: 1,
            is_open: true,
        };
        Write {
            sent: *sent,
            answered: *answered,
            mark: Some(i64::midpoint(*sent as i64, *answered as i64)),
            after: Rows::from([(0, row)]),
            erased: None,
        }
    };
    times.iter().enumerate().map(write).collect()
}

/// A read of all rows that shows these versions of each writer's only row.
fn read(sent: Instant, answered: Instant, versions: &[i64]) -> Read {
    let rows = versions
        .iter()
        .enumerate()
        .filter(|(_, version)| **version > 0);
    let rows = rows.map(|(writer, version)| (Name { writer, slot: 0 }, *version));
    Read {
        sent,
        answered,
        question: 0,
        sees_all: true,
        is_guest: false,
        as_of: None,
        within: None,
        shown: Shown {
            rows: rows.collect(),
            total: Some(versions.iter().filter(|version| **version > 0).count() as u64),
        },
        says_erased: false,
    }
}

fn all() -> Question {
    Question {
        filter: Filter::All,
        order: Order::Sequence,
        limit: 9,
        offset: 0,
        after: None,
        total: true,
    }
}

#[track_caller]
fn check(writers: &[&[(Instant, Instant)]], reads: Vec<Read>, wanted: &[Why]) {
    let history = History {
        writers: writers.iter().map(|times| writes(times)).collect(),
        reads,
        barred: Vec::new(),
    };
    let judged = judge(&history, &[all()]);
    let why: Vec<Why> = judged.faults.iter().map(|fault| fault.why).collect();
    assert_eq!(why, wanted, "{:?}", judged.faults);
    let explained = judged.explained + judged.recalled + judged.aged;
    assert_eq!(explained + wanted.len(), history.reads.len());
}

#[test]
fn a_read_beside_a_write_may_show_it_or_not() {
    let writer: &[_] = &[(0, 10), (20, 30)];
    for version in [1, 2] {
        check(&[writer], vec![read(25, 27, &[version])], &[]);
    }
    check(&[writer], vec![read(5, 8, &[0])], &[]);
}

#[test]
fn an_acknowledged_write_must_be_shown() {
    let writer: &[_] = &[(0, 10), (20, 30)];
    check(&[writer], vec![read(31, 40, &[1])], &[Why::Stale]);
    check(&[writer], vec![read(31, 40, &[0])], &[Why::Stale]);
    check(&[writer], vec![read(31, 40, &[2])], &[]);
}

#[test]
fn a_write_that_was_not_begun_cannot_be_shown() {
    check(
        &[&[(0, 10), (20, 30)]],
        vec![read(12, 15, &[2])],
        &[Why::NeverTrue],
    );
    check(&[&[(0, 10)]], vec![read(12, 15, &[7])], &[Why::NeverTrue]);
}

#[test]
fn state_that_any_reader_saw_must_be_shown_from_then_on() {
    // The write is under way all the while; the first read saw it.
    let writer: &[_] = &[(0, 10), (20, 90)];
    let saw = read(30, 40, &[2]);
    check(
        &[writer],
        vec![saw.clone(), read(41, 50, &[1])],
        &[Why::Stale],
    );
    check(&[writer], vec![saw.clone(), read(35, 50, &[1])], &[]);
    check(&[writer], vec![saw, read(41, 50, &[2])], &[]);
}

#[test]
fn two_reads_at_once_may_not_see_two_writes_in_two_orders() {
    let (one, other): (&[_], &[_]) = (&[(0, 1), (20, 90)], &[(0, 1), (20, 90)]);
    let reads = vec![read(30, 50, &[2, 1]), read(31, 49, &[1, 2])];
    check(&[one, other], reads, &[Why::Crossed]);
    let reads = vec![read(30, 50, &[2, 1]), read(31, 49, &[2, 2])];
    check(&[one, other], reads, &[]);
}

#[test]
fn rows_and_total_are_of_one_instant() {
    let mut torn = read(25, 60, &[1]);
    torn.shown.total = Some(2);
    check(&[&[(0, 10)], &[(20, 50)]], vec![torn], &[Why::NeverTrue]);
}

#[test]
fn a_read_as_of_a_mark_shows_what_was_written_up_to_it() {
    let writer: &[_] = &[(0, 10), (20, 30), (40, 50)];
    let as_of = |mark, version| Read {
        as_of: Some(mark),
        ..read(60, 70, &[version])
    };
    for (mark, version) in [(4, 0), (5, 1), (24, 1), (25, 2), (45, 3), (99, 3)] {
        check(&[writer], vec![as_of(mark, version); 2], &[]);
        let other = (version + 1) % 4;
        check(&[writer], vec![as_of(mark, other)], &[Why::Rewritten]);
    }
    // What is read later is no news about earlier marks.
    check(&[writer], vec![as_of(5, 1), read(71, 80, &[3])], &[]);
}

#[test]
fn a_read_within_an_age_may_be_so_old_and_no_older() {
    let writer: &[_] = &[(0, 10), (20, 30), (40, 50)];
    let aged = |version, within| Read {
        within: Some(within),
        ..read(60, 70, &[version])
    };
    check(&[writer], vec![aged(3, 0), aged(3, 60), aged(2, 15)], &[]);
    check(&[writer], vec![aged(1, 35), aged(0, 55)], &[]);
    check(&[writer], vec![aged(2, 9), aged(1, 25)], &[Why::Stale; 2]);
    check(&[writer], vec![aged(4, 60)], &[Why::NeverTrue]);
    // It is no news for others: the last write may have been seen by no reader.
    check(
        &[&[(0, 10), (20, 90)]],
        vec![aged(2, 60), read(71, 80, &[1])],
        &[],
    );
}

#[test]
fn two_rows_of_an_old_read_are_of_one_instant_and_its_total_of_one() {
    let (one, other): (&[_], &[_]) = (&[(0, 10), (40, 50)], &[(20, 30)]);
    let aged = |versions: &[i64]| Read {
        within: Some(60),
        ..read(60, 70, versions)
    };
    check(
        &[one, other],
        vec![aged(&[1, 1]), aged(&[1, 0]), aged(&[2, 1])],
        &[],
    );
    check(
        &[one, other],
        vec![aged(&[2, 0]), aged(&[0, 1])],
        &[Why::NeverTrue; 2],
    );
    let counting = |total| {
        let mut counting = aged(&[1, 0]);
        counting.shown.total = Some(total);
        counting
    };
    let reads = vec![counting(0), counting(2), counting(3)];
    check(&[one, other], reads, &[Why::NeverTrue]);
}

#[test]
fn a_read_within_an_age_shows_no_row_that_was_lost() {
    // Two versions that all may read, one that guests may not, and one that they may again.
    let mut of_writer = writes(&[(0, 10), (20, 30), (40, 50), (60, 70)]);
    of_writer[2].after.get_mut(&0).unwrap().is_open = false;
    let deleted = Write {
        sent: 80,
        answered: 90,
        mark: None,
        after: Rows::new(),
        erased: None,
    };
    of_writer.push(deleted);
    let faults = |sees_all, sent, version| {
        let aged = Read {
            sees_all,
            within: Some(1_000),
            ..read(sent, sent + 2, &[version])
        };
        let history = History {
            writers: vec![of_writer.clone()],
            reads: vec![aged],
            barred: Vec::new(),
        };
        let faults = judge(&history, &[all()]).faults;
        faults.first().map(|fault| fault.why)
    };
    for (sees_all, sent, version, wanted) in [
        (false, 35, 1, None),
        (false, 45, 2, None),
        (false, 51, 2, Some(Why::Lost)),
        (true, 51, 2, None),
        (true, 51, 1, None),
        // Given back, it is not as it was before it was lost.
        (false, 75, 2, Some(Why::Lost)),
        (false, 75, 4, None),
        (true, 75, 3, None),
        (false, 85, 4, None),
        (false, 91, 4, Some(Why::Lost)),
        (true, 91, 4, Some(Why::Lost)),
        (true, 91, 0, None),
    ] {
        assert_eq!(
            faults(sees_all, sent, version),
            wanted,
            "{sees_all} {sent} {version}"
        );
    }
}

#[test]
fn answers_as_of_one_mark_are_the_same() {
    let writer: &[_] = &[(0, 10), (20, 30)];
    let as_of = |version| Read {
        as_of: Some(25),
        ..read(60, 70, &[version])
    };
    let mut history = History {
        writers: vec![writes(writer)],
        reads: vec![as_of(1), as_of(2)],
        barred: Vec::new(),
    };
    // The mark of the second write is not known, so either may be right, but not both.
    history.writers[0][1].mark = None;
    let judged = judge(&history, &[all()]);
    let why: Vec<Why> = judged.faults.iter().map(|fault| fault.why).collect();
    assert_eq!((judged.recalled, why), (1, vec![Why::Rewritten]));
}

#[test]
fn a_read_as_of_a_mark_lacks_what_was_erased_since_and_says_so() {
    // Two versions, then the row is erased, and made again.
    let mut of_writer = writes(&[(0, 10), (20, 30), (40, 60), (70, 80)]);
    of_writer[2].after = Rows::new();
    of_writer[2].erased = Some(0);
    let fault = |as_of, (sent, answered), version, says_erased| {
        let history = History {
            writers: vec![of_writer.clone()],
            reads: vec![Read {
                as_of,
                says_erased,
                ..read(sent, answered, &[version])
            }],
            barred: Vec::new(),
        };
        let faults = judge(&history, &[all()]).faults;
        faults.first().map(|fault| fault.why)
    };
    let (before, during, after) = ((31, 35), (45, 55), (61, 65));
    for (as_of, times, version, says_erased, wanted) in [
        (25, before, 2, false, None),
        (25, before, 2, true, Some(Why::Erasure)),
        (25, before, 0, false, Some(Why::Rewritten)),
        // It was there or it was not; and what is said may be later than what is shown.
        (25, during, 2, false, None),
        (25, during, 2, true, None),
        (25, during, 0, true, None),
        (25, during, 0, false, Some(Why::Erasure)),
        (25, after, 0, true, None),
        (25, after, 0, false, Some(Why::Erasure)),
        (5, after, 0, true, None),
        (25, after, 2, true, Some(Why::Rewritten)),
        // As of its own mark and later nothing was erased since.
        (50, after, 0, false, None),
        (50, after, 0, true, Some(Why::Erasure)),
        (75, (90, 95), 4, false, None),
        (75, (90, 95), 4, true, Some(Why::Erasure)),
    ] {
        let found = fault(Some(as_of), times, version, says_erased);
        assert_eq!(found, wanted, "{as_of} {times:?} {version} {says_erased}");
    }
    // Of now nothing is said.
    assert_eq!(fault(None, after, 0, false), None);
    assert_eq!(fault(None, after, 0, true), Some(Why::Erasure));
}

#[test]
fn a_read_during_too_many_writes_is_counted_apart() {
    let times: Vec<(Instant, Instant)> = (0..200).map(|at| (10 * at, 10 * at + 5)).collect();
    let mut nothing = read(0, 5_000, &[0, 0, 0]);
    nothing.shown.total = Some(0);
    let history = History {
        writers: vec![writes(&times); 3],
        reads: vec![nothing],
        barred: Vec::new(),
    };
    let judged = judge(&history, &[all()]);
    assert_eq!((judged.unjudged, judged.faults.len()), (1, 0));
}

#[test]
fn guest_is_answered_by_a_table_that_grants_him_nothing() {
    let by = |is_guest, sent, answered| Read {
        is_guest,
        ..read(sent, answered, &[1])
    };
    let history = History {
        writers: vec![writes(&[(0, 10)])],
        // Inside, by a key, and over each end.
        reads: vec![
            by(true, 25, 30),
            by(false, 25, 30),
            by(true, 15, 30),
            by(true, 30, 45),
        ],
        barred: vec![(20, 40)],
    };
    let judged = judge(&history, &[all()]);
    let why: Vec<Why> = judged.faults.iter().map(|fault| fault.why).collect();
    assert_eq!((judged.explained, why), (3, vec![Why::Barred]));
}
