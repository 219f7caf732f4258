use proptest::prelude::*;

use super::*;
use crate::period::tests::period;

fn steps(aggregate: Aggregate, over: Period, values: &[(Period, Number)]) -> String {
    let steps = timeline(aggregate, &over, values.iter().copied());
    let shown = steps.iter().map(|step| match step.value {
        None => format!("{:?} -", step.valid),
        Some(Number::Int(int)) => format!("{:?} {int}", step.valid),
        Some(Number::Float(float)) => format!("{:?} {float:?}", step.valid),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_steps_cover_the_period_and_equal_ones_are_one() {
    let values = [
        (period(0, 20), Number::Int(5)),
        (period(10, 20), Number::Int(2)),
        (period(20, 30), Number::Int(7)),
        (period(40, 100), Number::Int(1)),
    ];
    let over = period(5, 50);
    for (aggregate, expected) in [
        (
            Aggregate::Sum,
            "[5, 10) 5, [10, 30) 7, [30, 40) -, [40, 50) 1",
        ),
        (
            Aggregate::Count,
            "[5, 10) 1, [10, 20) 2, [20, 30) 1, [30, 40) 0, [40, 50) 1",
        ),
        (
            Aggregate::Min,
            "[5, 10) 5, [10, 20) 2, [20, 30) 7, [30, 40) -, [40, 50) 1",
        ),
        (
            Aggregate::Max,
            "[5, 20) 5, [20, 30) 7, [30, 40) -, [40, 50) 1",
        ),
        (
            Aggregate::Avg,
            "[5, 10) 5.0, [10, 20) 3.5, [20, 30) 7.0, [30, 40) -, [40, 50) 1.0",
        ),
    ] {
        assert_eq!(steps(aggregate, over, &values), expected);
        assert_eq!(Aggregate::named(aggregate.as_str()), Some(aggregate));
    }
    assert_eq!(
        steps(Aggregate::Count, Period::ALWAYS, &values[3..]),
        "[min, 40) 0, [40, ∞) 1"
    );
    assert_eq!(steps(Aggregate::Sum, over, &[]), "[5, 50) -");
}

#[test]
fn a_sum_beyond_64_bits_becomes_a_double_and_comes_back() {
    let values = [
        (period(0, 100), Number::Int(i64::MAX)),
        (period(10, 20), Number::Int(1)),
    ];
    assert_eq!(
        steps(Aggregate::Sum, period(0, 30), &values),
        "[0, 10) 9223372036854775807, [10, 20) 9.223372036854776e18, [20, 30) 9223372036854775807"
    );
}

#[test]
fn a_double_that_leaves_takes_all_of_itself_with_it() {
    let values = [
        (period(0, 100), Number::Float(0.1)),
        (period(10, 20), Number::Float(1e300)),
    ];
    assert_eq!(
        steps(Aggregate::Sum, period(0, 30), &values),
        "[0, 10) 0.1, [10, 20) 1e300, [20, 30) 0.1"
    );
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        (-3..3_i64).prop_map(Number::Int),
        (-3..3_i64).prop_map(|tenths| Number::Float(tenths as f64 / 10.0)),
    ]
}

fn values() -> impl Strategy<Value = Vec<(Period, Number)>> {
    let value = (0..20_i64, 1..10_i64, number())
        .prop_map(|(from, length, number)| (period(from, from + length), number));
    prop::collection::vec(value, 0..12)
}

proptest! {
    #[test]
    fn at_each_instant_the_timeline_says_what_the_values_there_say(
        values in values(),
        aggregate in prop::sample::select(Aggregate::ALL.to_vec()),
    ) {
        let over = period(2, 25);
        let steps = timeline(aggregate, &over, values.iter().copied());
        for pair in steps.windows(2) {
            prop_assert!(pair[0].valid.extend(&pair[1].valid).is_some());
            prop_assert!(pair[0].value != pair[1].value);
        }
        for at in (2..25).map(Timestamp) {
            let mut gathered = Gathered::new(aggregate);
            for (_, number) in values.iter().rev().filter(|(valid, _)| valid.contains(at)) {
                gathered.add(*number);
            }
            let step = steps.iter().find(|step| step.valid.contains(at));
            prop_assert_eq!(step.unwrap().value, gathered.value(), "{:?}", at);
        }
    }
}
