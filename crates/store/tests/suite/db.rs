//! A store under test with what an engine would keep beside it: catalogue and next mark.

#[path = "places.rs"]
mod places;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_executor::block_on;
use model::operator::{Arithmetic, Beyond, Calculation};
use model::{
    Catalogue, Column, ColumnKind, Coordinates, Database, DatabaseId, DatabaseKind, Direction,
    Edit, Field, Grantee, Index, IndexColumn, IndexKey, IndexKind, Mark, Operator, Patch,
    Permission, ProjectId, Row, RowId, Selection, Table, TableId, TableNumber, Timestamp, Value,
};
use query::{Filter, Query, Visibility};
use store::{
    Applied, CatalogueOp, Durability, Guard, Listed, Listing, Loaded, LongReads, Op, Options,
    Outcome, Point, Refusal, RowAct, RowOp, Snapshot, Stamps, Store, StoreError, TotalCap,
    WriteBatch,
};
use testing::OwnTurn;
use testing::{plain_column, plain_table};

/// Somewhere a store can be opened, and opened again with what it held.
pub trait Place {
    /// Opens the store; what was open there before has been closed.
    fn open(&self) -> Arc<dyn Store>;
}

/// A directory of a test's own, which goes with it; where the suite runs on a database, the store
/// is there.
pub struct Directory(pub tempfile::TempDir);

impl Directory {
    pub fn new() -> Directory {
        Directory(tempfile::tempdir().unwrap())
    }

    /// The directory of the store.
    pub fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub fn open_with(&self, options: Options) -> Arc<dyn Store> {
        let place = OF_DIRECTORIES.choose(&self.data());
        testing::places::open_store(Options { place, ..options }).unwrap()
    }

    /// Runs statements past the store, which is closed; what the last one returns, in lines.
    pub fn run_sql(&self, statements: &[&str]) -> Vec<String> {
        run_sql(&self.data(), statements)
    }
}

impl Place for Directory {
    fn open(&self) -> Arc<dyn Store> {
        self.open_with(options(&self.data()))
    }
}

/// How the stores under test are opened where nothing else is said.
pub fn options(directory: &Path) -> Options {
    Options {
        place: directory.into(),
        durability: Durability::Normal,
        encode_row,
        reader_cache_bytes: 8 << 20,
        read_limit_ms: 60_000,
        long_reads: LONG_READS,
        vfs: None,
    }
}

pub use places::{OF_DIRECTORIES, run_sql};

pub const PROJECT: &str = "p1";
pub const DATABASE: &str = "d1";
/// Marks are given as an engine gives them: by a clock, here one that starts in 2026 and ticks
/// by a millisecond and a bit, so that `$updatedAt` is not the mark.
const FIRST_MARK: Mark = Mark(1_767_225_600_000_123);
const TICK_US: i64 = 1_007;

/// Every read stays on the thread of its test, where faults are counted.
pub const LONG_READS: LongReads = LongReads {
    after_us: 3_600_000_000,
    threads: 1,
    waiting_max: 1,
};

/// The encoder the stores under test are opened with. No test reads it back: bodies are compared.
pub fn encode_row(table: &Table, values: &[Value], out: &mut Vec<u8>) {
    out.extend_from_slice(table.id.as_str().as_bytes());
    for value in values {
        match value {
            // As `Debug` would show it, but for long texts much faster.
            Value::Text(text) => {
                out.extend_from_slice(b" \"");
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            other => write!(out, " {other:?}").expect("a vector takes all"),
        }
    }
}

pub struct Db {
    pub store: Arc<dyn Store>,
    pub catalogue: Catalogue,
    pub next: Mark,
}

/// The rows that a key asks for, all of them and without a total.
pub fn listing(query: &Query, catalogue_epoch: u64) -> Listing<'_> {
    Listing {
        query,
        rows: true,
        total: None,
        place: false,
        bytes_max: usize::MAX,
        catalogue_epoch,
        of_guest: false,
        shows_damaged: false,
    }
}

