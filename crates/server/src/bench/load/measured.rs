//! What all passes have measured, by what was asked for.

use super::Act;
use super::figure::{Figure, Share};

/// One kind of request, over so many connections.
pub struct Cell {
    /// What was asked.
    pub act: Act,
    /// Cores of the server.
    pub cores: usize,
    /// Connections.
    pub connections: u32,
    /// The server.
    pub ours: Figure,
    /// The static responder, after it in each pass.
    pub floor: Figure,
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
    /// As anybody starts it.
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
}

/// What one pass saw of a cell.
pub struct CellPass {
    /// The server.
    pub ours: Share,
    /// The static responder.
    pub floor: Share,
    /// The other systems, in the order of the run.
    pub beside: Vec<Share>,
    /// The rate that was asked for, and what server and responder made of it.
    pub paced: Option<(f64, Share, Share)>,
    /// What wrk says: requests a second.
    pub opinion: Option<f64>,
}

impl Measured {
    /// The cell of this kind, cores and connections; a new one where there is none yet.
    pub fn cell(&mut self, act: Act, cores: usize, connections: u32) -> &mut Cell {
        let asked = (act, cores, connections);
        let known = self
            .cells
            .iter()
            .position(|cell| (cell.act, cell.cores, cell.connections) == asked);
        let place = known.unwrap_or_else(|| {
            self.cells.push(Cell::new(act, cores, connections));
            self.cells.len() - 1
        });
        &mut self.cells[place]
    }

    /// The blend with so many lists of a hundred requests; a new one where there is none yet.
    pub fn blend(&mut self, reads_percent: u64) -> &mut Blend {
        let mut blends = self.blends.iter();
        let known = blends.position(|blend| blend.reads_percent == reads_percent);
        let place = known.unwrap_or_else(|| {
            self.blends.push(Blend {
                reads_percent,
                ..Blend::default()
            });
            self.blends.len() - 1
        });
        &mut self.blends[place]
    }
}

impl Cell {
    fn new(act: Act, cores: usize, connections: u32) -> Cell {
        Cell {
            act,
            cores,
            connections,
            ours: Figure::default(),
            floor: Figure::default(),
            beside: Vec::new(),
            paced: None,
            opinions: Vec::new(),
        }
    }

    /// Adds the next pass.
    pub fn add(&mut self, pass: CellPass) {
        self.ours.add(pass.ours);
        self.floor.add(pass.floor);
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
    use crate::bench::run::Sample;

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
    fn the_passes_of_one_kind_come_together_and_others_stay_apart() {
        let mut measured = Measured::default();
        for count in [1, 2, 3] {
            for connections in [1, 32] {
                let pass = CellPass {
                    ours: share(count),
                    floor: share(10),
                    beside: vec![share(4)],
                    paced: (connections == 32).then(|| (500.0, share(5), share(6))),
                    opinion: Some(f64::from(count)),
                };
                measured.cell(Act::Fetch, 2, connections).add(pass);
            }
            measured.blend(90).on.add(share(7));
        }
        let [one, many] = measured.cells.as_slice() else {
            panic!("{} cells", measured.cells.len())
        };
        let counts =
            |figure: &Figure| -> Vec<u64> { figure.passes.iter().map(|pass| pass.count).collect() };
        assert_eq!((one.connections, many.connections), (1, 32));
        assert_eq!(counts(&many.ours), [1, 2, 3]);
        assert_eq!(counts(&many.beside[0]), [4, 4, 4]);
        assert_eq!(many.opinions, [1.0, 2.0, 3.0]);
        let paced = many.paced.as_ref().unwrap();
        assert_eq!((counts(&paced.ours), paced.per_s), (vec![5, 5, 5], 500.0));
        assert!(one.paced.is_none());
        assert_eq!(measured.blends.len(), 1);
        assert_eq!(counts(&measured.blend(90).on), [7, 7, 7]);
    }
}
