//! `tidemark bench`: the published list benchmark through a built-in client, and the static
//! responder that is its floor.

pub mod answer;
pub mod floor;
pub mod machine;
mod percentile;
mod phase;
mod report;
pub mod ttl;
