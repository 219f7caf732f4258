//! Queries of relationships: selections, filters, and the SQL of lists of links.

use std::sync::Arc;

use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, Coordinates, Direction, Field, Index, IndexColumn,
    IndexKey, IndexKind, IndexStatus, Mark, OnDelete, Relation, RelationKind, Selection, Side,
    Table, TableId, Timestamp,
};
use query::{Dialect, Limits, Query, QueryError, RelatedNames, Visibility, emit};
use testing::{plain_column, plain_table};

fn column(number: u32, key: &str, kind: ColumnKind, array: bool) -> Column {
    Column {
        array,
        ..plain_column(number, key, kind)
    }
}

fn end(number: u32, key: &str, kind: RelationKind, side: Side, two_way: bool) -> Column {
    let relation = Relation {
        related: TableId::new("other").unwrap(),
        partner: ColumnNumber(9),
        partner_key: ColumnKey::new("back").unwrap(),
        kind,
        two_way,
        on_delete: OnDelete::Restrict,
        side,
        has_ended: false,
    };
    let array = relation.holds_links() && relation.is_list();
    column(number, key, ColumnKind::Relationship(relation), array)
}

/// An index over the link at this position.
fn index(position: usize, status: IndexStatus) -> Index {
    Index {
        number: 1,
        key: IndexKey::new("links").unwrap(),
        kind: IndexKind::Key,
        columns: vec![IndexColumn {
            field: Field::Column(position),
            direction: Direction::Asc,
            length: None,
            held: None,
        }],
        status,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

/// A plain column, one link, a list of links, links that are held elsewhere, a hidden end, and a
/// link whose key holds a period.
fn table() -> Arc<Table> {
    Arc::new(Table {
        name: "T".into(),
        ..plain_table(
            "t",
            vec![
                column(1, "n", ColumnKind::Text, false),
                end(2, "one", RelationKind::ManyToOne, Side::Parent, false),
                end(3, "many", RelationKind::ManyToMany, Side::Parent, false),
                end(4, "kids", RelationKind::OneToMany, Side::Parent, false),
                end(5, "hidden", RelationKind::OneToOne, Side::Child, false),
                end(6, "a.b", RelationKind::OneToOne, Side::Parent, false),
            ],
        )
    })
}

fn resolve(text: &str) -> Result<Query, QueryError> {
    resolve_in(&table(), text)
}

fn resolve_in(table: &Arc<Table>, text: &str) -> Result<Query, QueryError> {
    let limits = Limits {
        page_rows_default: 25,
        page_rows_max: 100,
    };
    let ast = query::parse(&[text.to_owned()]).unwrap();
    query::resolve(&ast, table, Visibility::Everything, None, &limits)
}

fn related(names: &str) -> Result<Vec<RelatedNames>, QueryError> {
    let text = format!(r#"{{"method":"select","values":{names}}}"#);
    let ast = query::parse(&[text]).unwrap();
    query::resolve_related(&ast, &table())
}

fn sql(query: &Query) -> String {
    emit::rows(query, None, Dialect::Sqlite).sql
}

#[test]
fn names_of_related_rows_are_kept_for_their_table() {
    let found = related(r#"["*","one.*","one.x.y","many","a.b.c"]"#).unwrap();
    let names = |column: usize, names: &[&str]| RelatedNames {
        column,
        names: names.iter().map(|&name| name.into()).collect(),
    };
    assert_eq!(
        found,
        [names(1, &["*", "x.y"]), names(2, &["*"]), names(5, &["c"])]
    );
    for unknown in [
        r#"["n.x"]"#,
        r#"["hidden"]"#,
        r#"["hidden.*"]"#,
        r#"[".n"]"#,
    ] {
        let QueryError::Invalid(why) = related(unknown).unwrap_err() else {
            panic!("{unknown}");
        };
        assert!(why.starts_with("Attribute not found in schema"), "{why}");
    }
}

#[test]
fn selections_of_one_request_name_so_many_attributes_at_most() {
    let select = |of: usize, count: usize| {
        let names = (0..count).map(|nth| format!("\"one.{}\"", of * 1_000 + nth));
        let names: Vec<String> = names.collect();
        let names = names.join(",");
        format!(r#"{{"method":"select","values":[{names}]}}"#)
    };
    let related = |texts: &[String]| {
        let ast = query::parse(texts).unwrap();
        query::resolve_related(&ast, &table())
    };
    let mut texts: Vec<String> = (0..8).map(|of| select(of, 250)).collect();
    let names = related(&texts).unwrap().remove(0).names;
    assert_eq!(names.len(), query::resolve::SELECTED_TOTAL_MAX);
    texts.push(select(8, 1));
    let refused = related(&texts).unwrap_err().to_string();
    assert!(
        refused.ends_with("may select at most 2000 attributes"),
        "{refused}"
    );
}

#[test]
fn a_selection_of_related_rows_alone_selects_nothing_else() {
    let selected = resolve(r#"{"method":"select","values":["one.x"]}"#).unwrap();
    let nothing = Selection::Some {
        columns: vec![],
        fields: vec![],
        permissions: false,
    };
    assert_eq!(selected.selection, nothing);
    let (selection, further) =
        query::select_names(&table(), &["*".into(), "kids.n".into()]).unwrap();
    assert_eq!((selection, further.len()), (Selection::All, 1));
}

#[test]
fn lists_of_links_are_asked_by_their_table_now_and_by_their_elements_then() {
    let mut query = resolve(r#"{"method":"contains","attribute":"many","values":["x"]}"#).unwrap();
    assert!(query.filters_relationships());
    assert!(
        sql(&query).contains("FROM t1_l3 AS l WHERE l.target IN"),
        "{}",
        sql(&query)
    );
    query.at = Some(Coordinates {
        valid: Timestamp(5),
        system: Mark(5),
    });
    assert!(sql(&query).contains("json_each"), "{}", sql(&query));
    let plain = resolve(r#"{"method":"equal","attribute":"n","values":["x"]}"#).unwrap();
    assert!(!plain.filters_relationships());
}

#[test]
fn one_link_is_an_id_and_never_a_part_of_one() {
    let mut table = Table::clone(&table());
    table.indexes = vec![index(1, IndexStatus::Available)];
    let table = Arc::new(table);
    for method in ["equal", "contains", "containsAny", "containsAll"] {
        let text = format!(r#"{{"method":"{method}","attribute":"one","values":["x"]}}"#);
        let query = resolve_in(&table, &text).unwrap();
        assert!(
            sql(&query).contains("t.c2 = ?"),
            "{method}: {}",
            sql(&query)
        );
    }
}

#[test]
fn one_link_is_looked_up_in_its_table_of_links_until_its_index_is_there() {
    let mut table = Table::clone(&table());
    table.indexes = vec![index(1, IndexStatus::Processing)];
    let text = r#"{"method":"equal","attribute":"one","values":["x"]}"#;
    let query = resolve_in(&Arc::new(table), text).unwrap();
    let sql = sql(&query);
    assert!(sql.contains("FROM t1_l2 AS l WHERE l.target IN"), "{sql}");
}

#[test]
fn unsupported_queries_of_relationships_are_refused_by_name() {
    for (text, why) in [
        (
            r#"{"method":"equal","attribute":"kids","values":["x"]}"#,
            "held by table \"other\"",
        ),
        (
            r#"{"method":"isNull","attribute":"kids"}"#,
            "attribute \"back\"",
        ),
        (
            r#"{"method":"between","attribute":"one","values":["a","b"]}"#,
            "is a relationship",
        ),
        (
            r#"{"method":"endsWith","attribute":"many","values":["a"]}"#,
            "is a relationship",
        ),
        (
            r#"{"method":"orderDesc","attribute":"one"}"#,
            "is a relationship",
        ),
        (
            r#"{"method":"orderDesc","attribute":"many"}"#,
            "is a relationship",
        ),
        (
            r#"{"method":"equal","attribute":"hidden","values":["x"]}"#,
            "not found",
        ),
        (
            r#"{"method":"equal","attribute":"one.n","values":["x"]}"#,
            "not found",
        ),
    ] {
        let QueryError::Invalid(said) = resolve(text).unwrap_err() else {
            panic!("{text}");
        };
        assert!(said.contains(why), "{text}: {said}");
    }
}
