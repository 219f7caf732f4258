//! An engine on a directory of its own, with a clock that only moves when it is asked.

#![allow(dead_code, reason = "each test file uses a part of the stage")]

pub mod gate;

use std::sync::Arc;

use engine::{
    Caller, Config, Durability, Engine, EngineError, Family, ListAnswer, ListRows, LongReads,
    NewColumn, NewIndex, NewTable, OptionsChange, Place, RowAnswer, RowInput, View,
};
use futures_executor::block_on;
use model::{
    Actor, Content, DatabaseId, DatabaseKind, Json, KeyId, Marked, Page, ProjectId, RowId, Scope,
    Table, TableId, TableOptions, Value,
};
use store::Store;
pub use testing::TickingClock;

pub const PLACE: Place<'static> = Place {
    database: "d",
    table: "t",
};

/// 2026-01-01T00:00:00Z
pub const NEW_YEAR_US: i64 = 1_767_225_600_000_000;

fn encode_row(_: &Table, values: &[Value], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{values:?}").as_bytes());
}

/// Every field of every row, so that two pages are equal only if all of it is.
pub fn encode_page(page: &Page, family: Family) -> Vec<u8> {
    let row = |row: &model::Row| {
        let content = match &row.content {
            Content::Body(body) => String::from_utf8_lossy(body).into_owned(),
            Content::Values(values) => format!("{values:?}"),
        };
        let span = row.span.as_ref();
        let span = span.map_or(String::new(), |span| format!(" {span:?}"));
        format!(
            "{} {} {} {} {} {content}{span}",
            row.seq, row.id, row.created.0, row.updated.0, row.permissions
        )
    };
    let rows: Vec<String> = page.rows.iter().map(row).collect();
    format!("{family:?} {}", rows.join("\n")).into_bytes()
}

pub fn config(directory: &std::path::Path) -> Config {
    Config {
        directory: directory.to_owned(),
        durability: Durability::Full,
        reader_cache_bytes: 8 << 20,
        read_limit_ms: 60_000,
        long_reads: LongReads {
            after_us: 1_000,
            threads: 2,
            waiting_max: 100,
        },
        page_rows_default: 25,
        page_rows_max: 5_000,
        answer_bytes_max: 32 << 20,
        total_cap: 5_000,
        list_cache_bytes: 8 << 20,
        writes_waiting_max: 1_024,
        accept_clock: false,
        downtime_max_us: 90 * 24 * 3_600 * 1_000_000,
        quotas: engine::Quotas::NONE,
        new_tables: TableOptions::default(),
        encode_row,
        encode_page,
    }
}

pub fn open(directory: &std::path::Path, clock: Arc<TickingClock>) -> Arc<Engine> {
    Engine::open(config(directory), clock).expect("the directory is new or ours")
}

/// The store that the engine would open itself, for tests that stand another one before it.
pub fn open_store(config: &Config) -> Arc<dyn Store> {
    store::open(store::Options {
        directory: config.directory.clone(),
        durability: config.durability,
        encode_row: config.encode_row,
        reader_cache_bytes: config.reader_cache_bytes,
        read_limit_ms: config.read_limit_ms,
        long_reads: config.long_reads,
        vfs: None,
    })
    .expect("the directory is new or ours")
}

pub async fn get_row(
    engine: &Engine,
    caller: &Caller,
    place: Place<'_>,
    id: &RowId,
    texts: &[String],
    view: View<'_>,
) -> Result<Marked<Page>, EngineError> {
    let list = ListRows {
        place,
        texts,
        total: false,
        ttl_s: 0,
        bypass: false,
        family: Family::Tables,
    };
    match engine.get_row(caller, &list, id, view).await? {
        RowAnswer::Page(page) => Ok(page),
        RowAnswer::AtTimes(_) => panic!("it names no time"),
    }
}

/// The answer to a read of a row that names a time.
pub fn at_times(answer: RowAnswer) -> ListAnswer {
    match answer {
        RowAnswer::AtTimes(answer) => answer,
        RowAnswer::Page(_) => panic!("it names a time"),
    }
}

pub fn key() -> Caller {
    Caller {
        project: ProjectId::new("p").unwrap(),
        actor: Actor::Key {
            id: KeyId::new("k").unwrap(),
            scopes: Scope::ALL.into(),
        },
        request: None,
    }
}

pub fn guest() -> Caller {
    Caller {
        project: ProjectId::new("p").unwrap(),
        actor: Actor::Guest,
        request: None,
    }
}

pub fn integer(key: &str) -> NewColumn {
    NewColumn {
        key: key.into(),
        kind: "integer".into(),
        ..NewColumn::default()
    }
}

/// Lets those who may see a row of `t` now see its past, whoever might then.
pub fn open_past(engine: &Engine) {
    open_past_as(engine, "now");
}

/// Lets others than keys look at the past of `t` by this rule.
pub fn open_past_as(engine: &Engine, past: &str) {
    let change = OptionsChange {
        past: Some(past.to_owned()),
        ..OptionsChange::default()
    };
    block_on(engine.set_table_options(&key(), PLACE, &change)).unwrap();
}

/// Project `p`, database `d`, table `t` with the integer columns `n` and `m`, `n` indexed.
pub fn furnish(engine: &Engine) {
    block_on(async {
        engine
            .create_project(ProjectId::new("p").unwrap(), "P".into())
            .await
            .unwrap();
        let id = DatabaseId::new("d").unwrap();
        let kind = DatabaseKind::Tablesdb;
        engine
            .create_database(&key(), id, "D".into(), true, kind)
            .await
            .unwrap();
        engine
            .create_table(&key(), "d", new_table("t"))
            .await
            .unwrap();
    });
}

pub fn new_table(id: &str) -> NewTable {
    NewTable {
        id: TableId::new(id).unwrap(),
        name: "T".into(),
        permissions: vec![],
        row_security: false,
        enabled: true,
        columns: vec![integer("n"), integer("m")],
        indexes: vec![NewIndex {
            key: "by_n".into(),
            kind: "key".into(),
            columns: vec!["n".into()],
            ..NewIndex::default()
        }],
    }
}

pub fn row(id: &str, members: &[(&str, i64)]) -> RowInput {
    let members = members
        .iter()
        .map(|(key, n)| ((*key).to_owned(), Json::Int(*n)));
    RowInput {
        id: RowId::new(id).unwrap(),
        members: members.collect(),
        permissions: None,
    }
}
