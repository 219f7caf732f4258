//! Administration of projects and API keys: what can be done, and the two ways to do it.
//!
//! A running server owns the data directory, so the command line asks it over `admin.sock` there;
//! without one, the command line opens the store itself. Both ways end in [`act::perform`].
//! A process that may open the socket and read the token next to it may do everything: both are
//! their owner's only.

pub mod act;
pub mod client;
pub mod socket;
