//! Any bytes that a process of a function sends to the executor, as they are and as frames that the
//! input describes: `functions::frame_law` says what holds.

pub use functions::frame_law::check;
