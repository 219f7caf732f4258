use std::sync::Arc;

use model::{Column, ColumnKind, Mark, RoleSet, Table, Timestamp};
use proptest::prelude::*;
use testing::{plain_column, plain_table};

use crate::resolve::{Limits, resolve};
use crate::visibility::Visibility;
use crate::{Query, Then, parse};

const LIMITS: Limits = Limits {
    page_rows_default: 25,
    page_rows_max: 100,
};

pub(crate) fn table() -> Arc<model::Table> {
    let column = |number: u32, key: &str, kind, array| Column {
        array,
        ..plain_column(number, key, kind)
    };
    let int = ColumnKind::Integer {
        min: i64::MIN,
        max: i64::MAX,
    };
    Arc::new(Table {
        row_security: true,
        ..plain_table(
            "t",
            vec![
                column(3, "a", ColumnKind::Text, false),
                column(5, "n", int, false),
                column(6, "l", ColumnKind::Text, true),
            ],
        )
    })
}

pub(crate) fn query(texts: &[String]) -> Query {
    let ast = parse(texts).unwrap();
    resolve(&ast, &table(), Visibility::Everything, None, &LIMITS).unwrap()
}

fn form_of(query: &Query) -> Vec<u8> {
    let mut form = Vec::new();
    query.write_normal_form(&mut form);
    form
}

fn form(texts: &[&str]) -> Vec<u8> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    form_of(&query(&texts))
}

#[track_caller]
fn check_equal(one: &[&str], other: &[&str]) {
    assert_eq!(form(one), form(other));
}

#[track_caller]
fn check_different(queries: &[&[&str]]) {
    let forms: Vec<Vec<u8>> = queries.iter().map(|texts| form(texts)).collect();
    for (position, one) in forms.iter().enumerate() {
        for (earlier, other) in forms[..position].iter().enumerate() {
            assert_ne!(
                one, other,
                "{:?} and {:?}",
                queries[position], queries[earlier]
            );
        }
    }
}

const A: &str = r#"{"method":"equal","attribute":"a","values":["x"]}"#;
const N: &str = r#"{"method":"lessThan","attribute":"n","values":[5]}"#;

