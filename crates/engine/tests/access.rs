//! Who gets what: the outcomes of the wire protocol's table in section 1.5, for guests and keys.

mod fixture;

use engine::{
    AccessError, Caller, Engine, EngineError, ReadError, RowInput, SchemaError, TableChange, View,
};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, furnish, guest, key, list_rows_of, open, row};
use futures_executor::block_on;
use model::{Actor, DatabaseId, DatabaseKind, KeyId, ProjectId, RowId, Scope};

/// What became of a use case, in one word.
fn word<T>(result: Result<T, EngineError>) -> &'static str {
    match result {
        Ok(_) => "done",
        Err(EngineError::Access(AccessError::Unauthorized)) => "unauthorized",
        Err(EngineError::Access(AccessError::RoleNotHeld(_))) => "role not held",
        Err(EngineError::Access(AccessError::ScopeMissing(_))) => "scope missing",
        Err(EngineError::Read(ReadError::RowNotFound(_))) => "no row",
        Err(EngineError::Schema(SchemaError::TableNotFound(_))) => "no table",
        Err(EngineError::Schema(SchemaError::DatabaseNotFound(_))) => "no database",
        Err(EngineError::Access(AccessError::KeyExpired)) => "key expired",
        Err(EngineError::Access(AccessError::KeyUnknown)) => "key unknown",
        Err(EngineError::Schema(SchemaError::ProjectNotFound(_))) => "no project",
        Err(EngineError::Access(AccessError::ProjectMissing)) => "project missing",
        Err(other) => panic!("{other:?}"),
    }
}

fn listed(engine: &Engine, caller: &Caller) -> Result<u64, EngineError> {
    let asked = list_rows_of(&[]);
    block_on(engine.list_rows(caller, &asked, View::CURRENT)).map(|answer| answer.total)
}

fn granting(id: &str, permissions: &[&str]) -> RowInput {
    let permissions = permissions.iter().map(ToString::to_string).collect();
    RowInput {
        permissions: Some(permissions),
        ..row(id, &[("n", 1)])
    }
}

fn change_table(engine: &Engine, permissions: &[&str], row_security: bool) {
    let change = TableChange {
        permissions: Some(permissions.iter().map(ToString::to_string).collect()),
        row_security: Some(row_security),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, change)).unwrap();
}

/// A table with one row that grants nothing and one that grants everything a row can.
fn with_engine(test: impl FnOnce(&Engine)) {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    let everything = ["read(\"any\")", "write(\"guests\")"];
    for row in [granting("closed", &[]), granting("open", &everything)] {
        block_on(engine.create_row(&key(), PLACE, row)).unwrap();
    }
    test(&engine);
    engine.close().unwrap();
}

fn id(text: &str) -> RowId {
    RowId::new(text).unwrap()
}

/// What a guest meets with the given table grants: list (and its total), get, update, delete of
/// a row, and create.
#[track_caller]
fn check(grants: &[&str], row_security: bool, row_id: &str, expected: [&str; 5], total: u64) {
    with_engine(|engine| {
        change_table(engine, grants, row_security);
        let guest = guest();
        let list = listed(engine, &guest);
        if let Ok(found) = &list {
            assert_eq!(*found, total, "rows a guest sees");
        }
        let outcomes = [
            word(list),
            word(block_on(fixture::get_row(
                engine,
                &guest,
                PLACE,
                &id(row_id),
                &[],
                View::CURRENT,
            ))),
            word(block_on(engine.update_row(
                &guest,
                PLACE,
                row(row_id, &[("n", 2)]),
                None,
            ))),
            word(block_on(engine.delete_row(&guest, PLACE, id(row_id), None))),
            word(block_on(engine.create_row(
                &guest,
                PLACE,
                row("new", &[("n", 3)]),
            ))),
        ];
        assert_eq!(outcomes, expected);
    });
}

#[test]
fn without_grants_and_row_security_a_guest_gets_nothing() {
    let nothing = [
        "unauthorized",
        "no row",
        "unauthorized",
        "unauthorized",
        "unauthorized",
    ];
    check(&[], false, "closed", nothing, 0);
    check(&[], false, "open", nothing, 0);
}

