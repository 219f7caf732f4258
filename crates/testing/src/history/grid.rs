//! The oracle: what was believed at each point of a small grid.
//!
//! It knows no versions, no cuts and no periods. Each mark has a column with a cell for each valid
//! instant; a cell says which piece is there. A write gives new names to the pieces it makes and
//! to what it leaves of others, so pieces are distinguished even where their values are equal.

use std::collections::BTreeMap;

use model::Timestamp;
use model::history::{Range, Until};

use super::sequence::{
    HistoryDoc, HistoryEnd, HistoryOp, HistoryWrite, INSTANT_MAX, MARK_MAX, SetColumns,
};

/// First instant that is asked for, the beginning of time apart.
const FIRST: i64 = -2;
/// Above every mark and every instant that an operation names.
const LAST: i64 = if INSTANT_MAX > MARK_MAX {
    INSTANT_MAX + 1
} else {
    MARK_MAX + 1
};

/// The valid instants of the grid, the beginning of time first. Nothing begins or ends between
/// two of them, nor after the last one.
pub fn instants() -> Vec<i64> {
    std::iter::once(i64::MIN).chain(FIRST..=LAST).collect()
}

fn index(instant: i64) -> usize {
    match instant {
        i64::MIN => 0,
        _ => (instant - FIRST + 1) as usize,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct GridCell {
    piece: u32,
    doc: HistoryDoc,
    origin: i64,
}

type GridColumn = Vec<Option<GridCell>>;

/// A piece as the grid shows it: valid over, known from, origin, value.
pub type GridPiece = ((i64, Option<i64>), i64, i64, HistoryDoc);
/// A rectangle: valid over, known from and to, origin, value.
pub type GridArea = ((i64, Option<i64>), i64, Option<i64>, i64, HistoryDoc);

/// What is believed of one row at each mark and each instant.
#[derive(Clone)]
pub struct HistoryGrid {
    /// What was believed from each mark on.
    columns: Vec<(i64, GridColumn)>,
    pieces: u32,
}

impl Default for HistoryGrid {
    fn default() -> HistoryGrid {
        HistoryGrid {
            columns: vec![(0, vec![None; instants().len()])],
            pieces: 0,
        }
    }
}

impl HistoryGrid {
    /// Runs a transaction; why it was refused, if it was.
    pub fn transact(&mut self, mark: i64, ops: &[HistoryOp]) -> Result<(), &'static str> {
        let mut after = self.clone();
        let column = after.column(mark).clone();
        after.columns.push((mark, column));
        for op in ops {
            after.run(mark, *op)?;
        }
        *self = after;
        Ok(())
    }

    fn run(&mut self, mark: i64, op: HistoryOp) -> Result<(), &'static str> {
        let column = &self.columns.last().unwrap().1;
        let there = |at: Option<i64>| column[index(at.unwrap_or(mark))].map(|cell| cell.doc);
        let holds = match op {
            HistoryOp::Write(kind, range, set) => return self.write(mark, kind, range, set),
            HistoryOp::Erase => {
                let cells = self.columns.iter_mut().flat_map(|(_, column)| column);
                cells.for_each(|cell| *cell = None);
                true
            }
            HistoryOp::Exists { expected, at } => there(at).is_some() == expected,
            HistoryOp::HasX { x, at } => there(at).is_some_and(|doc| doc.x == x),
            HistoryOp::UnchangedSince(since) => self.last_change().is_none_or(|last| last <= since),
        };
        if holds { Ok(()) } else { Err("assert_failed") }
    }

    fn write(
        &mut self,
        mark: i64,
        kind: HistoryWrite,
        range: Range,
        set: SetColumns,
    ) -> Result<(), &'static str> {
        let column = self.columns.last().unwrap().1.clone();
        let from = index(range.from.map_or(mark, |from| from.0));
        let end = match range.until {
            Until::Open => column.len(),
            Until::At(end) => index(end.0),
            Until::Next => run_end(&column, from),
        };
        if end <= from {
            return Err("invalid_range");
        }
        let made = set.merged(HistoryDoc::default());
        if matches!(kind, HistoryWrite::Put | HistoryWrite::Insert) {
            if matches!(kind, HistoryWrite::Insert) && column[from..end].iter().any(Option::is_some)
            {
                return Err("exists");
            }
            self.take(from, end);
            self.fill(from, end, mark, made);
            return Ok(());
        }
        let mut at = from;
        while at < end {
            let next = run_end(&column, at).min(end);
            match (kind, column[at]) {
                (HistoryWrite::Delete, Some(_)) => self.take(at, next),
                (HistoryWrite::Patch, None) => self.fill(at, next, mark, made),
                (_, None) => {}
                (HistoryWrite::UpdateWhereDifferent, Some(cell))
                    if set.merged(cell.doc) == cell.doc => {}
                (_, Some(cell)) => {
                    self.take(at, next);
                    self.fill(at, next, mark, set.merged(cell.doc));
                }
            }
            at = next;
        }
        Ok(())
    }

    /// What moving an end of the row's unbroken time comes to, written out as operations.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn moved_end(&self, mark: i64, end: HistoryEnd) -> Result<Vec<HistoryOp>, &'static str> {
        let column = self.column(mark);
        let is_there = |at: &usize| column[*at].is_some();
        let met = (index(mark)..column.len()).find(is_there);
        let met = met.ok_or("row_not_found")?;
        let first = (0..=met).rev().take_while(is_there).last();
        let first = first.expect("the row is there where it was met");
        let stop = (met..column.len()).find(|at| !is_there(at));
        let stop = stop.unwrap_or(column.len());
        let put = |like: usize, from: usize, to: usize| {
            let doc = column[like].expect("the row is there up to its end").doc;
            let (x, y) = (Some(doc.x), Some(doc.y));
            write_over(HistoryWrite::Put, (from, to), SetColumns { x, y })
        };
        let delete = |from: usize, to: usize| {
            let (x, y) = (None, None);
            write_over(HistoryWrite::Delete, (from, to), SetColumns { x, y })
        };
        let to = match end {
            HistoryEnd::From(at) => index(at),
            HistoryEnd::Until(Until::At(at)) => index(at.0),
            HistoryEnd::Until(Until::Open) => column.len(),
            HistoryEnd::Until(Until::Next) => {
                let next = (stop..column.len()).find(is_there);
                next.unwrap_or(column.len())
            }
        };
        let op = match end {
            HistoryEnd::From(_) if to >= stop => return Err("invalid_range"),
            HistoryEnd::Until(_) if to <= first => return Err("invalid_range"),
            HistoryEnd::From(_) if to > first => delete(first, to),
            HistoryEnd::From(_) if to < first => put(first, to, run_end(column, first)),
            HistoryEnd::Until(_) if to < stop => delete(to, stop),
            HistoryEnd::Until(_) if to > stop => {
                let is_last = |at: &usize| run_end(column, *at) == stop;
                let begin = (first..stop).find(is_last);
                put(stop - 1, begin.expect("it has a last piece"), to)
            }
            HistoryEnd::From(_) | HistoryEnd::Until(_) => return Ok(Vec::new()),
        };
        Ok(vec![op])
    }

    /// Empties the cells, and renames what is left of pieces on either side.
    fn take(&mut self, from: usize, end: usize) {
        let mut column = self.columns.pop().unwrap();
        let before = column.1.clone();
        column.1[from..end].fill(None);
        for (start, stop) in [(0, from), (end, before.len())] {
            let name = self.name();
            for cell in column.1[start..stop].iter_mut().flatten() {
                let is_met =
                    |met: &Option<GridCell>| met.is_some_and(|met| met.piece == cell.piece);
                if before[from..end].iter().any(is_met) {
                    cell.piece = name;
                }
            }
        }
        self.columns.push(column);
    }

    fn fill(&mut self, from: usize, end: usize, mark: i64, doc: HistoryDoc) {
        let cell = GridCell {
            piece: self.name(),
            doc,
            origin: mark,
        };
        self.columns.last_mut().unwrap().1[from..end].fill(Some(cell));
    }

    fn name(&mut self) -> u32 {
        self.pieces += 1;
        self.pieces
    }

    fn column(&self, mark: i64) -> &GridColumn {
        let known = self.columns.iter().rfind(|(from, _)| *from <= mark);
        &known.unwrap().1
    }

    /// Zero, and the marks of transactions, rising. Marks between show what the last one before
    /// them shows.
    pub fn marks(&self) -> impl Iterator<Item = i64> {
        self.columns.iter().map(|(mark, _)| *mark)
    }

    /// The piece at this instant, as known at `mark`.
    pub fn at(&self, valid: i64, mark: i64) -> Option<GridPiece> {
        let column = self.column(mark);
        let cell = column[index(valid)]?;
        let known_from = self.columns.iter().find(|(_, column)| holds(column, cell));
        Some((
            period_of(column, cell.piece),
            known_from.unwrap().0,
            cell.origin,
            cell.doc,
        ))
    }

    /// All pieces known at `mark`, in the order of time.
    pub fn along_valid(&self, mark: i64) -> Vec<GridPiece> {
        let mut pieces: Vec<GridPiece> = instants()
            .iter()
            .filter_map(|at| self.at(*at, mark))
            .collect();
        pieces.dedup();
        pieces
    }

    /// Runs of touching cells with equal values.
    pub fn along_valid_joined(&self, mark: i64) -> Vec<((i64, Option<i64>), HistoryDoc)> {
        let column = self.column(mark);
        let docs: Vec<Option<HistoryDoc>> = column.iter().map(|c| c.map(|c| c.doc)).collect();
        let mut stretches = Vec::new();
        let mut at = 0;
        while at < docs.len() {
            let same = docs[at..].iter().take_while(|doc| **doc == docs[at]);
            let end = at + same.count();
            if let Some(doc) = docs[at] {
                stretches.push((between(at, end), doc));
            }
            at = end;
        }
        stretches
    }

    /// Known from and to, origin, value.
    pub fn along_system(&self, valid: i64, mark: i64) -> Vec<(i64, Option<i64>, i64, HistoryDoc)> {
        let mut entries: Vec<(i64, Option<i64>, i64, HistoryDoc)> = Vec::new();
        let mut last_origin = None;
        for (from, column) in self.columns.iter().filter(|(from, _)| *from <= mark) {
            let cell = column[index(valid)];
            let origin = cell.map(|cell| cell.origin);
            if origin == last_origin {
                continue;
            }
            if last_origin.is_some() {
                entries.last_mut().unwrap().1 = Some(*from);
            }
            entries.extend(cell.map(|cell| (*from, None, cell.origin, cell.doc)));
            last_origin = origin;
        }
        entries
    }

    /// In the order of known from, then valid from.
    pub fn rectangles(&self, mark: i64) -> Vec<GridArea> {
        let mut areas: BTreeMap<u32, GridArea> = BTreeMap::new();
        for (from, column) in self.columns.iter().filter(|(from, _)| *from <= mark) {
            for cell in column.iter().flatten() {
                let valid = period_of(column, cell.piece);
                let area = (valid, *from, None, cell.origin, cell.doc);
                areas.entry(cell.piece).or_insert(area);
            }
            for (piece, area) in &mut areas {
                let is_there = column.iter().flatten().any(|cell| cell.piece == *piece);
                if !is_there && area.2.is_none() {
                    area.2 = Some(*from);
                }
            }
        }
        let mut areas: Vec<GridArea> = areas.into_values().collect();
        areas.sort_by_key(|area| (area.1, area.0));
        areas
    }

    /// Where the piece or the gap at `valid` ends, unless it is open.
    pub fn boundary_after(&self, valid: i64, mark: i64) -> Option<i64> {
        let column = self.column(mark);
        let end = run_end(column, index(valid));
        instants().get(end).copied()
    }

    /// Whether the transaction of this mark changed anything.
    pub fn is_changed_at(&self, mark: i64) -> bool {
        let position = self.columns.iter().position(|(from, _)| *from == mark);
        position.is_some_and(|at| at > 0 && self.columns[at].1 != self.columns[at - 1].1)
    }

    /// The mark of the latest change.
    pub fn last_change(&self) -> Option<i64> {
        let mut marks = self.columns.iter().map(|(mark, _)| *mark).rev();
        marks.find(|mark| self.is_changed_at(*mark))
    }
}

