//! Relationships: columns that come and go in pairs, links with their history, and deletions that
//! go on from row to row.

use std::sync::Arc;

use futures_executor::block_on;
use model::history::Range;
use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, Content, OnDelete, Period, Relation, RelationKind,
    Selection, Side, Table, TableId, Value,
};
use query::{Filter, Query, Test, Visibility};
use store::batch::BATCH_ROWS_MAX;
use store::{
    Applied, CatalogueOp, Guard, HoldOp, LinkOp, MatchingAct, MatchingOp, Op, Refusal, RelatedOp,
    RowAct, RowOp, SchemaChange, Stamps,
};

use super::catalogue::describe;
use super::db::{Db, Place, column, delete_table, index_of, note, notes_called, row_id};
use super::schema::change;
use testing::OwnTurn;

/// Relates `notes` to `others` by the column `k`, and back by `back`.
pub fn relate(db: &mut Db, kind: RelationKind, on_delete: OnDelete) {
    let others = CatalogueOp::CreateTable(Box::new(notes_called("others")));
    db.ok(vec![Op::Catalogue(others)]);
    let end = |side| {
        let (key, partner_key, related) = match side {
            Side::Parent => ("k", "back", "others"),
            Side::Child => ("back", "k", "notes"),
        };
        let relation = Relation {
            related: TableId::new(related).unwrap(),
            partner: ColumnNumber(0),
            partner_key: ColumnKey::new(partner_key).unwrap(),
            kind,
            two_way: true,
            on_delete,
            side,
            has_ended: false,
        };
        let array = relation.holds_links() && relation.is_list();
        column(0, key, ColumnKind::Relationship(relation), array)
    };
    let add = SchemaChange::AddRelationship {
        related: db.table_called("others"),
        column: end(Side::Parent),
        partner: end(Side::Child),
    };
    change(db, add);
}

fn end(table: &Table) -> &Column {
    table.columns.last().unwrap()
}

pub fn last(table: &Table) -> usize {
    table.columns.len() - 1
}

/// An insert of a row whose last column holds `links`.
pub fn insert(table: &Arc<Table>, id: &str, links: Value) -> Op {
    let mut values = note(id);
    values.push(links);
    Op::Row(RowOp::now(
        table.clone(),
        row_id(id),
        RowAct::Insert {
            values,
            permissions: vec![],
            stamps: Stamps::default(),
            guard: store::Guard::Open,
        },
    ))
}

pub fn delete(table: &Arc<Table>, id: &str) -> Op {
    Op::Row(RowOp::now(
        table.clone(),
        row_id(id),
        RowAct::Delete { guard: Guard::Open },
    ))
}

pub fn link(id: &str) -> Value {
    Value::Text(id.to_owned())
}

fn links(ids: &[&str]) -> Value {
    Value::List(ids.iter().map(|id| link(id)).collect())
}

/// What the row `id` of `notes` holds in its last column, at a mark or now.
pub fn held(db: &Db, id: &str, at: Option<model::Coordinates>) -> Value {
    let table = db.table();
    let selection = Selection::Some {
        columns: vec![last(&table)],
        fields: vec![],
        permissions: false,
    };
    let (row, visibility) = (row_id(id), Visibility::Everything);
    let point = store::Point {
        table: &table,
        id: &row,
        selection: &selection,
        visibility: &visibility,
        at,
        shows_span: false,
        catalogue_epoch: db.catalogue.epoch,
    };
    let row = block_on(db.store.get(point)).unwrap().answer.unwrap();
    match row.content {
        Content::Values(mut values) => values.pop().unwrap(),
        Content::Body(_) => panic!("one column was selected"),
    }
}

pub fn holders(db: &Db, test: Test, at: Option<model::Coordinates>) -> Vec<String> {
    let table = db.table();
    let query = Query {
        filter: Filter::Field(model::Field::Column(last(&table)), test),
        at,
        ..db.all()
    };
    let rows = db.list(&query).rows;
    rows.iter().map(|row| row.id.to_string()).collect()
}

