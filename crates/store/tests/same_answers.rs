//! Reads from a database against those from the directory that it was copied from: the same to the
//! byte, and what the oracle says. 500 queries by day, 10,000 at night.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;
#[path = "reads/drawn.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store, too")]
mod drawn;
#[path = "reads/oracle.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store, too")]
mod oracle;
#[path = "reads/world.rs"]
#[allow(dead_code, reason = "written for the lists of the embedded store, too")]
mod world;

use std::sync::Arc;

use drawn::{Asked, random_asked};
use futures_executor::block_on;
use model::history::{Range, Until};
use model::permission::Role;
use model::{Coordinates, Field, Mark, Period, RoleSet, Selection, Table, Timestamp, Value};
use oracle::Known;
use query::{Filter, Frame, Pattern, Query, Search, Test, Then, Visibility, predicate};
use store::{
    BoundaryOf, DatabaseReads, DatabaseUrl, Guard, Listed, Listing, Op, Options, Point, Recorded,
    RecordsOf, RowAct, RowOp, Snapshot, Stamps, Store, StoreConstraints, StoreCopy, StoreError,
    StorePlace, StoreReads, TotalCap,
};
use testing_postgres::Cluster;
use world::{Chance, World, domain};

/// The column `name` of products.
const NAME: Field = Field::Column(1);
/// In microseconds.
const DAY: i64 = 86_400_000_000;

/// How many lists are compared in all.
fn lists_max() -> usize {
    match std::env::var("TIDEMARK_LANE").as_deref() {
        Ok("night") => 10_000,
        _ => 500,
    }
}

/// A world in a directory and, the same, in a schema of a database.
struct Copied {
    world: World,
    reads: DatabaseReads,
    epoch: u64,
    cluster: Arc<Cluster>,
    database: String,
}

impl Copied {
    fn new(world: World, database: &str) -> Copied {
        let World {
            db,
            tables,
            stages,
            directory,
        } = world;
        db.close();
        let cluster = Cluster::shared().unwrap();
        let make = format!("CREATE DATABASE {database}");
        cluster.run_sql("postgres", &[&make]).unwrap();
        let url = DatabaseUrl::parse(&cluster.url(database)).unwrap();
        let data = directory.0.path().join("data");
        let copy = StoreCopy::make(&data, (&url, None), &mut |_| {}).unwrap();
        copy.release().unwrap().close();
        let keys = directory.0.path().join("data");
        let reads = DatabaseReads::open(&options(&url), None, &keys).unwrap();
        let db = db::Db::open(&directory);
        Copied {
            epoch: db.catalogue.epoch,
            world: World {
                db,
                tables,
                stages,
                directory,
            },
            reads,
            cluster,
            database: database.to_owned(),
        }
    }

    fn directory(&self) -> &dyn Store {
        &*self.world.db.store
    }

    fn lists(&self, listing: Listing<'_>) -> [Result<Answered, StoreError>; 2] {
        let answered = |answer: Result<Snapshot<Listed>, StoreError>| {
            let Snapshot { answer, mark } = answer?;
            Ok((answer.rows, answer.total, answer.last_place, mark))
        };
        [
            answered(block_on(self.directory().list(listing))),
            answered(block_on(self.reads.list(listing))),
        ]
    }

    /// Both, which are the same.
    #[track_caller]
    fn list(&self, listing: Listing<'_>) -> Result<Answered, StoreError> {
        let [of_directory, of_database] = self.lists(listing);
        assert_eq!(of_database, of_directory, "{:#?}", listing.query);
        of_directory
    }

    fn points(&self, point: Point<'_>) -> [Result<(Option<model::Row>, Mark), StoreError>; 2] {
        let answered = |answer: Result<Snapshot<Option<model::Row>>, StoreError>| {
            answer.map(|snapshot| (snapshot.answer, snapshot.mark))
        };
        [
            answered(block_on(self.directory().get(point))),
            answered(block_on(self.reads.get(point))),
        ]
    }