fn write_over(kind: HistoryWrite, (from, to): (usize, usize), set: SetColumns) -> HistoryOp {
    let instants = instants();
    let until = instants
        .get(to)
        .map_or(Until::Open, |at| Until::At(Timestamp(*at)));
    let from = Some(Timestamp(instants[from]));
    HistoryOp::Write(kind, Range { from, until }, set)
}

fn holds(column: &GridColumn, cell: GridCell) -> bool {
    column
        .iter()
        .flatten()
        .any(|other| other.piece == cell.piece)
}

/// Where the cells end that belong to the same piece, or gap, as this one.
fn run_end(column: &GridColumn, from: usize) -> usize {
    let name = |at: usize| column[at].map(|cell: GridCell| cell.piece);
    let other = (from + 1..column.len()).find(|at| name(*at) != name(from));
    other.unwrap_or(column.len())
}

fn period_of(column: &GridColumn, piece: u32) -> (i64, Option<i64>) {
    let is_piece = |cell: &Option<GridCell>| cell.is_some_and(|cell| cell.piece == piece);
    let from = column.iter().position(is_piece).unwrap();
    between(from, run_end(column, from))
}

fn between(from: usize, end: usize) -> (i64, Option<i64>) {
    let instants = instants();
    (instants[from], instants.get(end).copied())
}
