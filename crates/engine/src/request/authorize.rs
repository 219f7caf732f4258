//! What a caller may do, before anything is read or written.

use std::sync::Arc;

use model::permission::allows;
use model::{
    Action, Actor, Catalogue, Database, Edit, Patch, Permission, Project, Role, Scope, Table,
};
use store::Guard;

use crate::Engine;
use crate::error::{AccessError, EngineError, SchemaError};
use crate::request::inputs::{Caller, Place};

/// What reads of rows need.
pub(crate) const READ_ROWS: &[Scope] = &[Scope::RowsRead];
/// What writes of rows need.
pub(crate) const WRITE_ROWS: &[Scope] = &[Scope::RowsWrite];

impl Engine {
    /// Whether the caller may do one of `actions` to rows of a table at all, as far as that is
    /// known before any row is read.
    ///
    /// # Errors
    /// [`AccessError::Unauthorized`] when no grant of the table allows it and grants of rows do
    /// not count; a table or database that the caller does not see.
    pub fn need_grant(
        &self,
        caller: &Caller,
        place: Place<'_>,
        actions: &[Action],
    ) -> Result<(), EngineError> {
        let catalogue = self.catalogue();
        let table = table(&catalogue, caller, place)?;
        if may_any(table, &caller.actor, actions) {
            Ok(())
        } else {
            Err(AccessError::Unauthorized.into())
        }
    }

    /// Whether the caller may write rows of any table, of this database if one is named.
    ///
    /// # Errors
    /// [`AccessError::Unauthorized`] when there is no such table; a project or database that the
    /// caller does not see.
    pub fn need_write_somewhere(
        &self,
        caller: &Caller,
        named: Option<&str>,
    ) -> Result<(), EngineError> {
        let catalogue = self.catalogue();
        let Some(id) = named else {
            return need_some_write(&catalogue, caller);
        };
        let mut tables = database(&catalogue, caller, id)?.tables.values();
        if tables.any(|table| table.enabled && may_write(table, &caller.actor)) {
            Ok(())
        } else {
            Err(AccessError::Unauthorized.into())
        }
    }
}

fn may_any(table: &Table, actor: &Actor, actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::Create => may_create(table, actor),
        action => !matches!(guard(table, actor, &[*action]), Guard::Closed),
    })
}

/// # Errors
/// [`AccessError::ScopeMissing`] when the actor holds none of `scopes`.
pub(crate) fn need_scope(caller: &Caller, scopes: &'static [Scope]) -> Result<(), EngineError> {
    if caller.actor.has_scope(scopes) {
        Ok(())
    } else {
        Err(AccessError::ScopeMissing(scopes).into())
    }
}

/// For use cases of keys only: guests and users lack the scope, whatever grants they hold.
pub(crate) fn need_key(caller: &Caller, scopes: &'static [Scope]) -> Result<(), EngineError> {
    match caller.actor {
        Actor::Key { .. } | Actor::Function { .. } => need_scope(caller, scopes),
        Actor::Guest | Actor::User { .. } => Err(AccessError::ScopeMissing(scopes).into()),
    }
}

/// The caller's project. It was there when the caller was made, and may have gone since.
pub(crate) fn project<'a>(
    catalogue: &'a Catalogue,
    caller: &Caller,
) -> Result<&'a Arc<Project>, EngineError> {
    catalogue.project(caller.project.as_str()).ok_or_else(|| {
        EngineError::Schema(SchemaError::ProjectNotFound(caller.project.to_string()))
    })
}

/// A database as the caller sees it: a disabled one is there for keys only.
pub(crate) fn database<'a>(
    catalogue: &'a Catalogue,
    caller: &Caller,
    id: &str,
) -> Result<&'a Arc<Database>, EngineError> {
    project(catalogue, caller)?
        .databases
        .get(id)
        .filter(|database| database.enabled || caller.actor.bypasses_grants())
        .ok_or_else(|| {
            EngineError::Schema(SchemaError::DatabaseNotFound(
                id.chars().take(100).collect(),
            ))
        })
}

