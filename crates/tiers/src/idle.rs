//! Connections that a process keeps while no thread uses them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::host::{ByProcess, Host};
use super::tier::{TierError, TierFault};

/// Those of this process: a child of a fork begins without its parent's.
pub struct IdleConnections<C> {
    each: ByProcess<Mutex<Vec<C>>>,
    max: usize,
}

impl<C> IdleConnections<C> {
    pub fn new(host: &Host, max: usize) -> IdleConnections<C> {
        IdleConnections {
            each: ByProcess::new(host),
            max,
        }
    }

    fn own(&self) -> Option<MutexGuard<'_, Vec<C>>> {
        let own = self.each.own()?;
        Some(own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One for this thread alone, if there is one.
    ///
    /// # Errors
    /// In a fork of too many others in a row.
    pub fn take(&self) -> Result<Option<C>, TierError> {
        let Some(mut own) = self.own() else {
            let text = "this process is a fork of too many others in a row";
            return Err(TierError::new(TierFault::Off, text));
        };
        Ok(own.pop())
    }

    /// Keeps one whose last call has ended well.
    pub fn keep(&self, connection: C) {
        if let Some(mut own) = self.own()
            && own.len() < self.max
        {
            own.push(connection);
        }
    }

    /// Ends all that no thread uses.
    pub fn end(&self) {
        if let Some(mut own) = self.own() {
            own.clear();
        }
    }
}
