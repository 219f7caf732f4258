//! Failures about functions and what belongs to them.

use store::QueueBounds;
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
    /// The function has no such deployment.
    #[error("The function has no deployment `{0}`.")]
    DeploymentNotFound(String),
    /// No record of such an execution is kept.
    #[error("The function has no execution `{0}`.")]
    ExecutionNotFound(String),
    /// An execution that runs is not deleted.
    #[error("The execution runs. It can be deleted when it has ended.")]
    InProgress,
    /// As many executions wait as may.
    #[error(
        "As many executions of this project wait as may: {} of them, or {} bytes of their bodies \
         and headers.", .0.count_max, .0.bytes_max
    )]
    QueueFull(QueueBounds),
    /// A deployment of this id is there already.
    #[error("The function has a deployment with this id already.")]
    DeploymentExists,
    /// An archive is larger than it may be.
    #[error("The archive has {bytes} bytes. It can have {bytes_max}.")]
    SourceTooLarge {
        /// What it has.
        bytes: u64,
        /// What it can have.
        bytes_max: u64,
    },
    /// An archive without a byte.
    #[error("The file `code` is empty.")]
    SourceEmpty,
    /// What was sent is no gzip archive, or is not named like one.
    #[error("The file `code` must be a gzip archive whose name ends in `.gz`.")]
    SourceNotGzip,
    /// A range of an archive contradicts what was sent before, or itself.
    #[error("The range {0}.")]
    RangeInvalid(String),
    /// Neither the function nor the deployment names the file with the handler.
    #[error("Neither the deployment nor its function has an `entrypoint`.")]
    EntrypointMissing,
    /// A function has no deployment that can be executed.
    #[error("The function has no active deployment.")]
    NoActiveDeployment,
    /// The function is there, and this server cannot execute it.
    #[error("The runtime `{runtime}` cannot be executed here: {why}.")]
    RuntimeUnsupported {
        /// The function's.
        runtime: String,
        /// What is missing, as a clause.
        why: String,
    },
    /// The build of a deployment is not as far as what was asked needs, or farther.
    #[error("The deployment is {0}.")]
    BuildMoved(&'static str),
    /// A secret variable was to become one that is shown.
    #[error("A secret variable stays secret. Delete it and create another one.")]
    SecretStays,
}