pub fn a_relationship_comes_changes_and_goes_at_both_ends(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    for kind in [
        RelationKind::OneToOne,
        RelationKind::ManyToOne,
        RelationKind::ManyToMany,
        RelationKind::OneToMany,
    ] {
        relate(&mut db, kind, OnDelete::Restrict);
        let (notes, others) = (db.table(), db.table_called("others"));
        let (own, other) = (end(&notes), end(&others));
        assert_eq!(own.relation().unwrap().partner, other.number, "{kind:?}");
        assert_eq!(other.relation().unwrap().partner, own.number, "{kind:?}");
        let renamed = ColumnKey::new("renamed").unwrap();
        let update = SchemaChange::UpdateRelationship {
            number: own.number,
            key: renamed.clone(),
            on_delete: OnDelete::SetNull,
        };
        change(&mut db, update);
        let others = db.table_called("others");
        let relation = end(&others).relation().unwrap();
        assert_eq!(
            (&relation.partner_key, relation.on_delete),
            (&renamed, OnDelete::SetNull)
        );
        let drop = SchemaChange::DropColumn(end(&db.table()).number);
        change(&mut db, drop);
        for table in [db.table(), db.table_called("others")] {
            assert_eq!(table.relations().count(), 0, "{kind:?}");
            let plain = notes_called("plain");
            assert_eq!(table.indexes.len(), plain.indexes.len(), "{kind:?}");
        }
        db.ok(vec![Op::Catalogue(delete_table("others"))]);
    }
}

pub fn links_have_a_history(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::ManyToMany, OnDelete::SetNull);
    let (notes, others) = (db.table(), db.table_called("others"));
    for id in ["o1", "o2"] {
        db.ok(vec![insert(&others, id, Value::Null)]);
    }
    let first = db.mark_of(insert(&notes, "n1", links(&["o1", "o2"])));
    db.ok(vec![insert(&notes, "n2", links(&["o2"]))]);
    let has = |id: &str| Test::HasAny(vec![link(id)]);
    assert_eq!(holders(&db, has("o2"), None), ["n1", "n2"]);
    // What a change of the list leaves in it is still found.
    let target = Op::Related(Box::new(RelatedOp::Link(LinkOp {
        table: notes.clone(),
        column: last(&notes),
        target: row_id("o1"),
        holders: vec![row_id("n2")],
        guard: Guard::Open,
        range: None,
    })));
    db.ok(vec![target]);
    assert_eq!(held(&db, "n2", None), links(&["o2", "o1"]));
    assert_eq!(holders(&db, has("o2"), None), ["n1", "n2"]);
    assert_eq!(holders(&db, has("o1"), None), ["n2"]);
    db.ok(vec![delete(&others, "o2")]);
    assert_eq!(held(&db, "n1", None), Value::Null);
    assert_eq!(held(&db, "n2", None), links(&["o1"]));
    assert_eq!(holders(&db, has("o2"), None), <[&str; 0]>::default());
    assert_eq!(holders(&db, Test::IsNull, None), ["n1"]);
    let then = Some(model::Coordinates {
        valid: first.timestamp(),
        system: first,
    });
    assert_eq!(held(&db, "n1", then), links(&["o1", "o2"]));
    assert_eq!(holders(&db, has("o2"), then), ["n1"]);
    db.ok(vec![delete(&notes, "n2")]);
    assert_eq!(holders(&db, has("o1"), None), <[&str; 0]>::default());
}

