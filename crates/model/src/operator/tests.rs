use proptest::prelude::*;

use super::*;
use crate::check::ARRAY_ELEMENTS_MAX;
use crate::check::tests::column;
use crate::schema::ColumnKind;

const NOW: Timestamp = Timestamp(1_767_225_600_123_456);

fn int(min: i64, max: i64) -> Column {
    column(ColumnKind::Bigint { min, max })
}

fn any_int() -> Column {
    int(i64::MIN, i64::MAX)
}

fn float() -> Column {
    column(ColumnKind::Float {
        min: f64::MIN,
        max: f64::MAX,
    })
}

fn list(kind: ColumnKind) -> Column {
    Column {
        array: true,
        encrypt: false,
        ..column(kind)
    }
}

fn texts(words: &[&str]) -> Value {
    Value::List(
        words
            .iter()
            .map(|word| Value::Text((*word).into()))
            .collect(),
    )
}

fn text(word: &str) -> Json {
    Json::Text(word.into())
}

fn run(
    column: &Column,
    method: &str,
    values: &[Json],
    current: &Value,
) -> Result<Value, ModelError> {
    Operator::read(column, method, values)?.apply(column, current, NOW)
}

#[track_caller]
fn gives(column: &Column, method: &str, values: &[Json], current: Value, expected: Value) {
    assert_eq!(run(column, method, values, &current), Ok(expected));
}

#[track_caller]
fn refused(column: &Column, method: &str, values: &[Json], current: &Value, fragment: &str) {
    let error = run(column, method, values, current).unwrap_err();
    let said = error.to_string();
    assert!(said.contains(fragment) && said.contains("\"k\""), "{said}");
    assert!(
        matches!(error, ModelError::InvalidValue { .. }),
        "{error:?}"
    );
}

#[test]
fn integers_are_computed_with() {
    use Json::Int as I;
    for (method, values, current, expected) in [
        ("increment", vec![], 1, 2),
        ("increment", vec![I(5)], 1, 6),
        ("increment", vec![I(5), I(3)], 1, 3),
        ("increment", vec![I(5), I(3)], 9, 3),
        ("increment", vec![I(1), Json::Null], 1, 2),
        ("increment", vec![Json::Float(2.0)], 1, 3),
        ("increment", vec![I(1), Json::Wide(u64::MAX)], 1, 2),
        ("decrement", vec![], 1, 0),
        ("decrement", vec![I(5), I(-2)], 1, -2),
        ("multiply", vec![I(3)], -4, -12),
        ("multiply", vec![I(3), I(10)], 4, 10),
        ("divide", vec![I(2)], 7, 3),
        ("divide", vec![I(2)], -7, -3),
        ("divide", vec![I(2), I(5)], 7, 5),
        ("modulo", vec![I(3)], 7, 1),
        ("modulo", vec![I(3)], -7, -1),
        ("power", vec![I(10)], 2, 1_024),
        ("power", vec![I(0)], 0, 1),
        ("power", vec![I(i64::MAX)], -1, -1),
        ("power", vec![I(i64::MAX), I(100)], 2, 100),
        ("multiply", vec![I(i64::MAX), I(7)], i64::MAX, 7),
        ("increment", vec![I(1), I(i64::MAX)], i64::MAX, i64::MAX),
    ] {
        gives(
            &any_int(),
            method,
            &values,
            Value::Int(current),
            Value::Int(expected),
        );
    }
    gives(&any_int(), "increment", &[I(5)], Value::Null, Value::Int(5));
}

#[test]
fn integers_never_wrap() {
    for (method, operand, current) in [
        ("increment", 1, i64::MAX),
        ("decrement", 1, i64::MIN),
        ("multiply", i64::MAX, 2),
        ("divide", -1, i64::MIN),
        ("power", 64, 2),
        ("power", i64::MAX, -3),
    ] {
        let values = [Json::Int(operand)];
        refused(
            &any_int(),
            method,
            &values,
            &Value::Int(current),
            "beyond 64 bits",
        );
    }
    refused(
        &int(0, 10),
        "increment",
        &[Json::Int(1)],
        &Value::Int(10),
        "from 0 to 10",
    );
}

