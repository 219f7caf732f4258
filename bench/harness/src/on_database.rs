//! Figures of a store in PostgreSQL, beside the same statements by the bare driver over as many
//! connections.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use engine::DatabaseUrl;
use futures_executor::block_on;
use measure::connection::Connection;
use measure::costs::Costs;
use measure::live::LiveServer;
use measure::scratch::Scratch;
use measure::tasks::TaskChild;
use measure::wrk::Wrk;
use model::{RowId, Selection, Table};
use query::Query;
use scenarios::answer;
use scenarios::seed::generator::{Product, row_id};
use scenarios::seed::table;
use serde_json::{Value, json};
use store::{DatabaseStore, Listing, Point, Store, TotalCap};

use crate::aim::{Aim, WRK_CONNECTIONS};
use crate::bare::{self, Bare};
use crate::database::{LentDatabase, StoreSchema};
use crate::figure::{Figure, Goal, Round, Slice, points};
use crate::inserts::{self, Ground, InsertTerms};
use crate::lists::{self, TOTAL_CAP};
use crate::plan::Plan;
use crate::surroundings::ServerSite;
use crate::{catalog, expect};

/// The same as a rate of 0.8.
const STORE_TO_BARE: Goal = Goal::AtMost(1.25);
const HTTP_TO_BARE: Goal = Goal::AtLeast(0.6);
const HTTP_CPU: Goal = Goal::AtMost(1.5);
const CHANGES_TO_BARE: Goal = Goal::AtLeast(0.6);
/// Rows of one request, as many as it may have (wire protocol, `upsertRows`).
const CHANGED_ROWS: u32 = 100;
/// The greatest value of the column that changes alter.
const STOCK_MAX: u32 = 500;
const BARE: &str = "bare driver, the same statements";

/// Durable inserts, as the issue that asked for these figures states their goals.
const INSERTS: InsertTerms = InsertTerms {
    suffix: "_postgres",
    place: ", on PostgreSQL",
    many: (0.7, "bare array statements, 32 writers"),
    one: (0.8, "bare transactions of one burst"),
    each: 0.7,
};

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TimedRead {
    Point,
    List,
    ListTotal,
}

/// A schema with the indexed catalog, whose server has ended.
pub struct CatalogInDatabase {
    schema: StoreSchema,
    site: ServerSite,
    project: String,
    bare: RefCell<TaskChild>,
    /// What the bare driver costs.
    bare_costs: Costs,
}

/// What the figures are taken by.
#[derive(Clone, Copy)]
pub struct FigureMeans<'a> {
    pub binary: &'a Path,
    pub scratch: &'a Scratch,
    pub wrk: &'a Wrk,
    pub plan: &'a Plan,
}

impl CatalogInDatabase {
    /// Seeds the catalog, and starts the bare driver beside it.
    ///
    /// # Errors
    /// When a server or the driver does not start, or seeding fails.
    pub fn set(
        database: &LentDatabase,
        bare: &Bare,
        means: FigureMeans<'_>,
    ) -> Result<CatalogInDatabase> {
        let schema = database.schema();
        let site = schema.site(means.scratch, "postgres");
        let server = site.serve(means.binary, &[])?;
        catalog::seed(means.binary, &server, expect::ROWS, true)?;
        let project = server.access.project.clone();
        server.stop()?;
        let bare = bare.in_database(database.url(), &schema.name)?;
        let bare_costs = Costs::of(vec![bare.process()]).beside(database.backends());
        Ok(CatalogInDatabase {
            schema,
            site,
            project,
            bare: RefCell::new(bare),
            bare_costs,
        })
    }

    /// Reads inside this process and over HTTP, then writes over HTTP.
    ///
    /// # Errors
    /// When an answer is wrong, or something cannot be measured.
    pub fn figures(&self, means: FigureMeans<'_>) -> Result<Vec<Figure>> {
        // Connections and plans of the bare driver are there before anything is timed.
        self.bare(TimedRead::Point.task(), WRK_CONNECTIONS, 1)?;
        let mut figures = self.inside(means.plan)?;
        let server = self.site.serve(means.binary, &[])?;
        figures.extend(self.over_http(&server, means)?);
        let ground = Ground {
            server: &server,
            wrk: means.wrk,
            scratch: means.scratch,
            terms: &INSERTS,
            bare: &|writers, ms| {
                let printed = self.bare_slice("insert", writers, ms)?;
                Ok(printed.rate())
            },
        };
        figures.extend(inserts::figures(&ground, means.plan)?);
        figures.push(self.changes(&server, means.plan)?);
        server.stop()?;
        Ok(figures)
    }

