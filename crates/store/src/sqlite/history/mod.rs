//! A store as entries, with all that it knew at every mark, and a store made of them
//! (docs/reference/history-file.md). An entry is a part's name and its members, as JSON.

mod building;
mod derived;
mod export;
mod fault;
mod fields;
mod import;
mod parts;
mod settled;
pub(crate) mod site;
pub(crate) mod tables;

pub use self::fault::{HistoryCount, HistoryFault, HistoryMembers};
pub use self::import::HistoryImport;
