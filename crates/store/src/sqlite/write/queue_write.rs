//! Executions that wait: queued, leased, returned, ended.

use model::Function;
use rusqlite::{OptionalExtension as _, params};

use super::run::Run;
use crate::execution_queue::{EventCursor, ExecutionRefusal, NewExecution, QueueBounds, QueueOp};
use crate::execution_record::ExecutionRecord;
use crate::function_name::FunctionName;
use crate::laws::halt::Step;
use crate::refusal::Refusal;
use crate::sqlite::disk::vault::Place;
use crate::sqlite::schema::stored_queue::call_bytes;

/// What stands in the place of a lease where there is none.
const NO_LEASE: i64 = 0;

impl Run<'_> {
    pub(super) fn queue_op(&mut self, op: &QueueOp) -> Step<()> {
        match op {
            QueueOp::Put(queued, bounds) => {
                queued.iter().try_for_each(|one| self.enqueue(one, *bounds))
            }
            QueueOp::PutMinute(queued, minute, bounds) => {
                self.enqueue_minute(queued, minute.0, *bounds)
            }
            QueueOp::PutEvents {
                queued,
                from,
                to,
                bounds,
            } => self.enqueue_events(queued, (from, to), *bounds),
            QueueOp::Start { seqs, now, until } => {
                let sql = "UPDATE queued SET lease = ?2, attempt = attempt + 1, updated = ?3 \
                           WHERE seq = ?1 AND lease <= ?3";
                self.each(sql, seqs, |seq| [seq, until.0, now.0])
            }
            QueueOp::Renew { seqs, until } => {
                let sql = "UPDATE queued SET lease = ?2 WHERE seq = ?1 AND lease > ?3";
                self.each(sql, seqs, |seq| [seq, until.0, NO_LEASE])
            }
            QueueOp::Return { seq, counts } => {
                let sql = "UPDATE queued SET lease = 0, attempt = attempt - ?2, updated = ?3 \
                           WHERE seq = ?1 AND lease > 0";
                let uncounted = i64::from(!counts);
                self.statement(sql)?
                    .execute([*seq, uncounted, self.now().0])?;
                Ok(())
            }
            QueueOp::Release => {
                self.statement("UPDATE queued SET lease = 0 WHERE lease > 0")?
                    .execute(())?;
                Ok(())
            }
            QueueOp::End {
                seq,
                function,
                function_seq,
                record,
            } => self.end_queued(*seq, (function, *function_seq), record),
        }
    }

    fn each(&self, sql: &str, seqs: &[i64], values: impl Fn(i64) -> [i64; 3]) -> Step<()> {
        let mut statement = self.statement(sql)?;
        for seq in seqs {
            statement.execute(values(*seq))?;
        }
        Ok(())
    }

    fn enqueue(&mut self, new: &NewExecution, bounds: QueueBounds) -> Step<()> {
        let function = self.function(&new.function).ok();
        if function.is_none_or(|function| function.seq != new.function_seq) {
            return Ok(());
        }
        let project = new.function.project.as_str();
        let size = "SELECT count, bytes FROM queue_size WHERE project = ?1";
        let size: Option<(i64, i64)> = self
            .statement(size)?
            .query_row([project], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (count, held) = size.unwrap_or_default();
        let bytes = new.call.size_bytes() as i64;
        let is_full = count.cast_unsigned() >= bounds.count_max
            || (held + bytes).cast_unsigned() > bounds.bytes_max;
        if is_full {
            return Err(Refusal::OfExecution(ExecutionRefusal::QueueFull(bounds)).into());
        }
        let queued = &new.queued;
        let sealed = self.sealed_call(new)?;
        self.statement(
            "INSERT INTO queued (function, project, id, cause, deployment, due, scheduled, \
             attempt, lease, method, path, depth, bytes, created, updated) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, ?8, ?9, ?10, ?11, ?12, ?12)",
        )?
        .execute(params![
            new.function_seq,
            project,
            queued.id,
            queued.trigger.as_str(),
            queued.deployment.as_str(),
            queued.due.0,
            queued.is_scheduled,
            queued.method,
            queued.path,
            queued.depth,
            bytes,
            queued.created.0,
        ])?;
        let seq = self.connection.last_insert_rowid();
        self.statement("INSERT INTO queued_call (seq, call) VALUES (?1, ?2)")?
            .execute(params![seq, sealed])?;
        self.count_queued(project, 1, bytes)
    }

    /// Queues a minute of a schedule that was not queued yet.
    fn enqueue_minute(
        &mut self,
        queued: &NewExecution,
        minute: i64,
        bounds: QueueBounds,
    ) -> Step<()> {
        let function = self.function(&queued.function).ok();
        if function.is_none_or(|function| function.seq != queued.function_seq) {
            return Ok(());
        }
        let moved = "INSERT INTO schedule (function, minute) VALUES (?1, ?2) \
                     ON CONFLICT (function) DO UPDATE SET minute = excluded.minute \
                     WHERE minute < excluded.minute";
        let moved = self
            .statement(moved)?
            .execute([queued.function_seq, minute])?;
        match moved {
            0 => Ok(()),
            _ => self.enqueue(queued, bounds),
        }
    }

    /// Queues what events ask for, and moves their cursor.
    fn enqueue_events(
        &mut self,
        queued: &[NewExecution],
        (from, to): (&EventCursor, &EventCursor),
        bounds: QueueBounds,
    ) -> Step<()> {
        let moved = "UPDATE event_cursor SET tt = ?4, tab = ?5, id = ?6 \
                     WHERE tt = ?1 AND tab = ?2 AND id = ?3";
        let moved = self.statement(moved)?.execute(params![
            from.mark.0,
            from.table.0,
            from.row,
            to.mark.0,
            to.table.0,
            to.row,
        ])?;
        if moved == 0 {
            return Ok(());
        }
        queued.iter().try_for_each(|one| self.enqueue(one, bounds))
    }

    /// Lets a function listen from this commit on, where it listens to something else than before,
    /// or was at rest. The first one that listens brings the cursor here.
    pub(super) fn begin_listening(&self, before: Option<&Function>, after: &Function) -> Step<()> {
        let of = |function: &Function| {
            let is_live = function.active.is_some() && !function.definition.events.is_empty();
            is_live.then(|| function.definition.events.clone())
        };
        let (before, after_it) = (before.and_then(of), of(after));
        if before == after_it {
            return Ok(());
        }
        if after_it.is_none() {
            return self.end_listening(after.seq);
        }
        let any = "SELECT 1 FROM listening LIMIT 1";
        if !self.statement(any)?.exists(())? {
            let begun = "INSERT OR REPLACE INTO event_cursor (one, tt, tab, id) \
                         VALUES (1, ?1, ?2, '')";
            self.statement(begun)?.execute([self.mark.0, i64::MAX])?;
        }
        let begun = "INSERT OR REPLACE INTO listening (function, tt) VALUES (?1, ?2)";
        self.statement(begun)?.execute([after.seq, self.mark.0])?;
        Ok(())
    }

    pub(super) fn end_listening(&self, function: i64) -> Step<()> {
        self.statement("DELETE FROM listening WHERE function = ?1")?
            .execute([function])?;
        let any = "SELECT 1 FROM listening LIMIT 1";
        if !self.statement(any)?.exists(())? {
            self.statement("DELETE FROM event_cursor")?.execute(())?;
        }
        Ok(())
    }

    /// Lets a schedule begin now, where it is another one than before, or was at rest: minutes that
    /// have passed are none of it.
    pub(super) fn begin_schedule(&self, before: Option<&Function>, after: &Function) -> Step<()> {
        let of = |function: &Function| {
            let is_live = function.active.is_some() && !function.definition.schedule.is_empty();
            is_live.then(|| function.definition.schedule.clone())
        };
        let (before, after_it) = (before.and_then(of), of(after));
        if after_it.is_some() && before != after_it {
            let begun = "INSERT OR REPLACE INTO schedule (function, minute) VALUES (?1, ?2)";
            self.statement(begun)?.execute([after.seq, self.now().0])?;
        }
        Ok(())
    }

    /// What the handler is given, as it is stored.
    fn sealed_call(&self, new: &NewExecution) -> Step<Vec<u8>> {
        let place = Place::Call(new.function_seq, &new.queued.id);
        Ok(self
            .vault_of_functions()?
            .seal(place, &call_bytes(&new.call))?)
    }

    fn count_queued(&self, project: &str, count: i64, bytes: i64) -> Step<()> {
        self.statement(
            "INSERT INTO queue_size (project, count, bytes) VALUES (?1, ?2, ?3) \
             ON CONFLICT (project) DO UPDATE \
             SET count = count + excluded.count, bytes = bytes + excluded.bytes",
        )?
        .execute(params![project, count, bytes])?;
        Ok(())
    }

    /// Removes what waits; says whether it was there.
    fn remove_queued(&self, seq: i64) -> Step<bool> {
        let removed = "DELETE FROM queued WHERE seq = ?1 RETURNING project, bytes";
        let removed: Option<(String, i64)> = self
            .statement(removed)?
            .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((project, bytes)) = removed else {
            return Ok(false);
        };
        self.statement("DELETE FROM queued_call WHERE seq = ?1")?
            .execute([seq])?;
        self.count_queued(&project, -1, -bytes)?;
        Ok(true)
    }

    fn end_queued(
        &mut self,
        seq: i64,
        (name, function_seq): (&FunctionName, i64),
        record: &ExecutionRecord,
    ) -> Step<()> {
        if self.remove_queued(seq)? {
            self.keep_execution((name, function_seq), record)?;
        }
        Ok(())
    }

    /// Removes an execution that waits; false where none of this id does.
    pub(super) fn delete_queued(&self, function: i64, id: &str) -> Step<bool> {
        let found = "SELECT seq, lease FROM queued WHERE function = ?1 AND id = ?2";
        let found: Option<(i64, i64)> = self
            .statement(found)?
            .query_row(params![function, id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            None => Ok(false),
            Some((seq, NO_LEASE)) => self.remove_queued(seq),
            Some(_) => Err(Refusal::OfExecution(ExecutionRefusal::InProgress).into()),
        }
    }

    /// Removes what waits of a function that goes, and leaves its bodies to the upkeep.
    pub(super) fn leave_queued(&self, function: i64) -> Step<()> {
        let held = "SELECT project, count(*), sum(bytes) FROM queued WHERE function = ?1 \
                    GROUP BY project";
        let held: Option<(String, i64, i64)> = self
            .statement(held)?
            .query_row([function], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let Some((project, count, bytes)) = held else {
            return Ok(());
        };
        let left = "INSERT INTO calls_gone (seq) SELECT seq FROM queued WHERE function = ?1";
        self.statement(left)?.execute([function])?;
        self.statement("DELETE FROM queued WHERE function = ?1")?
            .execute([function])?;
        self.of_functions.leaves_pieces.set(true);
        self.count_queued(&project, -count, -bytes)
    }
}
