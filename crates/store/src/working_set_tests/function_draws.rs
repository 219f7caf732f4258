//! What random batches do to functions and to what belongs to them.

use model::{
    DeploymentId, FunctionChange, FunctionDefinition, FunctionId, FunctionOptionsChange, Mark,
    ProjectId, Timestamp, VariableId,
};

use super::draws::BatchDraws;
use crate::batch::{CatalogueOp, Op, SpaceLimit, WriteBatch};
use crate::execution_queue::{
    CursorOf, EventCursor, NewEvents, NewExecution, QueueBounds, QueueOp, QueuedCall,
    QueuedExecution,
};
use crate::execution_record::{ExecutionRecord, ExecutionStatus, ExecutionTrigger};
use crate::function_name::FunctionName;
use crate::function_op::{ArchivePart, ArchivePiece, DeploymentAct, FunctionOp};

/// Functions, and what belongs to each: few enough to meet.
const FUNCTIONS: u64 = 2;
const VARIABLES: u64 = 3;
const DEPLOYMENTS: u64 = 2;
const RECORDS: u64 = 40;
/// Bytes of an archive; a piece has half of them.
const ARCHIVE_BYTES: u64 = 4;
/// A lease lasts as long as two groups.
const LEASE_US: i64 = 15_000_000_000;

/// Where the cursors of events are.
pub(super) struct EventsSeen {
    pub(super) front: Option<EventCursor>,
    pub(super) own: Option<EventCursor>,
    pub(super) apart: Vec<ProjectId>,
}

/// Where a batch names an execution that waits by its number, it has the number of its id here:
/// each database has given another one.
pub(super) fn with_numbers(batch: &WriteBatch, number: impl Fn(i64) -> i64) -> WriteBatch {
    let mut batch = batch.clone();
    for op in &mut batch.ops {
        let Op::Function(FunctionOp::Queue(op)) = op else {
            continue;
        };
        match op {
            QueueOp::Start { seqs, .. } | QueueOp::Renew { seqs, .. } => {
                for seq in seqs {
                    *seq = number(*seq);
                }
            }
            QueueOp::Return { seq, .. } | QueueOp::End { seq, .. } => *seq = number(*seq),
            _ => {}
        }
    }
    batch
}

impl BatchDraws {
    /// Some batches that follow this mark.
    pub(super) fn function_group(&mut self, first: Mark, seen: &EventsSeen) -> Vec<WriteBatch> {
        let batches = 1 + self.below(4);
        let one = |draws: &mut BatchDraws| {
            let mut ops = vec![draws.function_op(first, seen)];
            if draws.is_one_in(4) {
                ops = draws.whole_build();
            }
            // Whatever is behind the creation of a deployment could refuse it: numbers that were
            // given and taken back are another matter of each database.
            let creates = matches!(ops[0], Op::Function(FunctionOp::CreateDeployment { .. }));
            if !creates && draws.is_one_in(3) {
                ops.push(draws.function_op(first, seen));
            }
            WriteBatch {
                catalogue_epoch: 0,
                ops,
                author: None,
                unchanged_since: None,
                meta: None,
                noted_in: None,
                space: SpaceLimit::Any,
            }
        };
        (0..batches).map(|_| one(self)).collect()
    }

    /// The rest of a deployment that was created, up to the end of its build.
    fn whole_build(&mut self) -> Vec<Op> {
        let function = self.function_name();
        let id = DeploymentId::new(&format!("d{}", self.below(DEPLOYMENTS))).unwrap();
        let half = ARCHIVE_BYTES / 2;
        let piece = |start| ArchivePiece {
            part: ArchivePart::Source,
            start,
            bytes: vec![0; half as usize].into(),
        };
        let acts = [
            DeploymentAct::PutPiece(piece(0)),
            DeploymentAct::PutPiece(piece(half)),
            DeploymentAct::BeginBuild,
            DeploymentAct::EndBuild {
                is_ready: true,
                build_ms: 7,
            },
        ];
        let act = |act| FunctionOp::Deployment {
            function: function.clone(),
            id: id.clone(),
            act,
        };
        acts.map(|one| Op::Function(act(one))).into()
    }

    fn function_op(&mut self, first: Mark, seen: &EventsSeen) -> Op {
        let function = self.function_name();
        match self.below(40) {
            0 | 1 => {
                let definition = FunctionDefinition::new("F".to_owned(), "node-22".to_owned());
                Op::Catalogue(CatalogueOp::CreateFunction(function, Box::new(definition)))
            }
            2..=4 => {
                let change = Box::new(self.function_change());
                Op::Catalogue(CatalogueOp::UpdateFunction(function, change))
            }
            5 if self.is_one_in(4) => Op::Catalogue(CatalogueOp::DeleteFunction(function)),
            5..=8 => Op::Function(self.variable_op(function)),
            9..=20 => Op::Function(self.deployment_op(function)),
            21..=25 => Op::Function(self.records_op(function, first)),
            26 if self.is_one_in(3) => Op::Function(FunctionOp::RestartBuilds),
            26 | 27 => Op::Function(FunctionOp::DeleteExecution {
                function,
                id: if self.is_one_in(2) {
                    format!("e{}", self.below_ids())
                } else {
                    format!("x{}", self.below(RECORDS))
                },
            }),
            28..=31 => Op::Function(FunctionOp::Queue(self.events_op(first, seen))),
            _ => Op::Function(FunctionOp::Queue(self.queue_op(function, first))),
        }
    }