pub fn links_are_given_and_taken_as_a_set(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::ManyToOne, OnDelete::Restrict);
    let (notes, others) = (db.table(), db.table_called("others"));
    for id in ["o1", "o2"] {
        db.ok(vec![insert(&others, id, Value::Null)]);
    }
    for (id, to) in [("n1", "o1"), ("n2", "o1"), ("n3", "o2")] {
        db.ok(vec![insert(&notes, id, link(to))]);
    }
    let set = |holders: &[&str], guard: Guard| {
        Op::Related(Box::new(RelatedOp::Link(LinkOp {
            table: notes.clone(),
            column: last(&notes),
            target: row_id("o1"),
            holders: holders.iter().map(|id| row_id(id)).collect(),
            guard,
            range: None,
        })))
    };
    let refused = db.refused(vec![set(&["n2", "n3"], Guard::Closed)]);
    assert_eq!(refused, Refusal::RowForbidden(row_id("n1")));
    let applied: Applied = db.ok(vec![set(&["n2", "n3"], Guard::Open)]);
    assert!(applied.rows.is_empty(), "what follows is not reported");
    assert_eq!(
        ["n1", "n2", "n3"].map(|id| held(&db, id, None)),
        [Value::Null, link("o1"), link("o1")]
    );
    assert_eq!(db.ok(vec![set(&["n2", "n3"], Guard::Open)]).mark, None);
    let absent = Refusal::LinkMissing {
        column: "k".to_owned(),
        id: row_id("absent"),
    };
    assert_eq!(db.refused(vec![set(&["absent"], Guard::Open)]), absent);
    let need = RelatedOp::Need {
        table: others,
        id: row_id("absent"),
        guard: Guard::Open,
        column: "k".to_owned(),
        at_any_time: false,
    };
    let batch = vec![
        Op::Related(Box::new(need)),
        insert(&notes, "n4", link("absent")),
    ];
    assert_eq!(db.refused(batch), absent);
}

pub fn links_that_are_brought_in_leave_the_time_of_change_alone(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::ManyToMany, OnDelete::SetNull);
    let (notes, others) = (db.table(), db.table_called("others"));
    for id in ["o1", "o2"] {
        db.ok(vec![insert(&others, id, Value::Null)]);
    }
    db.ok(vec![insert(&notes, "n1", Value::Null)]);
    let before = db.get("n1").unwrap();
    let hold = |id: &str, links: &[&str]| {
        Op::Related(Box::new(RelatedOp::Hold(HoldOp {
            table: notes.clone(),
            id: row_id(id),
            column: last(&notes),
            related: others.clone(),
            links: links.iter().map(|id| row_id(id)).collect(),
        })))
    };
    let applied = db.ok(vec![hold("n1", &["o2", "o1"])]);
    assert!(applied.mark.is_some() && applied.rows.is_empty());
    assert_eq!(held(&db, "n1", None), links(&["o2", "o1"]));
    assert_eq!(holders(&db, Test::HasAny(vec![link("o1")]), None), ["n1"]);
    let after = db.get("n1").unwrap();
    assert_eq!(
        (after.created, after.updated),
        (before.created, before.updated)
    );
    assert_eq!(db.ok(vec![hold("n1", &["o2", "o1"])]).mark, None);
    let missing = Refusal::LinkMissing {
        column: "k".to_owned(),
        id: row_id("absent"),
    };
    let both = vec![hold("n1", &[]), hold("n1", &["o1", "absent"])];
    assert_eq!(db.refused(both), missing);
    assert_eq!(
        db.refused(vec![hold("n2", &[])]),
        Refusal::RowNotFound(row_id("n2"))
    );
    assert_eq!(held(&db, "n1", None), links(&["o2", "o1"]));
    db.ok(vec![hold("n1", &[])]);
    assert_eq!(held(&db, "n1", None), Value::Null);
}

