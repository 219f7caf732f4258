//! The table of the published load test: five columns and what a request costs, ours beside theirs.

use measure::markdown::{or_dash, table};

use super::Options;
use super::load_function::{FunctionLanguage, LoadFunction};
use super::measured::{ColumnKey, Measured, MeasuredStore};
use super::request_kind::RequestKind;
use crate::published;
use crate::run::{Columns, Row, Server, Source, milli};

/// What a reader must know to judge it.
const NOTE: &str = "\
     Price is the month's price over the sum of the rates, as the published test reckons it; where \
     functions were not measured, only the sum of the first three columns compares. Ours are rates \
     at the connections that the row names, in a closed loop; those of the published test are not \
     stated. A rate with errors is left out. Fetching is ours from the exact list cache. Another \
     machine, and hardware of 2023";

/// What it must know of a database on a server of its own.
const SEPARATED_NOTE: &str = "\
     On PostgreSQL the node has its cores and the database one of its own; the price is that of \
     the cheapest server of the list with at least as many cores as the node has, and of one for \
     the database. The published test has figures of this, too, in pictures only";

/// One row for each number of cores, of connections, each store and each language of functions,
/// then the published ones.
pub fn columns(options: &Options, measured: &Measured) -> Columns {
    let mut rows = Vec::new();
    for cores in &options.cores {
        for connections in &options.connections {
            for store in [MeasuredStore::Directory, MeasuredStore::Database] {
                for language in [FunctionLanguage::Node, FunctionLanguage::Python] {
                    let of = (store, *cores, *connections);
                    rows.extend(row(options, measured, of, language));
                }
            }
        }
    }
    rows.extend(published::load());
    let mut note = format!("{NOTE}: {}.", published::LOAD_IN);
    if measured.is_separated && measured.on_directories().count() < measured.cells.len() {
        note = format!("{note} {SEPARATED_NOTE}.");
    }
    Columns {
        titles: published::COLUMNS.map(str::to_owned).to_vec(),
        shared: vec![0, 1, 2],
        rows,
        note,
    }
}

/// With functions of one language; of Python nothing where no function was measured, and nothing of
/// a store that was not.
fn row(
    options: &Options,
    measured: &Measured,
    (store, cores, connections): (MeasuredStore, usize, u32),
    language: FunctionLanguage,
) -> Option<Row> {
    let rate = |kind: RequestKind| {
        let cell = measured.cell(ColumnKey { kind, store, cores }, connections);
        // An answer that was refused costs less than one that was not.
        let cell = cell.filter(|cell| cell.ours.whole.errors == 0);
        cell.map(|cell| milli(cell.ours.whole.per_s()))
    };
    let (functions, noted) = match language {
        FunctionLanguage::Node => ([LoadFunction::JsonNode, LoadFunction::RowsNode], ""),
        FunctionLanguage::Python => (
            [LoadFunction::JsonPython, LoadFunction::RowsPython],
            ", functions in Python",
        ),
    };
    let functions = functions.map(|handler| rate(RequestKind::Execute(handler)));
    if language == FunctionLanguage::Python && functions == [None, None] {
        return None;
    }
    let rows = [RequestKind::Add, RequestKind::Read, RequestKind::Fetch].map(rate);
    if store == MeasuredStore::Database && rows == [None; 3] {
        return None;
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (on, beside) = match store {
        MeasuredStore::Directory => ("", ""),
        MeasuredStore::Database if measured.is_separated => {
            (" on PostgreSQL", " and 1 of the database")
        }
        MeasuredStore::Database => (" on PostgreSQL", ""),
    };
    // Where the database took what it wanted of the node's machine, no servers can be priced.
    let is_priced = store == MeasuredStore::Directory || measured.is_separated;
    let price = price(options, store, cores).filter(|_| is_priced);
    Some(Row {
        name: format!(
            "Tidemark{on}, {cores} core{}{beside}, {connections} connection{}{noted}",
            plural(cores),
            plural(connections as usize)
        ),
        source: Source::Measured,
        rates: rows.into_iter().chain(functions).collect(),
        monthly: price.as_ref().map(|(monthly, _)| *monthly),
        currency: price.map(|(_, currency)| currency),
    })
}

/// A month of the servers that so many cores and the store take, and its currency; `None` where
/// the price file lacks one of them, or has them in two currencies.
fn price(options: &Options, store: MeasuredStore, cores: usize) -> Option<(f64, String)> {
    let prices = &options.prices;
    let mut servers = prices.servers.iter();
    match store {
        MeasuredStore::Directory => {
            let server = servers.find(|one| one.cores as usize == cores)?;
            Some((server.monthly, server.currency.clone()))
        }
        MeasuredStore::Database => {
            let enough = servers.filter(|one| one.cores as usize >= cores);
            let node = enough.min_by(|one, other| one.monthly.total_cmp(&other.monthly))?;
            let is_payable = |one: &&Server| one.currency == node.currency;
            let database = prices.database.as_ref().filter(is_payable)?;
            Some((node.monthly + database.monthly, node.currency.clone()))
        }
    }
}

/// The same as a section of a report in Markdown.
pub fn section(options: &Options, measured: &Measured) -> String {
    let Columns { rows, note, .. } = columns(options, measured);
    let rows = rows.into_iter().map(|row| {
        let rates = row.rates.iter();
        let mut cells = vec![row.name.clone()];
        cells.extend(rates.map(|rate| or_dash(*rate, 0)));
        cells.push(or_dash(row.monthly, 2));
        let price = |taken: &[Option<f64>]| {
            let sum: Option<f64> = taken.iter().copied().sum();
            or_dash(row.monthly.zip(sum).map(|(month, sum)| month / sum), 6)
        };
        cells.push(price(&row.rates));
        cells.push(price(&row.rates[..3]));
        cells
    });
    let head = "requests/s|Adding|Reading|Fetching|E1|E2|EUR a month\
                |EUR per request/s, all five|EUR per request/s, first three";
    let table = table(head, rows.collect());
    format!("## Beside the published test\n\n{table}\n{note}")
}
