//! Requests as handlers read them: who sends them, what they name, and their bodies.

pub mod commit_meta;
pub mod context;
pub mod fields;
pub mod form;
pub mod idempotency_key;
pub mod inner_row_ids;
pub mod jailed_caller;
pub mod row_input;