    fn inside(&self, plan: &Plan) -> Result<Vec<Figure>> {
        let opened = OpenedDatabase::new(&self.schema.store, &self.site.data, &self.project)?;
        let mut figures = Vec::new();
        for read in [TimedRead::Point, TimedRead::List, TimedRead::ListTotal] {
            let ours = || opened.repeat(read, plan.list_ms);
            let round = |_| -> Result<Round> {
                let first = ours()?;
                let floor = self.bare_slice(read.task(), 1, plan.list_ms)?;
                floor.check(read)?;
                Ok(Round::of(first, floor.latencies(), ours()?))
            };
            figures.push(Figure {
                key: format!("store_{}_postgres", read.task()),
                title: format!("{}, on PostgreSQL: store", read.title()),
                unit: "p50 µs",
                goal: STORE_TO_BARE,
                floor: BARE,
                rounds: (0..plan.rounds).map(round).collect::<Result<_>>()?,
            });
        }
        opened.close()?;
        Ok(figures)
    }

    fn over_http(&self, server: &LiveServer, means: FigureMeans<'_>) -> Result<Vec<Figure>> {
        let FigureMeans { wrk, plan, .. } = means;
        let mut figures = Vec::new();
        for (read, route) in [
            (TimedRead::Point, expect::point_route()),
            (TimedRead::ListTotal, answer::route(None)),
        ] {
            let mut aim = Aim::at(&server.access, &route, server.costs());
            aim.headers.push("X-Tidemark-Cache: bypass".to_owned());
            let round = |_| -> Result<Round> {
                let first = aim.load(wrk, plan.wrk_s)?;
                let ms = plan.wrk_s * 1_000;
                let floor = self.bare_slice(read.task(), WRK_CONNECTIONS, ms)?;
                floor.check(read)?;
                Ok(Round::of(first, floor.rate(), aim.load(wrk, plan.wrk_s)?))
            };
            let figure = Figure {
                key: format!("http_{}_postgres", read.task()),
                title: format!(
                    "{}, on PostgreSQL, past the cache: wrk, 32 connections",
                    read.title()
                ),
                unit: "requests/s",
                goal: HTTP_TO_BARE,
                floor: BARE,
                rounds: (0..plan.rounds).map(round).collect::<Result<_>>()?,
            };
            let cpu = figure.by_processor(HTTP_CPU).context("no processor time")?;
            figures.extend([figure, cpu]);
        }
        let mut connection = Connection::open(server.access.address)?;
        expect::check_list(&mut connection, &server.access, &answer::route(None))?;
        Ok(figures)
    }

    /// Requests that change 100 rows each, by one client.
    fn changes(&self, server: &LiveServer, plan: &Plan) -> Result<Figure> {
        let (ms, number) = (plan.insert_s * 1_000, Cell::new(0));
        let ours = || changed(server, ms, &number);
        let bare = || Ok::<_, anyhow::Error>(self.bare_slice("change", 1, ms)?.rate());
        // One slice of each that does not count: its statements are prepared, its tables grown.
        ours()?;
        bare()?;
        let round = |_| -> Result<Round> {
            let (first, floor, second) = (ours()?, bare()?, ours()?);
            Ok(Round::of(first, floor, second))
        };
        Ok(Figure {
            key: "change_100_postgres".into(),
            title: "requests of 100 changes, on PostgreSQL: one client over HTTP".into(),
            unit: "requests/s",
            goal: CHANGES_TO_BARE,
            floor: "bare array statements, 100 changes a commit",
            rounds: (0..plan.rounds).map(round).collect::<Result<_>>()?,
        })
    }

    fn bare(&self, task: &str, clients: u32, ms: u64) -> Result<Value> {
        let task = json!({ "task": task, "clients": clients, "ms": ms });
        self.bare.borrow_mut().ask(&task)
    }

    fn bare_slice(&self, task: &str, clients: u32, ms: u64) -> Result<BareSlice> {
        let meter = self.bare_costs.begin()?;
        let printed = self.bare(task, clients, ms)?;
        let samples_ns = bare::samples(&printed, "samples_ns")?;
        let number = |name: &str| printed[name].as_f64();
        let elapsed_ns = number("elapsed_ns").context("bare printed no `elapsed_ns`")?;
        let count = samples_ns.len() as f64;
        let mut notes = meter.each(count)?;
        notes.extend(number("commits").map(|commits| ("rows/commit", count / commits)));
        Ok(BareSlice {
            rows: printed["rows"].clone(),
            per_s: count * 1e9 / elapsed_ns,
            notes,
            samples_ns,
        })
    }
}

/// What the bare driver did in one slice.
struct BareSlice {
    rows: Value,
    per_s: f64,
    notes: Vec<(&'static str, f64)>,
    samples_ns: Vec<u64>,
}

impl BareSlice {
    fn rate(self) -> Slice {
        Slice {
            value: self.per_s,
            notes: [self.notes, points(&self.samples_ns)].concat(),
            samples_ns: self.samples_ns,
        }
    }

    fn latencies(self) -> Slice {
        Slice::of_latencies(self.samples_ns)
    }

    /// A list is the published one.
    fn check(&self, read: TimedRead) -> Result<()> {
        let ids = self.rows.as_array().map_or(0, Vec::len);
        let wanted = if read == TimedRead::Point { 1 } else { 25 };
        ensure!(ids == wanted, "bare read {ids} rows, {wanted} are there");
        Ok(())
    }
}

impl TimedRead {
    /// What the bare driver calls it.
    fn task(self) -> &'static str {
        match self {
            TimedRead::Point => "point",
            TimedRead::List => "list",
            TimedRead::ListTotal => "list_total",
        }
    }