impl Db {
    /// Opens the place and takes over what it holds.
    pub fn open(place: &dyn Place) -> Db {
        let store = place.open();
        let loaded = block_on(store.load()).unwrap();
        let next = loaded.horizon.next().max(FIRST_MARK);
        Db {
            store,
            catalogue: loaded.catalogue,
            next,
        }
    }

    /// Opens the place and makes a project, a database and the table `notes`.
    pub fn with_notes(place: &dyn Place) -> Db {
        let mut db = Db::open(place);
        db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
        db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
        db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
            notes(),
        )))]);
        db
    }

    pub fn load(&self) -> Loaded {
        block_on(self.store.load()).unwrap()
    }

    /// A batch checked under the catalogue as this value knows it.
    pub fn batch(&self, ops: Vec<Op>) -> WriteBatch {
        WriteBatch {
            catalogue_epoch: self.catalogue.epoch,
            ops,
            author: Some("tests".to_owned()),
            unchanged_since: None,
            meta: None,
            noted_in: None,
            space: store::SpaceLimit::Any,
        }
    }

    /// Applies and commits one group, and takes over what it changed.
    #[track_caller]
    pub fn commit(&mut self, batches: &[WriteBatch]) -> Vec<Outcome> {
        self.try_commit(batches).unwrap()
    }

    /// The same; on an error nothing is taken over.
    pub fn try_commit(&mut self, batches: &[WriteBatch]) -> Result<Vec<Outcome>, StoreError> {
        let pending = block_on(self.store.apply(batches, self.next))?;
        let outcomes = testing::done(block_on(pending.commit()))?;
        self.take_over(&outcomes);
        Ok(outcomes)
    }

    /// Takes over what a commit with these outcomes has changed.
    pub fn take_over(&mut self, outcomes: &[Outcome]) {
        let mut expected = self.next;
        for applied in outcomes.iter().flatten() {
            if let Some(mark) = applied.mark {
                assert_eq!(mark, expected, "marks follow each other inside a group");
                expected = mark.next();
                self.next = Mark(mark.0 + TICK_US);
            }
            for change in &applied.catalogue {
                self.catalogue.apply(change.clone());
            }
            self.catalogue.epoch = applied.catalogue_epoch;
        }
    }

    pub fn try_ops(&mut self, ops: Vec<Op>) -> Outcome {
        let batch = self.batch(ops);
        self.commit(&[batch]).remove(0)
    }

    /// Commits operations that must succeed.
    #[track_caller]
    pub fn ok(&mut self, ops: Vec<Op>) -> Applied {
        self.try_ops(ops).unwrap()
    }

    /// Commits operations that must be refused.
    #[track_caller]
    pub fn refused(&mut self, ops: Vec<Op>) -> Refusal {
        self.try_ops(ops).unwrap_err()
    }

    /// Commits one row operation that must change something; its mark.
    #[track_caller]
    pub fn mark_of(&mut self, op: Op) -> Mark {
        self.ok(vec![op]).mark.unwrap()
    }

    /// Commits one row operation that leaves a row; that row.
    #[track_caller]
    pub fn row_of(&mut self, op: Op) -> Row {
        let mut applied = self.ok(vec![op]);
        assert_eq!(applied.rows.len(), 1);
        applied.rows.remove(0).unwrap()
    }

    pub fn database(&self) -> Arc<Database> {
        self.catalogue.project(PROJECT).unwrap().databases[DATABASE].clone()
    }

    pub fn table(&self) -> Arc<Table> {
        self.table_called("notes")
    }

    pub fn table_called(&self, id: &str) -> Arc<Table> {
        self.database().tables[id].clone()
    }

    pub fn insert(&self, id: &str, values: Vec<Value>) -> Op {
        self.insert_granted(id, values, &[])
    }

    pub fn insert_granted(&self, id: &str, values: Vec<Value>, permissions: &[&str]) -> Op {
        self.op(
            id,
            RowAct::Insert {
                values,
                permissions: grants(permissions),
                stamps: Stamps::default(),
                guard: Guard::Open,
            },
        )
    }

    pub fn update(&self, id: &str, patch: Vec<(usize, Value)>) -> Op {
        self.op(
            id,
            RowAct::Update {
                patch: patch.into(),
                permissions: None,
                stamps: Stamps::default(),
                guard: Guard::Open,
            },
        )
    }

    pub fn grant(&self, id: &str, permissions: &[&str]) -> Op {
        self.op(
            id,
            RowAct::Update {
                patch: model::Patch::default(),
                permissions: Some(grants(permissions)),
                stamps: Stamps::default(),
                guard: Guard::Open,
            },
        )
    }

    pub fn delete(&self, id: &str) -> Op {
        self.op(id, RowAct::Delete { guard: Guard::Open })
    }

    pub fn op(&self, id: &str, act: RowAct) -> Op {
        Op::Row(RowOp::now(self.table(), row_id(id), act))
    }

    pub fn get(&self, id: &str) -> Option<Row> {
        self.get_at(id, None)
    }

    /// The row at valid time = system time = `mark`.
    pub fn get_as_of(&self, id: &str, mark: Mark) -> Option<Row> {
        self.get_at(
            id,
            Some(Coordinates {
                valid: mark.timestamp(),
                system: mark,
            }),
        )
    }

    pub fn get_at(&self, id: &str, at: Option<Coordinates>) -> Option<Row> {
        self.try_get(id, at, &Visibility::Everything)
            .unwrap()
            .answer
    }

    pub fn try_get(
        &self,
        id: &str,
        at: Option<Coordinates>,
        visibility: &Visibility,
    ) -> Result<Snapshot<Option<Row>>, StoreError> {
        block_on(self.store.get(Point {
            table: &self.table(),
            id: &row_id(id),
            selection: &Selection::All,
            visibility,
            at,
            shows_span: false,
            catalogue_epoch: self.catalogue.epoch,
        }))
    }

    /// Every row of `notes` by `$sequence`, with the total.
    pub fn all(&self) -> Query {
        Query {
            table: self.table(),
            filter: Filter::All(Vec::new()),
            order: Vec::new(),
            tie: Direction::Asc,
            random: false,
            limit: 20_000,
            offset: 0,
            cursor: None,
            selection: Selection::All,
            visibility: Visibility::Everything,
            then: None,
            at: None,
            frame: query::Frame::One,
            shows_span: false,
        }
    }

    pub fn list(&self, query: &Query) -> Listed {
        self.try_list(query).unwrap().answer
    }

    pub fn try_list(&self, query: &Query) -> Result<Snapshot<Listed>, StoreError> {
        block_on(self.store.list(Listing {
            total: Some(TotalCap::None),
            ..listing(query, self.catalogue.epoch)
        }))
    }

    /// The ids of every row, by `$sequence`.
    pub fn ids(&self) -> Vec<String> {
        self.list(&self.all())
            .rows
            .iter()
            .map(|row| row.id.to_string())
            .collect()
    }

    pub fn close(self) {
        let horizon = Mark(self.next.0 - 1);
        block_on(self.store.close(horizon)).unwrap();
    }
}

