//! What the tests of several crates need. For dev-dependencies, and for the programs that test.
//!
//! Always there: a server as a child process, a client that sends any bytes, and the comparison of
//! a page's table with the code. By feature: `stores` (clocks, stores that change a few methods of
//! another one, where the stores of a suite are, what is in the files of a data directory),
//! `queries` (the golden statements), `history` (random histories and their oracle). Each of them
//! brings plain tables and columns.

mod child_server;
#[cfg(feature = "stores")]
mod clock;
#[cfg(feature = "stores")]
mod commits;
#[cfg(feature = "stores")]
mod files;
#[cfg(feature = "queries")]
pub mod golden;
#[cfg(feature = "history")]
pub mod history;
mod own_addresses;
#[cfg(feature = "stores")]
mod own_turn;
mod pages;
#[cfg(feature = "stores")]
pub mod places;
mod raw_client;
#[cfg(feature = "stores")]
mod store_hooks;
#[cfg(feature = "tables")]
mod tables;

pub use child_server::{ChildServer, ServerLog, send_signal, serve};
#[cfg(feature = "stores")]
pub use clock::{TickingClock, WallClock};
#[cfg(feature = "stores")]
pub use commits::{done, in_doubt, on_commit};
#[cfg(feature = "stores")]
pub use files::{damage_behind, traces};
pub use own_addresses::{own_address, own_ipv6_address};
#[cfg(feature = "stores")]
pub use own_turn::{OwnTurn, at_once, waited};
pub use pages::assert_rows;
pub use raw_client::{Credentials, RawAnswer, RawClient, RequestLines};
#[cfg(feature = "stores")]
pub use store_hooks::{Hooked, StoreHooks, UpkeepHooks, WaitedStore};
#[cfg(feature = "tables")]
pub use tables::{plain_column, plain_table};
