//! `tidemark bench` and `tidemark seed`: the published benchmarks through a built-in client or a
//! load generator, the static responder that is their floor, and reports of what was measured.

pub mod answer;
pub mod bitemporal;
pub mod codes;
pub mod compare;
pub mod floor;
pub mod gallery;
pub mod hostile;
pub mod load;
mod page;
mod phase;
pub mod prices;
pub mod published;
pub mod record;
mod report;
mod report_head;
pub mod run;
pub mod seed;
mod stage;
pub mod ttl;
pub mod two_servers;

pub use phase::Until;
