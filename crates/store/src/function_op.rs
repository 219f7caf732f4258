//! What belongs to functions and is no part of the catalogue, and operations on it. They take no
//! mark: no reader of rows sees anything of them.

use model::{FunctionId, ProjectId, Timestamp, VariableId};

/// Most functions of a project: all of them are in memory.
pub const FUNCTIONS_MAX: usize = 1_000;
/// Most variables of a function (wire protocol, variables).
pub const VARIABLES_MAX: usize = 100;

/// A function as operations name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// Its project.
    pub project: ProjectId,
    /// Its id.
    pub id: FunctionId,
}

/// An operation on what belongs to a function.
#[derive(Clone, Debug)]
pub enum FunctionOp {
    /// Creates a variable: [`crate::Refusal::Exists`] where its id or its key is taken.
    CreateVariable {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: VariableId,
        /// Its name in the environment.
        key: String,
        /// What it holds.
        value: String,
        /// Whether that is never shown.
        secret: bool,
    },
    /// Changes a variable; `None` keeps.
    UpdateVariable {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: VariableId,
        /// Its name in the environment.
        key: Option<String>,
        /// What it holds.
        value: Option<String>,
        /// Whether that is never shown, from now on. A secret stays one.
        secret: bool,
    },
    /// Removes a variable.
    DeleteVariable {
        /// Of which function.
        function: FunctionName,
        /// Its id.
        id: VariableId,
    },
}

/// A variable in the environment of a function's executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Position in the order of creation, over all functions.
    pub seq: i64,
    /// Its id.
    pub id: VariableId,
    /// Its name in the environment.
    pub key: String,
    /// What it holds; empty where that is not shown.
    pub value: String,
    /// Whether what it holds is never shown.
    pub secret: bool,
    /// When it was created.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
}