pub fn rows_go_alone_unless_one_links_to_them(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::OneToOne, OnDelete::Cascade);
    let (notes, others) = (db.table(), db.table_called("others"));
    for id in ["o1", "o2"] {
        db.ok(vec![insert(&others, id, Value::Null)]);
    }
    db.ok(vec![insert(&notes, "n1", link("o1"))]);
    let gone = |table: &Arc<Table>, id: &str| {
        let guard = Guard::Open;
        let act = RowAct::Delete { guard };
        let op = RowOp::over(table.clone(), row_id(id), Range::default(), act);
        Op::Related(Box::new(RelatedOp::Alone(op)))
    };
    let unlinked = |id: &str| {
        Op::Related(Box::new(RelatedOp::NeedUnlinked {
            table: others.clone(),
            id: row_id(id),
            valid: Period::ALWAYS,
        }))
    };
    let linked = Refusal::DeleteRestricted {
        id: row_id("o1"),
        related: notes.id.clone(),
    };
    let both = vec![gone(&others, "o1"), unlinked("o1")];
    assert_eq!(db.refused(both.clone()), linked);
    db.ok(vec![gone(&others, "o2"), unlinked("o2")]);
    // By the relationship the other would go with it.
    db.ok(vec![gone(&notes, "n1")]);
    assert!(db.get("n1").is_none());
    let stays = Refusal::RowExists(row_id("o1"));
    assert_eq!(db.refused(vec![insert(&others, "o1", Value::Null)]), stays);
    // The link was there once.
    assert_eq!(db.refused(both), linked);
}

pub fn links_change_places_once_they_are_freed(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::OneToOne, OnDelete::SetNull);
    let (notes, others) = (db.table(), db.table_called("others"));
    for id in ["o1", "o2", "o3"] {
        db.ok(vec![insert(&others, id, Value::Null)]);
    }
    for (id, to) in [("n1", "o1"), ("n2", "o2"), ("n3", "o3")] {
        db.ok(vec![insert(&notes, id, link(to))]);
    }
    let op = |id: &str, to: &str| HoldOp {
        table: notes.clone(),
        id: row_id(id),
        column: last(&notes),
        related: others.clone(),
        links: vec![row_id(to)],
    };
    let give = |id, to| Op::Related(Box::new(RelatedOp::Hold(op(id, to))));
    let free = |id, to| Op::Related(Box::new(RelatedOp::Free(op(id, to))));
    let links = |db: &Db| ["n1", "n2", "n3"].map(|id| held(db, id, None));
    let gives = [give("n1", "o2"), give("n2", "o1")];
    assert_eq!(index_of(db.refused(gives.to_vec())), "k");
    let before = db.get("n1").unwrap();
    let mut batch = vec![free("n1", "o2"), free("n2", "o1")];
    batch.extend(gives);
    db.ok(batch);
    assert_eq!(links(&db), [link("o2"), link("o1"), link("o3")]);
    assert_eq!(db.get("n1").unwrap().updated, before.updated);
    // Who holds what it is to hold is not written, and who is not there is named.
    assert_eq!(db.ok(vec![free("n3", "o3")]).mark, None);
    let absent = Refusal::RowNotFound(row_id("n4"));
    assert_eq!(db.refused(vec![free("n4", "o1")]), absent);
    // From one batch to the next.
    db.ok(vec![free("n2", "o3"), free("n3", "o1")]);
    assert_eq!(links(&db), [link("o2"), Value::Null, Value::Null]);
    db.ok(vec![give("n2", "o3")]);
    db.ok(vec![give("n3", "o1")]);
    assert_eq!(links(&db), [link("o2"), link("o3"), link("o1")]);
}

pub fn deletions_go_no_further_than_a_commit_may(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::ManyToOne, OnDelete::Cascade);
    let (notes, others) = (db.table(), db.table_called("others"));
    db.ok(vec![insert(&others, "o1", Value::Null)]);
    let id = |n: usize| format!("n{n}");
    let many = (0..BATCH_ROWS_MAX).map(|n| insert(&notes, &id(n), link("o1")));
    db.ok(many.collect());
    let rows_max = BATCH_ROWS_MAX;
    let refused = db.refused(vec![delete(&others, "o1")]);
    assert_eq!(refused, Refusal::TooManyRows { rows_max });
    let own = end(&notes);
    let protect = SchemaChange::UpdateRelationship {
        number: own.number,
        key: own.key.clone(),
        on_delete: OnDelete::Restrict,
    };
    change(&mut db, protect);
    let (notes, others) = (db.table(), db.table_called("others"));
    let restricted = Refusal::DeleteRestricted {
        id: row_id("o1"),
        related: TableId::new("notes").unwrap(),
    };
    assert_eq!(db.refused(vec![delete(&others, "o1")]), restricted);
    db.ok(vec![delete(&notes, &id(0))]);
    let own = end(&notes);
    let cascade = SchemaChange::UpdateRelationship {
        number: own.number,
        key: own.key.clone(),
        on_delete: OnDelete::Cascade,
    };
    change(&mut db, cascade);
    let others = db.table_called("others");
    db.ok(vec![delete(&others, "o1")]);
    assert_eq!(db.ids(), Vec::<String>::new());
}

