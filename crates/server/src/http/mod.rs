//! The HTTP layer: a request comes in as bytes, an answer goes out as bytes.
//!
//! A request passes these modules from top to bottom, and none imports one above it: `dispatch`
//! finds the route and calls its function in `routes`, which reads the request by `input` and what
//! the threads share in `state`, calls the engine, and returns a `reply`. What all of it may take
//! stands in `limits`, headers and request lines in `head`, the shapes of answers and errors in
//! `wire`. Nothing below this module knows HTTP.

pub mod access_log;
pub mod dispatch;
pub mod fast_answer;
pub mod head;
pub mod input;
pub mod limits;
pub mod reply;
pub mod routes;
pub mod state;
pub mod wire;

pub use dispatch::{answer, answer_at_once, answer_known};
pub use state::app::{App, Shared};
