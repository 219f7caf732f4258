//! Records of executions on their way to the store: many go in one commit.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Engine, EngineError, ExecutionRecord};
use model::Function;
use tokio::sync::Notify;

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

/// Records that wait.
pub struct ExecutionRecords {
    durability: RecordsDurability,
    waiting: Mutex<(Vec<KeptRecord>, usize)>,
    expected: Notify,
    /// Who holds it writes.
    writing: tokio::sync::Mutex<()>,
}

impl ExecutionRecords {
    /// None wait.
    pub fn new(durability: RecordsDurability) -> ExecutionRecords {
        ExecutionRecords {
            durability,
            waiting: Mutex::default(),
            expected: Notify::new(),
            writing: tokio::sync::Mutex::default(),
        }
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
        if self.durability == RecordsDurability::Durable {
            return engine.keep_executions(vec![(function, record)]).await;
        }
        let is_full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.1 += record.size_bytes();
            waiting.0.push((function, record));
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
            let records = self.take_some();
            if records.is_empty() {
                return;
            }
            let count = records.len();
            if let Err(error) = engine.keep_executions(records).await {
                tracing::warn!(%error, count, "records of executions are lost");
            }
        }
    }

    /// The oldest records that wait, as many as one commit takes.
    fn take_some(&self) -> Vec<KeptRecord> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes, mut count) = (0, 0);
        for (_, record) in &waiting.0 {
            bytes += record.size_bytes();
            if count > 0 && bytes > COMMIT_BYTES_MAX {
                bytes -= record.size_bytes();
                break;
            }
            count += 1;
        }
        waiting.1 -= bytes;
        waiting.0.drain(..count).collect()
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
