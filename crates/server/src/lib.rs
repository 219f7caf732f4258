//! The binary's rooms: HTTP, the admin socket, the command line and the benchmark's client.
//!
//! The only room that knows wire shapes, sockets, the environment and the command line. It knows
//! nothing of SQL and of which database answers.

pub mod admin;
pub mod bench;
pub mod cli;
pub mod config;
pub mod doctor;
pub mod http;
pub mod port;
pub mod secret;
pub mod seed;
pub mod serve;
pub mod watch;
