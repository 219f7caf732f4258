//! Related rows at other times: who sees them, what is refused, and how much may come back.

mod fixture;

use engine::{
    AccessError, Act, Engine, EngineError, GrantsAsOf, ListRows, Operation, OptionsChange, Place,
    ReadError, RowAnswer, RowInput, TableChange, TimedTransaction, TransactionAct, TransactionOp,
    View,
};
use fixture::linked::{B, open, query, relate, select};
use fixture::{PLACE, at_times, guest, key, list_rows_of, row};
use futures_executor::block_on;
use model::history::Range;
use model::{Json, Mark, Past, RowId};

fn with_engine(test: impl FnOnce(&Engine)) {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    test(&engine);
    engine.close().unwrap();
}

fn linked(id: &str, n: i64, author: &str) -> RowInput {
    let mut input = row(id, &[("n", n)]);
    let link = ("author".to_owned(), Json::Text(author.to_owned()));
    input.members.push(link);
    input
}

fn put(engine: &Engine, place: Place<'_>, input: RowInput) -> Mark {
    block_on(engine.upsert_row(&key(), place, input, None))
        .unwrap()
        .mark
}

/// Row `t1` by `b1`, which was 1 first; and the mark of that time.
fn one_book(engine: &Engine) -> Mark {
    put(engine, B, row("b1", &[("n", 1)]));
    let then = put(engine, PLACE, linked("t1", 1, "b1"));
    put(engine, B, row("b1", &[("n", 2)]));
    put(engine, PLACE, row("t1", &[("n", 3)]));
    then
}

fn as_of(mark: Mark) -> String {
    query("asOf", None, &mark.0.to_string())
}

fn names(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    select(&names)
}

fn list(
    engine: &Engine,
    caller: &engine::Caller,
    place: Place<'_>,
    texts: &[String],
    grants: GrantsAsOf,
) -> Result<String, EngineError> {
    let asked = ListRows {
        place,
        ..list_rows_of(texts)
    };
    let told = block_on(engine.list_rows(caller, &asked, View::Committed(grants)))?;
    Ok(String::from_utf8_lossy(&told.rows).into_owned())
}

fn of_key(engine: &Engine, texts: &[String]) -> Result<String, EngineError> {
    list(engine, &key(), PLACE, texts, GrantsAsOf::Today)
}

#[track_caller]
fn refused(told: Result<String, EngineError>, why: &str) {
    match told {
        Err(EngineError::Read(ReadError::Query(error))) => {
            assert!(error.to_string().contains(why), "{error}");
        }
        told => panic!("{told:?} is not about {why}"),
    }
}

#[test]
fn related_rows_are_of_one_instant_and_versions_have_none() {
    with_engine(|engine| {
        let then = one_book(engine);
        let related = names(&["n", "author.n"]);
        let wide = [
            query("versions", None, ""),
            query("validBetween", None, "\"min\",null"),
            query("systemBetween", None, &format!("{},null", then.0)),
        ];
        for wide in wide {
            let texts = [related.clone(), wide.clone()];
            refused(of_key(engine, &texts), "at one instant");
            // Links are content of a version, and are filtered by.
            let by_link = query("equal", Some("author"), "\"b1\"");
            let texts = [names(&["n"]), by_link, wide.clone()];
            let told = of_key(engine, &texts).unwrap();
            assert!(
                told.contains("t1=1") && told.contains("t1=3"),
                "{wide}: {told}"
            );
            let by_other = query("equal", Some("author"), "\"b2\"");
            let texts = [names(&["n"]), by_other, wide];
            assert_eq!(of_key(engine, &texts).unwrap(), "");
        }
        let told = of_key(engine, &[related.clone(), as_of(then)]).unwrap();
        assert_eq!(told, "t1=1[author: b1=1]");
        let told = of_key(engine, &[related]).unwrap();
        assert_eq!(told, "t1=3[author: b1=2]", "now");
    });
}

fn open_to_all(engine: &Engine) {
    for place in [PLACE, B] {
        let open = TableChange {
            row_security: Some(true),
            ..TableChange::default()
        };
        block_on(engine.update_table(&key(), place, open)).unwrap();
    }
}