#[test]
fn floats_stay_finite() {
    use Json::Float as F;
    let value = Value::Float;
    gives(&float(), "increment", &[F(0.5)], value(1.0), value(1.5));
    gives(
        &float(),
        "multiply",
        &[Json::Int(2)],
        Value::Null,
        value(0.0),
    );
    gives(
        &float(),
        "multiply",
        &[F(1e300), F(5.0)],
        value(1e300),
        value(5.0),
    );
    gives(&float(), "divide", &[Json::Int(4)], value(1.0), value(0.25));
    gives(&float(), "power", &[F(0.5)], value(9.0), value(3.0));
    refused(
        &float(),
        "multiply",
        &[F(1e300)],
        &value(1e300),
        "no finite number",
    );
    refused(
        &float(),
        "power",
        &[F(0.5)],
        &value(-1.0),
        "no finite number",
    );
    refused(
        &float(),
        "power",
        &[Json::Int(-1)],
        &value(0.0),
        "no finite number",
    );
    let Ok(Value::Float(zero)) = run(&float(), "multiply", &[Json::Int(-1)], &value(0.0)) else {
        panic!("a float");
    };
    assert!(zero.is_sign_positive());
}

#[test]
fn arguments_out_of_bounds_are_named() {
    let column = any_int();
    let mut operator = Operator::read(&column, "increment", &[Json::Int(2), Json::Int(5)]).unwrap();
    let Operator::Arithmetic(arithmetic) = &mut operator else {
        panic!("a calculation");
    };
    arithmetic.beyond = Beyond::Refuse;
    assert_eq!(
        operator.apply(&column, &Value::Int(3), NOW),
        Ok(Value::Int(5))
    );
    let error = operator.apply(&column, &Value::Int(4), NOW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Attribute \"k\" would go above the maximum of 5."
    );
}

#[test]
fn arrays_are_changed_within_their_limits() {
    let tags = list(ColumnKind::Varchar { chars_max: 3 });
    let abc = || texts(&["a", "b", "a"]);
    for (method, values, expected) in [
        (
            "arrayAppend",
            vec![text("c"), text("d")],
            &["a", "b", "a", "c", "d"][..],
        ),
        ("arrayPrepend", vec![text("c")], &["c", "a", "b", "a"]),
        (
            "arrayInsert",
            vec![Json::Int(1), text("x")],
            &["a", "x", "b", "a"],
        ),
        (
            "arrayInsert",
            vec![Json::Int(3), text("x")],
            &["a", "b", "a", "x"],
        ),
        ("arrayRemove", vec![text("a")], &["b"]),
        (
            "arrayRemove",
            vec![Json::List(vec![text("a"), text("b")])],
            &[],
        ),
        ("arrayUnique", vec![], &["a", "b"]),
        ("arrayIntersect", vec![text("a"), text("z")], &["a", "a"]),
        ("arrayIntersect", vec![], &[]),
        ("arrayDiff", vec![text("a"), text("too long")], &["b"]),
        ("arrayFilter", vec![text("equal"), text("a")], &["a", "a"]),
        ("arrayFilter", vec![text("notEqual"), text("a")], &["b"]),
        ("arrayFilter", vec![text("contains"), text("b")], &["b"]),
        ("arrayFilter", vec![text("greaterThan"), text("a")], &["b"]),
        (
            "arrayFilter",
            vec![text("greaterThanEqual"), text("a")],
            &["a", "b", "a"],
        ),
        (
            "arrayFilter",
            vec![text("lessThan"), text("b")],
            &["a", "a"],
        ),
        (
            "arrayFilter",
            vec![text("lessThanEqual"), text("a")],
            &["a", "a"],
        ),
        ("arrayFilter", vec![text("isNull"), Json::Null], &[]),
        ("arrayFilter", vec![text("isNotNull")], &["a", "b", "a"]),
    ] {
        gives(&tags, method, &values, abc(), texts(expected));
    }
}

