//! One row as a store keeps it, in memory: its versions, and what the table of now shows of it.

use std::collections::BTreeSet;

use model::history::{
    Act, Claim, Ending, History, Known, Operation, Piece, Plan, Present, Range, Refresh, Shown,
    Until, Version, VersionNumber, WriteRefusal,
};
use model::{Mark, Period, Timestamp};

use testing::history::{HistoryDoc, HistoryOp, HistoryWrite};

#[derive(Clone, Default)]
pub struct Memory {
    pub versions: Vec<Version<HistoryDoc>>,
    pub now: Option<Row>,
    /// When the table of now must be looked at again.
    pub boundary: Option<Timestamp>,
    /// The rules that plans have followed.
    pub followed: BTreeSet<&'static str>,
}

/// A row of the table of now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub shown: Shown,
    pub origin: Mark,
    pub doc: HistoryDoc,
}

impl Memory {
    /// Runs a transaction, all or nothing.
    pub fn transact(&mut self, mark: i64, ops: &[HistoryOp]) -> Result<(), WriteRefusal> {
        let mark = Mark(mark);
        let mut after = self.clone();
        for op in ops {
            let plan = after.plan(mark, *op)?;
            after.follow(&plan);
            after.apply(mark, &plan);
            after.refresh(mark.timestamp(), Some(mark));
        }
        *self = after;
        Ok(())
    }

    fn follow(&mut self, plan: &Plan<HistoryDoc>) {
        let versions = &self.versions;
        let rules = plan.endings.iter().map(|(number, ending)| {
            let version = versions.iter().find(|version| version.number == *number);
            let was_cut = version.is_some_and(|version| version.cut.is_some());
            match (ending, was_cut) {
                (Ending::Remove, _) => "remove",
                (Ending::Cut(_), false) => "cut",
                (Ending::Cut(_), true) => "cut again",
                (Ending::Close, false) => "close",
                (Ending::Close, true) => "close what was cut",
                (Ending::UncutAndClose, _) => "uncut",
            }
        });
        self.followed.extend(rules);
        self.followed.extend(plan.erases.then_some("erase"));
    }

    /// Makes the table of now show what is valid at the instant.
    pub fn refresh(&mut self, instant: Timestamp, batch: Option<Mark>) {
        let present = Present::new(&self.versions, instant);
        // It looks at nothing that a store would not find in one seek.
        let is_ahead = |version: &&Version<HistoryDoc>| {
            let piece = version.piece_now();
            piece.is_some_and(|piece| piece.valid.end() > instant)
        };
        let ahead: Vec<Version<HistoryDoc>> =
            self.versions.iter().filter(is_ahead).cloned().collect();
        assert_eq!(present, Present::new(&ahead, instant));
        match present.refresh(batch, self.now.map(|row| row.shown)) {
            Refresh::Keep => {}
            Refresh::Show(piece) => self.now = Some(Row::of(&piece)),
            Refresh::Withdraw => self.now = None,
        }
        self.boundary = present.boundary;
    }

    /// The plan of the operation; the same whether it is shown all versions or only those that a
    /// store has to look for.
    fn plan(&self, mark: Mark, op: HistoryOp) -> Result<Plan<HistoryDoc>, WriteRefusal> {
        let last_change = History::new(&self.versions).last_change();
        let needed = needed(&self.versions, mark, op);
        let plan = |versions| {
            let known = Known {
                versions,
                last_change,
            };
            plan(mark, op, known)
        };
        let made = plan(&self.versions);
        assert_eq!(made, plan(&needed), "{op:?} needs no more than it says");
        made
    }

    /// Step by step, as statements of a database: before and after each of them no two versions
    /// that are not gone begin at the same instant.
    fn apply(&mut self, mark: Mark, plan: &Plan<HistoryDoc>) {
        let steps = plan.endings.iter().map(|ending| Plan {
            endings: vec![*ending],
            ..Plan::default()
        });
        let writes = plan.writes.iter().map(|write| Plan {
            writes: vec![write.clone()],
            ..Plan::default()
        });
        let erasure = Plan {
            erases: plan.erases,
            ..Plan::default()
        };
        for step in std::iter::once(erasure).chain(steps).chain(writes) {
            step.apply(mark, &mut self.versions, next_number);
            let mut from: Vec<Timestamp> = self.believed().map(|valid| valid.from()).collect();
            let count = from.len();
            from.sort();
            from.dedup();
            assert_eq!(from.len(), count, "{:?}", self.versions);
        }
        let believed: Vec<Period> = self.believed().collect();
        for (position, one) in believed.iter().enumerate() {
            for other in &believed[..position] {
                assert_eq!(one.intersect(other), None, "{:?}", self.versions);
            }
        }
    }

