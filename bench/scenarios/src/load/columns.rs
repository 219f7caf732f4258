//! The table of the published load test: five columns and what a request costs, ours beside theirs.

use measure::markdown::{or_dash, table};

use super::Options;
use super::load_function::{FunctionLanguage, LoadFunction};
use super::measured::Measured;
use super::request_kind::RequestKind;
use crate::published;
use crate::run::{Columns, Row, Source, milli};

/// What a reader must know to judge it.
const NOTE: &str = "\
     Price is the month's price over the sum of the rates, as the published test reckons it; where \
     functions were not measured, only the sum of the first three columns compares. Ours are rates \
     at the connections that the row names, in a closed loop; those of the published test are not \
     stated. Fetching is ours from the exact list cache. Another machine, and hardware of 2023";

/// One row for each number of cores, of connections, and each language of functions, then the
/// published ones.
pub fn columns(options: &Options, measured: &Measured) -> Columns {
    let mut rows = Vec::new();
    for cores in &options.cores {
        for connections in &options.connections {
            for language in [FunctionLanguage::Node, FunctionLanguage::Python] {
                rows.extend(row(options, measured, (*cores, *connections), language));
            }
        }
    }
    rows.extend(published::load());
    Columns {
        titles: published::COLUMNS.map(str::to_owned).to_vec(),
        shared: vec![0, 1, 2],
        rows,
        note: format!("{NOTE}: {}.", published::LOAD_IN),
    }
}

/// With functions of one language; of Python nothing where no function was measured.
fn row(
    options: &Options,
    measured: &Measured,
    (cores, connections): (usize, u32),
    language: FunctionLanguage,
) -> Option<Row> {
    let rate = |kind: RequestKind| {
        let cell = measured
            .cells
            .iter()
            .find(|cell| (cell.kind, cell.cores, cell.connections) == (kind, cores, connections));
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
    let servers = &options.prices.servers;
    let server = servers.iter().find(|one| one.cores as usize == cores);
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let rows = [RequestKind::Add, RequestKind::Read, RequestKind::Fetch];
    Some(Row {
        name: format!(
            "Tidemark, {cores} core{}, {connections} connection{}{noted}",
            plural(cores),
            plural(connections as usize)
        ),
        source: Source::Measured,
        rates: rows.map(rate).into_iter().chain(functions).collect(),
        monthly: server.map(|server| server.monthly),
        currency: server.map(|server| server.currency.clone()),
    })
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
