//! What a request means, as far as its bytes decide and the catalogue stays.

use std::rc::{Rc, Weak};

use engine::Engine;
use model::{Mark, RowId};

use super::{FastPath, Known};
use crate::http::head::cors::Origin;
use crate::http::head::credentials::KnownCaller;

/// A request whose target means something that is remembered.
pub struct Meaning {
    /// Who asks.
    pub caller: KnownCaller,
    /// Not held on to here: what is forgotten is forgotten.
    pub(in crate::http) known: Weak<Known>,
    /// The row that it names, if it names one.
    pub row: Option<RowId>,
    /// What the answer must not be older than.
    pub min_mark: Option<Mark>,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it says what the client holds.
    pub is_conditional: bool,
    /// Whether it has a name from the client.
    pub is_named: bool,
}

impl Meaning {
    /// What its target means, if the same request would mean the same now.
    pub(in crate::http) fn still(
        &self,
        engine: &Engine,
        fast_path: &FastPath,
    ) -> Option<Rc<Known>> {
        let known = self.known.upgrade()?;
        let holds = self.caller.still_holds(engine) && fast_path.still_holds(engine, &known);
        holds.then_some(known)
    }
}
