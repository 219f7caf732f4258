//! How a batch stops before its end.

use crate::StoreError;
use crate::refusal::Refusal;

/// Why a batch stopped half-way. The caller rolls back to its savepoint.
pub(crate) enum Halt {
    /// A law forbids it.
    Refused(Refusal),
    /// The database failed.
    Failed(StoreError),
}

pub(crate) type Step<T> = Result<T, Halt>;

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Halt {
        Halt::Failed(error)
    }
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Halt {
        Halt::Refused(refusal)
    }
}

impl Halt {
    /// The same, over one operation of the batch.
    pub(crate) fn over(self, nth: usize) -> Halt {
        match self {
            Halt::Refused(refusal) => Halt::Refused(refusal.over(nth)),
            failed @ Halt::Failed(_) => failed,
        }
    }
}
