//! What executions came to, warm and cold, beside the same handler without a server, and what bad
//! functions cost others.

use std::time::Duration;

use measure::markdown::{heads, hundredths, or_dash, whole};
use measure::percentile::Sorted;

use super::cold::ColdStart;
use super::measured::{Cell, Measured};
use crate::run::Table;

const WARM: &str = "\
    Bare Node is one process of node:http that calls the same handler for the same requests on the \
    same cores; functions in Python are compared with it, too. It parses the request and returns \
    the handler's body: no jail, no record, no other functions. In E2 both fetch rows from the \
    server. CPU is that of all processes for each answer; what the server does for bare Node does \
    not count. Memory is the most of the server's own process so far, and what its processes of \
    functions hold at the end of a slice; pages that several of these share count once. After each \
    column every answered execution has a record, and none has failed.";
const COLD: &str = "\
    From the request to the answer of an execution that begins with a new process, and from the \
    start of the bare interpreter to the answer of the same handler: of Node behind node:http, of \
    Python without any server. Files have been read before. A function whose code takes long to \
    load keeps a process that has loaded it and run nothing: where it says “from the spare”, that \
    one answers, and is compared with the same start of the bare interpreter.";

/// The tables; none where no function was measured.
pub fn tables(measured: &Measured) -> Vec<Table> {
    let cells = measured.on_directories();
    let warm: Vec<Vec<String>> = cells.filter_map(warm_row).collect();
    let cold: Vec<Vec<String>> = measured.cold.iter().filter_map(cold_row).collect();
    let table = |title: &str, head: &str, rows: Vec<Vec<String>>, note: &str| Table {
        title: title.to_owned(),
        heads: heads(head),
        rows,
        note: note.to_owned(),
    };
    let warm = table(
        "Functions",
        "function|cores|connections|executions/s|A/A|bare Node/s|to bare|p50 µs|p90 µs|p99 µs\
         |p99.9 µs|errors|CPU µs|bare CPU µs|memory MiB|bare memory MiB",
        warm,
        WARM,
    );
    let cold = table(
        "Cold starts of functions",
        "function|starts|p50 ms|p90 ms|bare p50 ms|bare p90 ms|to bare",
        cold,
        COLD,
    );
    let tables = [warm, cold].into_iter();
    let filled = tables.filter(|table| !table.rows.is_empty());
    filled.chain(measured.beside_bad.table()).collect()
}

fn warm_row(cell: &Cell) -> Option<Vec<String>> {
    cell.kind.function()?;
    let (ours, bare) = (&cell.ours.whole, &cell.floor.whole);
    let mut row = vec![
        cell.kind.title(),
        cell.cores.to_string(),
        cell.connections.to_string(),
        whole(ours.per_s()),
        or_dash(cell.ours.again(), 2),
        whole(bare.per_s()),
        hundredths(ours.per_s() / bare.per_s()),
    ];
    row.extend(ours.points()?.map(whole));
    row.push(ours.errors.to_string());
    row.extend([ours, bare].map(|share| or_dash(share.cpu_each(), 1)));
    row.extend([ours, bare].map(|share| or_dash(share.memory_mib, 0)));
    Some(row)
}

fn cold_row(cold: &ColdStart) -> Option<Vec<String>> {
    let points = |samples: &[Duration]| {
        let sorted = Sorted::new(samples.iter().copied())?;
        Some([500, 900].map(|at| sorted.at(at).as_secs_f64() * 1e3))
    };
    let (ours, bare) = (points(&cold.ours)?, points(&cold.bare)?);
    let mut row = vec![cold.title(), cold.ours.len().to_string()];
    row.extend(ours.iter().chain(&bare).map(|ms| format!("{ms:.1}")));
    row.push(hundredths(ours[0] / bare[0]));
    Some(row)
}
