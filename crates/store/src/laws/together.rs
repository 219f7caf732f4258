//! Several batches as one: what operations that need each other do when they are done together.

use crate::batch::{Applied, Changes, Op, Outcome, WriteBatch};
use crate::refusal::Refusal;

/// Batches made one, except for those that were refused.
pub(super) struct Together {
    pub(super) batch: WriteBatch,
    /// For each operation of it, which of the batches it is of.
    of: Vec<usize>,
}

impl Together {
    /// At least one of `group` is not refused, or the batch does nothing.
    pub(super) fn of(group: &[WriteBatch], refused: &[Option<Refusal>]) -> Together {
        let left = group.iter().zip(refused).enumerate();
        let left = left.filter(|(_, (_, refusal))| refusal.is_none());
        let (mut ops, mut of) = (Vec::new(), Vec::new());
        for (nth, (batch, _)) in left {
            ops.extend(batch.ops.iter().cloned());
            of.resize(ops.len(), nth);
        }
        let batch = WriteBatch {
            ops,
            ..group[0].clone()
        };
        Together { batch, of }
    }

    /// Which of the batches the operation is of.
    pub(super) fn batch_of(&self, nth: usize) -> usize {
        self.of[nth]
    }

    /// What became of each batch. What changed in rows stands with none of them.
    pub(super) fn outcomes(&self, applied: Applied, refused: Vec<Option<Refusal>>) -> Vec<Outcome> {
        let mut parts: Vec<Applied> = refused.iter().map(|_| part_of(&applied)).collect();
        let mut rows = applied.rows.into_iter();
        let mut matched = applied.matched.into_iter();
        let mut timed = applied.timed.into_iter();
        for (op, nth) in self.batch.ops.iter().zip(&self.of) {
            let part = &mut parts[*nth];
            match op {
                Op::Row(op) if op.range.is_some() => part.timed.extend(timed.next()),
                Op::Row(_) => part.rows.extend(rows.next()),
                Op::Matching(_) => part.matched.extend(matched.next()),
                Op::Related(_)
                | Op::Catalogue(_)
                | Op::Transaction(_)
                | Op::Function(_)
                | Op::Since(_)
                | Op::Once(_) => {}
            }
        }
        let outcomes = parts.into_iter().zip(refused);
        let outcomes = outcomes.map(|(part, refused)| refused.map_or(Ok(part), Err));
        outcomes.collect()
    }
}

/// One of the batches that were applied together, without what its operations report.
fn part_of(whole: &Applied) -> Applied {
    Applied {
        mark: whole.mark,
        rows: Vec::new(),
        matched: Vec::new(),
        timed: Vec::new(),
        changes: Changes::Tables(Vec::new()),
        past_changed: Vec::new(),
        erased: Vec::new(),
        catalogue: Vec::new(),
        transactions: Vec::new(),
        keeps: whole.keeps,
        leaves_upkeep: whole.leaves_upkeep,
        catalogue_epoch: whole.catalogue_epoch,
    }
}