#[test]
fn row_grants_count_only_with_row_security() {
    let closed = [
        "done",
        "no row",
        "unauthorized",
        "unauthorized",
        "unauthorized",
    ];
    check(&[], true, "closed", closed, 1);
    check(
        &[],
        true,
        "open",
        ["done", "done", "done", "done", "unauthorized"],
        1,
    );
}

#[test]
fn a_table_grant_opens_every_row_whatever_the_rows_grant() {
    let reader = [
        "done",
        "done",
        "unauthorized",
        "unauthorized",
        "unauthorized",
    ];
    check(&["read(\"any\")"], false, "closed", reader, 2);
    check(&["read(\"any\")"], true, "closed", reader, 2);
    let all = ["read(\"any\")", "write(\"guests\")"];
    check(&all, false, "closed", ["done"; 5], 2);
}

#[test]
fn update_and_delete_need_no_read() {
    let blind = ["unauthorized", "no row", "done", "done", "unauthorized"];
    check(
        &["update(\"any\")", "delete(\"any\")"],
        false,
        "closed",
        blind,
        0,
    );
}

#[test]
fn grants_for_others_open_nothing() {
    let nothing = [
        "unauthorized",
        "no row",
        "unauthorized",
        "unauthorized",
        "unauthorized",
    ];
    check(
        &["read(\"users\")", "write(\"user:ann\")"],
        false,
        "open",
        nothing,
        0,
    );
}

#[test]
fn an_absent_row_is_absent_for_everybody() {
    with_engine(|engine| {
        for caller in [guest(), key()] {
            let update = engine.update_row(&caller, PLACE, row("absent", &[("n", 2)]), None);
            assert_eq!(word(block_on(update)), "no row");
            let delete = engine.delete_row(&caller, PLACE, id("absent"), None);
            assert_eq!(word(block_on(delete)), "no row");
        }
    });
}

#[test]
fn an_upsert_needs_update_or_create_as_the_row_is_there_or_not() {
    with_engine(|engine| {
        let upsert = |id: &str| {
            word(block_on(engine.upsert_row(
                &guest(),
                PLACE,
                row(id, &[("n", 2)]),
                None,
            )))
        };
        change_table(engine, &["update(\"any\")"], false);
        assert_eq!([upsert("closed"), upsert("new")], ["done", "unauthorized"]);
        change_table(engine, &["create(\"any\")"], false);
        assert_eq!([upsert("closed"), upsert("new")], ["unauthorized", "done"]);
    });
}

#[test]
fn callers_grant_to_their_own_roles_only_and_keys_to_all() {
    with_engine(|engine| {
        change_table(engine, &["create(\"any\")"], false);
        let create = |caller: &Caller, id: &str, grant: &str| {
            word(block_on(engine.create_row(
                caller,
                PLACE,
                granting(id, &[grant]),
            )))
        };
        assert_eq!(create(&guest(), "a", "read(\"guests\")"), "done");
        assert_eq!(create(&guest(), "b", "read(\"user:ann\")"), "role not held");
        assert_eq!(create(&key(), "c", "read(\"user:ann\")"), "done");
    });
}

#[test]
fn disabled_containers_are_absent_except_for_keys() {
    with_engine(|engine| {
        change_table(engine, &["read(\"any\")"], false);
        let disable = TableChange {
            enabled: Some(false),
            ..TableChange::default()
        };
        block_on(engine.update_table(&key(), PLACE, disable)).unwrap();
        assert_eq!(word(listed(engine, &guest())), "no table");
        assert_eq!(word(listed(engine, &key())), "done");
        let enable = TableChange {
            enabled: Some(true),
            ..TableChange::default()
        };
        block_on(engine.update_table(&key(), PLACE, enable)).unwrap();
        block_on(engine.update_database(&key(), "d", None, Some(false))).unwrap();
        assert_eq!(word(listed(engine, &guest())), "no database");
        assert_eq!(word(listed(engine, &key())), "done");
    });
}

