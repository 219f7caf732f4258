//! How a use of the file fails.

use std::io::{Error, ErrorKind};

use super::super::tier::{TierError, TierFault};

pub fn io(error: Error) -> TierError {
    if error.kind() == ErrorKind::UnexpectedEof {
        return damaged("the cache file is shorter than it was");
    }
    let text = format!("the cache file cannot be used: {error}");
    TierError::new(TierFault::Io, text)
}

pub fn damaged(text: &str) -> TierError {
    TierError::new(TierFault::Damaged, text)
}