    fn function_name(&mut self) -> FunctionName {
        FunctionName {
            project: project(),
            id: FunctionId::new(&format!("f{}", self.below(FUNCTIONS))).unwrap(),
        }
    }

    fn function_change(&mut self) -> FunctionChange {
        let options = FunctionOptionsChange {
            records_max: self.is_one_in(2).then(|| 1 + self.below(3) as u32),
            records_days: self.is_one_in(3).then(|| 1 + self.below(3) as u32),
            records_bytes_max: self.is_one_in(3).then(|| 300 + self.below(2_000)),
            ..FunctionOptionsChange::default()
        };
        let some = |n| match n {
            0 => None,
            1 => Some(Vec::new()),
            n => Some(vec![format!("tables.t{n}.rows.*.create")]),
        };
        let schedule = ["", "* * * * *", "0 * * * *"];
        FunctionChange {
            events: some(self.below(5)),
            schedule: self
                .is_one_in(2)
                .then(|| schedule[self.below(3) as usize].to_owned()),
            options: self.is_one_in(2).then_some(options),
            ..FunctionChange::default()
        }
    }

    fn variable_op(&mut self, function: FunctionName) -> FunctionOp {
        let id = VariableId::new(&format!("v{}", self.below(VARIABLES))).unwrap();
        let key = format!("KEY_{}", self.below(VARIABLES));
        let value = format!("value {}, é", self.below(9));
        let secret = self.is_one_in(3);
        match self.below(5) {
            0..=2 => FunctionOp::CreateVariable {
                function,
                id,
                key,
                value,
                secret,
            },
            3 => FunctionOp::UpdateVariable {
                function,
                id,
                key: self.is_one_in(2).then_some(key),
                value: self.is_one_in(2).then_some(value),
                secret,
            },
            _ => FunctionOp::DeleteVariable { function, id },
        }
    }

    fn deployment_op(&mut self, function: FunctionName) -> FunctionOp {
        let id = DeploymentId::new(&format!("d{}", self.below(DEPLOYMENTS))).unwrap();
        let act = match self.below(14) {
            0 | 1 => {
                return FunctionOp::CreateDeployment {
                    function,
                    id,
                    source_bytes: ARCHIVE_BYTES,
                    activate: !self.is_one_in(4),
                    entrypoint: "main.js".to_owned(),
                    commands: "make".to_owned(),
                };
            }
            2..=6 => DeploymentAct::PutPiece(self.piece()),
            7 | 8 => DeploymentAct::BeginBuild,
            9 | 10 => DeploymentAct::EndBuild {
                is_ready: !self.is_one_in(4),
                build_ms: self.below(1_000),
            },
            11 => DeploymentAct::Activate,
            12 if self.is_one_in(2) => DeploymentAct::Expire,
            12 => DeploymentAct::Cancel,
            _ => DeploymentAct::Delete,
        };
        FunctionOp::Deployment { function, id, act }
    }

    fn piece(&mut self) -> ArchivePiece {
        let half = ARCHIVE_BYTES / 2;
        let (part, start) = match self.below(8) {
            0 => (ArchivePart::Log, self.below(9)),
            1 => (ArchivePart::Output, self.below(9)),
            2 => (ArchivePart::Source, self.below(ARCHIVE_BYTES + 1)),
            n => (ArchivePart::Source, (n % 2) * half),
        };
        ArchivePiece {
            part,
            start,
            bytes: vec![u8::from(self.is_one_in(9)); half as usize].into(),
        }
    }

    fn records_op(&mut self, function: FunctionName, first: Mark) -> FunctionOp {
        let seq = self.function_seq();
        if self.is_one_in(3) {
            return FunctionOp::TrimExecutions([(function, seq)].into());
        }
        let records = (0..=self.below(4)).map(|_| self.record(first));
        let records = records.map(|record| (function.clone(), seq, record));
        FunctionOp::KeepExecutions(records.collect())
    }

    /// [`model::Function::seq`] of a function, or of none.
    fn function_seq(&mut self) -> i64 {
        1 + self.below(FUNCTIONS + 2) as i64
    }

