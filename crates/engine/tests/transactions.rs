//! Transactions inside the engine: whose they are, what a change of schema does to them, and that
//! trying them out leaves no trace.

mod fixture;

use std::sync::Arc;

use engine::{
    AccessError, Act, Caller, Echo, Engine, EngineError, ListContainers, ListRows, Operation,
    Place, ReadError, SchemaError, TransactionError, TransactionStatus, View, WriteError,
};
use fixture::{NEW_YEAR_US, TickingClock, furnish, key, list_rows_of, new_table, open, row};
use futures_executor::block_on;
use model::{Actor, Json, Role, RoleSet, RowId, TableId};

const T: Place<'static> = Place {
    database: "d",
    table: "t",
};

fn engine(directory: &tempfile::TempDir) -> (Arc<TickingClock>, Arc<Engine>) {
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    (clock, engine)
}

fn user(id: &str) -> Caller {
    let roles = [
        "any",
        "users",
        &format!("user:{id}"),
        &format!("user:{id}/verified"),
    ]
    .map(|role| Role::parse(role).unwrap());
    Caller {
        project: key().project,
        actor: Actor::User {
            roles: Arc::new(RoleSet::new(roles.to_vec())),
        },
        request: None,
        meta: None,
        function: None,
    }
}

fn operation(act: Act) -> Operation {
    Operation {
        database: "d".into(),
        table: "t".into(),
        act,
        unchanged_since: None,
    }
}

fn id(text: &str) -> RowId {
    RowId::new(text).unwrap()
}

/// Ids and `n` of the rows, inside a transaction or outside.
async fn rows(engine: &Engine, transaction: Option<&str>) -> Vec<String> {
    let asked = ListRows {
        place: T,
        ..list_rows_of(&[])
    };
    let answer = match transaction {
        Some(id) => engine.list_rows(&key(), &asked, View::Staged(id)).await,
        None => engine.list_rows(&key(), &asked, View::CURRENT).await,
    }
    .unwrap();
    let text = String::from_utf8(answer.rows.to_vec()).unwrap();
    let lines = text.lines().map(|line| line.replace("Tables ", ""));
    let rows: Vec<String> = lines
        .filter(|line| !line.is_empty())
        .map(|line| line.split(' ').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(answer.total, rows.len() as u64);
    rows
}

const ALL: ListContainers<'static> = ListContainers {
    texts: &[],
    search: "",
    total: true,
};

