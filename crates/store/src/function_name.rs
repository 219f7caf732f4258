//! How operations name a function.

use model::{FunctionId, ProjectId};

/// A function as operations name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// Its project.
    pub project: ProjectId,
    /// Its id.
    pub id: FunctionId,
}