fn set_past(engine: &Engine, place: Place<'_>, past: &str) {
    let change = OptionsChange {
        past: Some(past.to_owned()),
        ..OptionsChange::default()
    };
    block_on(engine.set_table_options(&key(), place, &change)).unwrap();
}

fn granting(input: RowInput, grants: &[&str]) -> RowInput {
    RowInput {
        permissions: Some(grants.iter().map(ToString::to_string).collect()),
        ..input
    }
}

fn erase(engine: &Engine, place: Place<'_>, id: &str) {
    let op = TransactionOp {
        table: place.table.to_owned(),
        id: RowId::new(id).unwrap(),
        range: Range::default(),
        act: TransactionAct::Erase,
    };
    let erase = TimedTransaction {
        ops: vec![op],
        meta: None,
    };
    block_on(engine.transact(&key(), place.database, &erase)).unwrap();
}

/// The author is hidden first, then shown, then changed.
#[test]
fn related_rows_are_judged_by_the_rules_of_their_own_table() {
    const ANY: &[&str] = &["read(\"any\")"];
    with_engine(|engine| {
        open_to_all(engine);
        put(engine, B, granting(row("b1", &[("n", 1)]), &[]));
        let hidden = put(engine, PLACE, granting(linked("t1", 1, "b1"), ANY));
        let shown = put(engine, B, granting(row("b1", &[("n", 2)]), ANY));
        put(engine, B, row("b1", &[("n", 3)]));
        let related = names(&["n", "author.n"]);
        let see = |mark: Mark, grants| {
            list(
                engine,
                &guest(),
                PLACE,
                &[related.clone(), as_of(mark)],
                grants,
            )
        };
        set_past(engine, PLACE, "now");
        let closed = EngineError::Access(AccessError::PastClosed(Past::Keys));
        assert_eq!(see(shown, GrantsAsOf::Today), Err(closed), "of table b");
        set_past(engine, B, "now");
        let told = |mark, grants| see(mark, grants).unwrap();
        assert_eq!(told(hidden, GrantsAsOf::Today), "t1=1[author: b1=1]");
        assert_eq!(told(hidden, GrantsAsOf::Mark), "t1=1[author]");
        assert_eq!(told(shown, GrantsAsOf::Mark), "t1=1[author: b1=2]");
        set_past(engine, B, "both");
        assert_eq!(told(hidden, GrantsAsOf::Today), "t1=1[author]");
        assert_eq!(told(shown, GrantsAsOf::Today), "t1=1[author: b1=2]");
        put(engine, B, granting(row("b1", &[("n", 4)]), &[]));
        assert_eq!(told(shown, GrantsAsOf::Today), "t1=1[author]", "taken back");
        erase(engine, B, "b1");
        let told = of_key(engine, &[related.clone(), as_of(shown)]);
        assert_eq!(told.unwrap(), "t1=1[author]");
    });
}

#[test]
fn related_rows_go_by_the_relationships_of_then() {
    with_engine(|engine| {
        let then = one_book(engine);
        let related = [names(&["n", "author.n", "author.books.n"]), as_of(then)];
        let shown = "t1=1[author: b1=1[books: t1=1]]";
        assert_eq!(of_key(engine, &related).unwrap(), shown);
        block_on(engine.delete_column(&key(), PLACE, "author")).unwrap();
        assert_eq!(
            of_key(engine, &related).unwrap(),
            shown,
            "it has ended since"
        );
        refused(of_key(engine, &related[..1]), "Attribute not found");
        // Another one of the same name is not the same.
        relate(engine, "author", "manyToOne", "books");
        assert_eq!(of_key(engine, &related).unwrap(), shown);
        let now = put(engine, PLACE, row("t1", &[("n", 5)]));
        let texts = [related[0].clone(), as_of(now)];
        assert_eq!(of_key(engine, &texts).unwrap(), "t1=5[author]");
        block_on(engine.delete_table(&key(), B)).unwrap();
        for _ in 0..2 {
            refused(of_key(engine, &related), "has no end there any more");
            // A new table of the same id has no part in it.
            if block_on(engine.create_table(&key(), "d", fixture::new_table("b"))).is_ok() {
                relate(engine, "author", "manyToOne", "books");
            }
        }
    });
}

