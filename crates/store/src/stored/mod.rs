//! What every database keeps in tables of the same columns beside rows and the catalogue: how it is
//! read and changed, once for all of them. A database runs the statements, and gives rows in its
//! own way.

pub(crate) mod boundaries;
pub(crate) mod change;
pub(crate) mod constraints;
pub(crate) mod deployments;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod keys_over_time;
pub(crate) mod left;
pub(crate) mod names_then;
pub(crate) mod overlaps;
pub(crate) mod parameter;
pub(crate) mod queue;
pub(crate) mod read;
pub(crate) mod row;
pub(crate) mod schema;
pub(crate) mod transactions;
pub(crate) mod upkeep;
pub(crate) mod usage;
pub(crate) mod variables;
