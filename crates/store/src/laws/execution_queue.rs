//! Executions that wait: queued, leased, returned, ended; and what minutes and changes of rows ask
//! for.

use std::collections::BTreeMap;

use model::{Function, ProjectId, Timestamp};

use super::halt::Step;
use super::run::Run;
use super::stored_tables::StoredTables;
use crate::execution_queue::{
    CursorOf, ExecutionRefusal, NewEvents, NewExecution, QueueBounds, QueueOp,
};
use crate::execution_record::ExecutionRecord;
use crate::function_name::FunctionName;
use crate::refusal::Refusal;
use crate::stored::events;
use crate::stored::queue::{self, call_bytes};
use crate::vault::Place;

impl<D: StoredTables> Run<'_, D> {
    pub(super) fn queue_op(&mut self, op: &QueueOp) -> Step<()> {
        match op {
            QueueOp::Put(queued, bounds) => {
                queued.iter().try_for_each(|one| self.enqueue(one, *bounds))
            }
            QueueOp::PutMinute(queued, minute, bounds) => {
                self.enqueue_minute(queued, *minute, *bounds)
            }
            QueueOp::PutEvents(events) => self.enqueue_events(events),
            QueueOp::Start { seqs, now, until } => {
                let start = seqs.iter().map(|seq| queue::start(*seq, *until, *now));
                Ok(self.rows().change_in_order(start)?)
            }
            QueueOp::Renew { seqs, until } => {
                let renew = seqs.iter().map(|seq| queue::renew(*seq, *until));
                Ok(self.rows().change_in_order(renew)?)
            }
            QueueOp::Return { seq, counts } => {
                let back = queue::give_back(*seq, i64::from(!counts), self.now());
                Ok(self.rows().change_in_order([back])?)
            }
            QueueOp::Release => Ok(self.rows().change_in_order([queue::release()])?),
            QueueOp::End {
                seq,
                function,
                function_seq,
                record,
            } => self.end_queued(*seq, (function, *function_seq), record),
        }
    }

    fn enqueue(&mut self, new: &NewExecution, bounds: QueueBounds) -> Step<()> {
        let function = (&new.function, new.function_seq);
        if self.same_function(function).is_none() {
            return Ok(());
        }
        let bytes = new.call.size_bytes() as i64;
        if !self.has_room(&new.function.project, (1, bytes), bounds)? {
            return Err(Refusal::OfExecution(ExecutionRefusal::QueueFull(bounds)).into());
        }
        // What the handler is given, as it is stored.
        let place = Place::Call(new.function_seq, &new.queued.id);
        let sealed = self.ready_vault()?.seal(place, &call_bytes(&new.call))?;
        let put = queue::put(new, sealed, bytes);
        Ok(self.rows().change_in_order(put)?)
    }

    /// Whether so many more, of so many bytes, may wait of a project.
    fn has_room(
        &self,
        project: &ProjectId,
        (more, bytes): (i64, i64),
        bounds: QueueBounds,
    ) -> Step<bool> {
        let size = self.rows().first_stored(&queue::size_of(project))?;
        let (count, held) = size.unwrap_or_default();
        Ok((count + more).cast_unsigned() <= bounds.count_max
            && (held + bytes).cast_unsigned() <= bounds.bytes_max)
    }

    /// Queues a minute of a schedule that was not queued yet.
    fn enqueue_minute(
        &mut self,
        queued: &NewExecution,
        minute: Timestamp,
        bounds: QueueBounds,
    ) -> Step<()> {
        let function = (&queued.function, queued.function_seq);
        if self.same_function(function).is_none() {
            return Ok(());
        }
        let pass = queue::pass_minute(queued.function_seq, minute);
        match self.rows().change_stored(&pass)? {
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
        let (rows, from, to) = (self.rows(), &events.from, &events.to);
        let moved = match &events.of {
            CursorOf::AllBut(apart) => {
                // The changes of a project that has come back meanwhile were not looked at.
                if rows.read_stored(&events::apart())? != *apart {
                    return Ok(false);
                }
                rows.change_stored(&events::move_front(from, to))?
            }
            CursorOf::Project(project) => {
                let moved = rows.change_stored(&events::move_own(project, from, to))?;
                // From here on it goes with the rest.
                rows.change_stored(&events::join(project))?;
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
            if !self.has_room(project, more, events.bounds)? && !held.contains(project) {
                held.push(project.clone());
            }
        }
        let apart = held
            .iter()
            .map(|project| events::set_apart(project, &events.from));
        self.rows().change_in_order(apart)?;
        Ok(held)
    }

    /// Lets a function listen from this commit on, where it listens to something else than before,
    /// or was at rest. The first one that listens brings the cursor here.
    pub(super) fn begin_listening(&self, before: &Function, after: &Function) -> Step<()> {
        let of = |function: &Function| {
            let is_live = function.active.is_some() && !function.definition.events.is_empty();
            is_live.then(|| function.definition.events.clone())
        };
        let (before, listens) = (of(before), of(after));
        if before == listens {
            return Ok(());
        }
        if listens.is_none() {
            return self.end_listening(after.seq);
        }
        let rows = self.rows();
        if rows.first_stored(&events::any_listening())?.is_none() {
            rows.change_stored(&events::begin_front(self.mark))?;
        }
        rows.change_stored(&events::listen(after.seq, self.mark))?;
        Ok(())
    }

    pub(super) fn end_listening(&self, function: i64) -> Step<()> {
        let rows = self.rows();
        rows.change_stored(&events::listen_no_more(function))?;
        if rows.first_stored(&events::any_listening())?.is_none() {
            rows.change_in_order(events::end_all())?;
        }
        Ok(())
    }

    /// Lets a schedule begin now, where it is another one than before, or was at rest: minutes that
    /// have passed are none of it.
    pub(super) fn begin_schedule(&self, before: &Function, after: &Function) -> Step<()> {
        let of = |function: &Function| {
            let is_live = function.active.is_some() && !function.definition.schedule.is_empty();
            is_live.then(|| function.definition.schedule.clone())
        };
        let (before, runs) = (of(before), of(after));
        if runs.is_some() && before != runs {
            let begin = queue::begin_schedule(after.seq, self.now());
            self.rows().change_stored(&begin)?;
        }
        Ok(())
    }

    /// Removes what waits; says whether it was there.
    fn remove_queued(&self, seq: i64) -> Step<bool> {
        let held = self.rows().first_stored(&queue::held(seq))?;
        let Some((project, bytes)) = held else {
            return Ok(false);
        };
        let removed = queue::remove(seq, &project, bytes);
        self.rows().change_in_order(removed)?;
        Ok(true)
    }

    fn end_queued(
        &mut self,
        seq: i64,
        function: (&FunctionName, i64),
        record: &ExecutionRecord,
    ) -> Step<()> {
        if self.remove_queued(seq)? {
            self.keep_execution(function, record)?;
        }
        Ok(())
    }

    /// Removes an execution that waits; false where none of this id does.
    pub(super) fn delete_queued(&self, function: i64, id: &str) -> Step<bool> {
        match self.rows().first_stored(&queue::of_id(function, id))? {
            None => Ok(false),
            Some(queued) if queued.lease.is_none() => self.remove_queued(queued.seq),
            Some(_) => Err(Refusal::OfExecution(ExecutionRefusal::InProgress).into()),
        }
    }

    /// Removes what waits of a function that goes, and leaves its bodies to the upkeep.
    pub(super) fn leave_queued(&self, function: i64) -> Step<()> {
        let rows = self.rows();
        let Some((project, count, bytes)) = rows.first_stored(&queue::held_of(function))? else {
            return Ok(());
        };
        self.of_functions.leaves_pieces.set(true);
        let counted = queue::count_more(&project, -count, -bytes);
        let left = queue::leave_calls(function).into_iter();
        Ok(rows.change_in_order(left.chain([counted]))?)
    }
}
