//! The routes that are answered at once.

use engine::Family;

use crate::http::head::route::Action;
use crate::http::head::router::Routes;

/// Which routes are answered at once, by their places.
#[derive(Clone, Copy, Debug)]
pub struct FastRoutes {
    lists: [usize; 2],
    rows: [usize; 2],
}

impl FastRoutes {
    /// Looks the routes up.
    pub fn new(routes: &Routes) -> FastRoutes {
        let places =
            |action| [Family::Tables, Family::Documents].map(|of| routes.position(action, of));
        FastRoutes {
            lists: places(Action::ListRows),
            rows: places(Action::GetRow),
        }
    }

    pub(in crate::http) fn list(&self, family: Family) -> usize {
        self.lists[usize::from(family == Family::Documents)]
    }

    pub(in crate::http) fn row(&self, family: Family) -> usize {
        self.rows[usize::from(family == Family::Documents)]
    }
}
