//! Random sequences on the store itself: what it says is what the model's grid says, at every
//! point, now and for ever; also after all it knew was exported and a store made of that.
//!
//! Every sequence has a row of its own, and its own stretch of time: instants and marks of the
//! grid are counted from its beginning.

mod suite;
mod temporal_swaps;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use futures_executor::block_on;
use model::history::{Range, Until};
use model::{
    Column, ColumnKey, ColumnKind, Coordinates, Direction, Field, Grantee, Index, IndexColumn,
    IndexKey, IndexKind, IndexStatus, Mark, Patch, Period, Retention, RowId, Selection, Table,
    Timestamp, Value,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as ProptestConfig, RngAlgorithm, TestRng, TestRunner};
use query::{Filter, Frame, Query, Test, Visibility};
use store::{
    CatalogueOp, Durability, Guard, HistoryImport, HistoryMembers, Listing, Options, PeriodEnd,
    Point, Refusal, RowAct, RowAssertion, RowOp, SchemaChange, Store, StoreError, TotalCap,
    WriteBatch, inspect,
};
use suite::db::{
    DATABASE, Directory, PROJECT, column, create_database, create_project, listing, notes_called,
};
use suite::history_write::row_act;
use testing::OwnTurn;
use testing::history::{
    GridArea, HistoryDoc, HistoryEnd, HistoryGrid, HistoryOp, HistoryTransaction, HistoryWrite,
    SetColumns, instants, moved_ends, transactions,
};
use testing::places::{on_database, spawn_as_test};

/// Sequences of one database: few enough that databases share the processors, many enough that
/// none of them is alone in its tables.
const SEQUENCES_OF_WORLD: u32 = 250;
/// Databases by day, and at night: 10,000 sequences and more are asked for. `TIDEMARK_WORLDS` says
/// another number: with 6,000 they take an hour of two processors.
const WORLDS: u32 = 4;
const WORLDS_AT_NIGHT: u32 = 44;
/// Where each answer comes over a network.
const WORLDS_IN_DATABASE: u32 = 2;
/// After so many sequences something happens to the database as a whole.
const SEQUENCES_OF_CHAPTER: u32 = 25;
/// Each sequence has so much time for itself, before and after its beginning.
const STRETCH: i64 = 3_600_000_000;
/// Compared answers of a night, at least.
const COMPARED_AT_NIGHT: u64 = 1_000_000;

struct World {
    store: Arc<dyn Store>,
    directory: Directory,
    table: Arc<Table>,
    epoch: u64,
    /// How many answers were compared with what they should be.
    compared: Cell<u64>,
}

fn encode(_: &Table, values: &[Value], out: &mut Vec<u8>) {
    out.extend(format!("{values:?}").into_bytes());
}

fn open(directory: &Directory) -> Arc<dyn Store> {
    directory.open_with(options(directory.data()))
}

fn options(directory: PathBuf) -> Options {
    Options {
        place: directory.into(),
        durability: Durability::Normal,
        encode_row: encode,
        reader_cache_bytes: 8 << 20,
        read_limit_ms: 60_000,
        long_reads: suite::db::LONG_READS,
        vfs: None,
    }
}

/// Everything that a store knew, as entries.
fn entries(directory: &Path) -> Vec<(&'static str, HistoryMembers)> {
    let mut entries = Vec::new();
    let inspection = inspect(&directory.into()).unwrap().unwrap();
    let mut output = |part, members| {
        entries.push((part, members));
        Ok(())
    };
    inspection.export_history(&mut output).unwrap();
    entries
}

/// In memory, where the machine offers that: nothing here is about the disk.
fn directory() -> Directory {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    Directory(in_memory.unwrap_or_else(|_| tempfile::tempdir().unwrap()))
}

fn apply(store: &dyn Store, op: store::Op, mark: i64) {
    let batch = WriteBatch {
        catalogue_epoch: 0,
        ops: vec![op],
        author: None,
        unchanged_since: None,
        meta: None,
        noted_in: None,
        space: store::SpaceLimit::Any,
    };
    let pending = block_on(store.apply(&[batch], Mark(mark))).unwrap();
    testing::done(block_on(pending.commit()))
        .unwrap()
        .remove(0)
        .unwrap();
}

