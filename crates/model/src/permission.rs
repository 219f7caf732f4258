//! Who may do what to a table or a row: actions, roles, and the grants that join them.

use std::fmt;

use crate::error::ModelError;
use crate::id::is_valid_id;

/// Most grants a table or a row may carry (wire protocol, permissions).
pub const PERMISSIONS_MAX: usize = 100;

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// See rows.
    Read,
    /// Add rows; on tables only.
    Create,
    /// Change rows.
    Update,
    /// Remove rows.
    Delete,
}

impl Action {
    /// The word inside a permission string.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Read => "read",
            Action::Create => "create",
            Action::Update => "update",
            Action::Delete => "delete",
        }
    }

    /// One bit each, as stored beside a role.
    pub fn bit(self) -> i64 {
        match self {
            Action::Read => 1,
            Action::Create => 2,
            Action::Update => 4,
            Action::Delete => 8,
        }
    }
}

/// A checked role, such as `any`, `user:ann`, `team:red/owner` or `users/verified`.
///
/// Kept as its text: roles are compared, never taken apart after they were checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role(Box<str>);

impl Role {
    /// The role everybody holds.
    pub fn any() -> Role {
        Role("any".into())
    }

    /// The role of callers without a session or key.
    pub fn guests() -> Role {
        Role("guests".into())
    }

    /// Reads a role.
    ///
    /// # Errors
    /// The reason, as the end of a sentence, when the role does not exist, lacks an id it needs,
    /// has one it may not have, or names an unknown dimension.
    pub fn parse(text: &str) -> Result<Role, String> {
        let (head, dimension) = match text.split_once('/') {
            Some((head, dimension)) => (head, Some(dimension)),
            None => (text, None),
        };
        let (name, id) = match head.split_once(':') {
            Some((name, id)) => (name, Some(id)),
            None => (head, None),
        };
        check_id(name, id)?;
        check_dimension(name, dimension)?;
        Ok(Role(text.into()))
    }

    /// The role as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_id(name: &str, id: Option<&str>) -> Result<(), String> {
    let needs_id = match name {
        "any" | "guests" | "users" => false,
        "user" | "team" | "member" | "label" => true,
        _ => {
            return Err(format!(
                "role `{name}` is not one of any, guests, users, user, team, member, label"
            ));
        }
    };
    match id {
        None if needs_id => Err(format!("role `{name}` needs an id, as in `{name}:id`")),
        Some(_) if !needs_id => Err(format!("role `{name}` takes no id")),
        Some(id) if !is_valid_id(id) => Err(format!("`{id}` is not an id")),
        _ => Ok(()),
    }
}

fn check_dimension(name: &str, dimension: Option<&str>) -> Result<(), String> {
    let Some(dimension) = dimension else {
        return Ok(());
    };
    let legal = match name {
        "users" | "user" => matches!(dimension, "verified" | "unverified"),
        "team" => is_valid_id(dimension),
        _ => false,
    };
    if legal {
        Ok(())
    } else {
        Err(format!("role `{name}` has no dimension `{dimension}`"))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The roles an actor holds: sorted, each once, so equal sets are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoleSet(Box<[Role]>);

impl RoleSet {
    /// Sorts the roles and drops repeated ones.
    pub fn new(mut roles: Vec<Role>) -> RoleSet {
        roles.sort();
        roles.dedup();
        RoleSet(roles.into())
    }

    /// Whether the actor holds `role`.
    pub fn holds(&self, role: &Role) -> bool {
        self.0.binary_search(role).is_ok()
    }

    /// Whether the actor holds the role written so.
    pub fn holds_named(&self, role: &str) -> bool {
        self.0
            .binary_search_by(|held| held.as_str().cmp(role))
            .is_ok()
    }

    /// The roles in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Role> {
        self.0.iter()
    }
}

/// One grant: an action for a role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permission {
    /// What is allowed …
    pub action: Action,
    /// … to whom.
    pub role: Role,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(\"{}\")", self.action.as_str(), self.role)
    }
}

/// What carries the grants. `write` means more on a table than on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grantee {
    /// `write` is create, update and delete.
    Table,
    /// `write` is update and delete; `create` is refused.
    Row,
}

