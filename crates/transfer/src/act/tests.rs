//! Exports while others write: one mark for all rows, and a schema that must not change.

use std::sync::Arc;

use model::RowId;
use server::offline::offline_engine;
use testing::TickingClock;

use super::*;
use crate::port_request::RowsPut;
use crate::schema::Part;

struct Stage {
    engine: Arc<Engine>,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// Table `d/t` with an integer column and five rows.
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let config = offline_engine(folder.path().join("data").into());
        let clock = TickingClock::with_step(1_700_000_000_000_000, 1_000);
        let stage = Stage {
            engine: Engine::open(config, clock).unwrap(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
            _folder: folder,
        };
        let project = ProjectId::new("p").unwrap();
        let made = stage.engine.create_project(project, "P".to_owned());
        stage.runtime.block_on(made).unwrap();
        let made = stage.ask(
            PortRequest::PutDatabase {
                project: "p".to_owned(),
                database: "d".to_owned(),
                name: "D".to_owned(),
                may_exist: false,
            },
            "",
        );
        assert_eq!(made.unwrap().head, true);
        stage.put_table();
        for n in 0..5 {
            stage.put(&format!("{{\"$id\":\"r{n}\",\"n\":{n}}}"));
        }
        stage
    }

    fn ask(&self, ask: PortRequest, rows: &str) -> Result<PortResponse, Refusal> {
        self.runtime
            .block_on(perform(&self.engine, ask, rows.as_bytes()))
    }

    fn put_table(&self) {
        let columns = json!([{"key": "n", "type": "integer"}]);
        let ask = PortRequest::PutTable {
            project: "p".to_owned(),
            database: "d".to_owned(),
            definition: json!({"id": "t", "name": "T", "columns": columns}),
            may_exist: false,
            may_have_more: false,
        };
        self.ask(ask, "").unwrap();
    }

    fn put(&self, row: &str) -> RowsPut {
        let ask = PortRequest::PutRows {
            path: path(),
            may_exist: true,
        };
        serde_json::from_value(self.ask(ask, row).unwrap().head).unwrap()
    }

    fn begin(&self) -> Start {
        let ask = PortRequest::BeginExport {
            project: "p".to_owned(),
            database: "d".to_owned(),
        };
        serde_json::from_value(self.ask(ask, "").unwrap().head).unwrap()
    }

    fn page(
        &self,
        start: &Start,
        after: i64,
        rows_max: u32,
    ) -> Result<(PageEnd, Vec<i64>), Refusal> {
        let response = self.ask(
            PortRequest::ExportPage {
                path: path(),
                mark: start.mark,
                schema: start.tables[0].schema.clone(),
                after,
                rows_max,
                leaves_out_damaged: false,
            },
            "",
        )?;
        let rows = String::from_utf8(response.rows).unwrap();
        let n = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["n"]
                .as_i64()
                .unwrap()
        };
        Ok((
            serde_json::from_value(response.head).unwrap(),
            rows.lines().map(n).collect(),
        ))
    }
}

const HERE: Place<'static> = Place {
    database: "d",
    table: "t",
};

fn path() -> TablePath {
    TablePath {
        project: "p".to_owned(),
        database: "d".to_owned(),
        table: "t".to_owned(),
    }
}

#[test]
fn every_page_is_of_the_mark_the_export_began_at() {
    let stage = Stage::new();
    let start = stage.begin();
    let (end, first) = stage.page(&start, 0, 2).unwrap();
    assert_eq!((end.rows, first), (2, vec![0, 1]));
    // A row that was read, one that was not, a new one, and one that goes.
    assert_eq!(stage.put("{\"$id\":\"r0\",\"n\":10}").changed, 1);
    assert_eq!(stage.put("{\"$id\":\"r3\",\"n\":13}").changed, 1);
    assert_eq!(stage.put("{\"$id\":\"r9\",\"n\":19}").created, 1);
    let caller = administrator("p").unwrap();
    let gone = stage
        .engine
        .delete_row(&caller, HERE, RowId::new("r4").unwrap(), None);
    stage.runtime.block_on(gone).unwrap();

    let (end, rest) = stage.page(&start, end.last, 10).unwrap();
    assert_eq!(rest, [2, 3, 4]);
    assert_eq!(stage.page(&start, end.last, 10).unwrap().1, [0; 0]);
    assert_eq!(stage.page(&start, 0, 10).unwrap().1, [0, 1, 2, 3, 4]);
    let start = stage.begin();
    assert_eq!(stage.page(&start, 0, 10).unwrap().1, [10, 1, 2, 13, 19]);
}

