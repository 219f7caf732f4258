//! What random batches do beside rows: under keys of requests, and to transactions of clients.

use std::sync::Arc;

use model::{Mark, ProjectId, Timestamp};

use super::draws::BatchDraws;
use crate::batch::Op;
use crate::staged::{
    AnswerOf, Bound, Done, Once, Share, Since, StagedOperation, TransactionOp, TransactionStatus,
};

/// So much faster than marks the clock of requests and transactions goes: keys are forgotten after
/// some groups.
const CLOCK: i64 = 700_000;
/// Bytes of answers that are kept for an owner: a few of them.
const ANSWERS_BYTES_MAX: u64 = 500;
/// A transaction expires within so many groups.
const GROUPS_OPEN: u64 = 6;
/// Keys, owners, and ids of transactions: few enough to meet.
const KEYS: u64 = 12;
const OWNERS: [&str; 4] = ["key:a@1", "guest 1.2.3.4", "guest 5.6.7.8", "user"];
const TRANSACTIONS: u64 = 5;

impl BatchDraws {
    /// What a batch at this instant does before its operations on rows.
    pub(super) fn beside(&mut self, at: Timestamp) -> Vec<Op> {
        let (mut ops, now) = (Vec::new(), Timestamp(at.0 * CLOCK));
        if self.is_one_in(2) {
            ops.push(Op::Once(self.once(now)));
        }
        if self.is_one_in(3) {
            ops.push(Op::Transaction(self.transaction(at, now)));
            if self.is_one_in(2) {
                let seen = at.0 - self.below(3_000) as i64;
                ops.push(Op::Since(Since {
                    mark: Some(Mark(seen)),
                    instant: None,
                }));
            }
        }
        ops
    }

    fn owner(&mut self) -> &'static str {
        OWNERS[self.below(OWNERS.len() as u64) as usize]
    }

    fn once(&mut self, now: Timestamp) -> Once {
        let owner = self.owner();
        let length = self.below(400) as usize;
        let answer = move |done: &Done<'_>| {
            let mut answer = format!("{:?} {:?}", done.mark, done.rows).into_bytes();
            answer.resize(length, b'.');
            answer
        };
        Once {
            project: project(),
            key: format!("{owner} {}", self.below(KEYS)),
            part: self.below(2) as u32,
            request: u128::from(self.below(2)),
            now,
            answer: (!self.is_one_in(4)).then(|| AnswerOf(Arc::new(answer))),
            answers_bytes_max: ANSWERS_BYTES_MAX,
        }
    }

    fn share(&mut self) -> Share {
        if self.is_one_in(2) {
            return Share {
                own: Bound::WHOLE,
                class: Bound::WHOLE,
            };
        }
        let bound = |open, bytes| Bound { open, bytes };
        Share {
            own: bound(2, 60),
            class: bound(3, 90),
        }
    }

    fn transaction(&mut self, at: Timestamp, now: Timestamp) -> TransactionOp {
        let (project, id) = (project(), format!("t{}", self.below(TRANSACTIONS)));
        match self.below(8) {
            0..=2 => TransactionOp::Create {
                project,
                id,
                owner: self.owner().to_owned(),
                now,
                expires: Timestamp(now.0 + self.below(GROUPS_OPEN * 1_000) as i64 * CLOCK),
                share: self.share(),
            },
            3..=5 => TransactionOp::Stage {
                project,
                id,
                now,
                operations: (0..self.below(3)).map(|_| self.staged(at)).collect(),
                share: self.share(),
            },
            6 => TransactionOp::End {
                project,
                id,
                now,
                status: match self.below(2) {
                    0 => TransactionStatus::Committed,
                    _ => TransactionStatus::Failed,
                },
                operation_count: self.is_one_in(3).then(|| self.below(3) as usize),
            },
            _ => TransactionOp::Delete { project, id },
        }
    }

    /// An operation on one row, or on many, of which it names one.
    fn staged(&mut self, at: Timestamp) -> StagedOperation {
        let row = format!("r{}", self.below(5));
        StagedOperation {
            seen: Mark(at.0),
            place: "d/t".to_owned(),
            row: self.is_one_in(2).then(|| row.clone()),
            body: format!("{{\"of\":[\"{row}\"],\"n\":{}}}", self.below(1_000)).into(),
        }
    }
}

fn project() -> ProjectId {
    ProjectId::new("p").unwrap()
}
