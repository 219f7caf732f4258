//! Records of executions on their way to the store: many go in one commit.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Engine, EngineError, ExecutionRecord};
use model::Function;
use tokio::sync::Notify;

use super::counts::FunctionCounts;
use super::log_rate::LogRate;

/// A record waits so long for others. With the commit itself, whatever a crash may take is younger
/// than 50 ms (wire protocol, executions).
const WAIT: Duration = Duration::from_millis(25);
/// Bytes of records in one commit, unless a single one is larger.
const COMMIT_BYTES_MAX: usize = 2 << 20;
/// Bytes of records that wait; beyond, runs wait for the store.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// When a caller learns of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsDurability {
    /// A moment before its record is kept.
    Behind,
    /// When its record is durable.
    Durable,
}

/// A record and its function as of the start of the execution.
type KeptRecord = (Arc<Function>, ExecutionRecord);

/// Records that wait, each with the instant since when, and the bytes of all.
type WaitingRecords = (Vec<(Instant, KeptRecord)>, usize);

/// Records that wait.
pub struct ExecutionRecords {
    durability: RecordsDurability,
    waiting: Mutex<WaitingRecords>,
    expected: Notify,
    logs: LogRate,
    counts: Arc<FunctionCounts>,
    /// Who holds it writes.
    writing: tokio::sync::Mutex<()>,
}

impl ExecutionRecords {
    /// None wait.
    pub fn new(durability: RecordsDurability, counts: Arc<FunctionCounts>) -> ExecutionRecords {
        ExecutionRecords {
            durability,
            counts,
            waiting: Mutex::default(),
            expected: Notify::new(),
            logs: LogRate::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// How much of logs each function may bring.
    pub fn log_rate(&self) -> &LogRate {
        &self.logs
    }

    /// Takes a record in, and waits for the store where that is asked for, or too many wait.
    ///
    /// # Errors
    /// When records are to be durable, and the store does not keep it.
    pub async fn keep(
        &self,
        engine: &Engine,
        function: Arc<Function>,
        record: ExecutionRecord,
    ) -> Result<(), EngineError> {
        let ended = Instant::now();
        if self.durability == RecordsDurability::Durable {
            engine.keep_executions(vec![(function, record)]).await?;
            self.counts.records_stored([ended.elapsed()].into_iter());
            return Ok(());
        }
        let is_full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.1 += record.size_bytes();
            waiting.0.push((ended, (function, record)));
            self.counts.records_wait(waiting.0.len());
            waiting.1 > WAITING_BYTES_MAX
        };
        self.expected.notify_one();
        if is_full {
            self.write_all(engine).await;
        }
        Ok(())
    }

    /// Writes what waits, and waits for what is being written.
    pub async fn write_all(&self, engine: &Engine) {
        let _one = self.writing.lock().await;
        loop {
            let (ended, records): (Vec<Instant>, Vec<_>) = self.take_some().into_iter().unzip();
            if records.is_empty() {
                return;
            }
            let count = records.len();
            if let Err(error) = engine.keep_executions(records).await {
                tracing::warn!(%error, count, "records of executions are lost");
                self.counts.records_lost(count);
            } else {
                let delays = ended.iter().map(Instant::elapsed);
                self.counts.records_stored(delays);
            }
        }
    }

    /// The oldest records that wait, as many as one commit takes.
    fn take_some(&self) -> Vec<(Instant, KeptRecord)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes, mut count) = (0, 0);
        for (_, (_, record)) in &waiting.0 {
            bytes += record.size_bytes();
            if count > 0 && bytes > COMMIT_BYTES_MAX {
                bytes -= record.size_bytes();
                break;
            }
            count += 1;
        }
        waiting.1 -= bytes;
        let taken = waiting.0.drain(..count).collect();
        self.counts.records_wait(waiting.0.len());
        taken
    }

    /// Writes records as they come.
    pub async fn run(&self, engine: &Engine) -> Infallible {
        loop {
            self.expected.notified().await;
            tokio::time::sleep(WAIT).await;
            self.write_all(engine).await;
        }
    }
}