    fn title(self) -> &'static str {
        match self {
            TimedRead::Point => "point read",
            TimedRead::List => "list of 25, no total",
            TimedRead::ListTotal => "list of 25 with total",
        }
    }
}

/// The store, opened in this process.
struct OpenedDatabase {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    query: Query,
    catalogue_epoch: u64,
    ids: Vec<RowId>,
    next: Cell<usize>,
}

impl OpenedDatabase {
    fn new(url: &str, beside: &Path, project: &str) -> Result<OpenedDatabase> {
        let url = DatabaseUrl::parse(url)?;
        let place = url.clone().into();
        let config = server::offline::offline_engine(place);
        let options = lists::store_options(&config, config.place.clone());
        let store = DatabaseStore::open(&url, None)?.serve(&options, None, beside)?;
        let caller = lists::caller(project)?;
        let (query, catalogue_epoch) = lists::resolve(&*store, &caller, &config)?;
        let ids = (0..expect::ROWS).map(|index| Ok(RowId::new(&row_id(index))?));
        Ok(OpenedDatabase {
            table: query.table.clone(),
            ids: ids.collect::<Result<_>>()?,
            next: Cell::new(0),
            store,
            query,
            catalogue_epoch,
        })
    }

    fn close(&self) -> Result<()> {
        block_on(self.store.close(model::Mark::ZERO))?;
        Ok(())
    }

    fn repeat(&self, read: TimedRead, ms: u64) -> Result<Slice> {
        lists::repeat(ms, || match read {
            TimedRead::Point => self.point(),
            TimedRead::List => self.list(false),
            TimedRead::ListTotal => self.list(true),
        })
    }

    fn point(&self) -> Result<()> {
        // As the bare driver goes through them: neighbours in time lie far apart.
        let next = (self.next.get() + 7_919) % self.ids.len();
        self.next.set(next);
        let found = self.store.get(Point {
            table: &self.table,
            id: &self.ids[next],
            selection: &Selection::All,
            visibility: &self.query.visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: self.catalogue_epoch,
        });
        ensure!(block_on(found)?.answer.is_some(), "a row is not there");
        Ok(())
    }

    fn list(&self, has_total: bool) -> Result<()> {
        let listing = Listing {
            query: &self.query,
            rows: true,
            total: has_total.then_some(TotalCap::UpTo(TOTAL_CAP)),
            place: false,
            bytes_max: usize::MAX,
            catalogue_epoch: self.catalogue_epoch,
            of_guest: false,
            shows_damaged: false,
        };
        let rows = block_on(self.store.list(listing))?.answer.rows.len();
        ensure!(rows == 25, "the store read {rows} rows, 25 are there");
        Ok(())
    }
}

/// Requests a second, each of which changes the next 100 rows.
fn changed(server: &LiveServer, ms: u64, number: &Cell<u32>) -> Result<Slice> {
    let mut connection = Connection::open(server.access.address)?;
    let costs = server.costs();
    let meter = costs.begin()?;
    let (begun, mut samples_ns) = (Instant::now(), Vec::new());
    while samples_ns.is_empty() || begun.elapsed().as_millis() < u128::from(ms) {
        let request = server
            .access
            .request("PUT", &table::rows_route(), &change(number.get()));
        number.set(number.get() + 1);
        let start = Instant::now();
        connection.accepted(&request)?;
        samples_ns.push(start.elapsed().as_nanos() as u64);
    }
    let count = samples_ns.len() as f64;
    let per_s = count / begun.elapsed().as_secs_f64();
    let notes = [meter.each(count)?, points(&samples_ns)].concat();
    Ok(Slice {
        value: per_s,
        notes,
        samples_ns,
    })
}

/// The body of request `number`: the catalog's rows with another value in one column.
fn change(number: u32) -> String {
    let first = number * CHANGED_ROWS;
    let rows = (first..first + CHANGED_ROWS).map(|row| {
        let mut product = Product::new(row % expect::ROWS);
        product.stock = (number + row) % (STOCK_MAX + 1);
        product.json()
    });
    format!(r#"{{"rows":[{}]}}"#, rows.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_go_over_all_rows_with_values_that_the_column_takes() {
        let rows = |number| -> Vec<Value> {
            let body: Value = serde_json::from_str(&change(number)).unwrap();
            body["rows"].as_array().unwrap().clone()
        };
        let (first, again) = (rows(0), rows(expect::ROWS / CHANGED_ROWS));
        assert_eq!(first.len(), CHANGED_ROWS as usize);
        for (one, other) in first.iter().zip(again) {
            assert_eq!(one["$id"], other["$id"]);
            assert_ne!(one["stock"], other["stock"]);
            assert!(one["stock"].as_u64().unwrap() <= u64::from(STOCK_MAX));
        }
    }
}
