//! What a server is made of: HTTP, the sockets it is served on, and what is reported of it.
//!
//! Wire shapes stand here and nowhere else. It knows nothing of SQL and of which database answers,
//! of the environment and of the command line.

pub mod defaults;
pub mod functions;
pub mod http;
pub mod offline;
pub mod rng;
pub mod secret;
pub mod serve;
pub mod telemetry;
