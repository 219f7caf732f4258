//! The rooms of the one binary: the command line, the configuration, the admin socket, and what
//! looks at a data directory from outside.
//!
//! The only room that knows the environment and the command line.

pub mod admin;
pub mod cli;
pub mod config;
pub mod doctor;
