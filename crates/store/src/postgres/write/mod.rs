//! How a store in a schema is written: a group of batches takes two round trips. The first one
//! locks and reads all that they name; the laws run on that in memory; the second one sends what is
//! left of them as one statement for each kind and table, and the commit.

mod array_lists;
mod batch_store;
mod bulk_read;
mod bulk_rows;
mod bulk_send;
mod forget;
mod group_requests;
mod group_stamp;
mod group_tally;
pub(crate) mod index_builds;
mod period_search;
mod preview;
mod records;
mod requests;
mod row_amends;
mod row_search;
mod rows;
pub(super) mod session;
pub(super) mod shared_writer;
mod state;
mod stored_tables;
mod table_layout;
mod transactions;
pub(super) mod turn;
#[cfg(test)]
mod unanswered_tests;
mod upkeep;
mod user_values;
mod vacuums;
pub(crate) mod writer;
