//! What the threads that answer requests remember and share.

pub mod app;
pub mod counts;
pub mod fast_path;
pub mod generated_ids;
pub mod known_heads;
pub mod test_clock;
