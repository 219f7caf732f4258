//! The HTTP rim: a request comes in as bytes, an answer goes out as bytes.
//!
//! `route` finds what is asked, `extract` reads who asks and with which parameters, one thin
//! function per route asks the engine, `wire` and `error` shape what it says. Nothing below
//! this module knows HTTP.

pub mod access;
pub mod admission;
pub mod answers;
pub mod app;
pub mod batch;
pub mod body;
pub mod body_budget;
pub mod callers;
pub mod columns;
pub mod cors;
pub mod counts;
pub mod databases;
pub mod dispatch;
pub mod error;
pub mod etag;
pub mod extract;
pub mod fast_path;
pub mod fields;
pub mod forwarded;
pub mod guest_turns;
pub mod heads;
pub mod health;
pub mod indexes;
pub mod line_body;
pub mod lines;
pub mod media;
pub mod min_mark;
pub mod native;
pub mod once;
pub mod openapi;
pub mod project;
pub mod query_string;
pub mod rate;
pub mod relationships;
pub mod reply;
pub mod route;
pub mod row_input;
pub mod rows;
pub mod rows_bulk;
pub mod streams;
pub mod tables;
pub mod transactions;
pub mod unique;
pub mod wire;

pub use app::{App, Shared};
pub use dispatch::{answer, answer_at_once};

pub use crate::rng::Rng;
