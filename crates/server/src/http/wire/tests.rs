use std::sync::Arc;

use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, Content, Database, DatabaseId, DatabaseKind,
    Direction, Grantee, Index, IndexColumn, IndexKey, IndexKind, ProjectId, RowId, TableId,
};
use testing::{plain_column, plain_table};

use super::*;

/// 2026-11-21T01:02:03.004Z, and some microseconds that are not shown.
const AT: Timestamp = Timestamp(1_795_222_923_004_567);
const SHOWN: &str = "2026-11-21T01:02:03.004+00:00";

fn plain(key: &str, kind: ColumnKind) -> Column {
    Column {
        created: AT,
        updated: AT,
        ..plain_column(1, key, kind)
    }
}

fn array(key: &str) -> Column {
    Column {
        array: true,
        encrypt: false,
        ..plain(key, ColumnKind::Text)
    }
}

fn table_of(columns: Vec<Column>) -> Table {
    Table {
        name: "Fruit \"fresh\"".into(),
        permissions: Grantee::Table
            .parse([r#"read("any")"#, r#"create("users")"#])
            .unwrap(),
        created: AT,
        updated: AT,
        ..plain_table("t", columns)
    }
}

fn one_column() -> Vec<Column> {
    vec![plain("a", ColumnKind::Boolean)]
}

fn row_of(content: Content) -> Row {
    Row {
        seq: 7,
        id: RowId::new("r").unwrap(),
        created: AT,
        updated: AT,
        permissions: r#"["read(\"any\")"]"#.into(),
        content,
        span: None,
    }
}

fn page_of(columns: Vec<Column>, selection: Selection, rows: Vec<Row>) -> Page {
    Page {
        table: Arc::new(table_of(columns)),
        selection,
        rows,
        related: vec![],
    }
}

fn shown(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// What a body looks like with a single column of this kind and value.
#[track_caller]
fn check_value(column: Column, value: Value, written: &str) {
    let mut out = Vec::new();
    encode_row(&table_of(vec![column]), &[value], &mut out);
    assert_eq!(shown(out), format!("\"k\":{written}"));
}

#[test]
fn values_are_written_as_clients_read_them() {
    let float = || {
        plain(
            "k",
            ColumnKind::Float {
                min: f64::MIN,
                max: f64::MAX,
            },
        )
    };
    let integer = || {
        plain(
            "k",
            ColumnKind::Bigint {
                min: i64::MIN,
                max: i64::MAX,
            },
        )
    };
    let text = || plain("k", ColumnKind::Text);
    check_value(text(), Value::Null, "null");
    check_value(array("k"), Value::Null, "[]");
    check_value(array("k"), Value::List(vec![]), "[]");
    let two = Value::List(vec![Value::Text("a".into()), Value::Text("b".into())]);
    check_value(array("k"), two, r#"["a","b"]"#);
    check_value(plain("k", ColumnKind::Boolean), Value::Bool(true), "true");
    check_value(integer(), Value::Int(i64::MIN), "-9223372036854775808");
    check_value(integer(), Value::Int(i64::MAX), "9223372036854775807");
    check_value(float(), Value::Float(0.1), "0.1");
    check_value(float(), Value::Float(5.0), "5.0");
    check_value(float(), Value::Float(f64::MAX), "1.7976931348623157e+308");
    check_value(
        plain("k", ColumnKind::Datetime),
        Value::Instant(AT),
        &format!("\"{SHOWN}\""),
    );
    check_value(
        text(),
        Value::Text("\"\\\n\u{1}é😀</".into()),
        "\"\\\"\\\\\\n\\u0001é😀</\"",
    );
}

#[test]
fn every_double_comes_back_bit_for_bit() {
    let numbers = [
        0.1 + 0.2,
        1e21,
        1e-7,
        5e-324,
        f64::MAX,
        f64::MIN_POSITIVE,
        123_456_789.125,
    ];
    for number in numbers {
        let mut out = Vec::new();
        value(&mut out, &Value::Float(number));
        let read: f64 = serde_json::from_slice(&out).unwrap();
        assert_eq!(read.to_bits(), number.to_bits());
    }
}

const WHOLE: &str = concat!(
    r#"{"$id":"r","$sequence":"7","$createdAt":"2026-11-21T01:02:03.004+00:00","#,
    r#""$updatedAt":"2026-11-21T01:02:03.004+00:00","$permissions":["read(\"any\")"],"#,
    r#""$databaseId":"d","$tableId":"t","a":true}"#
);

#[test]
fn a_whole_row_has_its_system_fields_before_its_columns() {
    let body = row_of(Content::Body(Box::from(*br#""a":true"#)));
    let values = row_of(Content::Values(vec![Value::Bool(true)]));
    for row in [body, values] {
        let table = table_of(one_column());
        let alone = encode_shown_row(&table, row.borrowed(), Family::Tables);
        assert_eq!(shown(alone), WHOLE);
        let page = page_of(one_column(), Selection::All, vec![row]);
        assert_eq!(shown(encode_page(&page, Family::Tables)), WHOLE);
        let older = WHOLE.replace("$tableId", "$collectionId");
        assert_eq!(shown(encode_page(&page, Family::Documents)), older);
    }
}

#[test]
fn a_body_is_what_the_row_encoder_writes() {
    let columns = vec![
        plain("a", ColumnKind::Boolean),
        array("b"),
        plain("c", ColumnKind::Text),
    ];
    let values = vec![Value::Bool(false), Value::Null, Value::Text("x".into())];
    let mut body = Vec::new();
    encode_row(&table_of(columns.clone()), &values, &mut body);
    assert_eq!(shown(body.clone()), r#""a":false,"b":[],"c":"x""#);
    let page = |content| page_of(columns.clone(), Selection::All, vec![row_of(content)]);
    assert_eq!(
        encode_page(&page(Content::Body(body.into())), Family::Tables),
        encode_page(&page(Content::Values(values)), Family::Tables),
    );
}

#[test]
fn rows_are_joined_by_commas() {
    let row = || row_of(Content::Body(Box::from(*br#""a":true"#)));
    let page = page_of(one_column(), Selection::All, vec![row(), row()]);
    assert_eq!(
        shown(encode_page(&page, Family::Tables)),
        format!("{WHOLE},{WHOLE}")
    );
    let none = page_of(one_column(), Selection::All, vec![]);
    assert_eq!(shown(encode_page(&none, Family::Tables)), "");
    assert_eq!(
        shown(rows_of(0, &none, words(Family::Tables))),
        r#"{"total":0,"rows":[]}"#
    );
    let list = shown(rows_of(2, &page, words(Family::Documents)));
    assert!(
        list.starts_with(r#"{"total":2,"documents":[{"$id""#),
        "{list}"
    );
}

#[test]
fn a_table_without_columns_has_rows_of_system_fields() {
    let page = page_of(
        vec![],
        Selection::All,
        vec![row_of(Content::Body(Box::from(*b"")))],
    );
    let written = shown(encode_page(&page, Family::Tables));
    assert_eq!(written, WHOLE.replace(r#","a":true"#, ""));
}

#[track_caller]
fn check_selection(
    fields: &[Field],
    permissions: bool,
    columns: &[usize],
    values: &[Value],
    written: &str,
) {
    let selection = Selection::Some {
        columns: columns.to_vec(),
        fields: fields.to_vec(),
        permissions,
    };
    let row = row_of(Content::Values(values.to_vec()));
    let all = vec![
        plain("a", ColumnKind::Boolean),
        array("b"),
        plain("c", ColumnKind::Text),
    ];
    let page = page_of(all, selection, vec![row]);
    assert_eq!(shown(encode_page(&page, Family::Tables)), written);
}

#[test]
fn a_selection_shows_what_it_names_and_where_the_row_is() {
    let place = r#""$databaseId":"d","$tableId":"t""#;
    check_selection(&[], false, &[], &[], &format!("{{{place}}}"));
    let list = Value::List(vec![Value::Text("x".into())]);
    let written = format!(r#"{{{place},"b":["x"],"c":null}}"#);
    check_selection(&[], false, &[1, 2], &[list, Value::Null], &written);
    let written = format!(r#"{{"$id":"r",{place},"a":true}}"#);
    check_selection(&[Field::Id], false, &[0], &[Value::Bool(true)], &written);
    let written = format!(r#"{{"$sequence":"7","$permissions":["read(\"any\")"],{place}}}"#);
    check_selection(&[Field::Sequence], true, &[], &[], &written);
    let written = format!(r#"{{"$createdAt":"{SHOWN}","$updatedAt":"{SHOWN}",{place}}}"#);
    check_selection(&[Field::Updated, Field::Created], false, &[], &[], &written);
}

/// The members of a column beside those that all kinds share.
#[track_caller]
fn check_column(column: Column, kind: &str, own: &str) {
    let common = format!(
        r#"{{"key":"k","description":"","type":"{kind}","status":"available","error":"","required":false,"array":false,"$createdAt":"{SHOWN}","$updatedAt":"{SHOWN}","#
    );
    let written = super::column(&column, words(Family::Tables));
    assert_eq!(shown(written), format!("{common}{own}}}"));
}

#[test]
fn each_kind_of_column_has_its_own_members() {
    use ColumnKind as K;
    let of = |kind| plain("k", kind);
    check_column(
        of(K::Varchar { chars_max: 64 }),
        "varchar",
        r#""size":64,"encrypt":false,"default":null"#,
    );
    check_column(
        of(K::String { chars_max: 9 }),
        "string",
        r#""size":9,"encrypt":false,"default":null"#,
    );
    for (kind, word) in [
        (K::Text, "text"),
        (K::Mediumtext, "mediumtext"),
        (K::Longtext, "longtext"),
    ] {
        check_column(of(kind), word, r#""encrypt":false,"default":null"#);
    }
    check_column(
        of(K::Integer {
            min: i64::MIN,
            max: i64::MAX,
        }),
        "integer",
        r#""min":-9223372036854775808,"max":9223372036854775807,"default":null"#,
    );
    check_column(
        of(K::Bigint { min: 1, max: 2 }),
        "bigint",
        r#""min":1,"max":2,"default":null"#,
    );
    check_column(
        of(K::Float {
            min: f64::MIN,
            max: f64::MAX,
        }),
        "double",
        r#""min":-1.7976931348623157e+308,"max":1.7976931348623157e+308,"default":null"#,
    );
    check_column(of(K::Email), "string", r#""format":"email","default":null"#);
    check_column(of(K::Url), "string", r#""format":"url","default":null"#);
    check_column(of(K::Ip), "string", r#""format":"ip","default":null"#);
    check_column(of(K::Datetime), "datetime", r#""format":"","default":null"#);
    let truth = Column {
        default: Some(Value::Bool(true)),
        ..of(K::Boolean)
    };
    check_column(truth, "boolean", r#""default":true"#);
    let elements = Arc::from([String::from("a"), String::from("\"")]);
    check_column(
        of(K::Enum { elements }),
        "string",
        r#""format":"enum","elements":["a","\""],"default":null"#,
    );
}

/// A page of one row with a column `n`, and a relationship `r` to the same row.
fn related_page(kind: model::RelationKind) -> Page {
    let relation = Relation {
        related: TableId::new("t").unwrap(),
        partner: ColumnNumber(2),
        partner_key: ColumnKey::new("back").unwrap(),
        kind,
        two_way: true,
        on_delete: model::OnDelete::SetNull,
        side: model::Side::Parent,
        has_ended: false,
    };
    let columns = vec![
        plain("r", ColumnKind::Relationship(relation)),
        plain("n", ColumnKind::Boolean),
    ];
    let selection = Selection::Some {
        columns: vec![0, 1],
        fields: vec![],
        permissions: false,
    };
    let link = Value::Text("r".into());
    let row = row_of(Content::Values(vec![link, Value::Bool(true)]));
    page_of(columns, selection, vec![row])
}

#[test]
fn related_rows_stand_in_their_row_and_links_do_not() {
    use model::RelationKind::{ManyToMany, ManyToOne};
    let place = r#""$databaseId":"d","$tableId":"t","n":true"#;
    for (kind, links, written) in [
        (ManyToOne, vec![], "null".to_owned()),
        (ManyToOne, vec![0], format!("{{{place}}}")),
        (ManyToMany, vec![], "[]".to_owned()),
        (ManyToMany, vec![0, 0], format!("[{{{place}}},{{{place}}}]")),
    ] {
        let mut page = related_page(kind);
        let plain = shown(encode_page(&page, Family::Tables));
        assert_eq!(plain, format!("{{{place}}}"));
        page.related = vec![Related {
            column: 0,
            page: related_page(kind),
            links: vec![links],
        }];
        let embedded = shown(encode_page(&page, Family::Tables));
        assert_eq!(embedded, format!("{{{place},\"r\":{written}}}"));
    }
    let column = &related_page(ManyToOne).table.columns[0];
    let written = shown(super::column(column, words(Family::Documents)));
    assert!(
        written.contains(
            r#""relatedCollection":"t","relationType":"manyToOne","twoWay":true,"twoWayKey":"back","onDelete":"setNull","side":"parent""#
        ),
        "{written}"
    );
}

#[test]
fn an_index_has_one_entry_for_each_column() {
    let column = |field, direction, length| IndexColumn {
        field,
        direction,
        length,
        held: None,
    };
    let index = Index {
        number: 1,
        key: IndexKey::new("i").unwrap(),
        kind: IndexKind::Unique,
        columns: vec![
            column(Field::Column(0), Direction::Asc, Some(5)),
            column(Field::Created, Direction::Desc, None),
        ],
        status: model::IndexStatus::Available,
        created: AT,
        updated: AT,
    };
    let table = table_of(one_column());
    let written = |family| shown(super::index(&table, &index, words(family)));
    let wanted = format!(
        r#"{{"$id":"i","$createdAt":"{SHOWN}","$updatedAt":"{SHOWN}","key":"i","description":"","type":"unique","status":"available","error":"","columns":["a","$createdAt"],"lengths":[5,0],"orders":["ASC","DESC"]}}"#
    );
    assert_eq!(written(Family::Tables), wanted);
    assert_eq!(
        written(Family::Documents),
        wanted.replace("\"columns\"", "\"attributes\"")
    );
}

#[test]
fn a_table_carries_its_columns_and_indexes() {
    let table = table_of(vec![]);
    let written = |family| shown(super::table(&table, words(family)));
    let wanted = format!(
        r#"{{"$id":"t","$createdAt":"{SHOWN}","$updatedAt":"{SHOWN}","$permissions":["read(\"any\")","create(\"users\")"],"databaseId":"d","name":"Fruit \"fresh\"","description":"","enabled":true,"rowSecurity":false,"columns":[],"indexes":[],"bytesMax":0,"bytesUsed":0}}"#
    );
    assert_eq!(written(Family::Tables), wanted);
    let older = wanted
        .replace("rowSecurity", "documentSecurity")
        .replace("columns", "attributes");
    assert_eq!(written(Family::Documents), older);
    let list = shown(tables(
        1,
        &[Arc::new(table_of(vec![]))],
        words(Family::Documents),
    ));
    assert_eq!(list, format!(r#"{{"total":1,"collections":[{older}]}}"#));
}

#[test]
fn a_database_shows_the_family_it_was_made_by() {
    let database = |kind| Database {
        project: ProjectId::new("p").unwrap(),
        id: DatabaseId::new("d").unwrap(),
        seq: 1,
        name: "D".into(),
        kind,
        enabled: false,
        created: AT,
        updated: AT,
        tables: std::collections::HashMap::new(),
    };
    let wanted = format!(
        r#"{{"$id":"d","name":"D","description":"","$createdAt":"{SHOWN}","$updatedAt":"{SHOWN}","enabled":false,"type":"legacy","status":"ready","policies":[],"archives":[]}}"#
    );
    assert_eq!(
        shown(super::database(&database(DatabaseKind::Legacy))),
        wanted
    );
    let newer = wanted.replace("legacy", "tablesdb");
    let list = shown(databases(3, &[Arc::new(database(DatabaseKind::Tablesdb))]));
    assert_eq!(list, format!(r#"{{"total":3,"databases":[{newer}]}}"#));
}

#[test]
fn a_refusal_has_four_members() {
    let body = error_body(
        "No \"r\".",
        StatusCode::NOT_FOUND,
        "row_not_found",
        None,
        &[],
    );
    let wanted = r#"{"message":"No \"r\".","code":404,"type":"row_not_found","version":"1.9.6"}"#;
    assert_eq!(shown(body), wanted);
}

#[test]
fn health_is_a_status_or_a_list_of_them() {
    let database = health("database", 3, true);
    let one = r#"{"name":"database","ping":3,"status":"pass"}"#;
    assert_eq!(shown(database.clone()), one);
    assert_eq!(
        shown(statuses(&[database])),
        format!(r#"{{"total":1,"statuses":[{one}]}}"#)
    );
    assert!(shown(health("x", 0, false)).contains("fail"));
}

#[test]
fn words_are_swapped_both_ways_and_others_kept() {
    assert_eq!(words(Family::Documents).of("rowId"), "documentId");
    assert_eq!(words(Family::Tables).of("documentId"), "rowId");
    assert_eq!(words(Family::Tables).of("rowId"), "rowId");
    assert_eq!(words(Family::Documents).of("name"), "name");
}