#[test]
fn a_user_sees_its_own_and_a_key_sees_all() {
    let directory = tempfile::tempdir().unwrap();
    let (_, engine) = engine(&directory);
    furnish(&engine);
    let (ann, bob, key) = (user("ann"), user("bob"), key());
    block_on(async {
        let refused = engine.create_transaction(&ann, "a", 60).await;
        assert_eq!(
            refused,
            Err(EngineError::Access(AccessError::Unauthorized)),
            "no table lets it write"
        );
        let open = engine::NewTable {
            permissions: vec![r#"create("users")"#.to_owned()],
            ..fixture::new_table("open")
        };
        engine.create_table(&key, "d", open).await.unwrap();
        for (caller, id) in [(&ann, "a"), (&bob, "b"), (&key, "k")] {
            engine.create_transaction(caller, id, 60).await.unwrap();
        }
        let twice = engine.create_transaction(&ann, "b", 60).await;
        assert_eq!(
            twice,
            Err(EngineError::Transaction(TransactionError::Exists(
                "b".into()
            )))
        );
        for (caller, seen) in [(&ann, "a"), (&bob, "b"), (&key, "abk")] {
            let listed = engine.list_transactions(caller, ALL).await.unwrap();
            let ids: String = listed.items.into_iter().map(|one| one.id).collect();
            assert_eq!(ids, seen);
        }
        let missing = |id: &str| {
            Err(EngineError::Transaction(TransactionError::NotFound(
                id.into(),
            )))
        };
        for id in ["a", "k", "none"] {
            assert_eq!(engine.get_transaction(&bob, id).await, missing(id));
            let committed = engine.commit_transaction(&bob, id).await;
            assert_eq!(committed.map(|done| done.answer), missing(id));
            assert_eq!(engine.roll_back_transaction(&bob, id).await, missing(id));
            let deleted = engine.delete_transaction(&bob, id).await;
            assert_eq!(deleted.unwrap_err(), missing(id).unwrap_err());
            let op = vec![operation(Act::Delete(RowId::new("x").unwrap().into()))];
            let staged = engine.stage(&bob, id, op).await;
            assert_eq!(staged.unwrap_err(), missing(id).unwrap_err());
        }
        let committed = engine.commit_transaction(&ann, "a").await.unwrap().answer;
        assert_eq!(committed.status, TransactionStatus::Committed);
    });
    engine.close().unwrap();
}

#[test]
fn staging_and_trying_take_no_mark_and_a_commit_takes_one() {
    let directory = tempfile::tempdir().unwrap();
    let (_, engine) = engine(&directory);
    furnish(&engine);
    let mark = || engine.status().mark;
    block_on(async {
        let before = mark();
        engine.create_transaction(&key(), "t", 60).await.unwrap();
        for n in 0..3 {
            let new = operation(Act::Create(row(&format!("r{n}"), &[("n", n)])));
            let (_, echoes) = engine.stage(&key(), "t", vec![new]).await.unwrap();
            assert!(matches!(&echoes[..], [Echo::Row(page)] if page.rows.len() == 1));
        }
        assert_eq!(rows(&engine, Some("t")).await, ["r0", "r1", "r2"]);
        assert_eq!((mark(), rows(&engine, None).await), (before, vec![]));
        engine.commit_transaction(&key(), "t").await.unwrap();
        let after = mark();
        assert!(after > before);
        assert_eq!(rows(&engine, None).await, ["r0", "r1", "r2"]);
        // One that changes nothing takes none either, and is committed all the same.
        engine.create_transaction(&key(), "u", 60).await.unwrap();
        let same = operation(Act::Update(row("r0", &[("n", 0)])));
        engine.stage(&key(), "u", vec![same]).await.unwrap();
        let ended = engine.commit_transaction(&key(), "u").await.unwrap().answer;
        assert_eq!(
            (ended.status, mark()),
            (TransactionStatus::Committed, after)
        );
        engine.create_transaction(&key(), "e", 60).await.unwrap();
        engine.commit_transaction(&key(), "e").await.unwrap();
        assert_eq!(mark(), after);
    });
    engine.close().unwrap();
    let again = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    assert_eq!(block_on(rows(&again, None)), ["r0", "r1", "r2"]);
    let kept = block_on(again.get_transaction(&key(), "t")).unwrap();
    assert_eq!(kept.status, TransactionStatus::Committed);
    again.close().unwrap();
}

#[test]
fn a_commit_is_judged_by_the_schema_of_its_moment() {
    let directory = tempfile::tempdir().unwrap();
    let (_, engine) = engine(&directory);
    furnish(&engine);
    block_on(async {
        for (name, column) in [("one", "n"), ("two", "m")] {
            engine.create_transaction(&key(), name, 60).await.unwrap();
            let new = operation(Act::Create(row(name, &[(column, 1)])));
            engine.stage(&key(), name, vec![new]).await.unwrap();
        }
        engine.delete_column(&key(), T, "m").await.unwrap();
        // What could not be committed shows nothing.
        assert_eq!(rows(&engine, Some("one")).await, ["one"]);
        assert_eq!(rows(&engine, Some("two")).await, [""; 0]);
        engine.commit_transaction(&key(), "one").await.unwrap();
        let refused = engine.commit_transaction(&key(), "two").await;
        assert!(
            matches!(refused, Err(EngineError::Write(WriteError::Structure(_)))),
            "{refused:?}"
        );
        engine
            .create_transaction(&key(), "three", 60)
            .await
            .unwrap();
        let gone = operation(Act::Delete(id("one").into()));
        engine.stage(&key(), "three", vec![gone]).await.unwrap();
        engine.delete_table(&key(), T).await.unwrap();
        let refused = engine.commit_transaction(&key(), "three").await;
        let refused = refused.map(|done| done.answer);
        assert_eq!(
            refused,
            Err(EngineError::Schema(SchemaError::TableNotFound("t".into())))
        );
        let failed = engine.get_transaction(&key(), "three").await.unwrap();
        assert_eq!(failed.status, TransactionStatus::Failed);
    });
    engine.close().unwrap();
}

#[test]
fn a_transaction_goes_with_its_project() {
    let directory = tempfile::tempdir().unwrap();
    let (_, engine) = engine(&directory);
    furnish(&engine);
    block_on(async {
        engine.create_transaction(&key(), "t", 60).await.unwrap();
        engine.delete_project("p").await.unwrap();
        let create = engine.create_transaction(&key(), "t", 60).await;
        assert_eq!(
            create,
            Err(EngineError::Schema(SchemaError::ProjectNotFound(
                "p".into()
            )))
        );
        let project = model::ProjectId::new("p").unwrap();
        engine.create_project(project, "P".into()).await.unwrap();
        let found = engine.get_transaction(&key(), "t").await;
        assert_eq!(
            found,
            Err(EngineError::Transaction(TransactionError::NotFound(
                "t".into()
            )))
        );
    });
    engine.close().unwrap();
}

#[test]
fn of_too_many_transactions_those_that_ended_go_first() {
    let directory = tempfile::tempdir().unwrap();
    // Thousands of commits, none of which is asked to survive a power cut.
    let config = engine::Config {
        durability: engine::Durability::Normal,
        ..fixture::config(directory.path())
    };
    let engine = fixture::start(config, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    let max = store::staged::TRANSACTIONS_MAX;
    block_on(async {
        let name = |n: usize| format!("t{n}");
        for n in 0..max {
            engine
                .create_transaction(&key(), &name(n), 3_600)
                .await
                .unwrap();
        }
        let full = engine.create_transaction(&key(), "more", 60).await;
        assert!(
            matches!(
                full,
                Err(EngineError::Transaction(TransactionError::LimitReached(_)))
            ),
            "{full:?}"
        );
        engine
            .roll_back_transaction(&key(), &name(7))
            .await
            .unwrap();
        engine.create_transaction(&key(), "more", 60).await.unwrap();
        let gone = engine.get_transaction(&key(), &name(7)).await;
        assert_eq!(
            gone,
            Err(EngineError::Transaction(TransactionError::NotFound(name(
                7
            ))))
        );
        engine.get_transaction(&key(), &name(6)).await.unwrap();
    });
    engine.close().unwrap();
}

#[test]
fn the_bytes_of_a_transaction_have_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let (_, engine) = engine(&directory);
    furnish(&engine);
    block_on(async {
        engine.create_transaction(&key(), "t", 60).await.unwrap();
        let large = |bytes: usize| {
            let mut row = row("x", &[]);
            row.members
                .push(("colour".into(), Json::Text("x".repeat(bytes))));
            operation(Act::Create(row))
        };
        let half = store::staged::OPERATION_BYTES_MAX / 2;
        engine.stage(&key(), "t", vec![large(half)]).await.unwrap();
        let refused = engine.stage(&key(), "t", vec![large(half)]).await;
        assert!(matches!(
            refused,
            Err(EngineError::Transaction(TransactionError::TooLarge(_)))
        ));
        engine
            .stage(&key(), "t", vec![large(half - 1_000)])
            .await
            .unwrap();
    });
    engine.close().unwrap();
}

#[test]
fn links_are_staged_with_their_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (_, engine) = engine(&directory);
    furnish(&engine);
    block_on(async {
        engine
            .create_table(&key(), "d", new_table("b"))
            .await
            .unwrap();
        let new = engine::NewRelationship {
            related: TableId::new("b").unwrap().to_string(),
            kind: "oneToMany".into(),
            two_way: true,
            key: Some("down".into()),
            partner_key: Some("up".into()),
            on_delete: Some("cascade".into()),
        };
        engine.create_relationship(&key(), T, &new).await.unwrap();
        engine.create_transaction(&key(), "t", 60).await.unwrap();
        let mut parent = row("a", &[("n", 1)]);
        let inner = Json::Object(vec![
            ("$id".into(), Json::Text("b1".into())),
            ("n".into(), Json::Int(2)),
        ]);
        parent
            .members
            .push(("down".into(), Json::List(vec![inner])));
        engine
            .stage(&key(), "t", vec![operation(Act::Create(parent))])
            .await
            .unwrap();
        let b = Place { table: "b", ..T };
        let inside = fixture::get_row(&engine, &key(), b, &id("b1"), &[], View::Staged("t"))
            .await
            .unwrap();
        assert_eq!(inside.answer.rows[0].id, id("b1"));
        let related = [r#"{"method":"select","values":["*","down.*"]}"#.to_owned()];
        let inside = fixture::get_row(&engine, &key(), T, &id("a"), &related, View::Staged("t"))
            .await
            .unwrap();
        assert_eq!(inside.answer.related[0].page.rows[0].id, id("b1"));
        // The parent takes its rows along.
        let gone = operation(Act::Delete(id("a").into()));
        engine.stage(&key(), "t", vec![gone]).await.unwrap();
        let inside = fixture::get_row(&engine, &key(), b, &id("b1"), &[], View::Staged("t")).await;
        assert_eq!(
            inside.err(),
            Some(EngineError::Read(ReadError::RowNotFound(id("b1"))))
        );
        engine.commit_transaction(&key(), "t").await.unwrap();
        assert_eq!(rows(&engine, None).await, [""; 0]);
    });
    engine.close().unwrap();
}