/// Each with each would be a hundred million comparisons, on the thread that writes.
#[test]
fn a_full_array_is_compared_with_as_many_values_in_few_comparisons() {
    let tags = list(ColumnKind::Varchar { chars_max: 9 });
    let word = |n: usize| format!("w{n:05}");
    // Neither in the order of the elements nor sorted, and half of them are elements.
    let values = (0..ARRAY_ELEMENTS_MAX).map(|n| text(&word(n * 7_919 % 20_000)));
    let values: Vec<Json> = values.collect();
    let full = (0..ARRAY_ELEMENTS_MAX).map(|n| Value::Text(word(n)));
    let full = Value::List(full.collect());
    let several = [Json::List(values.clone())];
    let [common, rest, removed] = [
        ("arrayIntersect", &values[..]),
        ("arrayDiff", &values),
        ("arrayRemove", &several),
    ]
    .map(|(method, values)| {
        let operator = Operator::read(&tags, method, values).unwrap();
        // Reading is not on that thread, and sorts.
        list::COMPARED.set(0);
        let changed = operator.apply(&tags, &full, NOW).unwrap();
        let compared = list::COMPARED.get();
        let few = ARRAY_ELEMENTS_MAX..=20 * ARRAY_ELEMENTS_MAX;
        assert!(few.contains(&compared), "{method}: {compared}");
        changed
    });
    assert_eq!(rest, removed);
    let (Value::List(common), Value::List(rest)) = (common, rest) else {
        panic!("both are arrays");
    };
    assert_eq!(common.len() + rest.len(), ARRAY_ELEMENTS_MAX);
    let (looked_for, not_looked_for) = (Value::Text(word(7_919)), Value::Text(word(1)));
    assert!(common.contains(&looked_for) && !rest.contains(&looked_for));
    assert!(rest.contains(&not_looked_for) && !common.contains(&not_looked_for));
    let ascends = |pair: &[Value]| text_of(&pair[0]) < text_of(&pair[1]);
    assert!(common.windows(2).all(ascends) && rest.windows(2).all(ascends));
}

#[test]
fn array_operators_refuse_values_that_do_not_fit() {
    let tags = list(ColumnKind::Varchar { chars_max: 3 });
    let abc = || texts(&["a", "b", "a"]);
    gives(
        &tags,
        "arrayAppend",
        &[text("a")],
        Value::Null,
        texts(&["a"]),
    );
    refused(
        &tags,
        "arrayAppend",
        &[text("long")],
        &abc(),
        "longer than 3",
    );
    refused(
        &tags,
        "arrayAppend",
        &[Json::Int(1)],
        &abc(),
        "expected a string",
    );
    refused(&tags, "arrayAppend", &[], &abc(), "needs 1 to");
    refused(
        &tags,
        "arrayInsert",
        &[Json::Int(4), text("x")],
        &abc(),
        "beyond the end",
    );
    refused(
        &tags,
        "arrayInsert",
        &[Json::Int(-1), text("x")],
        &abc(),
        "0 or more",
    );
}

#[test]
fn an_operator_on_an_array_needs_values_of_its_type() {
    let tags = list(ColumnKind::Varchar { chars_max: 3 });
    let abc = || texts(&["a", "b", "a"]);
    refused(
        &tags,
        "arrayInsert",
        &[text("x")],
        &abc(),
        "position and a value",
    );
    refused(&tags, "arrayRemove", &[], &abc(), "one value");
    refused(
        &tags,
        "arrayRemove",
        &[Json::Int(1)],
        &abc(),
        "column's type",
    );
    refused(
        &tags,
        "arrayFilter",
        &[text("like"), text("a")],
        &abc(),
        "known conditions",
    );
    refused(
        &tags,
        "arrayFilter",
        &[text("equal")],
        &abc(),
        "column's type",
    );
    let full = Value::List(vec![Value::Text("x".into()); ARRAY_ELEMENTS_MAX]);
    refused(
        &tags,
        "arrayAppend",
        &[text("y")],
        &full,
        "more than 10000 elements",
    );
}

#[test]
fn texts_are_joined_and_replaced() {
    let name = column(ColumnKind::Varchar { chars_max: 5 });
    let abc = || Value::Text("abc".into());
    gives(
        &name,
        "stringConcat",
        &[text("d")],
        abc(),
        Value::Text("abcd".into()),
    );
    gives(
        &name,
        "stringConcat",
        &[text("d")],
        Value::Null,
        Value::Text("d".into()),
    );
    gives(
        &name,
        "stringReplace",
        &[text("b"), text("")],
        abc(),
        Value::Text("ac".into()),
    );
    gives(&name, "stringReplace", &[text(""), text("x")], abc(), abc());
    gives(
        &name,
        "stringReplace",
        &[text("b"), text("x")],
        Value::Null,
        Value::Null,
    );
    refused(
        &name,
        "stringConcat",
        &[text("def")],
        &abc(),
        "longer than 5",
    );
    refused(
        &name,
        "stringConcat",
        &[Json::Int(1)],
        &abc(),
        "needs texts",
    );
    refused(&name, "stringReplace", &[text("b")], &abc(), "needs texts");
    let mail = column(ColumnKind::Email);
    refused(
        &mail,
        "stringConcat",
        &[text(" x")],
        &Value::Text("a@b.co".into()),
        "e-mail",
    );
    assert_eq!(
        run(&name, "stringConcat", &[text("\0")], &abc()),
        Err(ModelError::NulCharacter)
    );
}

