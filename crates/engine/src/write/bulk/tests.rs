use model::{ColumnKind, Index, IndexColumn, IndexKey, IndexKind, IndexStatus};
use testing::{plain_column, plain_table};

use super::*;

/// A table with the integer columns `n`, indexed, and `m`.
fn table() -> Arc<Table> {
    let column = |number, key: &str| {
        plain_column(
            number,
            key,
            ColumnKind::Bigint {
                min: i64::MIN,
                max: i64::MAX,
            },
        )
    };
    let by_n = IndexColumn {
        field: Field::Column(0),
        direction: Direction::Asc,
        length: None,
        held: None,
    };
    Arc::new(Table {
        indexes: vec![Index {
            number: 1,
            key: IndexKey::new("by_n").unwrap(),
            kind: IndexKind::Key,
            columns: vec![by_n],
            status: IndexStatus::Available,
            created: Timestamp(0),
            updated: Timestamp(0),
        }],
        ..plain_table("t", vec![column(1, "n"), column(2, "m")])
    })
}

fn query(texts: &[&str]) -> Query {
    let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
    resolve(&table(), &texts).unwrap()
}

/// What a slice may look at: rows beyond the first and up to the second `$sequence`.
fn span(query: &Query) -> (i64, i64) {
    fn collect(filter: &Filter, span: &mut (i64, i64)) {
        match filter {
            Filter::All(branches) => branches.iter().for_each(|branch| collect(branch, span)),
            Filter::Field(Field::Sequence, Test::Greater(Value::Int(n))) => span.0 = *n,
            Filter::Field(Field::Sequence, Test::LessEqual(Value::Int(n))) => span.1 = *n,
            _ => {}
        }
    }
    let mut span = (0, i64::MAX);
    collect(&query.filter, &mut span);
    span
}

/// Runs a bulk write over rows with the `$sequence` 1 to `rows`, of which every `nth` matches.
/// Gives the slices as (beyond, up to, found), and checks that each match is met once.
fn slices(query: &Query, rows: i64, nth: usize) -> Vec<(i64, i64, usize)> {
    let matching: Vec<i64> = (1..=rows).step_by(nth).collect();
    let (mut progress, mut slices, mut met) = (Progress::default(), vec![], vec![]);
    while let Some(slice) = progress.next(query) {
        let (beyond, to) = span(&slice.query);
        let found = matching
            .iter()
            .filter(|seq| (beyond + 1..=to).contains(seq));
        let skipped = found.skip(slice.query.offset as usize);
        let found: Vec<i64> = skipped.take(slice.query.limit as usize).copied().collect();
        slices.push((beyond, to, found.len()));
        let matched = Matched {
            count: found.len(),
            last_seq: found.last().copied(),
            end: progress.end.is_none().then_some(rows),
            ..Matched::default()
        };
        met.extend(found);
        if progress.take(&table(), &slice, matched) {
            break;
        }
        assert!(slices.len() < 10_000, "it ends");
    }
    let limit = usize::try_from(query.limit).unwrap();
    let expected = matching.iter().skip(query.offset as usize).take(limit);
    assert_eq!(met, expected.copied().collect::<Vec<_>>());
    assert_eq!(progress.total, met.len() as u64);
    slices
}

const BY_N: &str = r#"{"method":"greaterThan","attribute":"n","values":[0]}"#;
const BY_M: &str = r#"{"method":"greaterThan","attribute":"m","values":[0]}"#;

#[test]
fn up_to_a_thousand_rows_are_one_slice() {
    assert_eq!(slices(&query(&[]), 0, 1), [(0, i64::MAX, 0)]);
    assert_eq!(slices(&query(&[BY_N]), 999, 1), [(0, i64::MAX, 999)]);
    // Whether a full slice was the last one is asked for without another commit.
    assert_eq!(slices(&query(&[]), 1_000, 1), [(0, i64::MAX, 1_000)]);
}

#[test]
fn more_rows_go_on_behind_the_last_one() {
    let expected = [
        (0, i64::MAX, 1_000),
        (1_999, 5_000, 1_000),
        (3_999, 5_000, 500),
    ];
    assert_eq!(slices(&query(&[BY_N]), 5_000, 2), expected);
}

#[test]
fn a_slice_that_wrote_much_is_gone_on_behind() {
    let (query, mut progress) = (query(&[BY_M]), Progress::default());
    let slice = progress.next(&query).unwrap();
    let cut = Matched {
        count: 2,
        is_cut: true,
        last_seq: Some(7),
        end: Some(9),
        seen: None,
        rows: vec![],
    };
    assert!(!progress.take(&table(), &slice, cut));
    assert_eq!(span(&progress.next(&query).unwrap().query), (7, 9));
}