#[test]
fn a_table_that_became_another_ends_the_export() {
    let stage = Stage::new();
    let start = stage.begin();
    let caller = administrator("p").unwrap();
    let gone = stage.engine.delete_table(&caller, HERE);
    stage.runtime.block_on(gone).unwrap();
    let refusal = stage.page(&start, 0, 10).unwrap_err();
    assert_eq!(refusal.status, StatusCode::NOT_FOUND);
    stage.put_table();
    let refusal = stage.page(&start, 0, 10).unwrap_err();
    assert_eq!(refusal.status, StatusCode::CONFLICT);
    assert!(
        refusal.message.contains("changed during the export"),
        "{}",
        refusal.message
    );
}

#[test]
fn rows_that_are_there_are_left_alone_or_mended_or_refused() {
    let stage = Stage::new();
    let start = stage.begin();
    let response = stage.ask(
        PortRequest::ExportPage {
            path: path(),
            mark: start.mark,
            schema: start.tables[0].schema.clone(),
            after: 0,
            rows_max: 10,
            leaves_out_damaged: false,
        },
        "",
    );
    let lines = String::from_utf8(response.unwrap().rows).unwrap();
    let mark = stage.engine.status().mark;
    let same = RowsPut {
        same: 5,
        ..RowsPut::default()
    };
    assert_eq!(stage.put(&lines), same);
    assert_eq!(stage.engine.status().mark, mark, "nothing was written");
    let put =
        stage.put("{\"$id\":\"r1\",\"n\":1}\n{\"$id\":\"r2\",\"n\":7}\n{\"$id\":\"x\",\"n\":8}\n");
    assert_eq!((put.created, put.changed, put.same), (1, 2, 0));

    let strict = |rows: &str| {
        let ask = PortRequest::PutRows {
            path: path(),
            may_exist: false,
        };
        stage.ask(ask, rows).unwrap_err().status
    };
    assert_eq!(
        strict("{\"$id\":\"new\",\"n\":1}\n{\"$id\":\"r1\",\"n\":1}\n"),
        StatusCode::CONFLICT
    );
    assert_eq!(
        stage.put("{\"$id\":\"new\",\"n\":1}").created,
        1,
        "all or none"
    );
    assert_eq!(strict("{\"n\":1}"), StatusCode::BAD_REQUEST);
    assert_eq!(strict("[]"), StatusCode::BAD_REQUEST);
    assert_eq!(strict("{"), StatusCode::BAD_REQUEST);
    assert_eq!(strict("{\"$id\":\"_\",\"n\":1}"), StatusCode::BAD_REQUEST);
    assert_eq!(strict("{\"$id\":\"y\",\"m\":1}"), StatusCode::BAD_REQUEST);
}

/// Earlier versions made such indexes, and rows are not to be lost for one.
#[test]
fn an_index_that_is_too_long_is_left_out_and_named() {
    let stage = Stage::new();
    let unique = |key: &str| {
        json!({
            "key": key, "type": "unique", "columns": ["s"], "orders": ["ASC"], "lengths": [255],
        })
    };
    let definition = json!({
        "id": "u", "name": "U", "columns": [{"key": "s", "type": "text"}],
        "indexes": [
            {"key": "k", "type": "key", "columns": ["s"], "orders": ["ASC"], "lengths": [255]},
            unique("one"), unique("two"),
        ],
    });
    let ask = PortRequest::PutTable {
        project: "p".to_owned(),
        database: "d".to_owned(),
        definition,
        may_exist: false,
        may_have_more: false,
    };
    let put = stage.ask(ask, "").unwrap().head;
    assert_eq!(put["created"], true);
    let left_out = [
        "u: index `one` of type unique",
        "u: index `two` of type unique",
    ];
    assert_eq!(put["leftOut"], json!(left_out));
    let ask = PortRequest::PutPart {
        path: TablePath {
            table: "u".to_owned(),
            ..path()
        },
        part: Part::Index(unique("three")),
        may_exist: true,
    };
    let put = stage.ask(ask, "").unwrap().head;
    assert_eq!(put["leftOut"], json!(["u: index `three` of type unique"]));
}
