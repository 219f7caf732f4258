//! What is kept of one row, and what it says: the temporal laws, without any database.
//!
//! A stored [`Version`] is a value over a valid period, with the marks from which it is known, cut
//! and gone. What a write does to the versions of its row is a [`Plan`]; what the versions say at
//! some coordinates is asked of a [`History`]. The brute-force model in `testing::history` holds
//! both to the rules.
//!
//! Everything here is about one row. Values are of any type: a store hands in its own, and the
//! laws never look inside.

mod along;
mod claim;
mod diff;
mod known;
mod operation;
mod plan;
mod point;
mod present;
mod range;
mod refusal;
mod retain;
mod version;

pub use along::{Held, Stretch};
pub use claim::Claim;
pub use diff::Difference;
pub use known::Known;
pub use operation::{Act, Merge, Operation};
pub use plan::{Ending, NewVersion, Plan};
pub use present::{Present, Refresh, Shown};
pub use range::{Range, Until};
pub use refusal::WriteRefusal;
pub use retain::Retained;
pub use version::{Cut, Piece, Rectangle, Version, VersionNumber};

/// All versions of one row, in any order: what was ever known of it and has not been erased.
///
/// Answers at a mark never change once no later commit can get a mark at or below it.
#[derive(Debug)]
pub struct History<'a, V> {
    versions: &'a [Version<V>],
}

/// What only points at values is copied, whether or not the values can be. (Derived, it would ask
/// the same of the values.)
macro_rules! copied {
    ($($name:ident)*) => {$(
        impl<V> Clone for $name<'_, V> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<V> Copy for $name<'_, V> {}
    )*};
}

copied!(Piece Rectangle Stretch Held Difference Present Refresh Claim Known History);

impl<'a, V> History<'a, V> {
    /// The history that these versions make up.
    pub fn new(versions: &'a [Version<V>]) -> History<'a, V> {
        History { versions }
    }
}