#[test]
fn limit_and_offset_count_over_slices() {
    let limit = |n: u32| format!(r#"{{"method":"limit","values":[{n}]}}"#);
    let offset = r#"{"method":"offset","values":[1500]}"#;
    let two = query(&[&limit(1_200), offset]);
    let expected = [(0, i64::MAX, 1_000), (2_500, 5_000, 200)];
    assert_eq!(slices(&two, 5_000, 1), expected);
    assert_eq!(slices(&query(&[&limit(1_000)]), 5_000, 1).len(), 1);
    assert_eq!(slices(&query(&[&limit(3)]), 5_000, 1), [(0, i64::MAX, 3)]);
    assert_eq!(slices(&query(&[&limit(20_000)]), 15_000, 1).len(), 15);
}

#[test]
fn without_an_index_a_slice_is_bounded_by_the_rows_it_looks_at() {
    // A small table is one slice all the same.
    assert_eq!(slices(&query(&[BY_M]), 100_000, 200), [(0, 100_000, 500)]);
    let expected = [
        (0, 100_000, 100),
        (100_000, 200_000, 100),
        (200_000, 250_000, 50),
    ];
    assert_eq!(slices(&query(&[BY_M]), 250_000, 1_000), expected);
    assert_eq!(slices(&query(&[BY_N]), 250_000, 1_000).len(), 1);
    let by_id = r#"{"method":"equal","attribute":"$id","values":["a","b"]}"#;
    assert_eq!(slices(&query(&[BY_M, by_id]), 250_000, 1_000).len(), 1);
    // Slices that are full end earlier.
    let expected = [
        (0, 100_000, 1_000),
        (89_911, 189_911, 1_000),
        (179_911, 250_000, 778),
    ];
    assert_eq!(slices(&query(&[BY_M]), 250_000, 90), expected);
}

#[test]
fn an_index_that_leads_in_another_order_is_asked_once() {
    let walks = |texts: &[&str]| {
        let (query, mut progress) = (query(texts), Progress::default());
        let first = progress.walks(&query);
        progress.done_to = Some(1_000);
        (first, progress.walks(&query))
    };
    assert_eq!(walks(&[]), (false, false));
    assert_eq!(walks(&[BY_N]), (false, true));
    assert_eq!(walks(&[BY_M]), (true, true));
    let exactly = r#"{"method":"equal","attribute":"n","values":[1]}"#;
    assert_eq!(
        walks(&[exactly]),
        (false, false),
        "rows of one value come by $sequence"
    );
    let offset = r#"{"method":"offset","values":[1]}"#;
    assert_eq!(walks(&[BY_M, offset]), (false, true));
}

#[test]
fn an_order_that_decides_which_rows_match_is_one_commit() {
    let order = r#"{"method":"orderDesc","attribute":"n"}"#;
    let random = r#"{"method":"orderRandom"}"#;
    let limit = |n: u32| format!(r#"{{"method":"limit","values":[{n}]}}"#);
    let before = r#"{"method":"cursorBefore","values":["r"]}"#;
    let offset = r#"{"method":"offset","values":[1]}"#;
    for (texts, limit, may_leave_rows) in [
        (vec![order, &*limit(5_000)], 5_000, true),
        (vec![random, &*limit(10_000)], 10_000, true),
        (vec![order, &*limit(10_001)], 10_000, false),
        (vec![order, offset], 10_000, false),
        (vec![before], 10_000, false),
    ] {
        let query = query(&texts);
        assert!(!goes_by_sequence(&query));
        let slice = Progress::default().next(&query).unwrap();
        assert_eq!(slice.query.limit, limit);
        assert_eq!(
            (slice.may_leave_rows, slice.may_go_on),
            (may_leave_rows, false)
        );
        assert_eq!(slice.query.order, query.order);
    }
    // An order alone decides nothing.
    for texts in [vec![order], vec![random]] {
        let slice = Progress::default().next(&query(&texts)).unwrap();
        assert!(slice.may_go_on && slice.query.order.is_empty() && !slice.query.random);
    }
}

#[test]
fn slices_done_before_a_failure_are_reported() {
    let mut progress = Progress::default();
    assert_eq!(
        progress.stopped(EngineError::Unavailable(Unavailable::Closing)),
        EngineError::Unavailable(Unavailable::Closing)
    );
    progress.total = 2_000;
    let refusal = progress.stopped(EngineError::Unavailable(Unavailable::Closing));
    assert_eq!(
        refusal.to_string(),
        "The server is shutting down. Before that, 2000 rows were changed."
    );
}
