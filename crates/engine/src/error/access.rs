//! What keeps a caller out.

use model::{Past, Scope};
use thiserror::Error;

/// What keeps the caller out.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum AccessError {
    /// The request names no project.
    #[error("The request names no project.")]
    ProjectMissing,
    /// The API key has expired.
    #[error("The API key has expired.")]
    KeyExpired,
    /// The key was never issued for this project, or was revoked.
    #[error("The API key is unknown: this project has none such, or it was revoked.")]
    KeyUnknown,
    /// The actor lacks every scope that would open this use case.
    #[error("The caller lacks the scope {}.", names(.0))]
    ScopeMissing(&'static [Scope]),
    /// The actor is known and may not do this.
    #[error("The caller is not permitted to do this.")]
    Unauthorized,
    /// The actor sets a permission for a role it does not hold.
    #[error("Permissions can only be set for roles the caller holds, not `{0}`.")]
    RoleNotHeld(String),
    /// The table does not let callers without a key look at such times.
    #[error(
        "Without an API key this table is read and written as of now only: its option `past` is \
         `{}`.", .0.as_str()
    )]
    PastClosed(Past),
}

fn names(scopes: &[Scope]) -> String {
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    names.join(" or ")
}
