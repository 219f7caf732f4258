//! What the tests of several crates need: clocks, stores that change a few methods of another one,
//! and what a test finds in, or does to, the files of a data directory. For dev-dependencies only.

mod clock;
mod files;
mod store_hooks;

pub use clock::{TickingClock, WallClock};
pub use files::{damage_behind, traces};
pub use store_hooks::{Hooked, StoreHooks, on_commit};
