//! Records of executions: kept, let go of, removed.

use model::{Function, Timestamp};

use super::halt::Step;
use super::run::Run;
use super::slices::SLICE_BYTES_MAX;
use super::stored_tables::StoredTables;
use crate::execution_record::ExecutionRecord;
use crate::function_name::FunctionName;
use crate::stored::executions;

/// Most records that go for one that is kept: more than one, so that lower limits are reached.
const TRIMMED_MAX: usize = 3;
/// Bytes above the limit that are left to the upkeep: not less, or it would work for each record of
/// a function whose records differ in size.
const LEFT_BYTES_MIN: i64 = SLICE_BYTES_MAX as i64;
const DAY_US: i64 = 24 * 3_600 * 1_000_000;

/// How many records a function keeps at most, how many bytes of them, and since when.
struct KeptAtMost {
    count: i64,
    bytes: i64,
    since: Timestamp,
}

impl<D: StoredTables> Run<'_, D> {
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
        function: (&FunctionName, i64),
        record: &ExecutionRecord,
    ) -> Step<()> {
        let Some(function) = self.same_function(function) else {
            return Ok(());
        };
        let seq = function.seq;
        let insert = executions::insert(seq, record);
        if self.rows().change_stored(&insert)? > 0 {
            let count = executions::count(seq, 1, record.size_bytes() as i64);
            self.rows().change_stored(&count)?;
        }
        self.trim_executions(&function)
    }

    fn kept_of(&self, function: &Function) -> KeptAtMost {
        let options = function.definition.options;
        KeptAtMost {
            count: options.records_max.into(),
            bytes: options.records_bytes_max.cast_signed(),
            since: Timestamp(self.now().0 - i64::from(options.records_days) * DAY_US),
        }
    }

    /// Leaves what these functions keep no longer to the upkeep.
    pub(super) fn leave_old_of(&self, functions: &[(FunctionName, i64)]) -> Step<()> {
        for (name, seq) in functions {
            if let Some(function) = self.same_function((name, *seq)) {
                self.leave_old_executions(&function)?;
            }
        }
        Ok(())
    }

    /// Leaves the records that a function keeps no longer to the upkeep; none where it keeps all.
    pub(super) fn leave_old_executions(&self, function: &Function) -> Step<()> {
        let KeptAtMost {
            count,
            bytes,
            since,
        } = self.kept_of(function);
        let (rows, seq) = (self.rows(), function.seq);
        rows.change_stored(&executions::keep_old(seq))?;
        let leave = executions::leave_old(seq, (count, bytes, since.0));
        if rows.change_stored(&leave)? > 0 {
            self.of_functions.leaves_pieces.set(true);
        }
        Ok(())
    }

    /// Lets go of the oldest records of a function while they are too many, too large or too old.
    /// A few here, and the upkeep does the rest where large ones have come after many small ones.
    fn trim_executions(&self, function: &Function) -> Step<()> {
        let (seq, most) = (function.seq, self.kept_of(function));
        let mut bytes = 0;
        for _ in 0..TRIMMED_MAX {
            let Some(kept) = self.rows().first_stored(&executions::kept(seq))? else {
                return Ok(());
            };
            let is_recent = kept.oldest_created >= most.since;
            if kept.count <= most.count && kept.bytes <= most.bytes && is_recent {
                return Ok(());
            }
            self.remove_execution(seq, (kept.oldest, kept.oldest_bytes))?;
            bytes = kept.bytes - kept.oldest_bytes;
        }
        if bytes > most.bytes.saturating_add(LEFT_BYTES_MIN) {
            self.leave_old_executions(function)?;
        }
        Ok(())
    }

    fn remove_execution(&self, function: i64, (seq, bytes): (i64, i64)) -> Step<()> {
        let removed = [
            executions::remove(seq),
            executions::count(function, -1, -bytes),
        ];
        Ok(self.rows().change_in_order(removed)?)
    }

    pub(super) fn delete_execution(&mut self, name: &FunctionName, id: &str) -> Step<()> {
        let function = self.function(name)?.seq;
        if self.delete_queued(function, id)? {
            return Ok(());
        }
        let place = self
            .rows()
            .first_stored(&executions::place_of(function, id))?;
        place.map_or(Ok(()), |place| self.remove_execution(function, place))
    }

    /// Leaves the records of a function that goes to the upkeep.
    pub(super) fn leave_executions(&self, function: i64) -> Step<()> {
        let leave = executions::leave_all(function);
        if self.rows().change_stored(&leave)? > 0 {
            self.of_functions.leaves_pieces.set(true);
            let counted = executions::count_no_more(function);
            self.rows().change_in_order(counted)?;
        }
        Ok(())
    }
}