#[test]
fn order_and_repetition_of_what_must_hold_leave_no_trace() {
    check_equal(&[A, N], &[N, A]);
    check_equal(&[A, A, N], &[A, N]);
    let nested =
        |first: &str, second: &str| format!(r#"{{"method":"and","values":[{first},{second}]}}"#);
    check_equal(&[&nested(A, N)], &[N, A]);
    let or =
        |first: &str, second: &str| format!(r#"{{"method":"or","values":[{first},{second}]}}"#);
    check_equal(&[&or(A, N)], &[&or(N, A)]);
    check_equal(&[&or(A, &or(N, A))], &[&or(N, A)]);
    check_equal(&[&or(A, A)], &[A]);
}

#[test]
fn order_and_repetition_of_values_leave_no_trace() {
    let values = |method: &str, attribute: &str, values: &str| {
        format!(r#"{{"method":"{method}","attribute":"{attribute}","values":[{values}]}}"#)
    };
    for (method, attribute) in [
        ("equal", "a"),
        ("contains", "a"),
        ("notContains", "a"),
        ("contains", "l"),
        ("containsAll", "l"),
        ("notContains", "l"),
    ] {
        let one = values(method, attribute, r#""x","y","x""#);
        let other = values(method, attribute, r#""y","x""#);
        check_equal(&[&one], &[&other]);
    }
    let between = values("between", "n", "1,2");
    assert_ne!(form(&[&between]), form(&[&values("between", "n", "2,1")]));
}

#[test]
fn filters_equal_by_default_have_one_form() {
    check_equal(&[], &[r#"{"method":"limit","values":[25]}"#]);
    check_equal(&[], &[r#"{"method":"offset","values":[0]}"#]);
    check_equal(&[], &[r#"{"method":"orderAsc","attribute":"$sequence"}"#]);
    check_equal(&[], &[r#"{"method":"select","values":["*"]}"#]);
    check_equal(
        &[r#"{"method":"select","values":["n","a"]}"#],
        &[
            r#"{"method":"select","values":["a"]}"#,
            r#"{"method":"select","values":["n"]}"#,
        ],
    );
    let random = r#"{"method":"orderRandom"}"#;
    check_equal(
        &[random],
        &[random, r#"{"method":"orderDesc","attribute":"a"}"#],
    );
}

#[test]
fn different_meanings_never_share_a_form() {
    check_different(&[
        &[],
        &[A],
        &[N],
        &[A, N],
        &[
            r#"{"method":"or","values":[{"method":"equal","attribute":"a","values":["x"]},{"method":"lessThan","attribute":"n","values":[5]}]}"#,
        ],
        &[r#"{"method":"equal","attribute":"a","values":["x","y"]}"#],
        &[r#"{"method":"equal","attribute":"a","values":["xy"]}"#],
        &[r#"{"method":"notEqual","attribute":"a","values":["x"]}"#],
        &[r#"{"method":"equal","attribute":"$id","values":["x"]}"#],
        &[r#"{"method":"startsWith","attribute":"a","values":["x"]}"#],
        &[r#"{"method":"notStartsWith","attribute":"a","values":["x"]}"#],
        &[r#"{"method":"endsWith","attribute":"a","values":["x"]}"#],
        &[r#"{"method":"notEndsWith","attribute":"a","values":["x"]}"#],
        &[r#"{"method":"contains","attribute":"a","values":["x"]}"#],
        &[r#"{"method":"contains","attribute":"a","values":["x","y"]}"#],
        &[r#"{"method":"notContains","attribute":"a","values":["x"]}"#],
        &[r#"{"method":"contains","attribute":"l","values":["x"]}"#],
        &[r#"{"method":"containsAll","attribute":"l","values":["x"]}"#],
        &[r#"{"method":"notContains","attribute":"l","values":["x"]}"#],
        &[r#"{"method":"isNull","attribute":"a"}"#],
        &[r#"{"method":"isNotNull","attribute":"a"}"#],
        &[r#"{"method":"lessThanEqual","attribute":"n","values":[5]}"#],
        &[r#"{"method":"greaterThan","attribute":"n","values":[5]}"#],
        &[r#"{"method":"greaterThanEqual","attribute":"n","values":[5]}"#],
        &[r#"{"method":"lessThan","attribute":"$sequence","values":[5]}"#],
        &[r#"{"method":"between","attribute":"n","values":[1,5]}"#],
        &[r#"{"method":"notBetween","attribute":"n","values":[1,5]}"#],
        &[r#"{"method":"lessThan","attribute":"$createdAt","values":["2026-01-01"]}"#],
        &[r#"{"method":"lessThan","attribute":"$updatedAt","values":["2026-01-01"]}"#],
        &[r#"{"method":"orderAsc","attribute":"a"}"#],
        &[r#"{"method":"orderDesc","attribute":"a"}"#],
        &[r#"{"method":"orderDesc","attribute":"$sequence"}"#],
        &[r#"{"method":"orderAsc","attribute":"$createdAt"}"#],
        &[
            r#"{"method":"orderAsc","attribute":"a"}"#,
            r#"{"method":"orderAsc","attribute":"n"}"#,
        ],
        &[
            r#"{"method":"orderAsc","attribute":"n"}"#,
            r#"{"method":"orderAsc","attribute":"a"}"#,
        ],
        &[r#"{"method":"orderRandom"}"#],
        &[r#"{"method":"limit","values":[24]}"#],
        &[r#"{"method":"offset","values":[1]}"#],
        &[r#"{"method":"cursorAfter","values":["r"]}"#],
        &[r#"{"method":"cursorBefore","values":["r"]}"#],
        &[r#"{"method":"cursorAfter","values":["s"]}"#],
        &[r#"{"method":"select","values":["a"]}"#],
        &[r#"{"method":"select","values":["a","n"]}"#],
        &[r#"{"method":"select","values":["$permissions"]}"#],
        &[r#"{"method":"select","values":["$id"]}"#],
        &[r#"{"method":"select","values":["$tableId"]}"#],
    ]);
}

#[test]
fn visibility_and_coordinates_are_part_of_it() {
    let everything = query(&[]);
    let role = |text: &str| model::Role::parse(text).unwrap();
    let granted = |roles: Vec<model::Role>| Query {
        visibility: Visibility::Granted(Arc::new(RoleSet::new(roles))),
        ..everything.clone()
    };
    let pinned = |valid, system| Query {
        at: Some(model::Coordinates {
            valid: Timestamp(valid),
            system: model::Mark(system),
        }),
        ..everything.clone()
    };
    let forms = [
        everything.clone(),
        granted(vec![]),
        granted(vec![role("any")]),
        granted(vec![role("any"), role("users")]),
        pinned(1, 2),
        pinned(2, 1),
    ]
    .map(|query| form_of(&query));
    for (position, form) in forms.iter().enumerate() {
        assert!(!forms[..position].contains(form), "{position}");
    }
}

/// Filter queries of every shape, as texts.
fn filters() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (
            "[axy]{0,3}",
            "(equal|notEqual|startsWith|contains|notContains)"
        )
            .prop_map(|(text, method)| format!(
                r#"{{"method":"{method}","attribute":"a","values":["{text}"]}}"#
            )),
        (-2..3_i64, -2..3_i64).prop_map(|(one, other)| format!(
            r#"{{"method":"equal","attribute":"n","values":[{one},{other}]}}"#
        )),
        Just(r#"{"method":"isNull","attribute":"l"}"#.to_owned()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        ("(or|and)", prop::collection::vec(inner, 2..4)).prop_map(|(method, inner)| {
            format!(r#"{{"method":"{method}","values":[{}]}}"#, inner.join(","))
        })
    })
}

proptest! {
    #[test]
    fn any_order_of_filters_has_one_form(
        (filters, shuffled) in prop::collection::vec(filters(), 0..6)
            .prop_flat_map(|filters| (Just(filters.clone()), Just(filters).prop_shuffle()))
    ) {
        prop_assert_eq!(form_of(&query(&filters)), form_of(&query(&shuffled)));
    }

    /// A form says what a filter means: equal forms hold for the same rows.
    #[test]
    fn equal_forms_mean_equal_filters(one in filters(), other in filters()) {
        let (one, other) = (query(&[one]), query(&[other]));
        if form_of(&one) == form_of(&other) {
            for row in rows() {
                prop_assert_eq!(holds(&one.filter, &row), holds(&other.filter, &row));
            }
        }
    }
}

/// A row of the table: `a`, `n`, and whether `l` is null.
type Cells = (Option<&'static str>, Option<i64>, bool);

fn rows() -> Vec<Cells> {
    let texts = [None, Some(""), Some("a"), Some("xy"), Some("yax")];
    let numbers = [None, Some(-2), Some(0), Some(2)];
    let mut rows = Vec::new();
    for text in texts {
        for number in numbers {
            rows.extend([(text, number, true), (text, number, false)]);
        }
    }
    rows
}

fn holds(filter: &crate::Filter, row: &Cells) -> bool {
    use crate::{Filter, Test};
    use model::{Field, Value};
    let (filter_field, test) = match filter {
        Filter::All(branches) => return branches.iter().all(|branch| holds(branch, row)),
        Filter::Any(branches) => return branches.iter().any(|branch| holds(branch, row)),
        Filter::Field(field, test) => (*field, test),
    };
    match (filter_field, test, row) {
        (Field::Column(2), Test::IsNull, (_, _, is_null)) => *is_null,
        (Field::Column(1), Test::In(values), (_, Some(number), _)) => {
            values.contains(&Value::Int(*number))
        }
        (Field::Column(0), test, (Some(cell), _, _)) => match test {
            Test::In(values) => values.contains(&Value::Text((*cell).to_owned())),
            Test::NotEqual(value) => *value != Value::Text((*cell).to_owned()),
            Test::StartsWith(start) => cell.starts_with(start),
            Test::HasPart(parts) => parts.iter().any(|part| cell.contains(part)),
            Test::HasNoPart(parts) => !parts.iter().any(|part| cell.contains(part)),
            other => panic!("{other:?} is not generated"),
        },
        _ => false,
    }
}

#[test]
fn past_grants_are_part_of_the_form() {
    let now = query(&[]);
    let then = Query {
        then: Some(Then {
            visibility: Visibility::Everything,
            mark: Mark(5),
            is_there_now: false,
        }),
        ..query(&[])
    };
    assert_ne!(form_of(&now), form_of(&then));
}