    fn believed(&self) -> impl Iterator<Item = Period> {
        let versions = self.versions.iter();
        versions.filter_map(|version| Some(version.piece_now()?.valid))
    }
}

impl Row {
    pub fn of(piece: &Piece<'_, HistoryDoc>) -> Row {
        Row {
            shown: Shown::of(piece),
            origin: piece.origin,
            doc: *piece.value,
        }
    }
}

/// As SQLite gives them: the number of a removed version is given again.
pub fn next_number<V>(versions: &[Version<V>]) -> VersionNumber {
    let highest = versions.iter().map(|version| version.number.0).max();
    VersionNumber(highest.unwrap_or(0) + 1)
}

/// What [`Known::versions`] asks for, and nothing else.
fn needed(versions: &[Version<HistoryDoc>], mark: Mark, op: HistoryOp) -> Vec<Version<HistoryDoc>> {
    let valid = |version: &Version<HistoryDoc>| version.piece_now().map(|piece| piece.valid);
    let find = |period: Option<Period>| {
        let meets = |v: &&Version<HistoryDoc>| valid(v)?.intersect(&period?);
        let found = versions.iter().filter(|version| meets(version).is_some());
        found.cloned().collect::<Vec<_>>()
    };
    let at = |at: Option<i64>| {
        let at = at.unwrap_or(mark.0);
        Period::new(Timestamp(at), Some(Timestamp(at + 1))).ok()
    };
    match op {
        HistoryOp::Write(_, range, _) => {
            let from = range.from_at(mark);
            let to = match range.until {
                Until::Open => None,
                Until::At(to) => Some(to),
                Until::Next => Some(Timestamp(from.0 + 1)),
            };
            let mut needed = find(Period::new(from, to).ok());
            if range.until == Until::Next {
                let later = |v: &&Version<HistoryDoc>| valid(v).is_some_and(|v| v.from() > from);
                let later = versions.iter().filter(later);
                needed.extend(later.min_by_key(|version| version.valid.from()).cloned());
            }
            needed
        }
        HistoryOp::Exists { at: when, .. } | HistoryOp::HasX { at: when, .. } => find(at(when)),
        HistoryOp::Erase | HistoryOp::UnchangedSince(_) => Vec::new(),
    }
}

fn plan(
    mark: Mark,
    op: HistoryOp,
    known: Known<'_, HistoryDoc>,
) -> Result<Plan<HistoryDoc>, WriteRefusal> {
    let instant = |at: Option<i64>| at.map(Timestamp);
    let (kind, range, set) = match op {
        HistoryOp::Write(kind, range, set) => (kind, range, set),
        HistoryOp::Erase => return Plan::new(Operation::Erase, mark, known),
        HistoryOp::Exists { expected, at } => {
            let at = instant(at);
            let claim = Claim::Exists { expected, at };
            return Plan::new(Operation::Assert(claim), mark, known);
        }
        HistoryOp::HasX { x, at } => {
            let test = |doc: &HistoryDoc| doc.x == x;
            let (test, at) = (&test, instant(at));
            let claim = Claim::Matches { test, at };
            return Plan::new(Operation::Assert(claim), mark, known);
        }
        HistoryOp::UnchangedSince(since) => {
            let claim = Claim::UnchangedSince(Mark(since));
            return Plan::new(Operation::Assert(claim), mark, known);
        }
    };
    let made = set.merged(HistoryDoc::default());
    let mut merge = |doc: Option<&HistoryDoc>| Ok(Some(doc.map_or(made, |doc| set.merged(*doc))));
    let mut differing = |doc: Option<&HistoryDoc>| {
        let merged = doc.map(|doc| (doc, set.merged(*doc)));
        Ok(merged
            .filter(|(doc, merged)| **doc != *merged)
            .map(|(_, merged)| merged))
    };
    let act = match kind {
        HistoryWrite::Insert => Act::Insert(made),
        HistoryWrite::Put => Act::Put(made),
        HistoryWrite::Patch => Act::Patch(&mut merge),
        HistoryWrite::Update => Act::Update(&mut merge),
        HistoryWrite::UpdateWhereDifferent => Act::Update(&mut differing),
        HistoryWrite::Delete => Act::Delete,
    };
    write(act, range, mark, known)
}

fn write(
    act: Act<'_, HistoryDoc>,
    range: Range,
    mark: Mark,
    known: Known<'_, HistoryDoc>,
) -> Result<Plan<HistoryDoc>, WriteRefusal> {
    Plan::new(Operation::Write(act, range), mark, known)
}
