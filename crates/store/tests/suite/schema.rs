//! Columns and indexes that come, change and go while there are rows.

use std::sync::Arc;

use futures_executor::block_on;
use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, Content, Coordinates, Direction, Index, IndexKind,
    IndexStatus, Mark, Row, Selection, Table, Value,
};
use query::{Filter, OrderKey, Query, Test, Visibility};
use store::batch::COLUMNS_EVER_MAX;
use store::{CatalogueOp, Container, Op, Point, Refusal, SchemaChange};

use super::catalogue::describe;
use super::db::{
    CODE, COUNT, Db, Place, TAGS, TITLE, assert_holds, column, delete_table, index, index_of, note,
    notes, notes_called,
};
use testing::OwnTurn;

fn change_of(table: &Arc<Table>, change: SchemaChange) -> Op {
    Op::Catalogue(CatalogueOp::ChangeSchema {
        table: table.clone(),
        change,
    })
}

/// Commits a change of `notes` that must succeed; the table after it.
#[track_caller]
pub fn change(db: &mut Db, change: SchemaChange) -> Arc<Table> {
    let op = change_of(&db.table(), change);
    db.ok(vec![op]);
    assert_eq!(
        describe(&db.load().catalogue),
        describe(&db.catalogue),
        "what is reported is what is written"
    );
    db.table()
}

#[track_caller]
fn check_refused(db: &mut Db, change: SchemaChange, refusal: &Refusal) {
    let before = db.table();
    let op = change_of(&before, change);
    assert_eq!(db.refused(vec![op]), *refusal);
    assert_eq!(
        *db.load().catalogue.project("p1").unwrap().databases["d1"].tables["notes"],
        *before
    );
}

fn text_column(key: &str, chars_max: u32) -> Column {
    column(0, key, ColumnKind::Varchar { chars_max }, false)
}

fn add(key: &str) -> SchemaChange {
    SchemaChange::AddColumn(text_column(key, 100))
}

fn run_upkeep(db: &Db) {
    while block_on(db.store.run_upkeep()).unwrap() {}
}

fn note_and(title: &str, more: &[Value]) -> Vec<Value> {
    let mut values = note(title);
    values.extend_from_slice(more);
    values
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The row as `table` sees it at system time = valid time = `mark`.
fn row_as_of(db: &Db, table: &Arc<Table>, id: &str, mark: Mark) -> Option<Row> {
    let at = Coordinates {
        valid: mark.timestamp(),
        system: mark,
    };
    let point = Point {
        table,
        id: &super::db::row_id(id),
        selection: &Selection::All,
        visibility: &Visibility::Everything,
        at: Some(at),
        shows_span: false,
        catalogue_epoch: db.catalogue.epoch,
    };
    block_on(db.store.get(point)).unwrap().answer
}

pub fn a_new_column_is_null_in_the_rows_that_are_there(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let old = db.table();
    let made = db.mark_of(db.insert("a", note("one")));
    let required = Column {
        required: true,
        ..text_column("extra", 100)
    };
    let table = change(&mut db, SchemaChange::AddColumn(required));
    let added = table.columns.last().unwrap();
    assert_eq!((added.key.as_str(), added.required), ("extra", true));
    assert!(added.number > old.columns.last().unwrap().number);
    assert!(added.created > old.created && added.created == added.updated);
    assert!(table.schema_epoch > old.schema_epoch);
    assert_holds(
        &db.get("a").unwrap(),
        &table,
        &note_and("one", &[Value::Null]),
    );
    db.ok(vec![db.insert("b", note_and("two", &[text("x")]))]);
    let position = table.columns.len() - 1;
    db.ok(vec![db.update("a", vec![(position, text("y"))])]);
    db.close();
    let db = Db::open(place);
    for (id, title, extra) in [("a", "one", "y"), ("b", "two", "x")] {
        let values = note_and(title, &[text(extra)]);
        assert_holds(&db.get(id).unwrap(), &db.table(), &values);
    }
    let before = row_as_of(&db, &old, "a", made).unwrap();
    assert_holds(&before, &old, &note("one"));
}

pub fn every_kind_of_column_can_be_added(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let mut wanted = note("two");
    let bigint = ColumnKind::Bigint { min: 0, max: 9 };
    let float = ColumnKind::Float {
        min: -1.0,
        max: 1.0,
    };
    let elements = ["a".to_owned(), "b".to_owned()].into();
    for (key, kind, array, value) in [
        ("k1", bigint, false, Value::Int(9)),
        ("k2", float, false, Value::Float(0.5)),
        ("k3", ColumnKind::Boolean, false, Value::Bool(false)),
        (
            "k4",
            ColumnKind::Datetime,
            false,
            Value::Instant(model::Timestamp(5_000)),
        ),
        ("k5", ColumnKind::Enum { elements }, false, text("b")),
        (
            "k6",
            ColumnKind::Email,
            true,
            Value::List(vec![text("a@example.com")]),
        ),
    ] {
        change(
            &mut db,
            SchemaChange::AddColumn(column(0, key, kind, array)),
        );
        wanted.push(value);
    }
    db.ok(vec![db.insert("b", wanted.clone())]);
    assert_holds(&db.get("b").unwrap(), &db.table(), &wanted);
    assert_holds(
        &db.get("a").unwrap(),
        &db.table(),
        &note_and("one", &vec![Value::Null; 6]),
    );
}

pub fn rows_read_alike_before_and_after_upkeep(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![
        db.insert("a", note("one")),
        db.insert("b", note("two")),
    ]);
    change(&mut db, add("extra"));
    db.ok(vec![db.update("b", vec![(7, text("x"))])]);
    let check = |db: &Db| {
        let rows = db.list(&db.all()).rows;
        assert_holds(&rows[0], &db.table(), &note_and("one", &[Value::Null]));
        assert_holds(&rows[1], &db.table(), &note_and("two", &[text("x")]));
    };
    check(&db);
    // The task survives a restart.
    db.close();
    let mut db = Db::open(place);
    check(&db);
    run_upkeep(&db);
    check(&db);
    // Two changes before the upkeep comes, then the deletion of the table: nothing is left over.
    change(&mut db, add("more"));
    change(&mut db, SchemaChange::DropColumn(ColumnNumber(8)));
    db.ok(vec![Op::Catalogue(delete_table("notes"))]);
    run_upkeep(&db);
}

