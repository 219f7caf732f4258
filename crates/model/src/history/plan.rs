//! What a write does to the stored versions of its row.
//!
//! These rules fix the stored rectangles exactly: two stores that follow them keep the same ones
//! (bitemporal rows, section 5.2).

use super::{Act, Known, Operation, Range, Version, VersionNumber, WriteRefusal};
use crate::period::Period;
use crate::time::{Mark, Timestamp};

mod apply;

/// The steps of one operation. First versions end, in any order; then new ones are written.
/// Before and after each step no two versions that are not gone begin at the same instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<V> {
    /// All versions of the row are taken away, those that are gone too.
    pub erases: bool,
    /// The versions that end, and how.
    pub endings: Vec<(VersionNumber, Ending)>,
    /// The versions to write, known from the mark of the operation.
    pub writes: Vec<NewVersion<V>>,
}

/// How a version ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was made by this very batch, so no reader has ever seen it: it is removed.
    Remove,
    /// From the mark on it is believed up to this instant only: `cut_tt`, `cut_vt` are set.
    Cut(Timestamp),
    /// From the mark on nothing of it is believed: `st` is set.
    Close,
    /// The same for one that this very batch has cut: no reader has ever seen it cut, so the cut is
    /// taken back.
    UncutAndClose,
}

/// A version to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewVersion<V> {
    /// Valid over.
    pub valid: Period,
    /// The mark of the operation, or for a remainder that of the version it is left of.
    pub origin: Mark,
    /// The value.
    pub value: V,
}

impl<V> Default for Plan<V> {
    fn default() -> Plan<V> {
        Plan {
            erases: false,
            endings: Vec::new(),
            writes: Vec::new(),
        }
    }
}

impl<V: Clone> Plan<V> {
    /// What `operation` does in a batch of this mark, whose earlier steps `known` shows.
    ///
    /// # Errors
    /// [`WriteRefusal`] when the operation is refused.
    pub fn new(
        operation: Operation<'_, V>,
        mark: Mark,
        known: Known<'_, V>,
    ) -> Result<Plan<V>, WriteRefusal> {
        match operation {
            Operation::Write(act, range) => {
                let writing = PlannedWrite::new(range, mark, known)?;
                writing.run(act)
            }
            Operation::Erase => Ok(Plan {
                erases: true,
                ..Plan::default()
            }),
            Operation::Assert(claim) => {
                claim.check(mark, &known)?;
                Ok(Plan::default())
            }
        }
    }

    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        !self.erases && self.endings.is_empty() && self.writes.is_empty()
    }
}

/// A write on its way to a plan.
struct PlannedWrite<'a, V> {
    mark: Mark,
    range: Period,
    /// The versions that the range meets, with what is believed of them, from left to right.
    met: Vec<(&'a Version<V>, Period)>,
    plan: Plan<V>,
}

impl<'a, V: Clone> PlannedWrite<'a, V> {
    fn new(range: Range, mark: Mark, known: Known<'a, V>) -> Result<Self, WriteRefusal> {
        let believed = |version: &'a Version<V>| Some((version, version.piece_now()?.valid));
        let mut pieces: Vec<(&Version<V>, Period)> =
            known.versions.iter().filter_map(believed).collect();
        pieces.sort_by_key(|(_, valid)| valid.from());
        let next = |from| {
            let boundaries = pieces.iter().filter_map(|(_, v)| v.boundary_after(from));
            boundaries.min()
        };
        let range = range.resolve(mark, next)?;
        pieces.retain(|(_, valid)| valid.intersect(&range).is_some());
        Ok(PlannedWrite {
            mark,
            range,
            met: pieces,
            plan: Plan::default(),
        })
    }

    fn run(mut self, act: Act<'_, V>) -> Result<Plan<V>, WriteRefusal> {
        match act {
            Act::Insert(value) => match self.met.first() {
                Some((_, valid)) => return Err(WriteRefusal::Exists { valid: *valid }),
                None => self.assert(self.range, value),
            },
            Act::Put(value) => {
                self.clear();
                self.assert(self.range, value);
            }
            Act::Delete => self.clear(),
            Act::Update(merge) => self.merge(merge)?,
            Act::Patch(merge) => {
                let gaps = self
                    .range
                    .uncovered(self.met.iter().map(|(_, valid)| valid));
                self.merge(merge)?;
                for gap in gaps {
                    if let Some(value) = merge(None)? {
                        self.assert(gap, value);
                    }
                }
            }
        }
        Ok(self.plan)
    }

    fn merge(&mut self, merge: super::Merge<'_, V>) -> Result<(), WriteRefusal> {
        for (version, believed) in std::mem::take(&mut self.met) {
            if let Some(value) = merge(Some(&version.value))? {
                let shared = believed.intersect(&self.range);
                let part = shared.expect("only versions that the range meets are kept");
                self.replace(version, believed, part);
                self.assert(part, value);
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        for (version, believed) in std::mem::take(&mut self.met) {
            self.replace(version, believed, self.range);
        }
    }

    /// Ends what `version` says over `part`. The whole of it is closed if it cannot be cut:
    /// a read at an earlier mark gets its valid period, too, and it must be the one that
    /// was known then.
    fn replace(&mut self, version: &Version<V>, believed: Period, part: Period) {
        let ending = ending(version, believed, part, self.mark);
        self.plan.endings.push((version.number, ending));
        if matches!(ending, Ending::Cut(_)) {
            return;
        }
        for left in believed.subtract(&part).into_iter().flatten() {
            self.plan.writes.push(NewVersion {
                valid: left,
                origin: version.origin,
                value: version.value.clone(),
            });
        }
    }

    fn assert(&mut self, valid: Period, value: V) {
        let origin = self.mark;
        self.plan.writes.push(NewVersion {
            valid,
            origin,
            value,
        });
    }
}

/// How a version ends of which `believed` is known, when `part` is taken from it.
fn ending<V>(version: &Version<V>, believed: Period, part: Period, mark: Mark) -> Ending {
    if version.sys_from == mark {
        return Ending::Remove;
    }
    let takes_tail = believed.from() < part.from() && believed.end() <= part.end();
    let was_cut = version.cut.is_some_and(|cut| cut.mark < mark);
    match version.cut {
        _ if takes_tail && !was_cut => Ending::Cut(part.from()),
        Some(_) if !was_cut => Ending::UncutAndClose,
        _ => Ending::Close,
    }
}

#[cfg(test)]
mod tests;