fn int_column(number: u32, key: &str) -> Column {
    let kind = ColumnKind::Bigint {
        min: i64::MIN,
        max: i64::MAX,
    };
    column(number, key, kind, false)
}

fn index_over_x() -> Index {
    Index {
        number: 1,
        key: IndexKey::new("by_x").unwrap(),
        kind: IndexKind::Key,
        columns: vec![IndexColumn {
            field: Field::Column(0),
            direction: Direction::Asc,
            length: None,
            held: None,
        }],
        status: IndexStatus::Available,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

impl World {
    fn new() -> World {
        let directory = directory();
        let store = open(&directory);
        let table = Table {
            columns: vec![int_column(1, "x"), int_column(2, "y")],
            indexes: Vec::new(),
            ..notes_called("rows")
        };
        let made = [
            create_project(PROJECT),
            create_database(DATABASE),
            CatalogueOp::CreateTable(Box::new(table)),
        ];
        for (op, mark) in made.into_iter().zip(1..) {
            apply(&*store, store::Op::Catalogue(op), mark);
        }
        let loaded = block_on(store.load()).unwrap();
        let table = loaded.catalogue.tables().next().unwrap().clone();
        World {
            store,
            directory,
            table,
            epoch: loaded.catalogue.epoch,
            compared: Cell::new(0),
        }
    }

    /// Closes the store and opens it again.
    fn restart(&mut self, vacuums: bool) {
        let mark = block_on(self.store.load()).unwrap().mark;
        block_on(self.store.close(mark)).unwrap();
        // In a database this is a part of the upkeep.
        if vacuums && !on_database() {
            self.directory.run_sql(&["VACUUM"]);
        }
        self.store = open(&self.directory);
    }

    /// Puts a store in its place that is made of all it knew. What is exported is that of a
    /// directory.
    fn moves(&mut self) {
        if on_database() {
            return self.restart(false);
        }
        let before = block_on(self.store.load()).unwrap();
        block_on(self.store.close(before.horizon)).unwrap();
        let (data, moved) = (self.directory.data(), self.directory.0.path().join("moved"));
        let known = entries(&data);
        let mut import = HistoryImport::begin(options(moved.clone())).unwrap();
        for (part, members) in &known {
            import.take(part, members.clone()).unwrap();
        }
        import.finish().unwrap();
        let again = entries(&moved);
        assert_eq!(again.len(), known.len());
        for (one, other) in again.iter().zip(&known) {
            assert_eq!(one, other);
        }
        fs::remove_dir_all(&data).unwrap();
        fs::rename(&moved, &data).unwrap();
        self.store = open(&self.directory);
        let after = block_on(self.store.load()).unwrap();
        assert_eq!(after.mark, before.mark);
        assert!(after.horizon >= before.horizon);
        assert_ne!(after.lineage, before.lineage);
        self.table = after.catalogue.tables().next().unwrap().clone();
        self.epoch = after.catalogue.epoch;
    }

    /// Changes the columns and indexes of the table, at a mark that no sequence uses.
    fn change_schema(&mut self, change: SchemaChange, mark: i64) {
        let table = Arc::clone(&self.table);
        self.change(CatalogueOp::ChangeSchema { table, change }, mark);
    }

    fn change(&mut self, op: CatalogueOp, mark: i64) {
        apply(&*self.store, store::Op::Catalogue(op), mark);
        let loaded = block_on(self.store.load()).unwrap();
        self.table = loaded.catalogue.tables().next().unwrap().clone();
        self.epoch = loaded.catalogue.epoch;
    }

    /// Gives the second column its other name.
    fn rename(&mut self, mark: i64) {
        let column = &self.table.columns[1];
        let key = match column.key.as_str() {
            "y" => "renamed",
            _ => "y",
        };
        let renamed = Column {
            key: ColumnKey::new(key).unwrap(),
            ..column.clone()
        };
        self.change_schema(SchemaChange::UpdateColumn(renamed), mark);
    }

    /// Forgets what is older; the line.
    fn keep(&mut self, history: Retention, mark: i64) -> i64 {
        let op = CatalogueOp::SetOptions {
            number: self.table.number,
            pinned_max_age_s: None,
            history: Some(history),
            past: None,
            ttl_max_s: None,
        };
        self.change(op, mark);
        self.table.options.kept_from.0
    }

    /// What happens to the database between two sequences, in turn; `mark` is the first of two
    /// that none of them uses.
    fn turn(&mut self, chapter: u32, mark: i64) {
        match chapter % 6 {
            0 => self.restart(false),
            1 => {
                self.change_schema(SchemaChange::AddColumn(int_column(3, "z")), mark);
                self.change_schema(SchemaChange::AddIndex(index_over_x()), mark + 1);
            }
            2 => {
                self.rename(mark);
                while block_on(self.store.run_upkeep()).unwrap() {}
            }
            3 => self.restart(true),
            4 => {
                let index = self.table.indexes[0].number;
                self.change_schema(SchemaChange::DropIndex(index), mark);
                let column = self.table.columns[2].number;
                self.change_schema(SchemaChange::DropColumn(column), mark + 1);
            }
            _ => {
                while block_on(self.store.run_upkeep()).unwrap() {}
                self.moves();
            }
        }
    }

    fn transact(&self, row: &Row, mark: i64, ops: Vec<store::Op>) -> Result<(), &'static str> {
        let count = ops.len();
        let batch = WriteBatch {
            catalogue_epoch: self.epoch,
            ops,
            author: None,
            unchanged_since: None,
            meta: None,
            noted_in: Some(0),
            space: store::SpaceLimit::Any,
        };
        let pending = block_on(self.store.apply(&[batch], Mark(row.since + mark))).unwrap();
        // What was refused takes no mark, and what became due at it is not due.
        let outcome = pending.outcomes()[0].clone();
        let cause = |refusal| match refusal {
            Refusal::Of { nth, refusal } if nth < count => *refusal,
            other => panic!("no operation was named: {other:?}"),
        };
        match outcome.map_err(cause) {
            Ok(applied) => {
                assert_eq!(applied.mark, Some(Mark(row.since + mark)));
                testing::done(block_on(pending.commit())).unwrap();
                Ok(())
            }
            Err(Refusal::RowExists(_)) => Err("exists"),
            Err(Refusal::RowNotFound(_)) => Err("row_not_found"),
            Err(Refusal::AssertFailed(_)) => Err("assert_failed"),
            Err(Refusal::Invalid(model::ModelError::EmptyPeriod { .. })) => Err("invalid_range"),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn timed(&self, row: &Row, op: HistoryOp) -> store::Op {
        let at = |at: Option<i64>| at.map(|at| Timestamp(row.since + at));
        let (range, act) = match op {
            HistoryOp::Write(kind, range, set) => (row.range(range), self.act(kind, set)),
            HistoryOp::Erase => (Range::default(), RowAct::Erase),
            HistoryOp::Exists { expected, at: when } => {
                let claim = RowAssertion::Exists(expected, at(when));
                (Range::default(), RowAct::Assert(claim))
            }
            HistoryOp::HasX { x, at: when } => {
                let claim = RowAssertion::Equals(vec![(0, int(x))], at(when));
                (Range::default(), RowAct::Assert(claim))
            }
            HistoryOp::UnchangedSince(since) => {
                let claim = RowAssertion::UnchangedSince(Mark(row.since + since));
                (Range::default(), RowAct::Assert(claim))
            }
        };
        let is_literal = !matches!(op, HistoryOp::Write(HistoryWrite::UpdateWhereDifferent, ..));
        store::Op::Row(RowOp {
            is_literal,
            ..RowOp::over(Arc::clone(&self.table), row.id.clone(), range, act)
        })
    }

    fn resize(&self, row: &Row, end: HistoryEnd) -> store::Op {
        let edge = match end {
            HistoryEnd::From(at) => PeriodEnd::From(row.instant(at)),
            HistoryEnd::Until(until) => PeriodEnd::Until(row.until(until)),
        };
        let act = RowAct::Resize {
            edge,
            permissions: None,
            guard: Guard::Open,
            deletion_guard: Guard::Open,
        };
        let (table, id) = (Arc::clone(&self.table), row.id.clone());
        store::Op::Row(RowOp::over(table, id, Range::default(), act))
    }

    fn act(&self, kind: HistoryWrite, set: SetColumns) -> RowAct {
        let whole = set.merged(HistoryDoc::default());
        let mut values = vec![int(whole.x), int(whole.y)];
        values.resize(self.table.columns.len(), Value::Null);
        let set = [(0, set.x), (1, set.y)].into_iter();
        let set = set.filter_map(|(at, value)| Some((at, int(value?))));
        let patch = Patch::from(set.collect::<Vec<_>>());
        let inserted = Grantee::Row.parse(["read(\"any\")"]).unwrap();
        row_act(kind, values, patch, inserted)
    }

    /// What a list of this row alone gives, with where each version stands.
    fn list(&self, row: &Row, at: Option<Coordinates>, frame: Frame) -> Vec<GridArea> {
        let query = Query {
            table: Arc::clone(&self.table),
            filter: Filter::Field(Field::Id, Test::In(vec![Value::Text(row.id.to_string())])),
            order: Vec::new(),
            tie: Direction::Asc,
            random: false,
            limit: 1_000,
            offset: 0,
            cursor: None,
            selection: Selection::All,
            visibility: Visibility::Everything,
            then: None,
            at,
            frame,
            shows_span: true,
        };
        let listing = Listing {
            total: Some(TotalCap::None),
            ..listing(&query, self.epoch)
        };
        let listed = block_on(self.store.list(listing)).unwrap().answer;
        assert_eq!(listed.total, listed.rows.len() as u64);
        let area = |found: &model::Row| {
            let span = found.span.as_ref().unwrap();
            let from = span.valid.from();
            let valid = (
                if from == Timestamp::BOT {
                    i64::MIN
                } else {
                    from.0 - row.since
                },
                span.valid.to().map(|to| to.0 - row.since),
            );
            let system_to = span.system_to.map(|to| to.0 - row.since);
            let (system_from, origin) = (span.system_from.0 - row.since, span.origin.0 - row.since);
            (valid, system_from, system_to, origin, doc_of(found))
        };
        listed.rows.iter().map(area).collect()
    }

    fn compared(&self, answers: usize) {
        self.compared.set(self.compared.get() + answers as u64);
    }

    /// Pieces and rectangles at one mark.
    fn check_lists(&self, row: &Row, grid: &HistoryGrid, mark: i64) {
        let at = Some(row.at(0, mark));
        let mut pieces = grid.along_valid(mark);
        let seen = |area: GridArea| (area.0, area.1, area.3, area.4);
        let listed = self.list(row, at, Frame::Pieces(Period::ALWAYS));
        let listed: Vec<_> = listed.into_iter().map(seen).collect();
        assert_eq!(listed, pieces, "{mark}");
        let during = Period::new(row.instant(2), Some(row.instant(5))).unwrap();
        pieces.retain(|((from, to), ..)| *from < 5 && to.is_none_or(|to| to > 2));
        let listed = self.list(row, at, Frame::Pieces(during));
        assert_eq!(listed.into_iter().map(seen).collect::<Vec<_>>(), pieces);
        let mut areas = grid.rectangles(mark);
        areas.sort_by_key(|area| (area.0.0, area.1));
        let listed = self.list(row, at, Frame::Versions(Period::ALWAYS));
        assert_eq!(listed, areas, "{mark}");
        for valid in instants() {
            let point = self.list(row, Some(row.at(valid, mark)), Frame::One);
            let point = point.into_iter().next().map(seen);
            assert_eq!(point, grid.at(valid, mark), "{valid} {mark}");
        }
        self.compared(instants().len() + 3);
    }

    fn read(&self, row: &Row, at: Option<Coordinates>) -> Option<HistoryDoc> {
        self.try_read(row, at).unwrap()
    }

    fn try_read(
        &self,
        row: &Row,
        at: Option<Coordinates>,
    ) -> Result<Option<HistoryDoc>, StoreError> {
        let point = Point {
            table: &self.table,
            id: &row.id,
            selection: &Selection::All,
            visibility: &Visibility::Everything,
            at,
            shows_span: false,
            catalogue_epoch: self.epoch,
        };
        let found = block_on(self.store.get(point))?.answer;
        Ok(found.as_ref().map(doc_of))
    }

    /// Everything at one mark.
    fn ask(&self, row: &Row, mark: i64) -> Vec<Option<HistoryDoc>> {
        let at = |valid: i64| row.at(valid, mark);
        let points = instants().into_iter();
        points
            .map(|valid| self.read(row, Some(at(valid))))
            .collect()
    }

    /// Activates what is due.
    fn pass(&self, row: &Row, instant: i64) {
        let pending = block_on(self.store.activate_due(row.instant(instant))).unwrap();
        testing::done(block_on(pending.commit())).unwrap();
    }
}

/// The row of one sequence.
struct Row {
    id: RowId,
    since: i64,
}

fn doc_of(found: &model::Row) -> HistoryDoc {
    let model::Content::Body(body) = &found.content else {
        panic!("a small row has a body");
    };
    let text = String::from_utf8(body.to_vec()).unwrap();
    let numbers: Vec<u8> = text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let [x, y] = numbers[..] else {
        panic!("{text}");
    };
    HistoryDoc { x, y }
}

impl Row {
    fn at(&self, valid: i64, mark: i64) -> Coordinates {
        Coordinates {
            valid: self.instant(valid),
            system: Mark(self.since + mark),
        }
    }

    fn instant(&self, at: i64) -> Timestamp {
        match at {
            i64::MIN => Timestamp::BOT,
            at => Timestamp(self.since + at),
        }
    }

    fn range(&self, range: Range) -> Range {
        Range {
            from: range.from.map(|from| self.instant(from.0)),
            until: self.until(range.until),
        }
    }

    fn until(&self, until: Until) -> Until {
        match until {
            Until::At(at) => Until::At(self.instant(at.0)),
            other => other,
        }
    }
}

fn int(value: u8) -> Value {
    Value::Int(i64::from(value))
}

fn doc(grid: &HistoryGrid, valid: i64, mark: i64) -> Option<HistoryDoc> {
    grid.at(valid, mark).map(|(_, _, _, doc)| doc)
}

/// An update that finds no piece in its range is refused where it is not literal.
fn is_bare(transaction: &HistoryTransaction) -> bool {
    let is_update =
        |op: &HistoryOp| matches!(op, HistoryOp::Write(HistoryWrite::UpdateWhereDifferent, ..));
    transaction.ops.iter().any(is_update)
}

/// All that was answered about one row, to be read again: at each mark, at every instant.
type Log = Vec<(i64, Vec<Option<HistoryDoc>>)>;

/// A sequence, and which of its transactions move an end instead.
type Sequence = (Vec<HistoryTransaction>, Vec<Option<HistoryEnd>>);

fn play(world: &World, row: &Row, (sequence, ends): &Sequence) -> Log {
    let (mut grid, mut horizon) = (HistoryGrid::default(), 0);
    let mut log = Log::new();
    let transactions = sequence.iter().zip(ends);
    for (transaction, end) in transactions.filter(|(transaction, _)| !is_bare(transaction)) {
        let mark = horizon + transaction.ahead;
        let (ops, meant) = match end {
            None => {
                let ops = transaction.ops.iter().map(|op| world.timed(row, *op));
                (ops.collect(), Ok(transaction.ops.clone()))
            }
            Some(end) => (vec![world.resize(row, *end)], grid.moved_end(mark, *end)),
        };
        let done = world.transact(row, mark, ops);
        let expected = meant.clone().and_then(|ops| grid.transact(mark, &ops));
        assert_eq!(done, expected, "{end:?} {sequence:?}");
        world.compared(1);
        if done.is_ok() {
            horizon = mark;
            if meant
                .iter()
                .flatten()
                .any(|op| matches!(op, HistoryOp::Erase))
            {
                // The one thing that takes answers back.
                log.clear();
            }
            let now = doc(&grid, mark, i64::MAX);
            assert_eq!(world.read(row, None), now, "now, {end:?} {sequence:?}");
            world.compared(1);
        }
        log.push((horizon, world.ask(row, horizon)));
    }
    for mark in grid.marks() {
        let expected: Vec<_> = instants()
            .into_iter()
            .map(|at| doc(&grid, at, mark))
            .collect();
        assert_eq!(world.ask(row, mark), expected, "{mark} {sequence:?}");
        world.compared(expected.len());
        world.check_lists(row, &grid, mark);
    }
    let last = *instants().last().unwrap();
    for instant in horizon + 1..=last {
        let now = doc(&grid, instant, i64::MAX);
        // Before what is due is activated, and after.
        let due = world.list(row, None, Frame::Due(row.instant(instant)));
        assert_eq!(
            due.first().map(|area| area.4),
            now,
            "{instant} {sequence:?}"
        );
        world.pass(row, instant);
        assert_eq!(world.read(row, None), now, "at {instant}, {sequence:?}");
        world.compared(2);
    }
    log
}

/// Asks everything again: what lies below the line is gone, and the rest is as it was.
fn ask_again(world: &World, answered: &[(Row, Log)], line: i64) -> u64 {
    let mut gone = 0;
    for (row, log) in answered {
        for (mark, answers) in log {
            for (valid, answer) in instants().into_iter().zip(answers) {
                let at = row.at(valid, *mark);
                let name = || format!("{} at {valid}, {mark}; line {line}", row.id);
                let told = world.try_read(row, Some(at));
                if at.valid.0 < line || at.system.0 < line {
                    let is_gone = matches!(told, Err(StoreError::HistoryGone { .. }));
                    assert!(is_gone, "{told:?} {}", name());
                    gone += 1;
                } else {
                    assert_eq!(told.unwrap(), *answer, "{}", name());
                }
            }
            world.compared(answers.len());
        }
    }
    gone
}

/// Moves the line twice: it falls within what was answered, and answers come from above it,
/// whether what lies below has gone yet or not.
fn forget(world: &mut World, answered: &[(Row, Log)]) {
    let end = STRETCH * i64::from(SEQUENCES_OF_WORLD + 1);
    let mut gone = ask_again(world, answered, i64::MIN);
    for (days, mark) in [(6, end), (2, end + 1)] {
        let line = world.keep(Retention::Days(days), mark);
        let now_gone = ask_again(world, answered, line);
        assert!(now_gone > gone, "the line rises");
        gone = now_gone;
        while block_on(world.store.run_upkeep()).unwrap() {}
        assert_eq!(ask_again(world, answered, line), gone);
    }
}

/// Plays sequences in one database, which is closed, vacuumed, tended and given other columns and
/// indexes meanwhile; then repeats every read, and once more while its past
/// is forgotten. How many answers were compared.
fn play_world(world_number: u32) -> u64 {
    let mut world = World::new();
    let seed = [world_number.to_le_bytes(); 8].concat();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let strategy = (transactions(), moved_ends());
    let mut answered: Vec<(Row, Log)> = Vec::new();
    for number in 0..SEQUENCES_OF_WORLD {
        let row = Row {
            id: RowId::new(&format!("r{number}")).unwrap(),
            since: STRETCH * i64::from(number + 1),
        };
        if number % SEQUENCES_OF_CHAPTER == 0 {
            // The end of the stretch before.
            world.turn(number / SEQUENCES_OF_CHAPTER, row.since - STRETCH / 4);
        }
        let sequence = strategy.new_tree(&mut runner).unwrap().current();
        let log = play(&world, &row, &sequence);
        answered.push((row, log));
    }
    world.restart(true);
    world.moves();
    forget(&mut world, &answered);
    world.compared.get()
}

#[test]
fn the_store_says_what_was_believed_at_every_point() {
    let asked = std::env::var("TIDEMARK_WORLDS");
    let asked = asked.map(|count| count.parse().expect("TIDEMARK_WORLDS is a number"));
    let is_night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let worlds = asked.unwrap_or(match (on_database(), is_night) {
        (true, _) => WORLDS_IN_DATABASE,
        (false, true) => WORLDS_AT_NIGHT,
        (false, false) => WORLDS,
    });
    let (next, compared) = (AtomicU32::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            spawn_as_test(scope, || {
                loop {
                    let world = next.fetch_add(1, Ordering::Relaxed);
                    if world >= worlds {
                        break;
                    }
                    compared.fetch_add(play_world(world), Ordering::Relaxed);
                }
            });
        }
    });
    let compared = compared.into_inner();
    println!("{compared} answers compared, in {worlds} databases");
    assert!(compared > 10_000 * u64::from(worlds));
    assert!(!is_night || worlds < WORLDS_AT_NIGHT || compared >= COMPARED_AT_NIGHT);
}