    fn sql(&self, statement: &str) -> String {
        self.cluster.run_sql(&self.database, &[statement]).unwrap()
    }
}

/// Rows, total, the place of the last one, and the mark of the snapshot.
type Answered = (Vec<model::Row>, u64, Option<Vec<Value>>, Mark);

/// Lets each read of a table sleep for an hour.
fn put_to_sleep(copied: &Copied, table: &Table) {
    let now = query::names::now(table.number);
    copied.sql(&format!("ALTER TABLE {now} RENAME TO {now}_rows"));
    copied.sql(&format!(
        "CREATE VIEW {now} AS SELECT r.* FROM pg_sleep(3600) AS s, {now}_rows AS r"
    ));
}

fn sleepers(copied: &Copied) -> String {
    copied.sql(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE wait_event = 'PgSleep' AND datname = current_database()",
    )
}

fn options(url: &DatabaseUrl) -> Options {
    Options {
        place: StorePlace::from(url.clone()),
        ..db::options(std::path::Path::new("unused"))
    }
}

/// A test that a database does not decide alone.
fn random_words(chance: &mut Chance) -> Test {
    let search = |text: &str| Search::parse(text).unwrap();
    let pattern = |text: &str| Test::Matches(Pattern::parse(text).unwrap());
    let words = [
        "fox",
        "red fox",
        "\"red fox\"",
        "\"fox red\"",
        "ab",
        "É",
        "it s",
        "",
        "fo",
    ];
    let patterns = [
        "^a", "b+$", "(?i)FOX", r"^.$", r"\bred\b", "[éx]", r"\p{L}e", "fox.red", "b{699}",
        "a_|%$", r"^$",
    ];
    match chance.below(4) {
        0 => Test::Finds(search(chance.pick::<&str>(&words))),
        1 => Test::FindsNot(search(chance.pick::<&str>(&words))),
        _ => pattern(chance.pick::<&str>(&patterns)),
    }
}

/// The query as drawn, sometimes with such a test, beside the rest or as an alternative to it.
fn with_words(chance: &mut Chance, query: Query) -> Query {
    if chance.below(3) > 0 {
        return query;
    }
    let test = Filter::Field(NAME, random_words(chance));
    let filter = match chance.below(3) {
        0 => Filter::Any(vec![query.filter, test]),
        _ => Filter::All(vec![query.filter, test]),
    };
    Query { filter, ..query }
}

/// One table at one time.
struct TableThen<'a> {
    table: &'a Arc<Table>,
    rows: &'a [Known],
    at: Option<Coordinates>,
}

fn views(world: &World) -> Vec<TableThen<'_>> {
    let mut views = Vec::new();
    let now = std::iter::once((world.now(), None));
    let then = world.stages.iter();
    let then = then.map(|stage| (stage, Some(stage.coordinates())));
    for (stage, at) in now.chain(then) {
        for (table, rows) in world.tables.iter().zip(&stage.rows) {
            views.push(TableThen { table, rows, at });
        }
    }
    views
}

/// What the oracle says, or, of tests that it does not know, the predicate.
fn expected<'a>(asked: &Asked, query: &Query, view: &TableThen<'a>) -> Vec<&'a Known> {
    if !query.has_patterns() && !query.has_searches() {
        return asked.expected(view.table, view.rows);
    }
    let unfiltered = Asked {
        filters: Vec::new(),
        order: asked.order.clone(),
        selected: None,
        roles: asked.roles.clone(),
        limit: asked.limit,
    };
    let all = unfiltered.expected(view.table, view.rows).into_iter();
    let fits = |row: &&Known| predicate::satisfies(&query.filter, &|field| row.field(field));
    all.filter(fits).collect()
}

fn placed<'q>(copied: &Copied, query: &'q Query, total: TotalCap) -> Listing<'q> {
    Listing {
        total: Some(total),
        place: true,
        ..db::listing(query, copied.epoch)
    }
}

