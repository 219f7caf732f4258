//! What all passes have measured, by what was asked for.

use super::bad_functions::BesideBad;
use super::cold::ColdStart;
use super::figure::{Figure, Share};
use super::load_function::LoadFunction;
use super::request_kind::RequestKind;

/// Where the store of a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredStore {
    /// In a data directory.
    Directory,
    /// In the database of the run.
    Database,
}

/// One kind of request, over so many connections.
pub struct Cell {
    /// What was asked.
    pub kind: RequestKind,
    /// Where the server has its store.
    pub store: MeasuredStore,
    /// Cores of the server.
    pub cores: usize,
    /// Connections.
    pub connections: u32,
    /// The server.
    pub ours: Figure,
    /// The static responder, of functions the same handler behind bare Node, after it in each pass.
    pub floor: Figure,
    /// The lean responder after that, of reads; without a pass of others.
    pub lean: Figure,
    /// The other systems of the run, in its order; of fetching alone.
    pub beside: Vec<Figure>,
    /// At a fixed rate below that.
    pub paced: Option<Paced>,
    /// What wrk says in each pass: requests a second.
    pub opinions: Vec<f64>,
}

/// Requests at a fixed rate, each latency counted from when its request was due.
pub struct Paced {
    /// Requests a second that were due.
    pub per_s: f64,
    /// The server.
    pub ours: Figure,
    /// The static responder, after it in each pass.
    pub floor: Figure,
}

/// Lists and changes at once, with the list cache and without.
#[derive(Default)]
pub struct Blend {
    /// Lists of a hundred requests.
    pub reads_percent: u64,
    /// As a user starts it.
    pub on: Figure,
    /// With `--list-cache=off`, after that in each pass.
    pub off: Figure,
    /// The static responder, which answers everything with one list.
    pub floor: Figure,
}

/// Everything that was measured.
#[derive(Default)]
pub struct Measured {
    /// Kinds of requests.
    pub cells: Vec<Cell>,
    /// Mixes.
    pub blends: Vec<Blend>,
    /// Cold starts of each function.
    pub cold: Vec<ColdStart>,
    /// What bad functions cost others.
    pub beside_bad: BesideBad,
    /// Whether the database has a core of its own, as on a server of its own.
    pub is_separated: bool,
}

/// What a server is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnKey {
    /// The kind of request.
    pub kind: RequestKind,
    /// Where it has its store.
    pub store: MeasuredStore,
    /// Its cores.
    pub cores: usize,
}

/// What one pass saw of a cell.
pub struct CellPass {
    /// The server.
    pub ours: Share,
    /// The static responder.
    pub floor: Share,
    /// The lean responder, of reads.
    pub lean: Option<Share>,
    /// The other systems, in the order of the run.
    pub beside: Vec<Share>,
    /// The rate that was asked for, and what server and responder made of it.
    pub paced: Option<(f64, Share, Share)>,
    /// What wrk says: requests a second.
    pub opinion: Option<f64>,
}

impl ColumnKey {
    /// Its name for people.
    pub fn title(self) -> String {
        let place = match self.store {
            MeasuredStore::Directory => "",
            MeasuredStore::Database => ", on PostgreSQL",
        };
        self.kind.title() + place
    }
}

impl Measured {
    /// Nothing yet: a cell for each number of cores, kind of request, store and number of
    /// connections, in this order, a blend for each share of lists, and cold starts of each
    /// function. `separated` are the numbers of cores with a store in the database.
    pub fn none(
        (cores, separated): (&[usize], &[usize]),
        connections: &[u32],
        handlers: &[LoadFunction],
        reads_percent: &[u64],
    ) -> Measured {
        let mut measured = Measured {
            cold: handlers.iter().copied().map(ColdStart::of).collect(),
            ..Measured::default()
        };
        for count in cores {
            let database = separated.contains(count).then_some(MeasuredStore::Database);
            for kind in RequestKind::all(handlers) {
                for store in [MeasuredStore::Directory].into_iter().chain(database) {
                    let cores = *count;
                    let key = ColumnKey { kind, store, cores };
                    let cells = connections.iter().map(|over| Cell::new(key, *over));
                    measured.cells.extend(cells);
                }
            }
        }
        let blends = reads_percent.iter().map(|reads_percent| Blend {
            reads_percent: *reads_percent,
            ..Blend::default()
        });
        measured.blends.extend(blends);
        measured
    }

    /// The cells with their store in a data directory.
    pub fn on_directories(&self) -> impl Iterator<Item = &Cell> {
        let cells = self.cells.iter();
        cells.filter(|cell| cell.store == MeasuredStore::Directory)
    }

