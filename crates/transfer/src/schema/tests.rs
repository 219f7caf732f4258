//! In which order columns are made, whatever the tables' relationships are.

use serde_json::json;

use super::*;

fn plain(key: &str) -> Value {
    json!({"key": key, "type": "integer"})
}

/// The two ends of a relationship that goes two ways, or the one of another.
fn ends(
    kind: &str,
    (table, key): (&str, &str),
    (related, back): (&str, &str),
    two_way: bool,
) -> (Value, Value) {
    let end = |own: &str, side: &str, related: &str, other: &str| {
        json!({
            "key": own, "type": "relationship", "side": side, "relatedTable": related,
            "twoWay": two_way, "twoWayKey": other, "relationType": kind,
        })
    };
    (
        end(key, "parent", related, back),
        end(back, "child", table, key),
    )
}

/// What is created at once of each table, what follows, and what is left out.
fn taken(tables: Vec<(&str, Vec<Value>)>) -> (Schema, Vec<usize>, Vec<String>, Vec<String>) {
    let mut schema = Schema::default();
    let mut begun = Vec::new();
    for (id, columns) in tables {
        let mut definition = json!({"id": id, "columns": columns, "indexes": [{"key": "i"}]});
        let left_out = schema.take(&mut definition).unwrap();
        assert_eq!(left_out, <[&str; 0]>::default());
        begun.push(definition["columns"].as_array().unwrap().len());
    }
    let (steps, left_out) = schema.finish();
    let said = |step: &Step| {
        let (Part::Column(part) | Part::Relationship(part) | Part::Index(part)) = &step.part;
        format!("{}.{}", step.table, text(&part["key"]))
    };
    let steps = steps.iter().map(said).collect();
    (schema, begun, steps, left_out)
}

#[test]
fn a_table_without_relationships_is_created_at_once() {
    let (schema, begun, steps, left_out) = taken(vec![("a", vec![plain("x"), plain("y")])]);
    assert_eq!((begun, steps.len(), left_out.len()), (vec![2], 0, 0));
    assert!(!schema.is_begun("a") && schema.members("a").unwrap().are_plain());
    let many: Vec<Value> = (0..250).map(|n| plain(&format!("c{n}"))).collect();
    let (_, begun, steps, _) = taken(vec![("a", many)]);
    assert_eq!(begun, [100], "as many as one call may hold");
    assert_eq!(
        (steps.len(), &*steps[0], &*steps[150]),
        (151, "a.c100", "a.i")
    );
}

#[test]
fn columns_come_in_their_order_also_in_circles() {
    let (ab, ba) = ends("manyToOne", ("a", "to_b"), ("b", "of_a"), true);
    let (bc, cb) = ends("oneToMany", ("b", "to_c"), ("c", "of_b"), true);
    let (ca, ac) = ends("manyToMany", ("c", "to_a"), ("a", "of_c"), true);
    let (own, owned) = ends("oneToOne", ("a", "own"), ("a", "owned"), true);
    let (hidden, _) = ends("oneToMany", ("a", "hidden"), ("c", "a"), false);
    let (schema, begun, steps, left_out) = taken(vec![
        (
            "a",
            vec![plain("x"), ab, own, owned, plain("y"), ac, hidden],
        ),
        ("b", vec![ba, plain("z"), bc]),
        ("c", vec![plain("u"), plain("v"), cb, ca]),
    ]);
    assert_eq!(begun, [1, 0, 2]);
    assert_eq!(left_out.len(), 0);
    assert_eq!(
        steps,
        [
            "a.to_b", "a.own", "a.y", "b.z", "b.to_c", "c.to_a", "a.hidden", "a.i", "b.i", "c.i"
        ]
    );
    let members = |table: &str| schema.members(table).unwrap();
    assert_eq!(
        members("a").links,
        ["to_b", "own"].map(str::to_owned).into()
    );
    assert_eq!(
        members("a").gone,
        ["owned", "of_c", "hidden"].map(str::to_owned).into()
    );
    assert_eq!(members("b").links.len(), 0);
    assert_eq!(
        members("c").links,
        ["of_b", "to_a"].map(str::to_owned).into()
    );
    assert_eq!(
        members("c").hidden,
        [("a".to_owned(), "hidden".to_owned())].into()
    );
    assert_eq!(schema.relationships().len(), 5);
}