#[test]
fn a_replacement_that_would_fill_the_memory_is_refused_before_it_is_made() {
    let long = column(ColumnKind::Longtext);
    let letters = Value::Text("a".repeat(1 << 20));
    let values = [text("a"), text(&"b".repeat(1 << 20))];
    refused(
        &long,
        "stringReplace",
        &values,
        &letters,
        "more than 20971520 bytes",
    );
}

#[test]
fn booleans_and_dates_are_changed() {
    let truth = column(ColumnKind::Boolean);
    for (current, expected) in [(Value::Bool(true), false), (Value::Bool(false), true)] {
        gives(&truth, "toggle", &[], current, Value::Bool(expected));
    }
    gives(&truth, "toggle", &[], Value::Null, Value::Bool(true));
    let at = column(ColumnKind::Datetime);
    let day = |n: i64| Value::Instant(Timestamp(n * DAY_US));
    gives(&at, "dateAddDays", &[Json::Int(2)], day(5), day(7));
    gives(&at, "dateSubDays", &[Json::Int(2)], day(5), day(3));
    gives(
        &at,
        "dateAddDays",
        &[Json::Int(2)],
        Value::Null,
        Value::Null,
    );
    gives(
        &at,
        "dateSetNow",
        &[],
        Value::Null,
        Value::Instant(NOW.cut_to_ms()),
    );
    for days in [i64::MAX, i64::MIN, 4_000_000] {
        let error = run(&at, "dateAddDays", &[Json::Int(days)], &day(0)).unwrap_err();
        assert!(error.to_string().contains("0000 to 9999"), "{error}");
    }
    refused(
        &at,
        "dateSubDays",
        &[Json::Int(i64::MIN)],
        &day(0),
        "whole number of days",
    );
    refused(
        &at,
        "dateAddDays",
        &[Json::Float(0.5)],
        &day(0),
        "whole number of days",
    );
    let needed = Column {
        required: true,
        ..at
    };
    let error = run(&needed, "dateAddDays", &[Json::Int(1)], &Value::Null).unwrap_err();
    assert!(matches!(error, ModelError::MissingColumn { .. }));
}

#[test]
fn each_method_needs_a_column_of_its_type() {
    let columns = [
        ("number", any_int()),
        ("array", list(ColumnKind::Text)),
        ("text", column(ColumnKind::Text)),
        ("boolean", column(ColumnKind::Boolean)),
        ("datetime", column(ColumnKind::Datetime)),
    ];
    for method in METHODS {
        let wanted = match method {
            "toggle" => "boolean",
            _ if method.starts_with("array") => "array",
            _ if method.starts_with("string") => "text",
            _ if method.starts_with("date") => "datetime",
            _ => "number",
        };
        for (name, column) in &columns {
            let error = Operator::read(column, method, &[]).err();
            let is_of_type =
                error.is_some_and(|error| error.to_string().contains("needs a column that holds"));
            assert_eq!(is_of_type, *name != wanted, "{method} on {name}");
        }
    }
}

#[test]
fn values_that_no_number_can_be_computed_with_are_refused() {
    refused(
        &any_int(),
        "divide",
        &[Json::Int(0)],
        &Value::Int(1),
        "divide by 0",
    );
    refused(
        &float(),
        "modulo",
        &[Json::Float(-0.0)],
        &Value::Null,
        "divide by 0",
    );
    refused(
        &any_int(),
        "power",
        &[Json::Int(-1)],
        &Value::Int(2),
        "exponent of 0 or more",
    );
    refused(
        &any_int(),
        "increment",
        &[Json::Int(1), Json::Int(2), Json::Int(3)],
        &Value::Int(2),
        "at most 2 values, got 3",
    );
    refused(
        &any_int(),
        "modulo",
        &[Json::Int(1), Json::Int(2)],
        &Value::Int(2),
        "at most 1 value, got 2",
    );
    refused(
        &any_int(),
        "multiply",
        &[],
        &Value::Int(2),
        "needs a number",
    );
    refused(
        &any_int(),
        "increment",
        &[Json::Float(0.5)],
        &Value::Int(2),
        "64-bit integers",
    );
    refused(
        &any_int(),
        "increment",
        &[text("1")],
        &Value::Int(2),
        "64-bit integers",
    );
}

