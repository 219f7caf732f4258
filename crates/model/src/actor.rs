//! Who asks.

use std::sync::Arc;

use crate::id::{FunctionId, KeyId};
use crate::permission::{Role, RoleSet};

/// Who asks: a guest, a signed-in user, an API key, or an execution of a function.
#[derive(Clone, Debug)]
pub enum Actor {
    /// A guest. Holds the roles `any` and `guests`.
    Guest,
    /// A signed-in user with the roles that session, memberships and labels give.
    User {
        /// Every role the user holds, `any` and `users` among them.
        roles: Arc<RoleSet>,
    },
    /// An API key: grants on tables and rows do not concern it, its scopes do.
    Key {
        /// The key's id, for the log and for who-wrote-it metadata.
        id: KeyId,
        /// What the key may call.
        scopes: Arc<[Scope]>,
    },
    /// An execution of a function, by the key that it has while it runs. Grants do not concern it
    /// either.
    Function {
        /// The function's id.
        id: FunctionId,
        /// What the function may call.
        scopes: Arc<[Scope]>,
    },
}

impl Actor {
    /// Whether grants on tables and rows are skipped for this actor.
    pub fn bypasses_grants(&self) -> bool {
        matches!(self, Actor::Key { .. } | Actor::Function { .. })
    }

    /// Whether the actor may call a route that one of `wanted` opens.
    pub fn has_scope(&self, wanted: &[Scope]) -> bool {
        match self {
            // Guests and users hold the scopes of rows, and may execute; grants then decide.
            Actor::Guest | Actor::User { .. } => wanted.iter().any(|scope| {
                let of_all = [Scope::RowsRead, Scope::RowsWrite, Scope::ExecutionsWrite];
                of_all.contains(scope)
            }),
            Actor::Key { scopes, .. } | Actor::Function { scopes, .. } => wanted
                .iter()
                .any(|scope| *scope == Scope::HealthRead || scopes.contains(scope)),
        }
    }

    /// The roles that grants are held against.
    pub fn roles(&self) -> Arc<RoleSet> {
        match self {
            Actor::Guest => Arc::new(RoleSet::new(vec![Role::any(), Role::guests()])),
            Actor::User { roles } => roles.clone(),
            Actor::Key { .. } | Actor::Function { .. } => Arc::new(RoleSet::new(vec![Role::any()])),
        }
    }
}

macro_rules! scopes {
    ($($name:ident $text:literal $(or $alias:literal)*;)*) => {
        /// What an API key may call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Scope {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Scope {
            /// Every scope, in the order of the reference page.
            pub const ALL: &[Scope] = &[$(Scope::$name),*];

            /// The scope's name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Scope::$name => $text,)* }
            }

            /// Reads a scope or one of its older names.
            pub fn parse(text: &str) -> Option<Scope> {
                match text {
                    $($text $(| $alias)* => Some(Scope::$name),)*
                    _ => None,
                }
            }
        }
    };
}

scopes! {
    DatabasesRead "databases.read";
    DatabasesWrite "databases.write";
    TablesRead "tables.read" or "collections.read";
    TablesWrite "tables.write" or "collections.write";
    ColumnsRead "columns.read" or "attributes.read";
    ColumnsWrite "columns.write" or "attributes.write";
    IndexesRead "indexes.read";
    IndexesWrite "indexes.write";
    RowsRead "rows.read" or "documents.read";
    RowsWrite "rows.write" or "documents.write";
    FunctionsRead "functions.read";
    FunctionsWrite "functions.write";
    ExecutionsRead "executions.read" or "execution.read";
    ExecutionsWrite "executions.write" or "execution.write";
    UsersRead "users.read";
    UsersWrite "users.write";
    SessionsWrite "sessions.write";
    TeamsRead "teams.read";
    TeamsWrite "teams.write";
    HealthRead "health.read";
    ProjectRead "project.read";
    ProjectWrite "project.write";
    KeysRead "keys.read";
    KeysWrite "keys.write";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_may_call_row_routes_and_execute_and_a_key_what_its_scopes_say() {
        let key = Actor::Key {
            id: KeyId::new("k").unwrap(),
            scopes: Arc::from([Scope::RowsRead]),
        };
        assert!(Actor::Guest.has_scope(&[Scope::RowsWrite]));
        assert!(Actor::Guest.has_scope(&[Scope::ExecutionsWrite]));
        assert!(!Actor::Guest.has_scope(&[Scope::ExecutionsRead]));
        assert!(!Actor::Guest.has_scope(&[Scope::TablesRead]));
        assert!(key.has_scope(&[Scope::TablesRead, Scope::RowsRead]));
        assert!(!key.has_scope(&[Scope::RowsWrite]));
        assert!(
            key.has_scope(&[Scope::HealthRead]),
            "every key may ask for health"
        );
    }

    #[test]
    fn an_execution_of_a_function_may_do_what_its_scopes_say() {
        let function = Actor::Function {
            id: FunctionId::new("f").unwrap(),
            scopes: Arc::from([Scope::RowsRead]),
        };
        assert!(function.bypasses_grants());
        assert!(function.has_scope(&[Scope::RowsRead]));
        assert!(!function.has_scope(&[Scope::RowsWrite]));
    }

    #[test]
    fn scopes_on_the_page_are_those_of_the_code() {
        let page = include_str!("../../../docs/reference/scopes.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        let known: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        testing::assert_rows("docs/reference/scopes.md", &listed, &known);
    }

    #[test]
    fn scope_names_and_their_older_forms_are_read() {
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.as_str()), Some(*scope));
        }
        assert_eq!(Scope::parse("documents.write"), Some(Scope::RowsWrite));
        assert_eq!(Scope::parse("rows"), None);
    }
}
