//! Which rows an actor may see: the one way to filter rows by grants.

use std::sync::Arc;

use model::permission::allows;
use model::{Action, Actor, RoleSet, Table};

/// The predicate a permission set makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Every row: a key, or a grant on the whole table.
    Everything,
    /// The rows that themselves grant `read` to one of these roles.
    Granted(Arc<RoleSet>),
}

/// What `actor` may read of `table`; `None` when nothing could ever be readable, because the
/// table grants nothing and row grants do not count.
pub fn visibility(table: &Table, actor: &Actor) -> Option<Visibility> {
    if actor.bypasses_grants() {
        return Some(Visibility::Everything);
    }
    let roles = actor.roles();
    if allows(&table.permissions, Action::Read, &roles) {
        Some(Visibility::Everything)
    } else if table.row_security {
        Some(Visibility::Granted(roles))
    } else {
        None
    }
}
