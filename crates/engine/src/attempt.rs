//! How often a request that met a newer catalogue is tried again.

/// A read is begun anew so often when the schema changes under it.
pub(crate) const ATTEMPTS_MAX: usize = 16;