impl Grantee {
    /// Reads a list of permission strings: `write` is expanded, repeats are dropped, the order
    /// is kept.
    ///
    /// # Errors
    /// [`ModelError::InvalidPermission`] for the first one that cannot be read,
    /// [`ModelError::TooManyPermissions`] beyond [`PERMISSIONS_MAX`].
    pub fn parse<'a>(
        self,
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Permission>, ModelError> {
        let mut permissions: Vec<Permission> = Vec::new();
        for (position, text) in texts.into_iter().enumerate() {
            if position >= PERMISSIONS_MAX {
                return Err(ModelError::TooManyPermissions {
                    count_max: PERMISSIONS_MAX,
                });
            }
            let (actions, role) =
                self.parse_one(text)
                    .map_err(|why| ModelError::InvalidPermission {
                        text: text.chars().take(100).collect(),
                        why,
                    })?;
            for &action in actions {
                let permission = Permission {
                    action,
                    role: role.clone(),
                };
                if !permissions.contains(&permission) {
                    permissions.push(permission);
                }
            }
        }
        Ok(permissions)
    }

    fn parse_one(self, text: &str) -> Result<(&'static [Action], Role), String> {
        let (word, rest) = text
            .split_once('(')
            .ok_or("it must look like `read(\"any\")`".to_owned())?;
        let quoted = rest
            .strip_suffix(')')
            .ok_or("the closing parenthesis is missing")?;
        let role = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .ok_or("the role must stand in double quotes")?;
        Ok((self.actions(word)?, Role::parse(role)?))
    }

    fn actions(self, word: &str) -> Result<&'static [Action], String> {
        Ok(match (word, self) {
            ("read", _) => &[Action::Read],
            ("create", Grantee::Table) => &[Action::Create],
            ("create", Grantee::Row) => return Err("rows have no action `create`".into()),
            ("update", _) => &[Action::Update],
            ("delete", _) => &[Action::Delete],
            ("write", Grantee::Table) => &[Action::Create, Action::Update, Action::Delete],
            ("write", Grantee::Row) => &[Action::Update, Action::Delete],
            _ => {
                return Err(format!(
                    "action `{word}` is not one of read, create, update, delete, write"
                ));
            }
        })
    }
}

/// Whether `permissions` let a caller with `roles` do `action`.
pub fn allows(permissions: &[Permission], action: Action, roles: &RoleSet) -> bool {
    permissions
        .iter()
        .any(|grant| grant.action == action && roles.holds(&grant.role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(grantee: Grantee, texts: &[&str], expected: Result<&[&str], &str>) {
        let parsed = grantee.parse(texts.iter().copied());
        match (parsed, expected) {
            (Ok(permissions), Ok(expected)) => {
                let texts: Vec<String> = permissions.iter().map(ToString::to_string).collect();
                assert_eq!(texts, expected);
            }
            (Err(error), Err(fragment)) => {
                assert!(error.to_string().contains(fragment), "{error}");
            }
            (parsed, _) => panic!("{parsed:?}"),
        }
    }

    #[test]
    fn write_is_expanded_by_what_carries_it_and_repeats_go() {
        check(
            Grantee::Table,
            &["update(\"any\")", "write(\"any\")"],
            Ok(&["update(\"any\")", "create(\"any\")", "delete(\"any\")"]),
        );
        check(
            Grantee::Row,
            &["write(\"user:ann\")"],
            Ok(&["update(\"user:ann\")", "delete(\"user:ann\")"]),
        );
    }

    #[test]
    fn every_role_form_is_read() {
        let roles = [
            "any",
            "guests",
            "users",
            "users/verified",
            "users/unverified",
            "user:a",
            "user:a/verified",
            "team:t",
            "team:t/owner",
            "member:m",
            "label:vip",
        ];
        for role in roles {
            assert_eq!(Role::parse(role).unwrap().as_str(), role);
        }
    }

    #[test]
    fn unreadable_permissions_say_why() {
        for (text, fragment) in [
            ("read", "must look like"),
            ("read(\"any\"", "closing parenthesis"),
            ("read(any)", "double quotes"),
            ("fly(\"any\")", "action `fly`"),
            ("create(\"any\")", "no action `create`"),
            ("read(\"any:x\")", "takes no id"),
            ("read(\"user\")", "needs an id"),
            ("read(\"user:_x\")", "is not an id"),
            ("read(\"user:x/asleep\")", "no dimension"),
            ("read(\"any/verified\")", "no dimension"),
            ("read(\"keys\")", "role `keys`"),
        ] {
            check(Grantee::Row, &[text], Err(fragment));
        }
    }

    #[test]
    fn a_hundred_grants_are_the_limit() {
        let texts: Vec<String> = (0..101).map(|i| format!("read(\"user:u{i}\")")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(
            Grantee::Row
                .parse(texts[..100].iter().copied())
                .unwrap()
                .len(),
            100
        );
        check(Grantee::Row, &texts, Err("At most 100"));
    }
}
