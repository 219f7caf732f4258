//! The operations of a batch: each changes rows or containers inside the open transaction.

pub(crate) mod erased;
pub(crate) mod forget;
pub(crate) mod period_search;
pub(crate) mod requests;
pub(crate) mod row_ledger;
pub(crate) mod row_search;
pub(crate) mod run;
pub(crate) mod stored_rows;
pub(crate) mod stored_tables;
pub(crate) mod table_layout;
pub(crate) mod transactions;
