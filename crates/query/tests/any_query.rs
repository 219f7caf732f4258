//! Whatever a client sends is refused with a reason or becomes SQL for both dialects: nothing
//! panics, parameters are numbered from 1 without a gap, and no text of a client stands in SQL.

use std::sync::Arc;

use model::permission::Role;
use model::{Coordinates, Field, Mark, RoleSet, Storage, Timestamp, Value};
use proptest::prelude::*;
use query::ast::Method;
use query::emit::{self, Statement};
use query::{Dialect, Limits, Query, Visibility, field};
use testing::golden::products;

const LIMITS: Limits = Limits {
    page_rows_default: 25,
    page_rows_max: 5_000,
};
/// Stands in every text value, and may stand in no statement.
const SENTINEL: &str = "zq'\"; --";

fn json() -> impl Strategy<Value = String> {
    let text = serde_json::to_string(SENTINEL).unwrap();
    let leaf = prop_oneof![
        4 => Just(text),
        2 => Just(r#""r1""#.to_owned()),
        2 => Just(r#""2026-01-31T10:00:00Z""#.to_owned()),
        1 => prop::sample::select(TABLE_NAMES).prop_map(|name| format!("\"{name}\"")),
        4 => any::<i32>().prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        2 => (-1e9..1e9).prop_map(|number: f64| format!("{number:?}")),
        1 => any::<bool>().prop_map(|truth| truth.to_string()),
        1 => Just("null".to_owned()),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(|inner| format!("[{}]", inner.join(",")))
    })
}

const TABLE_NAMES: &[&str] = &[
    "category",
    "name",
    "price",
    "stock",
    "inStock",
    "releasedAt",
    "tags",
    "scores",
    "weights",
    "days",
    "rating",
    "$id",
    "$sequence",
    "$createdAt",
    "$updatedAt",
    "$validFrom",
    "$validTo",
    "$systemFrom",
    "$permissions",
    "*",
    "absent",
];

/// A value that an attribute of this storage takes.
fn value(storage: Storage) -> BoxedStrategy<String> {
    let sentinel = serde_json::to_string(SENTINEL).unwrap();
    match storage {
        Storage::Text => prop_oneof![Just(sentinel), "\"[a-z%_]{0,3}\""].boxed(),
        Storage::Int => any::<i64>().prop_map(|number| number.to_string()).boxed(),
        Storage::Float => (-1e9..1e9)
            .prop_map(|number: f64| format!("{number:?}"))
            .boxed(),
        Storage::Bool => any::<bool>().prop_map(|truth| truth.to_string()).boxed(),
        Storage::Instant => (1_970..2_100)
            .prop_map(|year| format!("\"{year}-01-31\""))
            .boxed(),
    }
}

/// How many values a method takes.
fn count(method: Method) -> std::ops::Range<usize> {
    match method {
        Method::IsNull | Method::IsNotNull | Method::OrderAsc | Method::OrderDesc => 0..1,
        Method::Between | Method::NotBetween => 2..3,
        Method::Equal
        | Method::Contains
        | Method::ContainsAny
        | Method::ContainsAll
        | Method::NotContains => 1..4,
        _ => 1..2,
    }
}

/// A query that is about an attribute, with values that mostly fit it.
fn about_attribute() -> impl Strategy<Value = String> {
    let table = products();
    let names: Vec<(String, Storage, bool)> = TABLE_NAMES
        .iter()
        .filter_map(|name| {
            let field = field::named(&table, name)?;
            let is_array = field::is_array(&table, field);
            Some(((*name).to_owned(), field::storage(&table, field), is_array))
        })
        .collect();
    prop::sample::select(names).prop_flat_map(|(name, storage, is_array)| {
        let fits = move |method: &Method| match (is_array, storage) {
            (true, _) => ARRAY_METHODS.contains(method),
            (false, Storage::Text) => true,
            (false, _) => !TEXT_METHODS.contains(method),
        };
        let methods: Vec<Method> = ATTRIBUTE_METHODS.iter().copied().filter(fits).collect();
        prop::sample::select(methods).prop_flat_map(move |method| {
            let name = name.clone();
            prop::collection::vec(value(storage), count(method)).prop_map(move |values| {
                let (method, values) = (method.as_str(), values.join(","));
                format!(r#"{{"method":"{method}","attribute":"{name}","values":[{values}]}}"#)
            })
        })
    })
}

const ATTRIBUTE_METHODS: &[Method] = &[
    Method::Equal,
    Method::NotEqual,
    Method::LessThan,
    Method::LessThanEqual,
    Method::GreaterThan,
    Method::GreaterThanEqual,
    Method::Between,
    Method::NotBetween,
    Method::IsNull,
    Method::IsNotNull,
    Method::StartsWith,
    Method::NotStartsWith,
    Method::EndsWith,
    Method::NotEndsWith,
    Method::Contains,
    Method::ContainsAny,
    Method::ContainsAll,
    Method::NotContains,
    Method::OrderAsc,
    Method::OrderDesc,
];
const TEXT_METHODS: &[Method] = &[
    Method::StartsWith,
    Method::NotStartsWith,
    Method::EndsWith,
    Method::NotEndsWith,
    Method::Contains,
    Method::ContainsAny,
    Method::ContainsAll,
    Method::NotContains,
];
const ARRAY_METHODS: &[Method] = &[
    Method::IsNull,
    Method::IsNotNull,
    Method::Contains,
    Method::ContainsAny,
    Method::ContainsAll,
    Method::NotContains,
];

/// Any method with any attribute and any values.
fn anything() -> impl Strategy<Value = String> {
    let values = prop::collection::vec(json(), 0..4);
    (
        prop::sample::select(Method::ALL),
        prop::sample::select(TABLE_NAMES),
        values,
    )
        .prop_map(|(method, attribute, values)| {
            let (method, values) = (method.as_str(), values.join(","));
            format!(r#"{{"method":"{method}","attribute":"{attribute}","values":[{values}]}}"#)
        })
}

fn page() -> impl Strategy<Value = String> {
    prop_oneof![
        (1..100).prop_map(|rows| format!(r#"{{"method":"limit","values":[{rows}]}}"#)),
        (0..100).prop_map(|rows| format!(r#"{{"method":"offset","values":[{rows}]}}"#)),
        "(cursorAfter|cursorBefore)"
            .prop_map(|method| format!(r#"{{"method":"{method}","values":["r1"]}}"#)),
        Just(r#"{"method":"select","values":["stock","tags","$id"]}"#.to_owned()),
        Just(r#"{"method":"orderRandom"}"#.to_owned()),
    ]
}

fn call() -> impl Strategy<Value = String> {
    let filter = about_attribute().prop_recursive(2, 8, 3, |inner| {
        ("(or|and)", prop::collection::vec(inner, 2..4)).prop_map(|(method, inner)| {
            format!(r#"{{"method":"{method}","values":[{}]}}"#, inner.join(","))
        })
    });
    prop_oneof![10 => filter, 4 => page(), 1 => anything()]
}

/// Every statement that a query leads to.
fn statements(query: &Query, dialect: Dialect) -> Vec<Statement> {
    let known = |field: Field| match field::storage(&query.table, field) {
        Storage::Text => Value::Text(SENTINEL.to_owned()),
        Storage::Int => Value::Int(1),
        Storage::Float => Value::Float(1.5),
        Storage::Bool => Value::Bool(false),
        Storage::Instant => Value::Instant(Timestamp(1)),
    };
    let cursor: Option<Vec<Value>> = query.cursor.as_ref().map(|_| {
        let keys = query.order.iter().map(|key| known(key.field));
        keys.chain([Value::Int(1)]).collect()
    });
    let mut statements = vec![
        emit::rows(query, cursor.as_deref(), dialect),
        emit::rows_in_place(query, cursor.as_deref(), dialect),
        emit::total(query, Some(5_000), dialect),
        emit::total(query, None, dialect),
    ];
    statements.extend(emit::cursor_row(query, dialect));
    statements
}

fn numbers_after(sql: &str, sign: char) -> Vec<usize> {
    let mut parts = sql.split(sign);
    parts.next();
    let number = |part: &str| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number follows the sign")
    };
    parts.map(number).collect()
}

#[track_caller]
fn check(query: &Query) {
    for (dialect, sign) in [(Dialect::Sqlite, '?'), (Dialect::Postgres, '$')] {
        for statement in statements(query, dialect) {
            assert!(!statement.sql.contains("zq"), "{}", statement.sql);
            let mut numbers = numbers_after(&statement.sql, sign);
            numbers.sort_unstable();
            numbers.dedup();
            let wanted: Vec<usize> = (1..=statement.parameters.len()).collect();
            assert_eq!(numbers, wanted, "{}", statement.sql);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_query_is_refused_or_becomes_sql(
        calls in prop::collection::vec(call(), 0..4),
        is_pinned: bool,
        is_granted: bool,
    ) {
        let table = Arc::new(products());
        let roles = vec![Role::any(), Role::guests()];
        let visibility = if is_granted {
            Visibility::Granted(Arc::new(RoleSet::new(roles)))
        } else {
            Visibility::Everything
        };
        let at = is_pinned.then_some(Coordinates { valid: Timestamp(5), system: Mark(5) });
        let Ok(ast) = query::parse(&calls) else {
            return Ok(());
        };
        if let Ok(query) = query::resolve(&ast, &table, visibility, at, &LIMITS) {
            check(&query);
        }
        let _ = query::resolve_selection(&ast, &table);
    }
}

#[test]
fn a_point_takes_select_and_nothing_else() {
    let table = products();
    let resolve = |text: &str| query::resolve_selection(&query::parse(&[text]).unwrap(), &table);
    assert_eq!(
        resolve(r#"{"method":"select","values":["price","$id"]}"#),
        Ok(model::Selection::Some {
            columns: vec![2],
            fields: vec![Field::Id],
            permissions: false,
        })
    );
    let refused = resolve(r#"{"method":"limit","values":[1]}"#)
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("Invalid query: Query method is invalid: `limit`"),
        "{refused}"
    );
}

/// A method that the parser knows and no arm of the resolver takes would be refused everywhere.
#[test]
fn a_method_of_one_attribute_is_taken_by_some_attribute() {
    let table = Arc::new(products());
    let is_taken = |method: Method, name: &str, values: &str| {
        let word = method.as_str();
        let text = format!(r#"{{"method":"{word}","attribute":"{name}","values":[{values}]}}"#);
        let ast = query::parse(&[text]).unwrap();
        query::resolve(&ast, &table, Visibility::Everything, None, &LIMITS).is_ok()
    };
    let holds_others = |method: &Method| matches!(method, Method::Or | Method::And);
    let of_attributes = |method: &&Method| method.is_filter() && !holds_others(method);
    for method in Method::ALL.iter().filter(of_attributes) {
        let fits = |name: &&str| {
            ["", "1", "\"a\"", "1,2", "\"a\",\"b\""]
                .iter()
                .any(|values| is_taken(*method, name, values))
        };
        let taken = TABLE_NAMES.iter().any(fits);
        assert!(taken, "no attribute takes `{}`", method.as_str());
    }
}