/// Deletes all rows of `others` by one operation.
fn delete_all_others(db: &Db) -> Op {
    Op::Matching(Box::new(MatchingOp {
        query: Query {
            table: db.table_called("others"),
            limit: 100,
            ..db.all()
        },
        may_leave_rows: false,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act: MatchingAct::Delete { range: None },
        rows_returned_max: 0,
    }))
}

pub fn many_deletions_find_the_rows_that_link_to_each(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::ManyToMany, OnDelete::SetNull);
    let (notes, others) = (db.table(), db.table_called("others"));
    let name = |n: usize| format!("o{n}");
    let targets = (0..6).map(|n| insert(&others, &name(n), Value::Null));
    db.ok(targets.collect());
    // Each of them loses two links, one after the other.
    let linked = (0..5).map(|n| {
        let both = links(&[&name(n), &name(n + 1)]);
        insert(&notes, &format!("n{n}"), both)
    });
    db.ok(linked.collect());
    db.ok(vec![delete_all_others(&db)]);
    for n in 0..5 {
        assert_eq!(held(&db, &format!("n{n}"), None), Value::Null, "n{n}");
    }
}

pub fn many_deletions_are_refused_by_rows_that_link_to_one_or_take_them_along(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::ManyToOne, OnDelete::Restrict);
    let (notes, others) = (db.table(), db.table_called("others"));
    let name = |n: usize| format!("o{n}");
    let targets = (0..6).map(|n| insert(&others, &name(n), Value::Null));
    db.ok(targets.collect());
    let linked = (0..5).map(|n| insert(&notes, &format!("n{n}"), link(&name(n))));
    db.ok(linked.collect());
    let refused = db.refused(vec![delete_all_others(&db)]);
    let Refusal::DeleteRestricted { related, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(related.as_str(), "notes");
    let own = end(&db.table()).clone();
    let cascade = SchemaChange::UpdateRelationship {
        number: own.number,
        key: own.key,
        on_delete: OnDelete::Cascade,
    };
    change(&mut db, cascade);
    // A link that was given in the same batch counts, and one that was taken does not.
    let (notes, others) = (db.table(), db.table_called("others"));
    let given = insert(&notes, "given", link("o5"));
    let taken = Op::Related(Box::new(RelatedOp::Free(HoldOp {
        table: Arc::clone(&notes),
        id: row_id("n0"),
        column: last(&notes),
        related: others,
        links: Vec::new(),
    })));
    db.ok(vec![given, taken, delete_all_others(&db)]);
    assert_eq!(db.ids(), ["n0"]);
}

pub fn a_relationship_goes_with_its_table(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    relate(&mut db, RelationKind::ManyToMany, OnDelete::Restrict);
    let (notes, others) = (db.table(), db.table_called("others"));
    db.ok(vec![insert(&others, "o1", Value::Null)]);
    db.ok(vec![insert(&notes, "n1", links(&["o1"]))]);
    db.ok(vec![Op::Catalogue(delete_table("notes"))]);
    assert_eq!(db.table_called("others").relations().count(), 0);
    assert_eq!(describe(&db.load().catalogue), describe(&db.catalogue));
    while block_on(db.store.run_upkeep()).unwrap() {}
    let others = db.table_called("others");
    db.ok(vec![delete(&others, "o1")]);
}