/// The exact result; a product by shifts and sums.
fn oracle(method: &str, n: i64, operand: i64) -> i128 {
    let (n, operand) = (i128::from(n), i128::from(operand));
    match method {
        "increment" => n + operand,
        "decrement" => n - operand,
        "multiply" => (0..64)
            .filter(|bit| operand.unsigned_abs() >> bit & 1 == 1)
            .map(|bit| (n << bit) * operand.signum())
            .sum(),
        other => panic!("{other}"),
    }
}

proptest! {
    #[test]
    fn an_integer_is_exact_or_refused(
        method in prop::sample::select(vec!["increment", "decrement", "multiply"]),
        n: i64,
        operand in prop_oneof![any::<i64>(), -1_000..1_000_i64],
        bound: Option<i64>,
    ) {
        let mut values = vec![Json::Int(operand)];
        values.extend(bound.map(Json::Int));
        let exact = oracle(method, n, operand);
        let bounded = match bound {
            Some(bound) if method == "decrement" => exact.max(i128::from(bound)),
            Some(bound) => exact.min(i128::from(bound)),
            None => exact,
        };
        match run(&any_int(), method, &values, &Value::Int(n)) {
            Ok(Value::Int(result)) => prop_assert_eq!(i128::from(result), bounded),
            other => {
                prop_assert!(other.is_err());
                prop_assert!(i64::try_from(bounded).is_err());
            }
        }
    }

    #[test]
    fn a_float_is_finite_and_within_its_column(
        method in prop::sample::select(vec!["increment", "multiply", "divide", "modulo", "power"]),
        x in prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL,
        operand in prop::num::f64::NORMAL,
        bound in prop::option::of(-10.0..10.0_f64),
    ) {
        let column = column(ColumnKind::Float { min: -1e100, max: 1e100 });
        let mut values = vec![Json::Float(operand)];
        values.extend(bound.map(Json::Float));
        if let Ok(value) = run(&column, method, &values, &Value::Float(x + 0.0)) {
            let Value::Float(result) = value else { panic!("{value:?}") };
            prop_assert!(result.is_finite() && (-1e100..=1e100).contains(&result));
            prop_assert!(result != 0.0 || result.is_sign_positive());
        }
    }

    #[test]
    fn any_values_are_answered(
        method in prop::sample::select(METHODS.to_vec()),
        values in prop::collection::vec(any_json(), 0..4),
        array: bool,
        kind in 0..5_usize,
    ) {
        let kind = [
            ColumnKind::Bigint { min: -100, max: 100 },
            ColumnKind::Float { min: -1.0, max: 1.0 },
            ColumnKind::Boolean,
            ColumnKind::Varchar { chars_max: 5 },
            ColumnKind::Datetime,
        ][kind].clone();
        let column = Column { array, ..column(kind) };
        // A result is what the column takes, and what it takes can be changed again.
        let mut current = Value::Null;
        if let Ok(operator) = Operator::read(&column, method, &values) {
            for _ in 0..3 {
                match operator.apply(&column, &current, NOW) {
                    Ok(next) => current = next,
                    Err(_) => break,
                }
                let single = |value: &Value| match value {
                    Value::Int(n) => (-100..=100).contains(n),
                    Value::Float(x) => (-1.0..=1.0).contains(x),
                    Value::Text(text) => text.chars().count() <= 5,
                    Value::Bool(_) | Value::Instant(_) => true,
                    Value::Null | Value::List(_) => false,
                };
                let fits = match &current {
                    Value::Null => true,
                    Value::List(elements) => array && elements.iter().all(single),
                    value => !array && single(value),
                };
                prop_assert!(fits, "{:?}", current);
            }
        }
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(Json::Int),
        (-3..3_i64).prop_map(Json::Int),
        any::<u64>().prop_map(Json::Wide),
        prop::num::f64::NORMAL.prop_map(Json::Float),
        "[a-z]{0,6}".prop_map(Json::Text),
        Just(Json::Text("2026-01-31T10:00:00Z".into())),
        Just(Json::Text("greaterThan".into())),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Json::List)
    })
}
