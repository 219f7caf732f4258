//! The laws of writing, which know no database: what a batch does to rows is decided here, once.
//! What they read of rows and do to them passes through [`ledger`], and what they look for through
//! [`row_search`] and [`period_search`]; each database keeps these in its own way.

pub(crate) mod awaited;
pub(crate) mod body;
pub(crate) mod bulk_rows;
pub(crate) mod claims;
pub(crate) mod constraints;
pub(crate) mod damaged;
pub(crate) mod due;
pub(crate) mod erase;
pub(crate) mod grants_over_time;
pub(crate) mod group_bytes;
pub(crate) mod growth;
pub(crate) mod halt;
pub(crate) mod held_row;
pub(crate) mod held_table;
pub(crate) mod ledger;
pub(crate) mod links_over_time;
pub(crate) mod matching;
pub(crate) mod named;
pub(crate) mod needed;
pub(crate) mod parked;
pub(crate) mod perform;
pub(crate) mod period_search;
pub(crate) mod permissions;
pub(crate) mod present;
pub(crate) mod probes;
pub(crate) mod related;
pub(crate) mod resize;
pub(crate) mod row_search;
pub(crate) mod row_write;
pub(crate) mod run;
pub(crate) mod search_time;
pub(crate) mod slices;
pub(crate) mod staged_run;
pub(crate) mod state;
pub(crate) mod ties_over_time;
pub(crate) mod timed_rows;
pub(crate) mod touched;
pub(crate) mod unmoved;
pub(crate) mod unsent;
pub(crate) mod version_write;
pub(crate) mod versions;
pub(crate) mod working_rows;
pub(crate) mod working_search;
pub(crate) mod working_set;
