//! Answers with related rows: each is true for one mark, whatever is written meanwhile.

mod fixture;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use engine::{Engine, ListRows, NewRelationship, Place, RowInput, View};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, key, list_rows_of, new_table, open_store,
    row,
};
use futures_executor::block_on;
use model::{Json, Mark, Page, RowId};
use store::{Listing, Snapshot, Store, StoreFuture};
use testing::{Hooked, StoreHooks};

/// A store in which a writer moves the links between two reads of one answer.
struct Restless {
    inner: Arc<dyn Store>,
    engine: OnceLock<Weak<Engine>>,
    /// Reads of lists until the next write; 0 is never.
    until_write: AtomicUsize,
    writes: AtomicUsize,
}

impl Restless {
    fn before_read(&self) {
        let before = self
            .until_write
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        if before != Ok(1) {
            return;
        }
        let engine = self.engine.get().and_then(Weak::upgrade).unwrap();
        let write = || block_on(engine.update_row(&key(), B, back_to_t2(), None)).unwrap();
        // On a thread of its own, because this one is inside a read.
        std::thread::scope(|scope| scope.spawn(write).join()).unwrap();
        self.writes.fetch_add(1, Ordering::SeqCst);
    }
}

impl StoreHooks for Restless {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<store::Listed>> {
        self.before_read();
        self.inner.list(listing)
    }
}

const B: Place<'static> = Place {
    database: "d",
    table: "b",
};

fn linked(id: &str, key: &str, to: &str) -> RowInput {
    RowInput {
        id: RowId::new(id).unwrap(),
        members: vec![
            ("n".to_owned(), Json::Int(1)),
            (key.to_owned(), Json::Text(to.to_owned())),
        ],
        permissions: None,
    }
}

fn back_to_t2() -> RowInput {
    let mut row = linked("b1", "up", "t2");
    row.members[0].1 = Json::Int(2);
    row
}

/// Tables `t` and `b`, with links from `b` by `up` back to `t`; row `b1` is linked to `t1`.
fn furnish_links(engine: &Engine) {
    furnish(engine);
    block_on(async {
        engine
            .create_table(&key(), "d", new_table("b"))
            .await
            .unwrap();
        let new = NewRelationship {
            related: "b".into(),
            kind: "oneToMany".into(),
            two_way: true,
            key: Some("down".into()),
            partner_key: Some("up".into()),
            on_delete: None,
        };
        engine
            .create_relationship(&key(), PLACE, &new)
            .await
            .unwrap();
        for id in ["t1", "t2"] {
            let row = row(id, &[("n", 1)]);
            engine.create_row(&key(), PLACE, row).await.unwrap();
        }
        let row = linked("b1", "up", "t1");
        engine.create_row(&key(), B, row).await.unwrap();
    });
}

/// The ids of rows related to each row of the page.
fn links(page: &Page) -> Vec<Vec<&str>> {
    let related = &page.related[0];
    let id = |at: &usize| related.page.rows[*at].id.as_str();
    let of_row = |links: &Vec<usize>| links.iter().map(id).collect();
    related.links.iter().map(of_row).collect()
}

fn select() -> Vec<String> {
    vec![r#"{"method":"select","values":["*","down.*"]}"#.to_owned()]
}

#[test]
fn an_answer_with_related_rows_is_true_for_one_mark() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let config = config(directory.path());
    let restless = Arc::new(Hooked(Restless {
        inner: open_store(&config),
        engine: OnceLock::new(),
        until_write: AtomicUsize::new(0),
        writes: AtomicUsize::new(0),
    }));
    let engine = Engine::over(restless.clone(), &config, clock).unwrap();
    restless.engine.set(Arc::downgrade(&engine)).unwrap();
    furnish_links(&engine);
    let texts = select();
    let asked = ListRows {
        ttl_s: 60,
        family: engine::Family::Tables,
        ..list_rows_of(&texts)
    };
    // The write comes between the read of the rows and that of what they are related to.
    restless.until_write.store(2, Ordering::SeqCst);
    let answer = block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap();
    assert_eq!(restless.writes.load(Ordering::SeqCst), 1);
    assert_eq!((answer.total, answer.cached), (2, None));
    assert!(answer.mark > Mark(NEW_YEAR_US));
    let id = RowId::new("t2").unwrap();
    let page = block_on(fixture::get_row(
        &engine,
        &key(),
        PLACE,
        &id,
        &texts,
        View::CURRENT,
    ))
    .unwrap();
    assert_eq!(links(&page.answer), [["b1"]]);
    assert!(
        answer.mark >= page.mark,
        "the answer knows the write that it met"
    );
    engine.close().unwrap();
}

#[test]
fn relationships_outlive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let engine = fixture::open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish_links(&engine);
    let before = engine.list_columns(&key(), B, listed()).unwrap().items;
    engine.close().unwrap();
    drop(engine);
    let engine = fixture::open(directory.path(), TickingClock::at(NEW_YEAR_US + 1_000_000));
    assert_eq!(
        engine.list_columns(&key(), B, listed()).unwrap().items,
        before
    );
    let id = RowId::new("t1").unwrap();
    let page = block_on(fixture::get_row(
        &engine,
        &key(),
        PLACE,
        &id,
        &select(),
        View::CURRENT,
    ))
    .unwrap();
    assert_eq!(links(&page.answer), [["b1"]]);
    let refused = block_on(engine.delete_row(&key(), PLACE, id, None)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Row `t1` cannot be deleted while rows of table `b` are related to it."
    );
    engine.close().unwrap();
}

fn listed() -> engine::ListContainers<'static> {
    engine::ListContainers {
        texts: &[],
        search: "",
        total: true,
    }
}

#[test]
fn an_answer_holds_so_many_related_rows_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let engine = fixture::open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish_links(&engine);
    let element = |n: usize| {
        Json::Object(vec![
            ("$id".to_owned(), Json::Text(format!("x{n}"))),
            ("n".to_owned(), Json::Int(1)),
        ])
    };
    let many = |id: &str, from: usize, count: usize| RowInput {
        id: RowId::new(id).unwrap(),
        members: vec![(
            "down".to_owned(),
            Json::List((from..from + count).map(element).collect()),
        )],
        permissions: None,
    };
    let refused = block_on(engine.create_row(&key(), PLACE, many("t9", 0, 10_001)));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "Column `down`: more than 10000 links in one request."
    );
    // The row itself is one of the 10,000 rows that a commit may change.
    let refused = block_on(engine.create_row(&key(), PLACE, many("t9", 0, 10_000)));
    assert!(matches!(
        refused.unwrap_err(),
        engine::EngineError::Write(engine::WriteError::TooManyRows { rows_max: 10_000 })
    ));
    for (id, from) in [("t3", 0), ("t4", 5_000)] {
        block_on(engine.create_row(&key(), PLACE, many(id, from, 5_000))).unwrap();
    }
    let texts = select();
    let asked = ListRows {
        family: engine::Family::Tables,
        ..list_rows_of(&texts)
    };
    let refused = block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap_err();
    assert!(
        matches!(
            refused,
            engine::EngineError::Read(engine::ReadError::Query(_))
        ),
        "{refused}"
    );
    let mut narrow = texts.clone();
    narrow.push(r#"{"method":"equal","attribute":"$id","values":["t3"]}"#.to_owned());
    let asked = ListRows {
        texts: &narrow,
        ..asked
    };
    block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap();
    engine.close().unwrap();
}