    fn record(&mut self, first: Mark) -> ExecutionRecord {
        let created = Timestamp(first.0 - self.below(1_000) as i64);
        ExecutionRecord {
            seq: 0,
            id: format!("x{}", self.below(RECORDS)),
            trigger: ExecutionTrigger::Schedule,
            deployment: DeploymentId::new("d0").unwrap(),
            status: ExecutionStatus::Completed,
            method: "POST".to_owned(),
            path: "/a?b".to_owned(),
            request_headers: vec![("x-a".to_owned(), "\"\u{0}é".to_owned())],
            response_status: 200,
            response_headers: Vec::new(),
            logs: "l\u{0}".repeat(self.below(200) as usize),
            errors: "e".to_owned(),
            duration_us: self.below(9),
            scheduled: self.is_one_in(3).then_some(created),
            created,
            updated: created,
        }
    }

    fn new_execution(&mut self, function: FunctionName, first: Mark) -> NewExecution {
        let function_seq = self.function_seq();
        NewExecution {
            function,
            function_seq,
            queued: QueuedExecution {
                seq: 0,
                id: format!("e{}", self.next_id()),
                trigger: ExecutionTrigger::Http,
                deployment: DeploymentId::new("d0").unwrap(),
                due: Timestamp(first.0 + self.below(9) as i64),
                is_scheduled: self.is_one_in(2),
                attempt: 0,
                lease: None,
                method: "POST".to_owned(),
                path: "/".to_owned(),
                depth: self.below(3) as u8,
                created: Timestamp(first.0),
                updated: Timestamp(first.0),
            },
            call: QueuedCall {
                headers: vec![("a".to_owned(), "b".to_owned())],
                body: vec![0; self.below(50) as usize].into(),
            },
        }
    }

    fn bounds(&mut self) -> QueueBounds {
        match self.below(3) {
            0 => QueueBounds {
                count_max: 4,
                bytes_max: 80,
            },
            _ => QueueBounds {
                count_max: 100,
                bytes_max: 10_000,
            },
        }
    }

    fn queue_op(&mut self, function: FunctionName, first: Mark) -> QueueOp {
        let (now, until) = (Timestamp(first.0), Timestamp(first.0 + LEASE_US));
        let seq = self.below_ids();
        match self.below(12) {
            0..=3 => {
                let count = 1 + self.below(2);
                let all = (0..count).map(|_| self.new_execution(function.clone(), first));
                let all: Vec<NewExecution> = all.collect();
                QueueOp::Put(all.into(), self.bounds())
            }
            4 | 5 => {
                let minute = Timestamp(first.0 - self.below(3) as i64);
                let queued = self.new_execution(function, first);
                QueueOp::PutMinute(Box::new(queued), minute, self.bounds())
            }
            6 | 7 => QueueOp::Start {
                seqs: vec![seq, self.below_ids()],
                now,
                until,
            },
            8 => QueueOp::Renew {
                seqs: vec![seq],
                until,
            },
            9 => QueueOp::Return {
                seq,
                counts: self.is_one_in(2),
            },
            10 if self.is_one_in(4) => QueueOp::Release,
            _ => QueueOp::End {
                seq,
                function,
                function_seq: self.function_seq(),
                record: Box::new(self.record(first)),
            },
        }
    }

    fn events_op(&mut self, first: Mark, seen: &EventsSeen) -> QueueOp {
        let (of, at) = match (&seen.own, self.is_one_in(2)) {
            (Some(own), true) => (CursorOf::Project(project()), Some(own)),
            _ => (CursorOf::AllBut(seen.apart.clone()), seen.front.as_ref()),
        };
        let nowhere = EventCursor {
            mark: Mark(1),
            table: model::TableNumber(1),
            row: "r".to_owned(),
        };
        let from = at.filter(|_| !self.is_one_in(6)).cloned();
        // A project with a cursor of its own is looked at there.
        let is_left_out = matches!(&of, CursorOf::AllBut(apart) if !apart.is_empty());
        let most = if is_left_out { 1 } else { 3 };
        let queued = (0..self.below(most)).map(|_| {
            let function = self.function_name();
            self.new_execution(function, first)
        });
        let queued: Vec<NewExecution> = queued.collect();
        let failed = (0..self.below(most.min(2))).map(|_| {
            let function = self.function_name();
            (function, self.function_seq(), self.record(first))
        });
        let failed = failed.collect();
        let is_held = seen.apart.is_empty() && self.is_one_in(4);
        QueueOp::PutEvents(
            NewEvents {
                held: match of {
                    CursorOf::AllBut(_) if is_held => vec![project()],
                    _ => Vec::new(),
                },
                of,
                queued,
                failed,
                from: from.unwrap_or(nowhere),
                to: EventCursor {
                    mark: first,
                    table: model::TableNumber(1),
                    row: format!("r{}", self.below(3)),
                },
                bounds: self.bounds(),
            }
            .into(),
        )
    }
}

pub(super) fn project() -> ProjectId {
    ProjectId::new("p").unwrap()
}
