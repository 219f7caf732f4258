//! The operations of a batch: each changes rows or containers inside the open transaction.

pub(crate) mod answers;
pub(crate) mod catalogue_write;
pub(crate) mod claims;
pub(crate) mod deployment_write;
pub(crate) mod erase;
pub(crate) mod execution_write;
pub(crate) mod forget;
pub(crate) mod function_write;
pub(crate) mod grants_over_time;
pub(crate) mod matching;
pub(crate) mod needed;
pub(crate) mod parked;
pub(crate) mod present;
pub(crate) mod queue_write;
pub(crate) mod related;
pub(crate) mod relation_write;
pub(crate) mod resize;
pub(crate) mod row_ledger;
pub(crate) mod row_write;
pub(crate) mod run;
pub(crate) mod schema_records;
pub(crate) mod schema_write;
pub(crate) mod staged;
pub(crate) mod staged_run;
pub(crate) mod stored_rows;
pub(crate) mod version_write;
