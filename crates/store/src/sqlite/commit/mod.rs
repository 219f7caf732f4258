//! The one writer: batches in their order, what is due before them, and the end of a transaction.

pub(crate) mod activation;
pub(crate) mod batch_store;
pub(crate) mod writer;