#[test]
fn columns_in_an_order_that_cannot_be_are_made_all_the_same() {
    let (one, back_one) = ends("manyToOne", ("a", "one"), ("b", "back_one"), true);
    let (two, back_two) = ends("manyToOne", ("a", "two"), ("b", "back_two"), true);
    let (_, begun, steps, left_out) = taken(vec![
        ("a", vec![one, two]),
        ("b", vec![back_two, back_one, plain("x")]),
    ]);
    assert_eq!((begun, left_out.len()), (vec![0, 0], 0));
    assert_eq!(steps, ["a.one", "a.two", "b.x", "a.i", "b.i"]);
}

#[test]
fn a_relationship_without_its_other_end_is_left_out_and_named() {
    let (there, _) = ends("manyToOne", ("a", "there"), ("gone", "back"), true);
    let (one_way, _) = ends("manyToOne", ("a", "one_way"), ("gone", "back"), false);
    let (_, child) = ends("manyToOne", ("gone", "key"), ("a", "child"), true);
    let (schema, _, steps, left_out) = taken(vec![("a", vec![there, one_way, child, plain("x")])]);
    assert_eq!(steps, ["a.x", "a.i"]);
    assert_eq!(
        left_out[0],
        "a: the relationship `there` to table `gone`, which does not come with it"
    );
    assert_eq!(left_out.len(), 3);
    let gone = &schema.members("a").unwrap().gone;
    assert_eq!(
        *gone,
        ["there", "one_way", "child"].map(str::to_owned).into()
    );
}

/// Why the first of the tables that cannot be taken is refused.
fn refused(tables: Vec<(&str, Vec<Value>)>) -> String {
    let mut schema = Schema::default();
    let mut taken = tables
        .into_iter()
        .map(|(id, columns)| schema.take(&mut json!({"id": id, "columns": columns})));
    let refused = taken.find_map(Result::err);
    refused.expect("one of them is malformed").to_string()
}

#[test]
fn a_column_that_stands_twice_is_refused_wherever_it_stands() {
    let (parent, child) = ends("manyToOne", ("a", "p"), ("b", "c"), true);
    assert_eq!(
        refused(vec![("a", vec![parent.clone(), parent.clone()])]),
        "table `a`: the column `p` stands there twice"
    );
    assert_eq!(
        refused(vec![
            ("a", vec![parent.clone()]),
            ("b", vec![plain("x"), child.clone(), child])
        ]),
        "table `b`: the column `c` stands there twice"
    );
    assert_eq!(
        refused(vec![("a", vec![parent, plain("x"), plain("x")])]),
        "table `a`: the column `x` stands there twice"
    );
}

#[test]
fn a_table_that_stands_twice_or_is_none_is_refused() {
    let (parent, _) = ends("manyToOne", ("a", "p"), ("b", "c"), true);
    assert_eq!(
        refused(vec![("a", vec![parent.clone()]), ("a", vec![parent])]),
        "table `a` stands there twice"
    );
    for none in [json!(5), json!("a"), json!(["a"]), Value::Null] {
        let error = Schema::default().take(&mut none.clone()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the definition of a table is a JSON object",
            "{none}"
        );
    }
}

#[test]
fn the_child_of_a_relationship_that_goes_one_way_is_refused() {
    let (parent, child) = ends("manyToOne", ("a", "p"), ("b", "c"), false);
    assert_eq!(
        refused(vec![("a", vec![parent]), ("b", vec![child])]),
        "table `b`: the relationship `c` goes one way, so its child does not show it"
    );
}

#[test]
fn ends_that_do_not_lead_to_each_other_are_left_out_and_named() {
    let (two, _) = ends("manyToOne", ("a", "two"), ("b", "c"), true);
    let (one, _) = ends("manyToOne", ("a", "one"), ("b", "c"), false);
    let (_, other) = ends("manyToOne", ("z", "two"), ("b", "c"), true);
    let (own, _) = ends("oneToOne", ("a", "own"), ("a", "own"), true);
    let (_, of_one) = ends("manyToOne", ("a", "one"), ("b", "d"), true);
    let (_, _, steps, left_out) = taken(vec![
        ("a", vec![two, one, own]),
        ("b", vec![plain("x"), other, of_one]),
    ]);
    assert_eq!(steps, ["a.one", "a.i", "b.i"]);
    assert_eq!(
        left_out,
        [
            "a: the relationship `two` to table `b`, which does not show its other end",
            "a: the relationship `own` to table `a`, which does not show its other end",
            "b: the relationship `c` to table `z`, which does not come with it",
            "b: the relationship `d` to table `a`, which does not show its other end",
        ]
    );
}
