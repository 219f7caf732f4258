//! The routes that are answered at once.

use engine::Family;

use super::super::route::{Action, Routes};

/// Which routes are answered at once, by their places.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    lists: [usize; 2],
    rows: [usize; 2],
}

impl AtOnce {
    /// Looks the routes up.
    pub fn new(routes: &Routes) -> AtOnce {
        let places =
            |action| [Family::Tables, Family::Documents].map(|of| routes.position(action, of));
        AtOnce {
            lists: places(Action::ListRows),
            rows: places(Action::GetRow),
        }
    }

    pub(super) fn list(&self, family: Family) -> usize {
        self.lists[usize::from(family == Family::Documents)]
    }

    pub(super) fn row(&self, family: Family) -> usize {
        self.rows[usize::from(family == Family::Documents)]
    }
}