pub fn a_rename_changes_the_catalogue_only(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let old = db.table();
    db.ok(vec![db.insert("a", note("one"))]);
    let renamed = Column {
        key: ColumnKey::new("heading").unwrap(),
        ..old.columns[TITLE].clone()
    };
    let table = change(&mut db, SchemaChange::UpdateColumn(renamed));
    assert_eq!(table.position("heading"), Some(TITLE));
    assert_eq!(table.position("title"), None);
    assert!(table.schema_epoch > old.schema_epoch, "bodies hold keys");
    let (before, after) = (&old.columns[TITLE], &table.columns[TITLE]);
    assert_eq!(
        (after.number, after.created),
        (before.number, before.created)
    );
    assert!(after.updated > before.updated);
    assert_eq!(table.indexes, old.indexes, "indexes follow by number");
    assert_holds(&db.get("a").unwrap(), &table, &note("one"));
    db.ok(vec![db.update("a", vec![(TITLE, text("new"))])]);
    let mut values = note("one");
    values[TITLE] = text("new");
    assert_holds(&db.get("a").unwrap(), &table, &values);
}

pub fn limits_and_defaults_change_without_touching_rows(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let old = db.table();
    db.ok(vec![db.insert("a", note("one"))]);
    let narrower = Column {
        kind: ColumnKind::Bigint { min: 0, max: 5 },
        required: true,
        default: None,
        ..old.columns[COUNT].clone()
    };
    let table = change(&mut db, SchemaChange::UpdateColumn(narrower.clone()));
    assert_eq!(table.columns[COUNT].kind, narrower.kind);
    assert_eq!(
        table.schema_epoch, old.schema_epoch,
        "bodies stay as they are"
    );
    assert!(matches!(db.get("a").unwrap().content, Content::Body(_)));
    let epoch = db.catalogue.epoch;
    let again = change_of(
        &table,
        SchemaChange::UpdateColumn(table.columns[COUNT].clone()),
    );
    assert_eq!(
        db.ok(vec![again]).mark,
        None,
        "what changes nothing takes no mark"
    );
    assert_eq!(db.catalogue.epoch, epoch);
    let with_default = Column {
        default: Some(Value::Bool(true)),
        ..table.columns[3].clone()
    };
    let table = change(&mut db, SchemaChange::UpdateColumn(with_default));
    assert_eq!(table.columns[3].default, Some(Value::Bool(true)));
}

