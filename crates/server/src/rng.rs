//! Where random bytes come from.

/// Fills the slice with random bytes. The binary passes the system's source, tests a known one.
pub type Rng = fn(&mut [u8]);