/// Whether the row's content is exactly `values`.
#[track_caller]
pub fn assert_holds(row: &Row, table: &Table, values: &[Value]) {
    match &row.content {
        model::Content::Values(found) => assert_eq!(found, values),
        model::Content::Body(body) => {
            let mut expected = Vec::new();
            encode_row(table, values, &mut expected);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(text(body), text(&expected));
        }
    }
}

/// The content as it is compared between two reads of one row.
pub fn content(row: &Row, table: &Table) -> String {
    match &row.content {
        model::Content::Body(body) => String::from_utf8(body.to_vec()).unwrap(),
        model::Content::Values(values) => {
            let mut body = Vec::new();
            encode_row(table, values, &mut body);
            String::from_utf8(body).unwrap()
        }
    }
}

/// The key of the unique index over which a batch was refused.
#[track_caller]
pub fn index_of(refusal: Refusal) -> String {
    match refusal {
        Refusal::Unique {
            index: Some(index), ..
        } => index,
        other => panic!("{other:?}"),
    }
}

pub fn row_id(id: &str) -> RowId {
    RowId::new(id).unwrap()
}

pub fn grants(texts: &[&str]) -> Vec<Permission> {
    Grantee::Row.parse(texts.iter().copied()).unwrap()
}

pub fn create_project(id: &str) -> CatalogueOp {
    CatalogueOp::CreateProject {
        id: ProjectId::new(id).unwrap(),
        name: format!("Project {id}"),
    }
}

