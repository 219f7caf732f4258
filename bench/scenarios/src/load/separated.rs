//! The published load test with the database on a server of its own: PostgreSQL has a core that
//! neither the node nor, where others are left, the load generator may use.

use std::cell::RefCell;
use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use measure::cores::Cores;
use measure::costs::{Backends, BoundBackends};
use measure::live::LiveServer;
use measure::markdown::{heads, hundredths, or_dash, whole};

use super::measured::{Cell, Measured, MeasuredStore};
use crate::run::Table;
use crate::stage::Stage;

const NOTE: &str = "\
    The same requests to servers whose store is in PostgreSQL, each after the same on a data \
    directory in every pass; “to it” is the rate to that one's. The node has the cores of the \
    line and the database one of its own, as in the published test, unless the head says that it \
    is not bound; the load generator has the others or, where there are none, all of them: then \
    each of the three waits for it, and the rate is a lower bound. Stores are copies of the same \
    data directory, moved into the database; adding begins on a new one in each pass, all others \
    on the same. CPU is processor time for each answer: of the node with all processes that it \
    has started, and of PostgreSQL's server, checkpoints and vacuums included.";

/// The database of a run.
pub struct SeparatedDatabase<'a> {
    url: &'a str,
    /// Its server's processes, where they can be found.
    pub backends: Option<Backends>,
    /// Their cores until the end of the run; none where they have not been bound.
    bound: Option<(Cores, BoundBackends)>,
    /// Stores that were made so far.
    stores: RefCell<HashSet<String>>,
}

impl<'a> SeparatedDatabase<'a> {
    /// Binds its server to one core, where it runs on this machine and is reached by its socket.
    ///
    /// # Errors
    /// When none of the wanted cores of a node leaves one, or its processes cannot be bound.
    pub fn bind(url: &'a str, all: &Cores, wanted: &[usize]) -> Result<SeparatedDatabase<'a>> {
        let backends = Backends::of(url);
        let bind = |backends: Backends| {
            ensure!(
                wanted.iter().any(|count| *count < all.count()),
                "--database: the database has a core of its own, and --cores leave none of the \
                 {} that this program may use",
                all.count()
            );
            let cores = all.last();
            let bound = backends.bind(&cores).context(
                "--database: its server cannot be bound to a core of its own; run this as root \
                 or as the user that the server has",
            )?;
            Ok((cores, bound))
        };
        Ok(SeparatedDatabase {
            url,
            backends,
            bound: backends.map(bind).transpose()?,
            stores: RefCell::default(),
        })
    }

    /// Of these numbers of cores of a node those that leave the database its own.
    pub fn leaving(&self, counts: &[usize], all: &Cores) -> Vec<usize> {
        let leaves = |count: &usize| self.bound.is_none() || *count < all.count();
        counts.iter().copied().filter(leaves).collect()
    }

    /// The cores of a node and its own.
    pub fn cores_with(&self, node: &Cores) -> Cores {
        match &self.bound {
            Some((own, _)) => node.and(own),
            None => node.clone(),
        }
    }

    /// A server on the store `name`, which begins as a copy of the data directory `from`.
    ///
    /// # Errors
    /// When it cannot be copied, or the server does not answer.
    pub fn serve(
        &self,
        stage: &Stage,
        (from, name): (&str, &str),
        cores: &Cores,
        settings: &[&str],
    ) -> Result<LiveServer> {
        if self.stores.borrow_mut().insert(name.to_owned()) {
            let moved = stage.move_copy(from, name, self.url);
            moved.with_context(|| format!("--database: the schema {}", Stage::schema(name)))?;
        }
        stage.start_moved(self.url, name, cores, settings)
    }

    /// What a report says of its cores.
    pub fn cores_note(&self) -> &'static str {
        if self.bound.is_some() {
            "1, the node's not among them"
        } else {
            "not bound: it is reached over TCP, or the lock of its socket may not be read"
        }
    }

    /// Whether its server has a core of its own.
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// The schemas that it is left with.
    pub fn schemas(&self) -> Vec<String> {
        let stores = self.stores.borrow();
        let mut schemas: Vec<String> = stores.iter().map(|name| Stage::schema(name)).collect();
        schemas.sort_unstable();
        schemas
    }
}

/// What was measured with the store in PostgreSQL, next to the same on a data directory; none where
/// nothing was.
pub fn table(measured: &Measured) -> Option<Table> {
    let there = |cell: &&Cell| cell.store == MeasuredStore::Database;
    let rows = measured.cells.iter().filter(there).filter_map(|cell| {
        let here = measured.of_store(cell, MeasuredStore::Directory)?;
        let (ours, floor) = (&cell.ours.whole, &cell.floor.whole);
        let directory = &here.ours.whole;
        let mut row = vec![
            cell.kind.title(),
            cell.cores.to_string(),
            cell.connections.to_string(),
            whole(ours.per_s()),
            or_dash(cell.ours.again(), 2),
            whole(directory.per_s()),
            hundredths(ours.per_s() / directory.per_s()),
            hundredths(ours.per_s() / floor.per_s()),
        ];
        row.extend(ours.points()?.map(whole));
        row.push(ours.errors.to_string());
        row.push(or_dash(ours.cpu_each(), 1));
        row.push(or_dash(ours.backends_each(), 1));
        row.push(or_dash(directory.cpu_each(), 1));
        Some(row)
    });
    let rows: Vec<Vec<String>> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        title: "On PostgreSQL, on a server of its own".to_owned(),
        heads: heads(
            "request|cores of the node|connections|requests/s|A/A|data directory/s|to it|to floor\
             |p50 µs|p90 µs|p99 µs|p99.9 µs|errors|node CPU µs|backends CPU µs\
             |data directory CPU µs",
        ),
        rows,
        note: NOTE.to_owned(),
    })
}
