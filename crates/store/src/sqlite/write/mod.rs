//! The operations of a batch: each changes rows or containers inside the open transaction.

pub(crate) mod answers;
pub(crate) mod awaited;
pub(crate) mod catalogue_write;
pub(crate) mod claims;
pub(crate) mod erase;
pub(crate) mod forget;
pub(crate) mod function_write;
pub(crate) mod grants_over_time;
pub(crate) mod halt;
pub(crate) mod matching;
pub(crate) mod needed;
pub(crate) mod parked;
pub(crate) mod present;
pub(crate) mod related;
pub(crate) mod relation_write;
pub(crate) mod resize;
pub(crate) mod row_write;
pub(crate) mod run;
pub(crate) mod schema_records;
pub(crate) mod schema_write;
pub(crate) mod staged;
pub(crate) mod staged_run;
pub(crate) mod timed_rows;
pub(crate) mod touched;
pub(crate) mod version_write;
pub(crate) mod versions;
