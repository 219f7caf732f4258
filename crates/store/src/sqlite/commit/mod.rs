//! The one writer: batches in their order, what is due before them, and the end of a transaction.

pub(crate) mod due;
pub(crate) mod perform;
pub(crate) mod writer;
