//! What the clients of the mixed workload do, one after the other: drawn, and so repeatable.

use measure::draw::Draw;

use crate::workload::Mixed;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Ask for the list of this number.
    Read(usize),
    /// Set a column of a row, both by number, to a value.
    Update {
        /// The row, of those that were there at the beginning.
        row: u32,
        /// The place of the column in the workload.
        column: usize,
        /// The new value.
        value: u32,
    },
    /// Create the row of this number of the catalog.
    Insert(u32),
}

/// Which part of the trace.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its place in the run; no two have the same.
    pub number: u32,
    /// Of 100 requests, how many are reads.
    pub read_percent: u32,
    /// Requests of each client.
    pub length: u32,
}

/// Draws requests.
pub struct Drawing<'a> {
    workload: &'a Mixed,
    /// The lists in the order of their popularity.
    ranks: Vec<usize>,
    /// Of each rank, the weights up to it, in sum.
    weights: Vec<f64>,
}

impl Drawing<'_> {
    /// Decides which list is how popular.
    pub fn new(workload: &Mixed) -> Drawing<'_> {
        let mut draws = Draw(workload.seed);
        let mut ranks: Vec<usize> = (0..workload.lists.len()).collect();
        for last in (1..ranks.len()).rev() {
            ranks.swap(last, draws.small(last as u32 + 1) as usize);
        }
        let mut sum = 0.0;
        let weights = (1..=ranks.len()).map(|rank| {
            sum += (rank as f64).powf(-workload.zipf_exponent);
            sum
        });
        Drawing {
            workload,
            weights: weights.collect(),
            ranks,
        }
    }

    /// The requests of one client in one part of the trace.
    pub fn client(&self, part: Part, client: u32) -> Vec<Op> {
        let seed = self.workload.seed ^ (u64::from(part.number) << 32) ^ u64::from(client);
        let mut draws = Draw(seed);
        // One draw more, so that neighbouring seeds part.
        let mut draws = Draw(draws.any());
        let before = part.number * self.workload.connections + client;
        let mut inserted = self.workload.rows + before * part.length;
        let op = |_| {
            if draws.small(100) < part.read_percent {
                return Op::Read(self.list(draws.share()));
            }
            if draws.small(100) < self.workload.insert_percent {
                inserted += 1;
                return Op::Insert(inserted - 1);
            }
            let column = draws.small(self.workload.columns.len() as u32) as usize;
            Op::Update {
                row: draws.small(self.workload.rows),
                column,
                value: draws.small(self.workload.columns[column].max + 1),
            }
        };
        (0..part.length).map(op).collect()
    }

    /// The list at this part of all weights.
    fn list(&self, part: f64) -> usize {
        let sum = self.weights.last().copied().unwrap_or_default();
        let rank = self.weights.partition_point(|upto| *upto <= part * sum);
        self.ranks[rank.min(self.ranks.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;
    use std::collections::HashSet;

    const PART: Part = Part {
        number: 3,
        read_percent: 90,
        length: 20_000,
    };

    #[test]
    fn a_trace_has_the_shares_that_the_workload_states() {
        let workload = workload::mixed().unwrap();
        let drawing = Drawing::new(&workload);
        let ops = drawing.client(PART, 5);
        let mut counts = [0_u32; 4];
        for op in &ops {
            match *op {
                Op::Read(list) => counts[0] += u32::from(list < 1_000),
                Op::Update { column, row, value } => {
                    assert!(row < 10_000 && value <= workload.columns[column].max);
                    counts[1 + column] += 1;
                }
                Op::Insert(_) => counts[3] += 1,
            }
        }
        let near = |count: u32, wanted: u32| count.abs_diff(wanted) * 10 <= wanted;
        assert!(near(counts[0], 18_000), "{counts:?}");
        assert!(near(counts[1], 900) && near(counts[2], 900), "{counts:?}");
        assert!(counts[3].abs_diff(200) < 60, "{counts:?}");
    }

    #[test]
    fn lists_are_asked_for_by_the_law_of_zipf() {
        let workload = workload::mixed().unwrap();
        let drawing = Drawing::new(&workload);
        let mut drawn = vec![0_u32; 1_000];
        for op in drawing.client(PART, 1) {
            if let Op::Read(list) = op {
                drawn[list] += 1;
            }
        }
        let total: u32 = drawn.iter().sum();
        let weight: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-1.1)).sum();
        for rank in [0, 1, 9] {
            let wanted = f64::from(total) * f64::from(rank as u32 + 1).powf(-1.1) / weight;
            let got = f64::from(drawn[drawing.ranks[rank]]);
            assert!(
                (got / wanted - 1.0).abs() < 0.15,
                "{rank}: {got} for {wanted}"
            );
        }
    }

    #[test]
    fn a_trace_repeats_itself_and_no_two_rows_are_created_alike() {
        let workload = workload::mixed().unwrap();
        let drawing = Drawing::new(&workload);
        assert_eq!(
            drawing.client(PART, 5),
            Drawing::new(&workload).client(PART, 5)
        );
        assert_ne!(drawing.client(PART, 5), drawing.client(PART, 6));
        let mut created = HashSet::new();
        for number in 0..3 {
            for client in 0..workload.connections {
                let part = Part {
                    number,
                    read_percent: 50,
                    length: 200,
                };
                for op in drawing.client(part, client) {
                    if let Op::Insert(row) = op {
                        assert!(row >= workload.rows && created.insert(row), "{row}");
                    }
                }
            }
        }
    }
}
