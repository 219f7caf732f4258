//! What requests may take of time, memory and connections, and what is refused beyond it.

pub mod admission;
pub mod body;
pub mod body_budget;
pub mod guest_executions;
pub mod guest_turns;
pub mod rate;
pub mod streams;
pub mod unsent;
