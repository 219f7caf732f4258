//! Records of executions: kept, let go of, removed.

use model::Function;
use rusqlite::{OptionalExtension as _, params};

use super::run::SqliteRun;
use crate::execution_record::ExecutionRecord;
use crate::function_name::FunctionName;
use crate::laws::halt::Step;
use crate::stored::executions::headers_text;

/// Most records that go for one that is kept: more than one, so that lower limits are reached.
const TRIMMED_MAX: usize = 3;
const DAY_US: i64 = 24 * 3_600 * 1_000_000;

impl SqliteRun<'_, '_> {
    /// Keeps records, each with its function and the number of that. Those of functions that are
    /// gone are passed over.
    pub(super) fn keep_executions(
        &mut self,
        kept: &[(FunctionName, i64, ExecutionRecord)],
    ) -> Step<()> {
        let mut kept = kept.iter();
        kept.try_for_each(|(name, seq, record)| self.keep_execution((name, *seq), record))
    }

    /// Keeps the record of one execution.
    pub(super) fn keep_execution(
        &mut self,
        (name, seq): (&FunctionName, i64),
        record: &ExecutionRecord,
    ) -> Step<()> {
        let function = self.function(name).ok();
        let Some(function) = function.filter(|function| function.seq == seq) else {
            return Ok(());
        };
        self.insert_execution(seq, record)?;
        self.trim_executions(seq, self.kept_of(&function))
    }

    /// How many records a function keeps at most, how many bytes of them, and since when.
    fn kept_of(&self, function: &Function) -> (i64, i64, i64) {
        let options = function.definition.options;
        let since = self.now().0 - i64::from(options.records_days) * DAY_US;
        let bytes_max = options.records_bytes_max.cast_signed();
        (i64::from(options.records_max), bytes_max, since)
    }

    /// Leaves what these functions keep no longer to the upkeep.
    pub(super) fn leave_old_of(&self, functions: &[(FunctionName, i64)]) -> Step<()> {
        for (name, seq) in functions {
            let function = self.function(name).ok();
            if let Some(function) = function.filter(|function| function.seq == *seq) {
                self.leave_old_executions(&function)?;
            }
        }
        Ok(())
    }

    /// Leaves the records that a function keeps no longer to the upkeep; none where it keeps all.
    pub(super) fn leave_old_executions(&self, function: &Function) -> Step<()> {
        let (count_max, bytes_max, since) = self.kept_of(function);
        self.statement("DELETE FROM executions_old WHERE function = ?1")?
            .execute([function.seq])?;
        let left = "INSERT INTO executions_old (function, count_max, bytes_max, since) \
                    SELECT function, ?2, ?3, ?4 FROM execution_kept WHERE function = ?1 AND \
                    (count > ?2 OR bytes > ?3 OR ?4 > (SELECT created FROM execution \
                    WHERE function = ?1 ORDER BY seq LIMIT 1))";
        let left =
            self.statement(left)?
                .execute(params![function.seq, count_max, bytes_max, since])?;
        if left > 0 {
            self.of_functions.leaves_pieces.set(true);
        }
        Ok(())
    }

    fn insert_execution(&self, function: i64, record: &ExecutionRecord) -> Step<()> {
        let bytes = record.size_bytes() as i64;
        let inserted = self
            .statement(
                "INSERT INTO execution (function, id, deployment, cause, status, method, path, \
                 request_headers, response_status, response_headers, logs, errors, duration_us, \
                 bytes, created, updated, due) VALUES \
                 (?1, ?2, ?3, ?16, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?17) \
                 ON CONFLICT (function, id) DO NOTHING",
            )?
            .execute(params![
                function,
                record.id,
                record.deployment.as_str(),
                record.status.as_str(),
                record.method,
                record.path,
                headers_text(&record.request_headers),
                record.response_status,
                headers_text(&record.response_headers),
                record.logs,
                record.errors,
                record.duration_us.cast_signed(),
                bytes,
                record.created.0,
                record.updated.0,
                record.trigger.as_str(),
                record.scheduled.map(|due| due.0),
            ])?;
        if inserted > 0 {
            self.count_executions(function, 1, bytes)?;
        }
        Ok(())
    }

    fn count_executions(&self, function: i64, count: i64, bytes: i64) -> Step<()> {
        self.statement(
            "INSERT INTO execution_kept (function, count, bytes) VALUES (?1, ?2, ?3) \
             ON CONFLICT (function) DO UPDATE \
             SET count = count + excluded.count, bytes = bytes + excluded.bytes",
        )?
        .execute(params![function, count, bytes])?;
        Ok(())
    }

    /// Lets go of the oldest records of a function while they are too many, too large or too old.
    fn trim_executions(
        &self,
        function: i64,
        (count_max, bytes_max, since): (i64, i64, i64),
    ) -> Step<()> {
        for _ in 0..TRIMMED_MAX {
            let kept = "SELECT count, bytes FROM execution_kept WHERE function = ?1";
            let kept: (i64, i64) = self
                .statement(kept)?
                .query_row([function], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let oldest = "SELECT seq, bytes, created FROM execution WHERE function = ?1 \
                          ORDER BY seq LIMIT 1";
            let oldest: Option<(i64, i64, i64)> = self
                .statement(oldest)?
                .query_row([function], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional()?;
            let Some((seq, bytes, created)) = oldest else {
                break;
            };
            if kept.0 <= count_max && kept.1 <= bytes_max && created >= since {
                break;
            }
            self.remove_execution(function, seq, bytes)?;
        }
        Ok(())
    }

    fn remove_execution(&self, function: i64, seq: i64, bytes: i64) -> Step<()> {
        self.statement("DELETE FROM execution WHERE seq = ?1")?
            .execute([seq])?;
        self.count_executions(function, -1, -bytes)
    }

    pub(super) fn delete_execution(&mut self, name: &FunctionName, id: &str) -> Step<()> {
        let function = self.function(name)?.seq;
        if self.delete_queued(function, id)? {
            return Ok(());
        }
        let found = "SELECT seq, bytes FROM execution WHERE function = ?1 AND id = ?2";
        let found: Option<(i64, i64)> = self
            .statement(found)?
            .query_row(params![function, id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        found.map_or(Ok(()), |(seq, bytes)| {
            self.remove_execution(function, seq, bytes)
        })
    }

    /// Leaves the records of a function that goes to the upkeep.
    pub(super) fn leave_executions(&self, function: i64) -> Step<()> {
        let left = "INSERT INTO executions_gone (function) \
                    SELECT function FROM execution_kept WHERE function = ?1";
        if self.statement(left)?.execute([function])? > 0 {
            self.of_functions.leaves_pieces.set(true);
            self.statement("DELETE FROM execution_kept WHERE function = ?1")?
                .execute([function])?;
            self.statement("DELETE FROM executions_old WHERE function = ?1")?
                .execute([function])?;
        }
        Ok(())
    }
}