#[test]
fn scopes_open_use_cases_for_keys_and_guests_have_those_of_rows() {
    let with_scopes = |scopes: &[Scope]| Caller {
        actor: Actor::Key {
            id: KeyId::new("k").unwrap(),
            scopes: scopes.into(),
        },
        ..key()
    };
    with_engine(|engine| {
        assert_eq!(
            word(listed(engine, &with_scopes(&[Scope::RowsRead]))),
            "done"
        );
        assert_eq!(
            word(listed(engine, &with_scopes(&[Scope::RowsWrite]))),
            "scope missing"
        );
        assert_eq!(
            word(engine.get_table(&with_scopes(&[Scope::RowsRead]), PLACE)),
            "scope missing"
        );
        assert_eq!(word(engine.get_table(&guest(), PLACE)), "scope missing");
        let bulk = block_on(engine.create_rows(&guest(), PLACE, vec![row("a", &[("n", 1)])]));
        assert_eq!(word(bulk), "scope missing");
    });
}

#[test]
fn callers_are_made_of_a_project_and_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    block_on(engine.create_project(ProjectId::new("q").unwrap(), "Q".into())).unwrap();
    let new_key = |id: &str, hash: u8, expires_us: Option<i64>| engine::NewKey {
        project: ProjectId::new("p").unwrap(),
        id: KeyId::new(id).unwrap(),
        name: id.into(),
        scopes: vec![Scope::RowsRead],
        expires: expires_us.map(model::Timestamp),
        secret_hash: [hash; 32],
    };
    block_on(engine.create_key(new_key("lasting", 1, None))).unwrap();
    block_on(engine.create_key(new_key("brief", 2, Some(NEW_YEAR_US + 60_000_000)))).unwrap();
    let twice = block_on(engine.create_key(new_key("lasting", 3, None)));
    assert_eq!(
        twice.unwrap_err(),
        EngineError::Schema(SchemaError::KeyExists)
    );

    let actor = |project: Option<&str>, hash: Option<u8>| {
        let caller = engine.caller(project, hash.map(|byte| [byte; 32]).as_ref())?;
        Ok(match caller.actor {
            Actor::Key { id, .. } => id.to_string(),
            Actor::Guest => "guest".into(),
            Actor::User { .. } => "user".into(),
            Actor::Function { id, .. } => format!("function {id}"),
        })
    };
    assert_eq!(actor(Some("p"), Some(1)), Ok("lasting".into()));
    assert_eq!(actor(Some("p"), None), Ok("guest".into()));
    assert_eq!(word(actor(Some("p"), Some(9))), "key unknown");
    assert_eq!(word(actor(Some("q"), Some(1))), "key unknown");
    assert_eq!(actor(Some("p"), Some(2)), Ok("brief".into()));
    clock.step_us(60_000_000);
    assert_eq!(word(actor(Some("p"), Some(2))), "key expired");
    assert_eq!(word(actor(Some("x"), None)), "no project");
    assert_eq!(word(actor(None, None)), "project missing");

    block_on(engine.revoke_key("p", "lasting")).unwrap();
    assert_eq!(word(actor(Some("p"), Some(1))), "key unknown");
    engine.close().unwrap();
}

#[test]
fn databases_of_projects_do_not_mix() {
    with_engine(|engine| {
        block_on(engine.create_project(ProjectId::new("q").unwrap(), "Q".into())).unwrap();
        let other = Caller {
            project: ProjectId::new("q").unwrap(),
            ..key()
        };
        assert_eq!(word(listed(engine, &other)), "no database");
        let kind = DatabaseKind::Tablesdb;
        let id = DatabaseId::new("d").unwrap();
        block_on(engine.create_database(&other, id, "D".into(), true, kind)).unwrap();
        assert_eq!(word(listed(engine, &other)), "no table");
        let nobody = Caller {
            project: ProjectId::new("nobody").unwrap(),
            ..key()
        };
        let id = DatabaseId::new("d").unwrap();
        let refused = block_on(engine.create_database(&nobody, id, "D".into(), true, kind));
        let named = EngineError::Schema(SchemaError::ProjectNotFound("nobody".to_owned()));
        assert_eq!(refused.unwrap_err(), named);
    });
}