/// A table as the caller sees it: a disabled one is there for keys only.
pub(crate) fn table<'a>(
    catalogue: &'a Catalogue,
    caller: &Caller,
    place: Place<'_>,
) -> Result<&'a Arc<Table>, EngineError> {
    database(catalogue, caller, place.database)?
        .tables
        .get(place.table)
        .filter(|table| table.enabled || caller.actor.bypasses_grants())
        .ok_or_else(|| {
            EngineError::Schema(SchemaError::TableNotFound(
                place.table.chars().take(100).collect(),
            ))
        })
}

/// Whether the actor may add rows; only the table can grant that.
pub(crate) fn may_create(table: &Table, actor: &Actor) -> bool {
    actor.bypasses_grants() || allows(&table.permissions, Action::Create, &actor.roles())
}

/// Whether there may be a row of `table` that the actor may write: a table that does not grant it
/// leaves it to each row, or to none.
pub(crate) fn may_write(table: &Table, actor: &Actor) -> bool {
    if actor.bypasses_grants() || table.row_security {
        return true;
    }
    let roles = actor.roles();
    let writes = [Action::Create, Action::Update, Action::Delete];
    let grants = |action: Action| allows(&table.permissions, action, &roles);
    writes.into_iter().any(grants)
}

/// # Errors
/// [`AccessError::Unauthorized`] when no table that the caller sees may have a row that it may
/// write: what it staged could never be committed.
pub(crate) fn need_some_write(catalogue: &Catalogue, caller: &Caller) -> Result<(), EngineError> {
    let databases = &project(catalogue, caller)?.databases;
    if caller.actor.bypasses_grants() {
        return Ok(());
    }
    let seen = databases.values().filter(|database| database.enabled);
    let mut tables = seen.flat_map(|database| database.tables.values());
    if tables.any(|table| table.enabled && may_write(table, &caller.actor)) {
        return Ok(());
    }
    Err(AccessError::Unauthorized.into())
}

/// Who may do all of `actions` to a row of `table`, as the store is to judge it: the row has to
/// grant what the table does not.
pub(crate) fn guard(table: &Table, actor: &Actor, actions: &[Action]) -> Guard {
    if actor.bypasses_grants() {
        return Guard::Open;
    }
    let roles = actor.roles();
    let is_missing = |action: &&Action| !allows(&table.permissions, **action, &roles);
    let missing: Vec<Action> = actions.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        Guard::Open
    } else if table.row_security {
        Guard::Granted {
            roles,
            actions: missing.into(),
        }
    } else {
        Guard::Closed
    }
}

/// Who may change a row by `patch`.
///
/// An operator calculates with the value that the row holds, and is refused where the result does
/// not fit. By its refusals a caller would find out a value that it may not read, so an operator
/// needs the right to read as well.
pub(crate) fn guard_patch(table: &Table, actor: &Actor, patch: &Patch) -> Guard {
    let operates = |(_, edit): &(usize, Edit)| matches!(edit, Edit::Operate(_));
    if patch.edits().iter().any(operates) {
        guard(table, actor, &[Action::Update, Action::Read])
    } else {
        guard(table, actor, &[Action::Update])
    }
}

/// A caller without a key may grant only to roles it holds itself.
///
/// # Errors
/// [`AccessError::RoleNotHeld`] for the first other role.
pub(crate) fn may_grant(actor: &Actor, permissions: &[Permission]) -> Result<(), EngineError> {
    if actor.bypasses_grants() {
        return Ok(());
    }
    let roles = actor.roles();
    let foreign = |role: &Role| !roles.holds(role);
    match permissions.iter().find(|grant| foreign(&grant.role)) {
        Some(grant) => Err(AccessError::RoleNotHeld(grant.role.to_string()).into()),
        None => Ok(()),
    }
}

/// The owner of what a key created.
pub(crate) const OF_KEYS: &str = "key";
/// The owner of what a guest created. Guests cannot be distinguished: a guest that knows the id may
/// use it.
pub(crate) const OF_GUESTS: &str = "guest";

/// Who may see a transaction that this actor creates, beside API keys.
pub(crate) fn owner(actor: &Actor) -> String {
    match actor {
        Actor::Key { .. } | Actor::Function { .. } => OF_KEYS.to_owned(),
        Actor::Guest => OF_GUESTS.to_owned(),
        Actor::User { roles } => {
            let mut names = roles.iter().map(model::Role::as_str);
            let own = names.find(|name| name.starts_with("user:") && !name.contains('/'));
            own.expect("a user holds its own role").to_owned()
        }
    }
}
