//! What answers must say, and must not say, of erasures in the past that they are about.

use std::sync::Arc;

use engine::{EngineError, ErasureFault, ListAnswer, ReadError};
use model::Table;

use super::super::question::Question;
use super::{Found, Reader, World};

/// When a question came.
pub(super) struct AskedAt {
    /// The state that could be read then.
    pub(super) floor: usize,
    /// Its table then.
    pub(super) table: Option<Arc<Table>>,
}

impl AskedAt {
    pub(super) fn of(reader: &Reader) -> AskedAt {
        AskedAt {
            floor: reader.floor,
            table: reader.table.clone(),
        }
    }
}

impl World {
    /// From now on answers say what is wrong of erasures, to show that it is noticed.
    pub fn mistell_erasures(&mut self, fault: ErasureFault) {
        self.engine.mistell_erasures(fault);
    }

    /// An erasure that was visible when the question came must be stated if it lies behind the
    /// earliest mark that the answer shows; one that is stated must be there when it is answered.
    pub(super) fn check_erased(
        &mut self,
        question: &Question,
        answer: &Result<ListAnswer, EngineError>,
        asked: &AskedAt,
    ) -> Found {
        let is_told = match answer {
            Ok(list) => list.is_erased,
            Err(EngineError::Read(ReadError::RowNotFoundSinceErasure(_))) => true,
            // Without a key it may be missing for lack of rights, whatever was erased.
            Err(EngineError::Read(ReadError::RowNotFound(_)))
                if question.caller.actor.bypasses_grants() =>
            {
                false
            }
            Err(_) => return Ok(()),
        };
        let Some(times) = question.times else {
            return if is_told {
                Err(format!("{question:?} is about now and tells of an erasure"))
            } else {
                Ok(())
            };
        };
        let mark = match answer {
            Ok(list) => Some(list.mark),
            Err(_) => times.as_of,
        };
        let now = self.judge.table_of(question);
        let (Some(mark), Some(then), Some(now)) = (mark, &asked.table, now) else {
            return Ok(());
        };
        // Another table of the same name has a past of its own.
        if then.number != now.number {
            return Ok(());
        }
        let stands = self.judge.stands();
        let has_erased = |line, state| {
            let since = times.looks_back_to(mark, line);
            self.judge.has_erased(now.number, since, state)
        };
        // The line from which a table keeps its past never falls.
        let must = has_erased(now.options.kept_from, asked.floor);
        let may = has_erased(then.options.kept_from, stands);
        if is_told && !may || !is_told && must {
            return Err(format!(
                "{question:?} as of {mark:?} tells of an erasure: {is_told}; it must: {must}, it \
                 may: {may}"
            ));
        }
        self.tally.count("answers of an erased past", is_told);
        self.tally.count("answers of a past that is whole", !may);
        Ok(())
    }
}
