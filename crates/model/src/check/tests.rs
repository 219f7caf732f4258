use super::*;
use crate::ColumnNumber;
use crate::id::ColumnKey;
use crate::time::Timestamp;

pub(crate) fn column(kind: ColumnKind) -> Column {
    Column {
        number: ColumnNumber(1),
        key: ColumnKey::new("k").unwrap(),
        kind,
        required: false,
        array: false,
        encrypt: false,
        default: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

#[track_caller]
fn fits(kind: ColumnKind, json: Json, value: Value) {
    assert_eq!(column(kind).check(&json), Ok(value));
}

#[track_caller]
fn refused(kind: ColumnKind, json: Json, fragment: &str) {
    let error = column(kind).check(&json).unwrap_err().to_string();
    assert!(error.contains(fragment), "{error}");
    assert!(error.contains("\"k\""), "names the column: {error}");
}

fn text(length: usize) -> Json {
    Json::Text("x".repeat(length))
}

#[test]
fn integers_are_exact_and_bounded() {
    let any = || ColumnKind::Integer {
        min: i64::MIN,
        max: i64::MAX,
    };
    let small = || ColumnKind::Integer {
        min: i64::MIN,
        max: 100,
    };
    fits(any(), Json::Int(i64::MAX), Value::Int(i64::MAX));
    fits(
        any(),
        Json::Int(9_007_199_254_740_993),
        Value::Int(9_007_199_254_740_993),
    );
    fits(
        small(),
        Json::Int(i64::from(i32::MIN)),
        Value::Int(i64::from(i32::MIN)),
    );
    refused(
        small(),
        Json::Int(i64::from(i32::MIN) - 1),
        "from -2147483648 to 100",
    );
    refused(small(), Json::Int(101), "to 100, got 101");
    refused(
        any(),
        Json::Wide(1 << 63),
        "expected a 64-bit integer, got 9223372036854775808, which is above 9223372036854775807",
    );
    refused(
        any(),
        Json::Float(-9_223_372_036_854_777_856.0),
        "expected a 64-bit integer, got a number below -9223372036854775808",
    );
    refused(
        any(),
        Json::Float(1e20),
        "got a number above 9223372036854775807",
    );
    refused(any(), Json::Float(1.0), "got float");
    refused(any(), Json::Text("1".into()), "got string");
    refused(any(), Json::Bool(true), "got boolean");
}

#[test]
fn floats_take_integers_and_lose_the_sign_of_zero() {
    let unit = || ColumnKind::Float {
        min: -1.0,
        max: 1.0,
    };
    fits(unit(), Json::Int(1), Value::Float(1.0));
    let Ok(Value::Float(zero)) = column(unit()).check(&Json::Float(-0.0)) else {
        panic!()
    };
    assert!(zero.is_sign_positive());
    refused(unit(), Json::Float(1.5), "from -1 to 1");
    refused(unit(), Json::Text("1".into()), "expected a number");
}

#[test]
fn texts_are_bounded_at_their_limit() {
    let two = || ColumnKind::Varchar { chars_max: 2 };
    fits(two(), Json::Text("éü".into()), Value::Text("éü".into()));
    refused(two(), Json::Text("abc".into()), "longer than 2 characters");
    fits(
        ColumnKind::Text,
        text(65_535),
        Value::Text("x".repeat(65_535)),
    );
    refused(ColumnKind::Text, text(65_536), "longer than 65535 bytes");
    refused(
        ColumnKind::Mediumtext,
        text(16_777_216),
        "longer than 16777215 bytes",
    );
    refused(two(), Json::Int(1), "expected a string, got integer");
    let nul = column(two()).check(&Json::Text("\0".into()));
    assert_eq!(nul, Err(ModelError::NulCharacter));
}

#[test]
fn formats_are_asked() {
    refused(
        ColumnKind::Email,
        Json::Text("nobody".into()),
        "e-mail address",
    );
    refused(ColumnKind::Url, Json::Text("nowhere".into()), "URL");
    refused(ColumnKind::Ip, Json::Text("1.2.3".into()), "IPv4 or IPv6");
    let colours = || ColumnKind::Enum {
        elements: ["red".to_owned(), "blue".into()].into(),
    };
    fits(
        colours(),
        Json::Text("red".into()),
        Value::Text("red".into()),
    );
    refused(colours(), Json::Text("Red".into()), "one of red, blue");
    refused(
        ColumnKind::Datetime,
        Json::Text("soon".into()),
        "date and time",
    );
    refused(ColumnKind::Datetime, Json::Int(5), "as text, got integer");
    fits(
        ColumnKind::Datetime,
        Json::Text("1970-01-01T00:00:00.0019Z".into()),
        Value::Instant(Timestamp(1_000)),
    );
}

#[test]
fn arrays_hold_single_values_only() {
    let mut list = column(ColumnKind::Boolean);
    list.array = true;
    let two = Json::List(vec![Json::Bool(true), Json::Bool(false)]);
    assert_eq!(
        list.check(&two),
        Ok(Value::List(vec![Value::Bool(true), Value::Bool(false)]))
    );
    assert!(list.check(&Json::Bool(true)).is_err());
    assert!(list.check(&Json::List(vec![Json::Null])).is_err());
    assert!(list.check(&Json::List(vec![Json::List(vec![])])).is_err());
    let full = Json::List(vec![Json::Bool(true); ARRAY_ELEMENTS_MAX]);
    assert!(list.check(&full).is_ok());
    let over = Json::List(vec![Json::Bool(true); ARRAY_ELEMENTS_MAX + 1]);
    assert!(list.check(&over).is_err());
    assert!(
        column(ColumnKind::Boolean)
            .check(&Json::List(vec![]))
            .is_err()
    );
}

pub(crate) fn empty_table() -> crate::schema::Table {
    use crate::id::{DatabaseId, ProjectId, TableId};
    crate::schema::Table {
        number: crate::schema::TableNumber(1),
        project: ProjectId::new("p").unwrap(),
        database: DatabaseId::new("d").unwrap(),
        id: TableId::new("t").unwrap(),
        name: "t".into(),
        enabled: true,
        row_security: false,
        permissions: vec![],
        columns: vec![],
        indexes: vec![],
        created: Timestamp(0),
        updated: Timestamp(0),
        schema_epoch: 1,
        permission_epoch: 1,
        options: crate::TableOptions::default(),
    }
}