pub fn a_text_is_not_cut_short(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mut values = note("12345");
    values[TITLE] = text("äöü45");
    values[TAGS] = Value::List(vec![text("1"), text("ß23")]);
    db.ok(vec![
        db.insert("a", values),
        db.insert("b", vec![Value::Null; 7]),
    ]);
    for (position, longest) in [(TITLE, 5), (TAGS, 3)] {
        let resized = |db: &Db, chars_max| {
            SchemaChange::UpdateColumn(Column {
                kind: ColumnKind::Varchar { chars_max },
                ..db.table().columns[position].clone()
            })
        };
        let chars_max = longest - 1;
        let column = db.table().columns[position].key.to_string();
        let refusal = Refusal::ValuesTooLong { column, chars_max };
        let too_short = resized(&db, chars_max);
        check_refused(&mut db, too_short, &refusal);
        let fits = resized(&db, longest);
        let table = change(&mut db, fits);
        assert_eq!(table.columns[position].kind.chars_max(), Some(longest));
        let wide = resized(&db, 16_381);
        change(&mut db, wide);
    }
    // What was longer once and is no more does not stand in the way.
    db.ok(vec![db.update("a", vec![(TITLE, text("x"))])]);
    let shorter = Column {
        kind: ColumnKind::Varchar { chars_max: 1 },
        ..db.table().columns[TITLE].clone()
    };
    change(&mut db, SchemaChange::UpdateColumn(shorter));
}

pub fn a_text_that_was_looked_at_before_is_not_cut_short_either(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let of = |title: &str, tag: &str| {
        let mut values = note(title);
        values[TITLE] = text(title);
        values[TAGS] = Value::List(vec![text(tag)]);
        values
    };
    db.ok(vec![db.insert("a", of("one", "x"))]);
    let since = db.mark_of(db.insert("b", of("two", "y")));
    let shorten = |db: &Db, position: usize, chars_max| SchemaChange::ShortenColumn {
        column: Column {
            kind: ColumnKind::Varchar { chars_max },
            ..db.table().columns[position].clone()
        },
        since,
    };
    // What was not changed since is not looked at: the caller that sends the mark has done so.
    let table = shorten(&db, TITLE, 3);
    change(&mut db, table);
    for (position, patch) in [
        (TITLE, vec![(TITLE, text("1234"))]),
        (
            TAGS,
            vec![(TAGS, Value::List(vec![text(""), text("1234")]))],
        ),
    ] {
        db.ok(vec![db.update("a", patch)]);
        let column = db.table().columns[position].key.to_string();
        let refusal = Refusal::ValuesTooLong {
            column,
            chars_max: 2,
        };
        let late = shorten(&db, position, 2);
        check_refused(&mut db, late, &refusal);
    }
    db.ok(vec![db.delete("a")]);
    let fits = shorten(&db, TITLE, 2);
    change(&mut db, fits);
}

pub fn a_dropped_column_is_gone_and_stays_in_the_past(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    change(&mut db, add("extra"));
    let full = change(&mut db, add("last"));
    let given = |title: &str| note_and(title, &[text("kept"), text("z")]);
    db.ok(vec![db.insert("still", given("one"))]);
    db.ok(vec![db.insert("gone", given("two"))]);
    let known = db.mark_of(db.insert("moved", given("three")));
    let dropped = full.columns[7].number;
    let table = change(&mut db, SchemaChange::DropColumn(dropped));
    assert_eq!(table.position("extra"), None);
    assert_eq!(table.position("last"), Some(7));
    let without = |title: &str| note_and(title, &[text("z")]);
    assert_holds(&db.get("still").unwrap(), &table, &without("one"));
    db.ok(vec![db.update("moved", vec![(7, text("new"))])]);
    db.ok(vec![db.delete("gone")]);
    run_upkeep(&db);
    let moved = note_and("three", &[text("new")]);
    assert_holds(&db.get("moved").unwrap(), &table, &moved);
    for (id, title) in [("still", "one"), ("gone", "two"), ("moved", "three")] {
        let row = row_as_of(&db, &full, id, known).unwrap();
        assert_holds(&row, &full, &given(title));
    }
    // Its number is not given again, not even after a restart.
    db.close();
    let mut db = Db::open(place);
    let table = change(&mut db, add("extra"));
    assert!(table.columns[8].number > full.columns[8].number);
    assert_holds(
        &db.get("still").unwrap(),
        &table,
        &note_and("one", &[text("z"), Value::Null]),
    );
}

