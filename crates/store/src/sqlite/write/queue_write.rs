//! Executions that wait: queued, leased, returned, ended.

use std::collections::BTreeMap;

use model::{Function, ProjectId};
use rusqlite::{OptionalExtension as _, params};

use super::run::SqliteRun;
use crate::execution_queue::{
    CursorOf, EventCursor, ExecutionRefusal, NewEvents, NewExecution, QueueBounds, QueueOp,
};
use crate::execution_record::ExecutionRecord;
use crate::function_name::FunctionName;
use crate::laws::halt::Step;
use crate::refusal::Refusal;
use crate::sqlite::schema::stored_reads;
use crate::stored::events;
use crate::stored::queue::call_bytes;
use crate::vault::Place;

/// What stands in the place of a lease where there is none.
const NO_LEASE: i64 = 0;

impl SqliteRun<'_, '_> {
    pub(super) fn queue_op(&mut self, op: &QueueOp) -> Step<()> {
        match op {
            QueueOp::Put(queued, bounds) => {
                queued.iter().try_for_each(|one| self.enqueue(one, *bounds))
            }
            QueueOp::PutMinute(queued, minute, bounds) => {
                self.enqueue_minute(queued, minute.0, *bounds)
            }
            QueueOp::PutEvents(events) => self.enqueue_events(events),
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
        let bytes = new.call.size_bytes() as i64;
        if !self.has_room(project, (1, bytes), bounds)? {
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
        let seq = self.rows.connection.last_insert_rowid();
        self.statement("INSERT INTO queued_call (seq, call) VALUES (?1, ?2)")?
            .execute(params![seq, sealed])?;
        self.count_queued(project, 1, bytes)
    }

    /// Whether so many more, of so many bytes, may wait of a project.
    fn has_room(
        &self,
        project: &str,
        (more, bytes): (i64, i64),
        bounds: QueueBounds,
    ) -> Step<bool> {
        let size = "SELECT count, bytes FROM queue_size WHERE project = ?1";
        let size: Option<(i64, i64)> = self
            .statement(size)?
            .query_row([project], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (count, held) = size.unwrap_or_default();
        Ok((count + more).cast_unsigned() <= bounds.count_max
            && (held + bytes).cast_unsigned() <= bounds.bytes_max)
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
    fn enqueue_events(&mut self, events: &NewEvents) -> Step<()> {
        if !self.move_cursor(events)? {
            return Ok(());
        }
        let held = match &events.of {
            CursorOf::AllBut(_) => self.hold_back(events)?,
            CursorOf::Project(_) => Vec::new(),
        };
        for new in &events.queued {
            if !held.contains(&new.function.project) {
                self.enqueue(new, events.bounds)?;
            }
        }
        for (name, seq, record) in &events.failed {
            if !held.contains(&name.project) {
                self.keep_execution((name, *seq), record)?;
            }
        }
        Ok(())
    }

    /// Says whether the cursor was where it was thought to be, and is moved.
    fn move_cursor(&self, events: &NewEvents) -> Step<bool> {
        let (from, to) = (&events.from, &events.to);
        let moved = match &events.of {
            CursorOf::AllBut(apart) => {
                // The changes of a project that has come back meanwhile were not looked at.
                if stored_reads::all(self.rows.connection, &events::apart())? != *apart {
                    return Ok(false);
                }
                let moved = "UPDATE event_cursor SET tt = ?1, tab = ?2, id = ?3 \
                             WHERE tt = ?4 AND tab = ?5 AND id = ?6";
                let (mark, table) = (from.mark.0, from.table.0);
                let at = params![to.mark.0, to.table.0, to.row, mark, table, from.row];
                self.statement(moved)?.execute(at)?
            }
            CursorOf::Project(project) => {
                let moved = "UPDATE event_apart SET tt = ?1, tab = ?2, id = ?3 \
                             WHERE tt = ?4 AND tab = ?5 AND id = ?6 AND project = ?7";
                let (mark, table, of) = (from.mark.0, from.table.0, project.as_str());
                let at = params![to.mark.0, to.table.0, to.row, mark, table, from.row, of];
                let moved = self.statement(moved)?.execute(at)?;
                // From here on it goes with the rest.
                let ended = "DELETE FROM event_apart WHERE project = ?1 AND \
                             (tt, tab, id) >= (SELECT tt, tab, id FROM event_cursor)";
                self.statement(ended)?.execute([of])?;
                moved
            }
        };
        Ok(moved > 0)
    }

    /// Gives cursors of their own to projects that have no room for what their changes ask for, so
    /// that the others go on; which these are.
    fn hold_back(&self, events: &NewEvents) -> Step<Vec<ProjectId>> {
        let mut sizes: BTreeMap<&ProjectId, (i64, i64)> = BTreeMap::new();
        for new in &events.queued {
            let (count, bytes) = sizes.entry(&new.function.project).or_default();
            *count += 1;
            *bytes += new.call.size_bytes() as i64;
        }
        let mut held = events.held.clone();
        for (project, more) in sizes {
            if !self.has_room(project.as_str(), more, events.bounds)? && !held.contains(project) {
                held.push(project.clone());
            }
        }
        for project in &held {
            let EventCursor { mark, table, row } = &events.from;
            let apart = "INSERT INTO event_apart (project, tt, tab, id) VALUES (?1, ?2, ?3, ?4)";
            self.statement(apart)?
                .execute(params![project.as_str(), mark.0, table.0, row])?;
        }
        Ok(held)
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
            self.statement("DELETE FROM event_apart")?.execute(())?;
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
