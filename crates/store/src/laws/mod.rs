//! The laws of writing that know no database: what they read of rows and do to them passes through
//! [`ledger`], which each database keeps in its own way.

pub(crate) mod awaited;
pub(crate) mod constraints;
pub(crate) mod damaged;
pub(crate) mod growth;
pub(crate) mod halt;
pub(crate) mod ledger;
pub(crate) mod period_search;
pub(crate) mod permissions;
pub(crate) mod row_search;
pub(crate) mod search_time;
pub(crate) mod state;
pub(crate) mod timed_rows;
pub(crate) mod touched;
pub(crate) mod versions;