#[test]
fn related_rows_of_a_table_without_a_past_are_refused() {
    with_engine(|engine| {
        let then = one_book(engine);
        let change = OptionsChange {
            history: Some("none".into()),
            ..OptionsChange::default()
        };
        block_on(engine.set_table_options(&key(), B, &change)).unwrap();
        let told = of_key(engine, &[names(&["n", "author.n"]), as_of(then)]);
        assert!(
            matches!(told, Err(EngineError::Read(ReadError::HistoryGone(_)))),
            "{told:?}"
        );
        assert_eq!(
            of_key(engine, &[names(&["n"]), as_of(then)]).unwrap(),
            "t1=1"
        );
    });
}

#[test]
fn related_rows_at_other_times_have_the_bounds_of_now() {
    with_engine(|engine| {
        put(engine, PLACE, row("t1", &[("n", 1)]));
        let element = |n: usize| {
            let id = ("$id".to_owned(), Json::Text(format!("x{n}")));
            Json::Object(vec![id, ("n".to_owned(), Json::Int(1))])
        };
        for (id, from) in [("b1", 0), ("b2", 5_000)] {
            let books = Json::List((from..from + 5_000).map(element).collect());
            let mut input = row(id, &[("n", 1)]);
            input.members.push(("books".to_owned(), books));
            put(engine, B, input);
        }
        let then = put(engine, B, linked_to_all("b3"));
        put(engine, B, row("b3", &[("n", 2)]));
        let see = |texts: &[String]| list(engine, &key(), B, texts, GrantsAsOf::Today);
        let too_deep = names(&["author.books.author.books.n"]);
        refused(of_key(engine, &[too_deep, as_of(then)]), "3 levels deep");
        let wide = [names(&["n", "books.n"]), as_of(then)];
        refused(see(&wide), "at most 10000 related rows");
        let narrow = [
            wide.clone().to_vec(),
            vec![query("equal", Some("$id"), "\"b1\"")],
        ]
        .concat();
        assert_eq!(see(&narrow).unwrap().matches('x').count(), 5_000);
    });
}

/// One more book than may come back.
fn linked_to_all(id: &str) -> RowInput {
    let mut input = row(id, &[("n", 1)]);
    let books = Json::List(vec![Json::Text("t1".to_owned())]);
    input.members.push(("books".to_owned(), books));
    input
}

#[test]
fn related_rows_inside_a_transaction_are_those_its_commit_would_leave_at_that_time() {
    with_engine(|engine| {
        one_book(engine);
        let later = fixture::NEW_YEAR_US + 86_400_000_000;
        let mut scheduled = row("b1", &[("n", 7)]);
        scheduled
            .members
            .push(("$validFrom".into(), Json::Int(later)));
        put(engine, B, scheduled);
        let transaction = block_on(engine.create_transaction(&key(), "x", 600)).unwrap();
        let texts = [
            names(&["n", "author.n"]),
            query("validAt", None, &later.to_string()),
        ];
        let asked = ListRows {
            total: false,
            ..list_rows_of(&texts)
        };
        let id = RowId::new("t1").unwrap();
        let inside = || {
            let view = View::Staged(transaction.id.as_str());
            let told = block_on(engine.list_rows(&key(), &asked, view)).unwrap();
            let one: RowAnswer = block_on(engine.get_row(&key(), &asked, &id, view)).unwrap();
            let (list, one) = (told.rows, at_times(one).rows);
            assert_eq!(list, one);
            String::from_utf8_lossy(&list).into_owned()
        };
        assert_eq!(inside(), "t1=3[author: b1=7]", "as for everybody");
        let mut act = row("b1", &[("n", 8)]);
        act.members.push(("$validFrom".into(), Json::Int(later)));
        let staged = Operation {
            database: "d".into(),
            table: "b".into(),
            act: Act::Update(act),
            unchanged_since: None,
        };
        block_on(engine.stage(&key(), transaction.id.as_str(), vec![staged])).unwrap();
        assert_eq!(inside(), "t1=3[author: b1=8]");
        let outside = of_key(engine, &texts).unwrap();
        assert_eq!(outside, "t1=3[author: b1=7]");
    });
}