    /// The cell of this key, over so many connections.
    pub fn cell(&self, key: ColumnKey, connections: u32) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.key() == key && cell.connections == connections)
    }

    /// The same as `cell` is, with this store.
    pub fn of_store(&self, cell: &Cell, store: MeasuredStore) -> Option<&Cell> {
        let key = ColumnKey {
            store,
            ..cell.key()
        };
        self.cell(key, cell.connections)
    }
}

impl Cell {
    fn new(key: ColumnKey, connections: u32) -> Cell {
        let ColumnKey { kind, store, cores } = key;
        Cell {
            kind,
            store,
            cores,
            connections,
            ours: Figure::default(),
            floor: Figure::default(),
            lean: Figure::default(),
            beside: Vec::new(),
            paced: None,
            opinions: Vec::new(),
        }
    }

    /// What its server was started for.
    pub fn key(&self) -> ColumnKey {
        let (kind, store, cores) = (self.kind, self.store, self.cores);
        ColumnKey { kind, store, cores }
    }

    /// Requests a second to those of the lean responder.
    pub fn to_lean(&self) -> Option<f64> {
        let has_passes = !self.lean.passes.is_empty();
        has_passes.then(|| self.ours.whole.per_s() / self.lean.whole.per_s())
    }

    /// Adds the next pass.
    pub fn add(&mut self, pass: CellPass) {
        self.ours.add(pass.ours);
        self.floor.add(pass.floor);
        if let Some(lean) = pass.lean {
            self.lean.add(lean);
        }
        self.beside.resize_with(pass.beside.len(), Figure::default);
        for (figure, share) in self.beside.iter_mut().zip(pass.beside) {
            figure.add(share);
        }
        if let Some((per_s, ours, floor)) = pass.paced {
            let paced = self.paced.get_or_insert_with(|| Paced {
                per_s,
                ours: Figure::default(),
                floor: Figure::default(),
            });
            paced.ours.add(ours);
            paced.floor.add(floor);
        }
        self.opinions.extend(pass.opinion);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::Sample;

    fn share(count: u32) -> Share {
        let ms = Duration::from_millis;
        let sample = |n| Sample {
            ended: ms(1) * (n + 1),
            took: ms(1),
        };
        Share {
            samples: (0..count).map(sample).collect(),
            wall: ms(1) * count,
            ..Share::default()
        }
    }

    #[test]
    fn cells_exist_for_all_requests_and_join_their_passes() {
        let mut measured = Measured::none((&[1, 2], &[1]), &[1, 32], &[], &[90, 50]);
        let cell_key = |cell: &Cell| (cell.cores, cell.kind, cell.connections);
        let [first, second, .., last] = measured.cells.as_slice() else {
            panic!("{} cells", measured.cells.len())
        };
        assert_eq!(measured.cells.len(), 3 * RequestKind::ON_ROWS.len() * 2);
        assert_eq!(cell_key(first), (1, RequestKind::Add, 1));
        assert_eq!(cell_key(second), (1, RequestKind::Add, 32));
        assert_eq!(cell_key(last), (2, RequestKind::FetchUncached, 32));
        let database = measured.of_store(first, MeasuredStore::Database).unwrap();
        assert_eq!(cell_key(database), cell_key(first));
        assert_eq!(database.store, MeasuredStore::Database);
        assert!(measured.of_store(last, MeasuredStore::Database).is_none());
        assert_eq!(measured.on_directories().count(), 16);
        let blends = measured.blends.iter().map(|blend| blend.reads_percent);
        assert_eq!(blends.collect::<Vec<u64>>(), [90, 50]);
        for count in [1, 2, 3] {
            measured.cells[1].add(CellPass {
                ours: share(count),
                floor: share(10),
                lean: Some(share(9)),
                beside: vec![share(4)],
                paced: Some((500.0, share(5), share(6))),
                opinion: Some(f64::from(count)),
            });
        }
        let counts =
            |figure: &Figure| -> Vec<u64> { figure.passes.iter().map(|pass| pass.count).collect() };
        let cell = &measured.cells[1];
        assert_eq!(counts(&cell.ours), [1, 2, 3]);
        assert_eq!(counts(&cell.beside[0]), [4, 4, 4]);
        assert_eq!(counts(&cell.lean), [9, 9, 9]);
        assert_eq!(cell.opinions, [1.0, 2.0, 3.0]);
        let paced = cell.paced.as_ref().unwrap();
        assert_eq!((counts(&paced.ours), paced.per_s), (vec![5, 5, 5], 500.0));
        assert_eq!(counts(&paced.floor), [6, 6, 6]);
        assert_eq!(counts(&measured.cells[0].ours), [0; 0], "others stay apart");
    }
}
