//! What is stored, and how: values, physical tables, the catalogue, counters, and the steps from
//! each format to the next.

pub(crate) mod bind;
pub(crate) mod catalogue_read;
pub(crate) mod codec;
pub(crate) mod coding;
pub(crate) mod columns;
pub(crate) mod constraints;
pub(crate) mod format_steps;
pub(crate) mod freed;
pub(crate) mod fulltext;
pub(crate) mod functions_key;
pub(crate) mod links;
pub(crate) mod migrate;
pub(crate) mod row_sql;
pub(crate) mod sizes;
pub(crate) mod state;
pub(crate) mod stored_reads;
pub(crate) mod tables;
