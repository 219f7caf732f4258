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

impl Visibility {
    /// Whether a row with these grants, the JSON text in which they are stored and shown, is seen.
    ///
    /// Role names hold no quotes and no backslashes, so the quotes around one, escaped, are where
    /// it ends; nothing has to be taken out of the text.
    pub fn sees(&self, permissions: &str) -> bool {
        let roles = match self {
            Visibility::Everything => return true,
            Visibility::Granted(roles) => roles,
        };
        let mut grants = permissions.split(READ_GRANT).skip(1);
        grants.any(|rest| {
            let role = rest.split_once('\\').map(|(role, _)| role);
            role.is_some_and(|role| roles.holds_named(role))
        })
    }
}

/// How the grant of `read` begins in the JSON text of a row's grants.
const READ_GRANT: &str = "\"read(\\\"";

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

#[cfg(test)]
mod tests {
    use model::Role;

    use super::*;

    #[test]
    fn a_row_is_seen_by_those_whom_it_grants_read() {
        let text = r#"["update(\"any\")","read(\"user:ann\")","read(\"team:red/owner\")"]"#;
        for (roles, sees) in [
            (&["user:ann"][..], true),
            (&["any", "team:red/owner"], true),
            (&["any", "user:an"], false),
            (&["user:anna"], false),
            (&["team:red"], false),
            (&[], false),
        ] {
            let roles = roles.iter().map(|role| Role::parse(role).expect("a role"));
            let granted = Visibility::Granted(Arc::new(RoleSet::new(roles.collect())));
            assert_eq!(granted.sees(text), sees, "{granted:?}");
            assert!(!granted.sees("[]"));
        }
        assert!(Visibility::Everything.sees("[]"));
    }
}