pub fn positions_move_up_behind_a_dropped_column(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    // `price` stands before `code`, which a unique index names.
    let table = change(&mut db, SchemaChange::DropColumn(ColumnNumber(3)));
    let mut twin = note("one");
    twin.remove(2);
    let op = db.insert("b", twin.clone());
    assert_eq!(index_of(db.refused(vec![op])), "by_code");
    twin[CODE - 1] = text("another code");
    db.ok(vec![db.insert("b", twin.clone())]);
    assert_holds(&db.get("b").unwrap(), &table, &twin);
}

fn by_title(db: &Db) -> Query {
    Query {
        filter: Filter::Field(
            model::Field::Column(TITLE),
            Test::In(vec![text("one"), text("two")]),
        ),
        order: vec![OrderKey {
            field: model::Field::Column(TITLE),
            direction: Direction::Desc,
        }],
        ..db.all()
    }
}

fn listed(db: &Db, query: &Query) -> Vec<String> {
    let rows = db.list(query).rows;
    rows.iter().map(|row| row.id.to_string()).collect()
}

fn new_index(key: &str, kind: IndexKind, position: usize) -> SchemaChange {
    SchemaChange::AddIndex(index(0, key, kind, &[(position, Direction::Asc)]))
}

fn status<'t>(table: &'t Table, key: &str) -> &'t IndexStatus {
    let is_meant = |index: &&Index| index.key.as_str() == key;
    &table.indexes.iter().find(is_meant).unwrap().status
}

pub fn a_small_index_is_there_with_its_commit(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    for (id, title) in [("a", "one"), ("b", "two"), ("c", "three")] {
        db.ok(vec![db.insert(id, note(title))]);
    }
    let old = db.table();
    assert_eq!(listed(&db, &by_title(&db)), ["b", "a"]);
    let table = change(&mut db, new_index("by_title", IndexKind::Key, TITLE));
    assert_eq!(*status(&table, "by_title"), IndexStatus::Available);
    assert_eq!(table.schema_epoch, old.schema_epoch, "rows read as before");
    let added = table.indexes.last().unwrap();
    assert!(added.number > 2 && added.created > old.created);
    assert_eq!(listed(&db, &by_title(&db)), ["b", "a"]);
    db.ok(vec![db.insert("d", note("one and a half"))]);
    assert_eq!(listed(&db, &by_title(&db)), ["b", "a"]);
    let dropped = added.number;
    let table = change(&mut db, SchemaChange::DropIndex(dropped));
    assert_eq!(table.indexes, old.indexes);
    assert_eq!(listed(&db, &by_title(&db)), ["b", "a"]);
    let table = change(&mut db, new_index("by_title", IndexKind::Key, TITLE));
    assert!(table.indexes.last().unwrap().number > dropped);
}

pub fn a_unique_index_guards_from_its_commit_on(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let table = change(&mut db, new_index("one_title", IndexKind::Unique, TITLE));
    assert_eq!(*status(&table, "one_title"), IndexStatus::Available);
    let mut same_title = note("one");
    same_title[CODE] = text("another");
    let op = db.insert("b", same_title.clone());
    assert_eq!(index_of(db.refused(vec![op])), "one_title");
    let number = table.indexes.last().unwrap().number;
    change(&mut db, SchemaChange::DropIndex(number));
    db.ok(vec![db.insert("b", same_title)]);
}

