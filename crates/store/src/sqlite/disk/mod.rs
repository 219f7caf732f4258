//! The files of the data directory, and SQLite over them: connections, layers, what errors mean.

pub(crate) mod checkpoint;
pub(crate) mod connection;
pub(crate) mod deadline;
pub(crate) mod directory;
pub(crate) mod fault;
pub(crate) mod file_format;
pub(crate) mod functions;
pub(crate) mod kept;
pub(crate) mod keys;
pub(crate) mod layer;
pub(crate) mod sorts;
pub(crate) mod wal_coalescing;
pub(crate) mod wal_reader_pin;
