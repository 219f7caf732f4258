//! Writing rows: one, many, matching ones, over valid time.

pub(crate) mod batch_write;
pub(crate) mod bulk;
pub(crate) mod content;
pub(crate) mod grants_undone;
pub(crate) mod import;
pub(crate) mod increment;
pub(crate) mod links;
pub(crate) mod once;
pub(crate) mod operation;
pub(crate) mod plan;
pub(crate) mod row_ops;
pub(crate) mod rows_write;
pub(crate) mod temporal;
pub(crate) mod temporal_transaction;
pub(crate) mod undo;
pub(crate) mod unseen;