/// Pages on all sides of one list, with its total; how many lists were compared.
fn check(copied: &Copied, chance: &mut Chance, view: &TableThen<'_>) -> usize {
    let asked = random_asked(chance, view.rows, view.table);
    let words = chance.below(1 << 30) as u64;
    let query = |further: &[String]| {
        let query = asked.query(view.table, view.at, further);
        // The same test for each of the pages.
        with_words(&mut Chance::new(words), query)
    };
    let first = query(&[]);
    let (rows, total, ..) = copied.list(placed(copied, &first, TotalCap::None)).unwrap();
    let wanted = expected(&asked, &first, view);
    let page = wanted.iter().take(asked.limit);
    let page: Vec<&str> = page.map(|row| row.id.as_str()).collect();
    let found: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(found, page, "{first:#?}");
    assert_eq!(total, wanted.len() as u64, "{first:#?}");
    let offset = chance.below(1 + wanted.len());
    let mut further = vec![format!(r#"{{"method":"offset","values":[{offset}]}}"#)];
    if !view.rows.is_empty() {
        let id = &chance.pick(view.rows).id;
        let cursor = |method| format!(r#"{{"method":"{method}","values":["{id}"]}}"#);
        further.extend(["cursorAfter", "cursorBefore"].map(cursor));
    }
    for text in &further {
        let query = query(std::slice::from_ref(text));
        drop(copied.list(placed(copied, &query, TotalCap::UpTo(5))));
    }
    1 + further.len()
}

#[test]
fn lists_are_those_of_the_directory_and_of_the_oracle() {
    let copied = Copied::new(World::new(3, 120), "lists");
    let (mut chance, mut count) = (Chance::new(303), 0);
    let views = views(&copied.world);
    while count < lists_max() {
        for view in &views {
            count += check(&copied, &mut chance, view);
        }
    }
    // Bodies of an older schema are encoded again; a total goes with them on the same snapshot.
    for table in &copied.world.tables {
        let now = query::names::now(table.number);
        let older = format!("UPDATE {now} SET body_epoch = body_epoch - 1 WHERE seq % 2 = 0");
        copied.sql(&older);
    }
    for view in &views[..2] {
        for _ in 0..10 {
            check(&copied, &mut chance, view);
        }
    }
}

/// Rows over valid time, some of which are due later; grants that change; and rows that are erased.
fn write_over_time(world: &mut World, chance: &mut Chance) {
    let now = world.now().mark.0;
    for nth in 0..60 {
        let table = chance.pick(&world.tables).clone();
        let id = db::row_id(&format!("r{}", chance.below(90)));
        let from = now + (chance.below(40) as i64 - 20) * DAY;
        let until = match chance.below(3) {
            0 => Until::Open,
            _ => Until::At(Timestamp(from + (1 + chance.below(9) as i64) * DAY)),
        };
        let range = Range {
            from: Some(Timestamp(from)),
            until,
        };
        let value = |key: &str, chance: &mut Chance| chance.pick(&domain(key)).clone();
        let mut values = vec![Value::Null; table.columns.len()];
        values[1] = value("name", chance);
        values[3] = value("stock", chance);
        let role = *chance.pick(&world::ROLES);
        let permissions = db::grants(&[&format!("read(\"{role}\")")]);
        let put = RowAct::Put {
            patch: vec![(3, values[3].clone())].into(),
            insert: Ok(values),
            permissions: (nth % 4 == 0).then(|| permissions.clone()),
            insert_permissions: permissions,
            stamps: Stamps::default(),
            guard: Guard::Open,
        };
        let op = match nth % 10 {
            7 => RowOp::now(table, id, RowAct::Erase),
            8 => RowOp::over(table, id, range, RowAct::Delete { guard: Guard::Open }),
            _ => RowOp::over(table, id, range, put),
        };
        // Some meet no row.
        drop(world.db.try_ops(vec![Op::Row(op)]));
    }
}

/// A query that looks at all of time in one of its ways.
fn random_frame(chance: &mut Chance, query: Query, latest: Mark) -> Query {
    let day = |chance: &mut Chance| latest.0 + (chance.below(60) as i64 - 30) * DAY;
    let at = Coordinates {
        valid: Timestamp(day(chance)),
        system: Mark(latest.0 - chance.below(400) as i64 * 1_000),
    };
    let from = Timestamp(day(chance));
    let to = (chance.below(2) == 0).then(|| Timestamp(from.0 + 5 * DAY));
    let valid = Period::new(from, to).unwrap();
    let since = Timestamp(latest.0 - chance.below(200) as i64 * 1_000);
    let (frame, at) = match chance.below(5) {
        0 => (Frame::One, Some(at)),
        1 => (Frame::Due(Timestamp(day(chance))), None),
        2 => (Frame::Pieces(valid), Some(at)),
        3 => (Frame::Versions(valid), Some(at)),
        _ => {
            let system = Period::new(since, None).unwrap();
            (Frame::Changes(valid, system), Some(at))
        }
    };
    let roles = Arc::new(RoleSet::new(vec![Role::parse("any").unwrap()]));
    let then = (at.is_some() && chance.below(4) == 0).then(|| Then {
        visibility: Visibility::Granted(roles),
        mark: Mark(since.0),
        is_there_now: chance.below(2) == 0,
    });
    Query {
        frame,
        at,
        then,
        shows_span: frame.is_wide() || query.names_span() || chance.below(3) == 0,
        ..query
    }
}

#[test]
fn lists_over_time_are_those_of_the_directory() {
    let mut world = World::new(4, 80);
    let mut chance = Chance::new(404);
    write_over_time(&mut world, &mut chance);
    let latest = world.db.load().mark;
    let copied = Copied::new(world, "over_time");
    let (mut shown, mut refused) = (0, 0);
    for _ in 0..lists_max() {
        let table = chance.pick(&copied.world.tables);
        let rows = &copied.world.now().rows[0];
        let asked = random_asked(&mut chance, rows, table);
        let mut further = Vec::new();
        if chance.below(3) == 0 {
            let method = chance.pick(&["cursorAfter", "cursorBefore"]);
            let id = format!("r{}", chance.below(90));
            further.push(format!(r#"{{"method":"{method}","values":["{id}"]}}"#));
        }
        let query = with_words(&mut chance, asked.query(table, None, &further));
        let query = random_frame(&mut chance, query, latest);
        let listing = Listing {
            total: Some(TotalCap::UpTo(30)),
            // Of versions no place is known.
            place: !query.frame.is_wide() && chance.below(2) == 0,
            ..db::listing(&query, copied.epoch)
        };
        match copied.list(listing) {
            Ok((rows, ..)) => shown += rows.len(),
            Err(_) => refused += 1,
        }
    }
    assert!(shown > lists_max() && refused > 0, "{shown} {refused}");
}

#[test]
fn points_are_those_of_the_directory() {
    let mut world = World::new(5, 60);
    let mut chance = Chance::new(505);
    write_over_time(&mut world, &mut chance);
    let latest = world.db.load().mark;
    let copied = Copied::new(world, "points");
    let some = Selection::Some {
        columns: vec![3, 6, 1],
        fields: Vec::new(),
        permissions: false,
    };
    let roles = Arc::new(RoleSet::new(vec![Role::parse("any").unwrap()]));
    let selections = [Selection::All, some];
    let visibilities = [Visibility::Everything, Visibility::Granted(roles)];
    let mut shown = 0;
    for _ in 0..lists_max() {
        let table = chance.pick(&copied.world.tables);
        let day = |chance: &mut Chance| latest.0 + (chance.below(60) as i64 - 30) * DAY;
        let at = (chance.below(3) > 0).then(|| Coordinates {
            valid: Timestamp(day(&mut chance)),
            system: Mark(latest.0 - chance.below(400) as i64 * 1_000),
        });
        let point = Point {
            table,
            id: &db::row_id(&format!("r{}", chance.below(95))),
            selection: chance.pick(&selections),
            visibility: chance.pick(&visibilities),
            at,
            shows_span: at.is_some() && chance.below(2) == 0,
            catalogue_epoch: copied.epoch,
        };
        let [of_directory, of_database] = copied.points(point);
        assert_eq!(of_database, of_directory, "{point:?}");
        shown += usize::from(of_directory.is_ok_and(|(row, _)| row.is_some()));
    }
    assert!(shown > lists_max() / 10, "{shown}");
}

#[test]
fn records_and_boundaries_are_those_of_the_directory() {
    let mut world = World::new(6, 60);
    let mut chance = Chance::new(606);
    write_over_time(&mut world, &mut chance);
    let latest = world.db.load().mark;
    let copied = Copied::new(world, "known");
    let numbers = [1, 2].map(|position: usize| copied.world.tables[position - 1].number);
    for nth in 0..200 {
        let table = chance.pick(&copied.world.tables);
        let at = Coordinates {
            valid: Timestamp(latest.0 + (chance.below(60) as i64 - 30) * DAY),
            system: Mark(latest.0 - (chance.below(3) * chance.below(400)) as i64 * 1_000),
        };
        let id = db::row_id(&format!("r{}", chance.below(95)));
        let of_row = |store: &dyn StoreReads| {
            let request = BoundaryOf {
                table,
                id: (nth % 2 == 0).then_some(&id),
                at,
                catalogue_epoch: copied.epoch,
            };
            block_on(store.next_boundary(request))
        };
        let found = (of_row(&copied.reads), of_row(copied.directory()));
        assert_eq!(found.0, found.1, "{at:?} {id}");
        let then = |store: &dyn StoreReads| block_on(store.table_as_of(table, at.system));
        assert_eq!(then(&copied.reads), then(copied.directory()), "{at:?}");
    }
    let erased = |store: &dyn StoreReads| block_on(store.last_erasure(&numbers)).unwrap();
    assert!(erased(copied.directory()).is_some());
    assert_eq!(erased(&copied.reads), erased(copied.directory()));
    let database = copied.world.db.database().seq;
    for (limit, changed) in [
        (1_000, None),
        (7, None),
        (1_000, Some((numbers[1], None))),
        (1_000, Some((numbers[0], Some(db::row_id("r3"))))),
    ] {
        let request = || RecordsOf {
            after: Mark::ZERO,
            upto: latest,
            limit,
            database,
            tables: numbers.to_vec(),
            changed: changed.clone(),
            filter: (limit == 7).then(|| -> Arc<store::RecordFilter> {
                Arc::new(|author, _| author == Some("tests"))
            }),
        };
        let records = |store: &dyn StoreReads| block_on(store.recorded(request())).unwrap();
        let sorted = |mut records: Vec<Recorded>| {
            for record in &mut records {
                record.rows.sort();
            }
            records
        };
        let found = sorted(records(&copied.reads));
        assert!(!found.is_empty(), "{limit}");
        assert_eq!(found, sorted(records(copied.directory())));
    }
    let constraints = |table| block_on(copied.reads.constraints(table));
    let of_directory = |table| block_on(copied.directory().constraints(table));
    let referring = block_on(copied.reads.referring(numbers[0]));
    assert_eq!(constraints(numbers[0]), of_directory(numbers[0]));
    assert_eq!(
        referring,
        block_on(copied.directory().referring(numbers[0]))
    );
}

#[test]
fn reads_fail_as_those_of_a_directory_do() {
    let copied = Copied::new(World::new(7, 60), "fail");
    let table = &copied.world.tables[0];
    let query = Asked::everything(1_000).query(table, None, &[]);
    let listing = |bytes_max, catalogue_epoch| Listing {
        bytes_max,
        ..db::listing(&query, catalogue_epoch)
    };
    let small = copied.list(listing(500, copied.epoch));
    assert_eq!(
        small.unwrap_err(),
        StoreError::AnswerTooLarge { bytes_max: 500 }
    );
    let moved = copied.list(listing(usize::MAX, copied.epoch + 1));
    assert_eq!(moved.unwrap_err(), StoreError::CatalogueMoved);
    // What was prepared for a table that is gone.
    let list = || block_on(copied.reads.list(listing(usize::MAX, copied.epoch)));
    assert!(list().is_ok() && list().is_ok() && list().is_ok());
    copied.sql(&format!("DROP TABLE {}", query::names::now(table.number)));
    assert_eq!(list().unwrap_err(), StoreError::CatalogueMoved);
    let lists = |id: usize| {
        let query = Asked::everything(1_000).query(&copied.world.tables[id], None, &[]);
        block_on(copied.reads.list(db::listing(&query, copied.epoch)))
    };
    assert!(lists(1).is_ok(), "its connection serves on");
}

#[test]
fn a_read_past_its_limit_is_stopped_and_the_next_one_runs() {
    let copied = Copied::new(World::new(8, 40), "limits");
    let url = DatabaseUrl::parse(&copied.cluster.url(&copied.database)).unwrap();
    let hurried = Options {
        read_limit_ms: 200,
        ..options(&url)
    };
    let keys = copied.world.directory.0.path();
    let reads = DatabaseReads::open(&hurried, None, keys).unwrap();
    let tables = &copied.world.tables;
    put_to_sleep(&copied, &tables[0]);
    let list = |table, words: bool| {
        let query = Asked::everything(1_000).query(table, None, &[]);
        let finds = Test::Finds(Search::parse("fox").unwrap());
        let filter = Filter::Field(NAME, finds);
        let filter = if words { filter } else { query.filter.clone() };
        let query = Query { filter, ..query };
        let listed = block_on(reads.list(db::listing(&query, copied.epoch)));
        listed.map(|snapshot| snapshot.answer.rows.len())
    };
    for words in [false, true, false, true] {
        let stopped = StoreError::Timeout { limit_ms: 200 };
        assert_eq!(list(&tables[0], words), Err(stopped));
        // A busy machine may hold up a short one, too.
        let next = loop {
            match list(&tables[1], words) {
                Err(StoreError::Timeout { .. }) => {}
                next => break next,
            }
        };
        assert!(next.unwrap() > 0);
    }
    while sleepers(&copied) != "0\n" {}
}

#[test]
fn a_read_whose_caller_goes_is_cancelled() {
    let copied = Copied::new(World::new(9, 40), "callers");
    let tables = &copied.world.tables;
    put_to_sleep(&copied, &tables[0]);
    let waker = std::task::Waker::noop();
    for words in [false, true, false, true] {
        let query = Asked::everything(1_000).query(&tables[0], None, &[]);
        let finds = Test::Finds(Search::parse("fox").unwrap());
        let filter = Filter::Field(NAME, finds);
        let filter = if words { filter } else { query.filter.clone() };
        let query = Query { filter, ..query };
        let mut read = copied.reads.list(db::listing(&query, copied.epoch));
        while sleepers(&copied) != "1\n" {
            let mut context = std::task::Context::from_waker(waker);
            assert!(read.as_mut().poll(&mut context).is_pending());
        }
        drop(read);
        while sleepers(&copied) != "0\n" {}
        let query = Asked::everything(1_000).query(&tables[1], None, &[]);
        assert!(copied.list(db::listing(&query, copied.epoch)).is_ok());
    }
}

#[test]
fn reads_that_are_closed_end_with_an_error() {
    let copied = Copied::new(World::new(10, 40), "closed");
    let query = Asked::everything(10).query(&copied.world.tables[0], None, &[]);
    let list = || block_on(copied.reads.list(db::listing(&query, copied.epoch)));
    assert!(list().is_ok());
    copied.reads.close();
    assert_eq!(list().unwrap_err(), StoreError::Interrupted);
    let directory = copied.world.directory.0.path();
    let refused = DatabaseReads::open(&db::options(directory), None, directory);
    assert!(matches!(refused.err(), Some(StoreError::PlaceUnfit { .. })));
}
