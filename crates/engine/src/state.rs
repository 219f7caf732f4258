//! What the engine keeps while it runs, shared by all its threads.

pub(crate) mod clock;
pub(crate) mod clock_guard;
pub(crate) mod marks;
pub(crate) mod observed;
pub(crate) mod shared;
pub(crate) mod stop;
pub mod tally;
