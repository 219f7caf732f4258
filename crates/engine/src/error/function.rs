//! Failures about functions and what belongs to them.

use thiserror::Error;

/// Why a function, or what belongs to it, cannot be found or made so.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FunctionError {
    /// There is no such function.
    #[error("No function `{0}`.")]
    NotFound(String),
    /// A function of this id is there already.
    #[error("A function with this id already exists.")]
    Exists,
    /// The function has no such variable.
    #[error("The function has no variable `{0}`.")]
    VariableNotFound(String),
    /// A variable of this id or key is there already.
    #[error("The function has a variable with this id or key already.")]
    VariableExists,
    /// A secret variable was to become one that is shown.
    #[error("A secret variable stays secret. Delete it and create another one.")]
    SecretStays,
}