pub fn a_unique_index_over_equal_values_fails(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let twin = |code: &str| {
        let mut values = note("same");
        values[CODE] = text(code);
        values
    };
    db.ok(vec![db.insert("a", twin("1")), db.insert("b", twin("2"))]);
    let table = change(&mut db, new_index("one_title", IndexKind::Unique, TITLE));
    let IndexStatus::Failed(error) = status(&table, "one_title") else {
        panic!("{:?}", table.indexes);
    };
    assert!(error.contains("equal values"), "{error}");
    let failed = table.indexes.last().unwrap().number;
    db.close();
    let mut db = Db::open(place);
    assert_eq!(db.table(), table);
    // It neither guards nor is it used; what another index refuses is named rightly beside it.
    db.ok(vec![db.insert("c", twin("3"))]);
    let op = db.insert("d", twin("3"));
    assert_eq!(index_of(db.refused(vec![op])), "by_code");
    let mut query = by_title(&db);
    query.filter = Filter::Field(model::Field::Column(TITLE), Test::In(vec![text("same")]));
    assert_eq!(listed(&db, &query), ["a", "b", "c"]);
    change(&mut db, SchemaChange::DropIndex(failed));
    db.ok(vec![db.delete("b"), db.delete("c")]);
    let table = change(&mut db, new_index("one_title", IndexKind::Unique, TITLE));
    assert_eq!(*status(&table, "one_title"), IndexStatus::Available);
}

pub fn changes_of_another_schema_are_refused(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let first = db.table();
    let second = change(&mut db, add("extra"));
    let stale = change_of(&first, add("other"));
    assert_eq!(db.refused(vec![stale]), Refusal::CatalogueMoved);
    // In one group, the second of two that were checked against one schema comes too late.
    let batches = ["x", "y"].map(|key| db.batch(vec![change_of(&second, add(key))]));
    let outcomes = db.commit(&batches);
    assert!(outcomes[0].is_ok());
    assert_eq!(*outcomes[1].as_ref().unwrap_err(), Refusal::CatalogueMoved);
    // What does not touch columns or indexes does not stand in the way.
    let third = db.table();
    db.ok(vec![
        db.insert("a", note_and("one", &[Value::Null, Value::Null])),
    ]);
    db.ok(vec![change_of(&third, add("z"))]);
    db.ok(vec![Op::Catalogue(delete_table("notes"))]);
    let late = change_of(&third, add("late"));
    let gone = Refusal::NotFound(Container::Table, "notes".to_owned());
    assert_eq!(db.refused(vec![late]), gone);
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        notes(),
    )))]);
    let of_the_one_before = change_of(&first, add("late"));
    assert_eq!(db.refused(vec![of_the_one_before]), Refusal::CatalogueMoved);
}

pub fn rows_checked_under_another_schema_are_refused(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let stale = db.batch(vec![db.insert("a", note("one"))]);
    let grow = db.batch(vec![change_of(&db.table(), add("extra"))]);
    let outcomes = db.commit(&[grow, stale]);
    assert!(outcomes[0].is_ok());
    assert_eq!(*outcomes[1].as_ref().unwrap_err(), Refusal::CatalogueMoved);
}

pub fn a_change_that_is_rolled_back_leaves_nothing(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", note("one"))]);
    let before = describe(&db.load().catalogue);
    let table = db.table();
    let ops = vec![
        change_of(&table, add("extra")),
        Op::Catalogue(CatalogueOp::CreateTable(Box::new(notes()))),
    ];
    assert_eq!(db.refused(ops), Refusal::Exists(Container::Table));
    let batch = db.batch(vec![change_of(
        &table,
        new_index("i", IndexKind::Key, COUNT),
    )]);
    drop(block_on(db.store.apply(&[batch], db.next)).unwrap());
    assert_eq!(describe(&db.load().catalogue), before);
    change(&mut db, add("extra"));
    change(&mut db, new_index("i", IndexKind::Key, COUNT));
    assert_holds(
        &db.get("a").unwrap(),
        &db.table(),
        &note_and("one", &[Value::Null]),
    );
}

pub fn a_table_has_so_many_columns_and_no_more(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    let mut wide = notes_called("wide");
    wide.indexes.clear();
    wide.columns = vec![column(COLUMNS_EVER_MAX - 1, "c", ColumnKind::Text, false)];
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        wide,
    )))]);
    let op = change_of(&db.table_called("wide"), add("last"));
    db.ok(vec![op]);
    let number = db.table_called("wide").columns[1].number;
    assert_eq!(number, ColumnNumber(COLUMNS_EVER_MAX));
    let drop_it = change_of(&db.table_called("wide"), SchemaChange::DropColumn(number));
    db.ok(vec![drop_it]);
    let op = change_of(&db.table_called("wide"), add("more"));
    let columns_max = COLUMNS_EVER_MAX;
    assert_eq!(db.refused(vec![op]), Refusal::ColumnsUsedUp { columns_max });
}