pub fn create_database(id: &str) -> CatalogueOp {
    CatalogueOp::CreateDatabase {
        project: ProjectId::new(PROJECT).unwrap(),
        id: DatabaseId::new(id).unwrap(),
        name: format!("Database {id}"),
        enabled: true,
        kind: DatabaseKind::Tablesdb,
    }
}

pub fn delete_table(id: &str) -> CatalogueOp {
    CatalogueOp::DeleteTable(
        ProjectId::new(PROJECT).unwrap(),
        DatabaseId::new(DATABASE).unwrap(),
        TableId::new(id).unwrap(),
    )
}

/// Positions of the columns of `notes`.
pub const TITLE: usize = 0;
pub const COUNT: usize = 1;
pub const PRICE: usize = 2;
pub const DONE: usize = 3;
pub const DUE: usize = 4;
pub const TAGS: usize = 5;
pub const CODE: usize = 6;

/// One value for each column of `notes`; `code` is unique, so it is made from the title.
pub fn note(title: &str) -> Vec<Value> {
    vec![
        Value::Text(title.to_owned()),
        Value::Int(7),
        Value::Float(0.1),
        Value::Bool(true),
        Value::Instant(Timestamp(1_700_000_000_123_000)),
        Value::List(vec![Value::Text("a\"b".into()), Value::Text("ü".into())]),
        Value::Text(format!("code {title}")),
    ]
}

/// A table with a column of every storage, a plain index and a unique one.
pub fn notes() -> Table {
    notes_called("notes")
}

pub fn notes_called(id: &str) -> Table {
    let columns = vec![
        column(1, "title", ColumnKind::Varchar { chars_max: 16_000 }, false),
        column(
            2,
            "count",
            ColumnKind::Bigint {
                min: i64::MIN,
                max: i64::MAX,
            },
            false,
        ),
        column(
            3,
            "price",
            ColumnKind::Float {
                min: f64::MIN,
                max: f64::MAX,
            },
            false,
        ),
        column(4, "done", ColumnKind::Boolean, false),
        column(5, "due", ColumnKind::Datetime, false),
        column(6, "tags", ColumnKind::Varchar { chars_max: 100 }, true),
        column(7, "code", ColumnKind::Varchar { chars_max: 100 }, false),
    ];
    Table {
        number: TableNumber(0),
        project: ProjectId::new(PROJECT).unwrap(),
        database: DatabaseId::new(DATABASE).unwrap(),
        name: format!("Table {id}"),
        row_security: true,
        permissions: Grantee::Table.parse(["create(\"any\")"]).unwrap(),
        indexes: vec![
            index(
                1,
                "by_count",
                IndexKind::Key,
                &[(COUNT, Direction::Desc), (TITLE, Direction::Asc)],
            ),
            index(2, "by_code", IndexKind::Unique, &[(CODE, Direction::Asc)]),
        ],
        schema_epoch: 0,
        permission_epoch: 0,
        ..plain_table(id, columns)
    }
}

pub fn column(number: u32, key: &str, kind: ColumnKind, array: bool) -> Column {
    Column {
        array,
        ..plain_column(number, key, kind)
    }
}

pub fn index(number: u32, key: &str, kind: IndexKind, parts: &[(usize, Direction)]) -> Index {
    let part = |(position, direction): &(usize, Direction)| IndexColumn {
        field: Field::Column(*position),
        direction: *direction,
        length: None,
        held: None,
    };
    Index {
        number,
        key: IndexKey::new(key).unwrap(),
        kind,
        columns: parts.iter().map(part).collect(),
        status: model::IndexStatus::Available,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

/// A patch that adds so much to the count.
pub fn adding(operand: i64) -> Patch {
    let operator = Operator::Arithmetic(Arithmetic {
        calculation: Calculation::Add,
        operand: Value::Int(operand),
        bound: None,
        beyond: Beyond::Saturate,
    });
    let mut patch = Patch::default();
    patch.put(COUNT, Edit::Operate(operator));
    patch
}
